"""shadow-check: megaflows do what the tables say, under random packets and changing tables."""
import random
import re
import struct
import time

from lib import dpdk, lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

# Number of packets in the long form.
LONG_PACKETS = 100_000_000


def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    return ~((total & 0xffff) + (total >> 16)) & 0xffff


def ip4(r, proto, payload):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, r.choice((0, 0x28)), 20 + len(payload), 1, r.choice((0, 0, 0, 0x2000, 7)),
                       r.choice((1, 64)), proto, 0, bytes((10, 0, r.randrange(4), r.randrange(8))), bytes((10, 1, 0, r.randrange(8))))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ip6(r, proto, payload):
    return struct.pack("!IHBB", 0x60000000, len(payload), proto, 64) + bytes(15) + bytes([r.randrange(8)]) + bytes(15) + \
        bytes([r.randrange(8)]) + payload


def frame(r):
    """A random frame with few addresses, ports and tags, so that random rules match it."""
    ports = struct.pack("!HH", r.randrange(8), r.choice((53, 80)))
    tcp = ports + struct.pack("!IIBBHHH", 1, 1, 0x50, r.choice((2, 16, 17)), 100, 0, 0)
    kind, proto, payload = r.randrange(8), *r.choice(((6, tcp), (17, ports + b"\0\x08\0\0"), (1, b"\x08\0" + bytes(6)), (47, bytes(8))))
    body = {0: b"\x08\x06" + struct.pack("!HHBBH6sI6sI", 1, 0x800, 6, 4, r.choice((1, 2)), bytes(6), 0x0a000001, bytes(6), 0x0a000002),
            1: b"\x86\xdd" + ip6(r, proto, payload), 2: b"\x86\xdd" + ip6(r, 58, b"\x87\0" + bytes(22)),
            3: b"\x88\xcc" + bytes(40)}.get(kind, b"\x08\0" + ip4(r, proto, payload))
    tags = r.choice((b"", b"", b"\x81\0" + struct.pack("!H", r.choice((0, 5, 0x6005)))))
    return (bytes((2, 0, 0, 0, 0, r.randrange(4))) + bytes((2, 0, 0, 0, 1, r.randrange(4))) + tags + body).ljust(60, b"\0")


def capture(path, seed, frames):
    r = random.Random(seed)
    with open(path, "wb") as f:
        f.write(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
        for _ in range(frames):
            data = frame(r)
            f.write(bytes(8) + struct.pack("<II", len(data), len(data)) + data)


# The number of each match, in the order of first use.
numbers = {}


def rule(r, table):
    """A random rule of a table. Rules with different matches have different priorities: if two overlapping
    rules have equal priorities, it is not defined which one a packet matches (OpenFlow 1.5.1, section 5.3),
    and this may change when other rules change."""
    match = r.choice(("ip,nw_src=10.0.%d.%d" % (r.randrange(4), r.randrange(8)), "ip,nw_src=10.0.%d.0/24" % r.randrange(4), "arp",
                      "tcp,tp_dst=%d" % r.choice((53, 80)), "udp,tp_src=%d" % r.randrange(8), "ipv6,ipv6_src=::%d" % r.randrange(8),
                      "dl_vlan=5", "vlan_tci=0", "dl_src=02:00:00:00:01:%02x" % r.randrange(4), "ip,nw_tos=40", "ip,nw_frag=yes",
                      "tcp,tcp_flags=+syn", "icmp6,icmp_type=135", "ip,nw_ttl=1", "dl_type=0x88cc", "reg0=%d" % r.randrange(3)))
    more = "resubmit(,%d)" % (table + 1) if table < 2 else "output:2"
    acts = r.choice(("output:2", "output:3", "drop", more, "load:%d->NXM_NX_REG0[],%s" % (r.randrange(3), more), "output:3," + more,
                     "mod_vlan_vid:7," + more, "strip_vlan," + more, "mod_dl_dst:02:00:00:00:00:99," + more,
                     "mod_nw_dst:10.9.9.9," + more if match.startswith(("ip,", "tcp", "udp")) else more,
                     "clone(%s)" % more, "NORMAL"))
    number = numbers.setdefault(match, len(numbers))
    return "table=%d,priority=%d,%s,actions=%s" % (table, 200 * r.randrange(1, 50) + number, match, acts)


def shadow(s):
    """The counters: checked, unsettled, wrong."""
    text = s.appctl("dpif/show-shadow")
    return [int(re.search(r"%s: (\d+)" % word, text)[1]) for word in ("checked", "unsettled", "wrong")]


def received(s):
    return int(re.search(r"received: (\d+)", s.appctl("dpif/show-accounting"))[1])


def test_megaflows_do_what_the_tables_say():
    """Random packets while rules change: each checked packet had the right actions; a changed megaflow is found."""
    dpdk.need()
    s = dpdk.Switch().start()
    if not s.ours:
        raise lab.Skip("the stock switch has no shadow-check")
    s.secure_bridge("br0")
    capture(s.dir + "/frames.pcap", 1, 4000)
    source = "net_pcap0,rx_pcap=%s/frames.pcap,infinite_rx=1" % s.dir
    s.add("br0", ("in", 1, "dpdk", {"dpdk-devargs": source}), ("out", 2, "dpdk", {"dpdk-devargs": "net_null1,no-rx=1"}),
          ("other", 3, "dpdk", {"dpdk-devargs": "net_null2,no-rx=1"}))
    s.vsctl("set", "open_vswitch", ".", "other_config:shadow-check=1000")
    r = random.Random(2)
    packets, began = (LONG_PACKETS, time.time()) if dpdk.LONG else (0, time.time())
    while time.time() - began < 4 or received(s) < packets:
        s.ofctl("add-flows", "br0", "-", input="\n".join(rule(r, r.randrange(3)) for _ in range(30)) + "\n")
        s.ofctl("del-flows", "br0", r.choice(("table=1,ip", "table=2", "arp", "table=0,tcp")))
        time.sleep(r.random() * 0.2)
    checked, unsettled, wrong = shadow(s)
    assert wrong == 0 and checked > unsettled and checked > 100, (checked, unsettled, wrong, s.log()[-3000:])
    assert s.verify_megaflows() > 0
    print("    %d packets, %d looked at again, %d of them while tables changed, %d wrong" % (received(s), checked, unsettled, wrong))
    s.flows("br0", "priority=1,actions=output:2")
    spoil(s)


def spoil(s):
    """Changes the actions of a megaflow without the tables: the difference is found and logged."""
    lab.wait_until(lambda: "actions:" in s.appctl("dpctl/dump-flows", "-m"), "megaflows")
    s.vsctl("set", "open_vswitch", ".", "other_config:shadow-check=100")

    def found():
        for line in s.appctl("dpctl/dump-flows", "-m").splitlines():
            flow = re.match(r"(ufid:\S+, .*?), packets:", line)
            if flow:
                s.appctl("dpctl/mod-flow", flow[1], "drop")
                break
        return shadow(s)[2] > 0

    lab.wait_until(found, "the spoilt megaflow is found")
    lab.wait_until(lambda: "(actions drop) was used for a packet whose actions should be" in s.log(), "the log tells it")
