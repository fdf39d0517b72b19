"""Network address translation, with real TCP, UDP and ICMP through namespaces."""
import random
import re

from lib import lab, raw
from lib.translation import PUBLIC, RULES, SERVER, VIRTUAL, gateway

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

# DNAT happens before the forwarding decision, which uses the new destination; SNAT after it. Each has its own zone.
BOTH = """table=0,priority=10,arp,actions=NORMAL
table=0,priority=5,in_port=1,ip,actions=ct(table=1,zone=1,nat)
table=0,priority=5,in_port=2,ip,actions=ct(table=3,zone=2,nat)
table=1,priority=10,ct_state=+trk+new,tcp,nw_dst=10.1.1.64,actions=ct(commit,zone=1,nat(dst=10.1.1.2:8002),table=2)
table=1,priority=1,ct_state=+trk+est,ip,actions=resubmit(,2)
table=2,ip,actions=ct(table=4,zone=2,nat)
table=4,priority=10,ct_state=+trk+new,ip,actions=ct(commit,zone=2,nat(src=10.1.1.240)),2
table=4,priority=5,ct_state=+trk+est,ip,actions=2
table=3,ct_state=+trk+est,ip,actions=ct(table=5,zone=1,nat)
table=5,ct_state=+trk+est,ip,actions=1
"""


def serve(ns, port):
    ns.spawn("python3", "-m", "http.server", str(port), stdout=-3, stderr=-3)
    lab.wait_until(lambda: (":%d " % port) in ns.run("ss", "-Htln"), "the server listens")


def fetch(ns, address, port):
    code = "import urllib.request as u; print(u.urlopen('http://%s:%d/', timeout=3).status)" % (address, port)
    return ns.run("python3", "-c", code).strip()


def test_a_client_behind_another_address():
    """Source NAT: TCP, ping and errors of UDP are sent from the public address, and their replies return."""
    s, client, server = gateway(RULES.format(nat="src=%s" % PUBLIC))
    serve(server, 8002)
    assert fetch(client, SERVER, 8002) == "200"
    assert " 0% packet loss" in client.run("ping", "-c", "3", "-i", "0.2", "-W", "1", SERVER)
    known = s.appctl("dpctl/dump-conntrack", "zone=9")
    assert re.search(r"^tcp,orig=\(src=10.1.1.1,dst=10.1.1.2,sport=(\d+),dport=8002\),reply=\(src=10.1.1.2,dst=10.1.1.240,sport=8002,"
                     r"dport=\1\),zone=9,protoinfo=\(state=\w+\)$", known, re.M), known
    assert "icmp,orig=(src=10.1.1.1,dst=10.1.1.2,id=" in known and "reply=(src=10.1.1.2,dst=10.1.1.240,id=" in known, known
    # Nothing listens on this port: the error quotes the translated packet, and the client recognizes it as its own.
    code = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(2)\ns.connect((%r, 9))\ns.send(b'x')\n"
            "try:\n    s.recv(1)\nexcept OSError as e:\n    print(type(e).__name__)") % SERVER
    assert client.run("python3", "-c", code).strip() == "ConnectionRefusedError"


def test_a_server_behind_another_address():
    """Destination NAT with a port, then source NAT, in separate zones: a packet and its reply pass both."""
    s, client, server = gateway(BOTH)
    serve(server, 8002)
    assert fetch(client, VIRTUAL, 80) == "200"
    known = s.appctl("dpctl/dump-conntrack")
    assert re.search(r"^tcp,orig=\(src=10.1.1.1,dst=10.1.1.64,sport=(\d+),dport=80\),reply=\(src=10.1.1.2,dst=10.1.1.1,sport=8002,"
                     r"dport=\1\),zone=1,", known, re.M), known
    assert re.search(r"^tcp,orig=\(src=10.1.1.1,dst=10.1.1.2,sport=(\d+),dport=8002\),reply=\(src=10.1.1.2,dst=10.1.1.240,sport=8002,"
                     r"dport=\1\),zone=2,", known, re.M), known


def test_when_all_ports_are_taken():
    """With three ports the fourth simultaneous connection is not translated, and the log reports it."""
    s, client, server = gateway(RULES.format(nat="src=%s:34567-34569" % PUBLIC))
    code = ("import socket\n[socket.create_connection((%r, 8002), 2) for _ in range(3)]\nprint('three')\n"
            "try:\n    socket.create_connection((%r, 8002), 1)\nexcept OSError as e:\n    print(type(e).__name__)") % (SERVER, SERVER)
    serve(server, 8002)
    # The untranslated connection reaches the server nevertheless, but the reply then belongs to no connection.
    assert client.run("python3", "-c", code).split() == ["three", "TimeoutError"]
    assert sorted(re.findall(r"dst=10.1.1.240,sport=8002,dport=(\d+)", s.appctl("dpctl/dump-conntrack"))) == ["34567", "34568", "34569"]
    lab.wait_until(lambda: "Unable to NAT due to tuple space exhaustion" in s.log(), "the log tells of it")


