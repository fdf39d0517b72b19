"""Attacks on connection tracking, in a short form; bench/experiments/conntrack runs them in full."""
import re
import socket
import subprocess

from lib import lab, raw

SERVER, SPOOFED = "10.1.1.2", "11.0.%d.%d"
MAX = 1000
# So many connections that commands visit them in steps.
MANY = 24_000
# Port 3 is the attacker's; its packets are dropped after connection tracking.
RULES = """table=0,priority=10,arp,actions=NORMAL
table=0,priority=5,ip,actions=ct(table=1,zone=9)
table=1,priority=20,in_port=3,ct_state=+trk+new,tcp,tp_dst=21,actions=ct(commit,zone=9,alg=ftp)
table=1,priority=10,in_port=3,ct_state=+trk+new,ip,actions=ct(commit,zone=9)
table=1,priority=10,in_port=1,ct_state=+trk+new,ip,actions=ct(commit,zone=9),2
table=1,priority=10,in_port=1,ct_state=+trk+est,ip,actions=2
table=1,priority=10,in_port=2,ct_state=+trk+est,ip,actions=1
table=1,priority=1,actions=drop
"""
ECHO = """
import socket
s = socket.create_server(("10.1.1.2", 80), backlog=200)
held = []
while True:
    c, _ = s.accept()
    held.append(c)
    c.sendall(b"accepted")
    if len(held) == 1:
        import threading
        def echo(c=c):
            while data := c.recv(100):
                c.sendall(data)
        threading.Thread(target=echo, daemon=True).start()
"""
# Holds one connection. For each line of its input, echoes 20 times through it and begins 20 others; prints how many succeeded.
CLIENT = """
import socket, sys
c = socket.create_connection(("10.1.1.2", 80), 5)
c.settimeout(5)
c.recv(8)
print("ready", flush=True)
for line in sys.stdin:
    echoed = begun = 0
    for _ in range(20):
        c.sendall(b"x" * 50)
        echoed += len(c.recv(100)) == 50
        try:
            n = socket.create_connection(("10.1.1.2", 80), 5)
            n.settimeout(5)
            begun += n.recv(8) == b"accepted"
            n.close()
        except OSError:
            pass
    print(echoed, begun, flush=True)
"""


