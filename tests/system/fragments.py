"""Fragments through connection tracking, between namespaces."""
import re

from lib import lab, pair

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

INSIDE, OUTSIDE = "10.1.1.1", "10.1.1.2"
INSIDE6, OUTSIDE6 = "fd00::1", "fd00::2"
# The inside may begin connections. From the outside only packets of these connections may pass. No rule forwards
# untracked IP.
RULES = """table=0,priority=20,arp,actions=NORMAL
table=0,priority=20,icmp6,icmp_type=135,actions=NORMAL
table=0,priority=20,icmp6,icmp_type=136,actions=NORMAL
table=0,priority=5,ip,actions=ct(table=1,zone=9)
table=0,priority=5,ipv6,actions=ct(table=1,zone=9)
table=1,priority=10,in_port=1,ct_state=+trk+new,ip,actions=ct(commit,zone=9),2
table=1,priority=10,in_port=1,ct_state=+trk+new,ipv6,actions=ct(commit,zone=9),2
table=1,priority=10,in_port=1,ct_state=+trk+est,actions=2
table=1,priority=10,in_port=2,ct_state=+trk+est,actions=1
table=1,priority=10,ct_state=+trk+inv,actions=drop
table=1,priority=1,actions=drop
"""
# Sends N first fragments of UDP datagrams, with increasing source addresses.
FLOOD = """import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
def checksum(b):
    n = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    while n >> 16:
        n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
for i in range(int(sys.argv[1])):
    head = lambda c: struct.pack("!BBHHHBBHII", 0x45, 0, 1420, i & 0xffff, 0x2000, 64, 17, c, 0x0a010200 + (i & 0xff), 0x0a010102)
    s.send(b"\\2" * 6 + b"\\4" * 6 + b"\\x08\\0" + head(checksum(head(0))) + bytes(1400))
"""


def firewall():
    """A switch with the rules, the namespace inside (port 1) and the one outside (port 2)."""
    s, inside, outside = pair.joined([INSIDE, INSIDE6], [OUTSIDE, OUTSIDE6])
    s.ofctl("add-flows", "br0", "-", input=RULES)
    return s, inside, outside


def pings(ns, address, size, count=3):
    """Number of replies."""
    text = ns.run("ping", "-q", "-s", str(size), "-c", str(count), "-i", "0.2", "-W", "2", address, check=False)
    return int(re.search(r"(\d+) received", text).group(1))


def status(s, *options):
    text = s.appctl("dpctl/ipf-get-status", *options)
    return {key: int(n) for key, n in re.findall(r"^ +(.*): (\d+)$", text, re.M)}


def accounting(s):
    text = s.appctl("dpif/show-accounting")
    return {key: int(n) for key, n in re.findall(r"^ +(.*): (\d+)$", text, re.M)}


def refused(s, why, *call):
    try:
        s.appctl(*call)
    except AssertionError as e:
        assert why in str(e), e
    else:
        raise AssertionError("%s was not refused" % " ".join(call))


def test_pings_of_60000_bytes_pass_and_strangers_do_not():
    """Pings of up to 60,000 bytes, IPv4 and IPv6, from the inside pass a stateful firewall; those from the outside do not."""
    s, inside, outside = firewall()
    for address, stranger in ((OUTSIDE, INSIDE), (OUTSIDE6, INSIDE6)):
        lab.wait_until(lambda: pings(inside, address, 56, 1) == 1, "the neighbour is known")
        for size in (56, 1600, 9000, 60_000):
            assert pings(inside, address, size) == 3, (address, size, status(s))
        assert pings(outside, stranger, 1600, 2) == 0
    counts = status(s)
    assert counts["num frag"] == 0 and counts["v4 frags overlapped"] == counts["v6 frags overlapped"] == 0, counts
    # Three pings and their replies: 2, 7 and 41 fragments each; those from the outside are reassembled, too.
    assert counts["v4 frags accepted"] == counts["v4 frags completed"] >= 6 * (2 + 7 + 41), counts
    assert counts["v6 frags accepted"] == counts["v6 frags completed"] >= 6 * (2 + 7 + 42), counts
    for kind in ("icmp,orig=(src=%s," % INSIDE, "icmpv6,orig=(src=%s," % INSIDE6):
        assert kind in s.appctl("dpctl/dump-conntrack", "zone=9"), kind


