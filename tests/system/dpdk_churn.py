"""DPDK ports are added and deleted under traffic: no crash, no lost memory, and other ports keep forwarding."""
import os
import time

from lib import dpdk, lab

KINDS = (
    lambda n, folder: ("dpdk", {"dpdk-devargs": "net_null%d" % n}),
    lambda n, folder: ("dpdk", {"dpdk-devargs": "net_ring%d" % n}),
    lambda n, folder: ("dpdk", {"dpdk-devargs": "net_pcap%d,rx_pcap=%s/frames.pcap,infinite_rx=1" % (n, folder)}),
    lambda n, folder: ("dpdkvhostuserclient", {"vhost-server-path": "%s/away%d" % (folder, n)}),
    lambda n, folder: ("dpdkvhostuser", {}),
    lambda n, folder: ("dpdk", {"dpdk-devargs": "net_null%d,no-rx=1" % n, "n_rxq": "2"}),
    lambda n, folder: ("dpdk", {"dpdk-devargs": "net_tap%d,iface=slt%d-%d" % (n, os.getpid() % 10000, n)}),
)
# Not the whole resident set: pages of the guest's memory are counted as they are touched.
MEMORY = ("RssAnon", "HugetlbPages")


def batch(switch, turn):
    """Ports of every kind, as arguments of `Switch.add`; numbers from 10."""
    first = 10 + turn * len(KINDS) % 70
    return [("c%d" % (first + i), first + i, *kind(first + i, switch.dir)) for i, kind in enumerate(KINDS)]


def write_capture(path, frames=64):
    with open(path, "wb") as f:
        f.write(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
        for i in range(frames):
            frame = bytes.fromhex("0200000000020202") + i.to_bytes(4, "big") + bytes.fromhex("0800") + bytes(50)
            f.write(bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame)


def come_and_go(switch):
    """Adds and deletes ports in batches while a guest's frames circulate."""
    s = switch
    write_capture(s.dir + "/frames.pcap")
    s.secure_bridge("br0")
    s.add("br0", s.client("v0", 1), s.client("v1", 2), ("sink", 3, "dpdk", {"dpdk-devargs": "net_null0,no-rx=1"}))
    # Packets that new ports receive go to the sink, and some circulating frames are sent to the new ports as well.
    s.flows("br0", "priority=2,in_port=1,actions=output:2",
            "priority=2,in_port=2,actions=output:1,output:10,output:13,output:14,output:16", "priority=1,actions=output:3")
    guest = dpdk.Testpmd(*["path=%s,server=1" % s.socket(p) for p in ("v0", "v1")])
    s.wait_for_guests("br0", "v0", "v1")
    before = {p: s.counters("br0", p) for p in ("v0", "v1")}
    guest.do("set fwd io", "start tx_first")
    cycles, used, seen = 1000 if dpdk.LONG else 60, None, 0
    for turn in range(-(-cycles // len(KINDS))):
        ports = batch(s, turn)
        s.add("br0", *ports)
        s.vsctl(*[w for name, *_ in ports for w in ("--", "del-port", "br0", name)])
        s.alive()
        now = s.counters_since("br0", "v0", before["v0"])["rx"]
        assert now > seen, "turn %d: the guest's frames stand still at %d" % (turn, now)
        seen = now
        if turn == 4:
            used = [s.status(what) for what in MEMORY]
    grown = [s.status(what) - then for what, then in zip(MEMORY, used)]
    # A deleted `net_ring` keeps 15 of its 16 rings of 8 kB (DPDK 22.11), each in one of the 2560 memory zones.
    assert max(grown) < 16384 + 136 * cycles // len(KINDS), "memory grew by %d kB, huge pages by %d kB" % tuple(grown)
    guest.do("stop")
    sent = guest.drain()
    for i, (out, back) in enumerate((("v0", "v1"), ("v1", "v0"))):
        a, b = s.counters_since("br0", out, before[out]), s.counters_since("br0", back, before[back])
        assert sent[i]["tx"] == a["rx"] == b["tx"] + b["tx_drop"] and b["tx"] == sent[1 - i]["rx"], (sent, a, b)
    s.settle()
    assert sorted(s.vsctl("list-ports", "br0").split()) == ["sink", "v0", "v1"]
    assert not [f for f in os.listdir(s.dir) if f.startswith("c") and f[1:].isdigit()], "sockets of ports that are gone"
    assert "slt%d-" % (os.getpid() % 10000) not in lab.sh("ip", "-o", "link"), "taps of ports that are gone"


def test_ports_come_and_go_under_traffic():
    """DPDK ports of seven kinds are added and deleted in batches: meanwhile a guest's frames circulate and none is lost."""
    dpdk.need()
    come_and_go(dpdk.Switch().start())


def test_ports_come_and_go_on_huge_pages():
    """The same with huge pages: all pages of the ports are freed."""
    dpdk.need()
    with dpdk.huge_pages(512):
        s = dpdk.Switch(eal=dpdk.HUGE)
        s.other_config["dpdk-socket-mem"] = "384"
        come_and_go(s.start())


def test_removals_while_upcalls_wait():
    """Ports are removed during a storm of misses: every parked packet is accounted for."""
    dpdk.need()
    s = dpdk.Switch().start()
    write_capture(s.dir + "/frames.pcap", 4000)
    s.secure_bridge("br0")
    s.add("br0", ("sink", 1, "dpdk", {"dpdk-devargs": "net_null0,no-rx=1"}))
    # The bridge learns each sender: every frame of the capture gets a megaflow, and the following commands revalidate
    # all of them.
    s.flows("br0", "actions=NORMAL")
    parked = 0
    for turn in range(200 if dpdk.LONG else 12):
        s.add("br0", ("storm", 2, "dpdk", {"dpdk-devargs": "net_pcap%d,rx_pcap=%s/frames.pcap,infinite_rx=1" % (turn, s.dir)}),
              ("out", 3, "dpdk", {"dpdk-devargs": "net_null%d,no-rx=1" % (turn + 1)}))
        s.appctl("revalidator/purge")
        if s.ours:
            parked = max(parked, int(s.appctl("dpif/show-accounting").split("parked: ")[1].split()[0]))
        # The pause varies the phase of the storm at which ports are removed; it is an input of the test.
        time.sleep(turn % 5 / 50)
        # In turns: the receiving port, the sending port, and both at once.
        names = (["storm"], ["out"], ["out", "storm"])[turn % 3]
        s.vsctl(*[w for name in names for w in ("--", "del-port", "br0", name)])
        s.vsctl("--if-exists", "del-port", "br0", "storm", "--", "--if-exists", "del-port", "br0", "out")
        s.settle()
        s.alive()
    print("    packets seen waiting: %d" % parked)
