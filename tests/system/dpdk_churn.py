"""Ports of DPDK that come and go under traffic: no crash, no memory lost, other ports forward on."""
import os

from lib import dpdk


def batch(switch, turn, count=6):
    """Ports of mixed types, in the form that `Switch.add` takes; numbers from 10."""
    capture = switch.dir + "/frames.pcap"
    kinds = (
        lambda n: ("dpdk", {"dpdk-devargs": "net_null%d" % n}),
        lambda n: ("dpdk", {"dpdk-devargs": "net_ring%d" % n}),
        lambda n: ("dpdk", {"dpdk-devargs": "net_pcap%d,rx_pcap=%s,infinite_rx=1" % (n, capture)}),
        lambda n: ("dpdkvhostuserclient", {"vhost-server-path": "%s/away%d" % (switch.dir, n)}),
        lambda n: ("dpdkvhostuser", {}),
        lambda n: ("dpdk", {"dpdk-devargs": "net_null%d,no-rx=1" % n, "n_rxq": "2"}),
    )
    first = 10 + turn * count % 60
    return [("c%d" % (first + i), first + i, *kinds[i % len(kinds)](first + i)) for i in range(count)]


def write_capture(path, frames=64):
    with open(path, "wb") as f:
        f.write(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
        for i in range(frames):
            frame = bytes.fromhex("020000000002020000000001" "0800") + bytes([i]) * 50
            f.write(bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame)


def test_ports_come_and_go_under_traffic():
    """DPDK ports of five kinds added and deleted by batches: a guest's frames go round meanwhile and none is lost."""
    dpdk.need()
    s = dpdk.Switch().start()
    write_capture(s.dir + "/frames.pcap")
    s.secure_bridge("br0")
    s.add("br0", s.client("v0", 1), s.client("v1", 2), ("sink", 3, "dpdk", {"dpdk-devargs": "net_null0,no-rx=1"}))
    # What new ports receive goes to the sink, and some frames that go round are sent to them as well.
    s.flows("br0", "priority=2,in_port=1,actions=output:2", "priority=2,in_port=2,actions=output:1,output:10,output:13,output:14",
            "priority=1,actions=output:3")
    guest = dpdk.Testpmd(*["path=%s,server=1" % s.socket(p) for p in ("v0", "v1")])
    s.wait_for_guests("br0", "v0", "v1")
    before = {p: s.books("br0", p) for p in ("v0", "v1")}
    guest.do("set fwd io", "start tx_first")
    cycles, used, seen = 1000 if dpdk.LONG else 60, None, 0
    for turn in range(-(-cycles // 6)):
        ports = batch(s, turn)
        s.add("br0", *ports)
        s.vsctl(*[w for name, *_ in ports for w in ("--", "del-port", "br0", name)])
        s.alive()
        now = s.moved("br0", "v0", before["v0"])["rx"]
        assert now > seen, "turn %d: the guest's frames stand still at %d" % (turn, now)
        seen = now
        if turn == 4:
            used = s.status("VmRSS")
    grown = s.status("VmRSS") - used
    assert grown < 16384, "resident memory grew by %d kB" % grown
    guest.do("stop")
    sent = guest.drain()
    for i, (out, back) in enumerate((("v0", "v1"), ("v1", "v0"))):
        a, b = s.moved("br0", out, before[out]), s.moved("br0", back, before[back])
        assert sent[i]["tx"] == a["rx"] == b["tx"] + b["tx_drop"] and b["tx"] == sent[1 - i]["rx"], (sent, a, b)
    assert sorted(s.vsctl("list-ports", "br0").split()) == ["sink", "v0", "v1"]
    assert not [f for f in os.listdir(s.dir) if f.startswith("c") and f[1:].isdigit()], "sockets of ports that are gone"