class Attacked:
    """A server, a client with an established connection, and an attacker's packet socket."""

    def __init__(self):
        self.switch = s = lab.Switch().start()
        client, server = lab.Namespace("10.1.1.1/24"), lab.Namespace(SERVER + "/24")
        attacker = lab.Namespace()
        s.add_bridge("br0", client.port, server.port, attacker.port)
        s.number_ports(client, server, attacker)
        s.ofctl("del-flows", "br0")
        s.ofctl("add-flows", "br0", "-", input=RULES)
        s.appctl("dpctl/ct-set-maxconns", str(MAX))
        server.spawn("python3", "-c", ECHO)
        lab.wait_until(lambda: ":80 " in server.run("ss", "-Htln"), "the server listens")
        self.client = client.spawn("python3", "-c", CLIENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.client.stdout.readline() == "ready\n"
        self.socket = raw.socket_in(attacker)

    def send(self, packets):
        head = raw.mac("02:00:00:00:00:02") + raw.mac("02:00:00:00:00:03") + b"\x08\0"
        for packet in packets:
            self.socket.send(head + packet)

    def honest(self):
        """How many of 20 echoes returned by the established connection, and how many of 20 new ones were accepted."""
        self.client.stdin.write("\n")
        self.client.stdin.flush()
        return tuple(map(int, self.client.stdout.readline().split()))

    def connections(self):
        return int(self.switch.appctl("dpctl/ct-get-nconns"))

    def fragments(self):
        text = self.switch.appctl("dpctl/ipf-get-status")
        return {key: int(n) for key, n in re.findall(r"^ +(.*): (\d+)$", text, re.M)}


def spoofed(n):
    return SPOOFED % (n >> 8 & 255, n & 255)


def segment(n, flags=2, port=80, data=b""):
    """A segment of TCP from the n-th source."""
    head = b"%c%c" % (4 + (n >> 14), n & 255)
    body = head + port.to_bytes(2, "big") + bytes(8) + bytes((5 << 4, flags)) + b"\xff\xff" + bytes(4) + data
    pseudo = socket.inet_aton(spoofed(n)) + socket.inet_aton(SERVER) + b"\0\x06" + len(body).to_bytes(2, "big")
    total = raw.checksum(pseudo + body)
    return raw.ip4(spoofed(n), SERVER, 6, body[:16] + total.to_bytes(2, "big") + body[18:])


def datagram(n, port):
    """A datagram of UDP without a checksum from the n-th source."""
    return raw.ip4(spoofed(n), SERVER, 17, (1024).to_bytes(2, "big") + port.to_bytes(2, "big") + b"\0\x08\0\0")


def fragment(n, ident, offset, size, more=True):
    """A fragment of UDP from the n-th source; the offset in units of eight bytes."""
    packet = bytearray(raw.ip4(spoofed(n), SERVER, 17, bytes(size)))
    packet[4:6] = ident.to_bytes(2, "big")
    packet[6:8] = (0x2000 * more | offset).to_bytes(2, "big")
    packet[10:12] = bytes(2)
    packet[10:12] = raw.checksum(bytes(packet[:20])).to_bytes(2, "big")
    return bytes(packet)


def test_first_segments_of_strangers():
    """The table is filled repeatedly with connections without an answer: the established connection stays, and new ones begin."""
    a = Attacked()
    for turn in range(3):
        a.send(segment(n) for n in range(turn * 2000, turn * 2000 + 2 * MAX))
        lab.wait_until(lambda: a.connections() == MAX, "the table is full")
        assert a.honest() == (20, 20), turn
        assert a.connections() <= MAX


def test_fragments_of_strangers():
    """Fragments that overlap, that are tiny, and whose datagrams never end: none passes, their memory is bounded, others pass."""
    a = Attacked()
    before = a.fragments()
    a.send(part for n in range(50) for part in (fragment(n, 1, 0, 1400), fragment(n, 1, 100, 1400)))
    lab.wait_until(lambda: a.fragments()["v4 frags overlapped"] >= 50, "overlaps")
    a.send(fragment(n, 2, n % 100, 8) for n in range(500))
    lab.wait_until(lambda: a.fragments()["v4 frags too small"] >= 499, "fragments of eight bytes")
    a.send(fragment(n, 3, 0, 1400) for n in range(2 * before["max num frags (v4/v6)"]))
    lab.wait_until(lambda: a.fragments()["num frag"] >= before["max num frags (v4/v6)"] // 2, "fragments that wait")
    assert a.honest() == (20, 20)
    counts = a.fragments()
    assert counts["num frag"] <= before["max num frags (v4/v6)"] and counts["v4 frags completed"] == before["v4 frags completed"], counts


def test_commands_of_strangers():
    """FTP control connections without an answer, each with an announcement: none creates an expectation, and others pass."""
    a = Attacked()
    a.send(part for n in range(2 * MAX) for part in (segment(n, port=21), segment(n, 0x18, 21, b"PORT 10,1,1,1,7,%d\r\n" % (n & 255))))
    lab.wait_until(lambda: a.connections() == MAX, "the table is full")
    assert a.honest() == (20, 20)
    expected = a.switch.appctl("dpctl/dump-conntrack-exp", "zone=9").split("\n")
    assert len(expected) <= MAX, len(expected)


def test_many_connections():
    """The list, the counts and the removal of many connections, which are made in steps, contain each connection once."""
    a = Attacked()
    s = a.switch
    s.appctl("dpctl/ct-set-maxconns", str(2 * MANY))
    packets = [datagram(n, 7 + n % 2) for n in range(MANY)]

    def begun():
        # Send all packets again, because the device may have dropped some.
        a.send(packets)
        return a.connections() > MANY

    lab.wait_until(begun, "many connections")
    known = s.appctl("dpctl/dump-conntrack", "zone=9").splitlines()
    assert len(known) == len(set(known)) and sum(line.startswith("udp,") for line in known) == MANY, len(known)
    assert re.search(r"Total: %d\n  TCP: %d\n  UDP: %d$" % (len(known), len(known) - MANY, MANY), s.appctl("dpctl/ct-stats-show", "zone=9").strip())
    assert s.appctl("dpctl/ct-stats-show", "zone=8") == "Connections Stats:\n    Total: 0\n"

    # Packets of the last round may still arrive, so one flush may not be enough.
    def left(flush, *filters):
        flush(*filters)
        return s.appctl("dpctl/dump-conntrack").count("udp,")

    command = lambda *filters: s.appctl("dpctl/flush-conntrack", *filters)
    # Returns when the switch has answered a barrier.
    openflow = lambda *filters: s.ofctl("ct-flush", "br0", *filters)
    for flush, port in ((command, 7), (openflow, 8)):
        lab.wait_until(lambda: left(flush, "zone=9", "ct_nw_proto=17,ct_tp_dst=%d" % port) == MANY // 2, "half of them are left")
        lab.wait_until(begun, "all of them again")
    lab.wait_until(lambda: left(command) == 0, "no connection is left")