class Dummy(lab.Switch):
    """A switch with ports p1 and p2: tests inject packets, and sent packets are recorded."""

    def __init__(self, ours):
        super().__init__(ours=ours, args=["--enable-dummy=override", "--disable-system", "-vunixctl:off"])

    def start(self, flows):
        super().start()
        self.add_bridge("br0")
        for n in (1, 2):
            self.vsctl("add-port", "br0", "p%d" % n, "--", "set", "interface", "p%d" % n, "type=dummy", "ofport_request=%d" % n,
                       "options:tx_pcap=%s/p%d.pcap" % (self.dir, n))
        self.ofctl("del-flows", "br0")
        self.ofctl("add-flows", "br0", "-", input=flows)
        self.appctl("time/stop")
        return self

    def receive(self, port, text):
        self.appctl("netdev-dummy/receive", "p%d" % port, text)
        self.appctl("time/warp", "100")

    def connections(self):
        return sorted(self.appctl("dpctl/dump-conntrack", "-s").splitlines())

    def sent(self, port):
        """The packets of a capture file."""
        return raw.recorded("%s/p%d.pcap" % (self.dir, port))


def packet(port, proto, src, dst, ports, flags=0x10):
    l3 = "in_port(%d),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=%s,dst=%s,proto=%d,tos=0,ttl=64,frag=no)" \
        % (port, src, dst, {"udp": 17, "tcp": 6, "icmp": 1}[proto])
    if proto == "icmp":
        return l3 + ",icmp(type=%d,code=0)" % ports[0]
    return l3 + ",%s(src=%d,dst=%d)" % ((proto,) + ports) + (",tcp_flags(0x%x)" % flags if proto == "tcp" else "")


TRANSLATIONS = ("src=10.1.1.240", "src=10.1.1.240:5000", "src=0.0.0.0", "dst=10.1.1.64", "dst=10.1.1.64:8080", "src=10.1.1.240:5000,random",
                "dst=10.1.1.64,hash", "src=10.1.1.240,persistent")


def begins_again(before, ours, stock):
    """Whether the difference is expected: a SYN begins a closed connection again, and the stock switch (3.1) finds another port for it, or
    none. Until its next sweep it considers the reply tuple of the expired connection used. 3.7.1 does not."""
    more, other = [line for line in ours if line not in stock], [line for line in stock if line not in ours]
    if len(more) != 1 or len(other) > 1 or "state=SYN_SENT" not in more[0]:
        return False
    original, translated = more[0].partition(",reply=")[0] + ",", more[0].partition(",zone=")[0] + ","
    closed = any(line.startswith(translated) and "state=TIME_WAIT" in line for line in before)
    return closed and all(line.startswith(original) and "state=SYN_SENT" in line for line in other)


def compare(seed):
    """Sends a stream of packets to both switches: equal connections after each packet, and equal packets at the end."""
    draw = random.Random(seed)
    nat = draw.choice(TRANSLATIONS)
    both = [Dummy(ours).start(RULES.format(nat=nat)) for ours in (True, False)]
    for step in range(60):
        known = both[1].connections()
        reply = re.search(r"^(\w+),.*reply=\(src=([\d.]+),dst=([\d.]+),(?:sport=(\d+),dport=(\d+)|id=\d+,type=(\d+))", draw.choice(known)) if known else None
        if reply and draw.random() < .4:
            proto, src, dst, *ports = reply.groups()
            ports = (int(ports[2]), 0) if proto == "icmp" else (int(ports[0]), int(ports[1]))
            port = 2
        else:
            proto, port = draw.choice(("udp", "udp", "tcp", "icmp")), 1
            # Identifiers are all equal, so for ICMP each client has a server of its own.
            host = draw.randrange(1, 4)
            src, dst = "10.1.1.%d" % host, "10.1.2.%d" % (host if proto == "icmp" else draw.randrange(1, 3))
            ports = (8, 0) if proto == "icmp" else (draw.choice((1000, 2000, 2001)), draw.choice((53, 8080)))
        text = packet(port, proto, src, dst, ports, draw.choice((0x02, 0x10, 0x12, 0x11, 0x14)))
        for switch in both:
            switch.receive(port, text)
        # Until a reply arrives, a second client with the same port can only be distinguished by its translated port.
        ours, stock = (switch.connections() for switch in both)
        if begins_again(known, ours, stock):
            break
        assert ours == stock, "seed %d, %s, step %d: %s\n%s\n%s" % (seed, nat, step, text, "\n".join(ours), "\n".join(stock))
    else:
        compare_packets(seed, nat, both)
    for switch in both:
        switch.stop()


def compare_packets(seed, nat, both):
    """What both switches have sent is equal."""
    for port in (1, 2):
        ours, stock = (switch.sent(port) for switch in both)
        assert ours == stock, "seed %d, %s, port %d:\n%s\n%s" % (seed, nat, port, ours, stock)


@lab.one_try
def test_as_the_stock_switch():
    """Random streams with random translations: connections, timeouts and packets equal those of the stock switch."""
    lab.need("ovs-vswitchd")
    if not lab.Switch().ours:
        raise lab.Skip("compares our switch")
    first = lab.seed(10**6)
    print("    seeds from %d on" % first, flush=True)
    for seed in [*range(2), *range(first, first + 2)]:
        compare(seed)