def test_fragments_leave_as_they_came():
    """The other end receives the same fragments, of the same sizes."""
    s, inside, outside = firewall()
    lab.wait_until(lambda: pings(inside, OUTSIDE, 56, 1) == 1, "the neighbour is known")
    with outside.spawn("tcpdump", "-ln", "-i", "eth0", "-c", "3", "-v", "src host %s and ip[6:2] & 0x3fff != 0" % INSIDE,
                       stdout=-1, stderr=-1, text=True) as dump:
        lab.wait_until(lambda: "listening" in dump.stderr.readline(), "tcpdump listens")
        assert pings(inside, OUTSIDE, 3000, 1) == 1
        text = dump.communicate(timeout=10)[0]
    parts = re.findall(r"offset (\d+), flags \[([^\]]*)\], proto ICMP \(1\), length (\d+)", text)
    assert parts == [("0", "+", "1500"), ("1480", "+", "1500"), ("2960", "none", "68")], text


def test_a_flood_of_fragments_is_bounded_and_honest_ones_pass():
    """First fragments from 256 spoofed sources take only limited memory, and large pings still pass."""
    s, inside, outside = firewall()
    lab.wait_until(lambda: pings(inside, OUTSIDE, 56, 1) == 1, "the neighbour is known")
    attacker = lab.Namespace()
    s.vsctl("add-port", "br0", attacker.port)

    def is_full():
        # On a busy machine the first ones wait for their upcall, and most of them are dropped meanwhile.
        attacker.run("python3", "-c", FLOOD, "3000")
        return status(s)["num frag"] == 1000
    lab.wait_until(is_full, "the table is full")
    flood = attacker.spawn("python3", "-c", FLOOD, "2000000", stdout=-3, stderr=-3)
    try:
        assert pings(inside, OUTSIDE, 20_000, 20) == 20, status(s)
        assert flood.poll() is None, "the flood is over too early"
    finally:
        flood.kill()
        flood.wait()
    assert status(s)["num frag"] <= 1000
    lab.wait_until(lambda: accounting(s)["queued"] == 0, "every packet is accounted for")
    assert accounting(s)["datapath_drop_fragment_evicted"] > 1000, accounting(s)


def test_limits_are_those_of_commands():
    """dpctl/ipf-*: fragments that are too small, too many, or of a disabled version are invalid; waiting fragments are listed."""
    s, inside, outside = firewall()
    lab.wait_until(lambda: pings(inside, OUTSIDE, 56, 1) == 1, "the neighbour is known")
    assert s.appctl("dpctl/ipf-set-min-frag", "v4", "1501") == "setting minimum fragment size successful\n"
    assert pings(inside, OUTSIDE, 1600, 1) == 0
    counts = status(s)
    assert counts["v4 frags too small"] == 1 and counts["min v4 frag size"] == 1501, counts
    # The last fragment is never too small: it waits for the first.
    listed = s.appctl("dpctl/ipf-get-status", "-m").split("Fragment Lists:\n\n")[1]
    assert re.match(r"\(src=10.1.1.1,dst=10.1.1.2,recirc_id=0,ip_id=\d+,dl_type=0x800,zone=9,nw_proto=1,num_fragments=1,state=last frag\)\n$",
                    listed), listed
    refused(s, "too small; see documentation (Operation not permitted)", "dpctl/ipf-set-min-frag", "v4", "399")
    assert s.appctl("dpctl/ipf-set-min-frag", "v4", "1500") == "setting minimum fragment size successful\n"
    assert pings(inside, OUTSIDE, 1600, 1) == 1
    assert s.appctl("dpctl/ipf-set-disabled", "v4") == "disabling fragmentation reassembly successful\n"
    assert pings(inside, OUTSIDE, 1600, 1) == 0 and status(s)["v4 enabled"] == 0
    assert s.appctl("dpctl/ipf-set-enabled", "v4") == "enabling fragmentation reassembly successful\n"
    assert s.appctl("dpctl/ipf-set-max-nfrags", "0") == "setting maximum fragments successful\n"
    assert pings(inside, OUTSIDE, 1600, 1) == 0
    assert s.appctl("dpctl/ipf-set-max-nfrags", "500") == "setting maximum fragments successful\n"
    assert pings(inside, OUTSIDE, 1600, 1) == 1
    refused(s, "setting maximum fragments failed (Operation not permitted)", "dpctl/ipf-set-max-nfrags", "5001")
