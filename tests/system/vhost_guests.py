"""DPDK guests on virtio_user: every packet is accounted for, and a guest that dies affects only its own port."""
import random
import time

from lib import dpdk, lab
from lib.vhost_user import by_both

# Minimum number of packets before counters are compared: more than all rings hold.
BURST = 4096


def listening(path, ring, mergeable, queues):
    return "path=%s,server=1,queues=%d,packed_vq=%d,mrg_rxbuf=%d,queue_size=%d" % (
        path, queues, ring == "packed", mergeable, dpdk.RING)


def segments(size, buffer_size=2000):
    """The argument of `set txpkts` for a frame of this size in buffers of 2 kB."""
    parts = [buffer_size] * (size // buffer_size) + ([size % buffer_size] if size % buffer_size else [])
    return ",".join(map(str, parts))


def balance(switch, guest, before, what):
    """The switch received what the guest sent; packets that the switch did not send are counted as dropped, by
    reason."""
    guest.drain()
    sent = guest.stats()
    for i, port in enumerate(("v0", "v1")):
        lab.wait_until(lambda: switch.counters_since("br0", port, before[port])["rx"] == sent[i]["tx"],
                       "%s: the switch has received what the guest sent by %s: %s" % (what, port, sent))
    # Parked packets are still on their way.
    for out, back in (("v0", "v1"), ("v1", "v0")):
        try:
            lab.wait_until(lambda: left(switch, before, out, back) == 0, "%s: what came by %s left by %s or was dropped" % (what, out, back))
        except AssertionError as e:
            growth = [switch.counters_since("br0", p, before[p]) for p in (out, back)]
            raise AssertionError("%s\n%s\n%s" % (e, growth, switch.ours and switch.appctl("dpif/show-accounting"))) from None
    sent, pairs = guest.drain(), []
    for i, (out, back) in enumerate((("v0", "v1"), ("v1", "v0"))):
        a, b = switch.counters_since("br0", out, before[out]), switch.counters_since("br0", back, before[back])
        facts = "%s, %s to %s: guest %s, switch %s and %s" % (what, out, back, sent, a, b)
        assert sent[i]["tx"] == a["rx"], facts
        assert a["rx_drop"] == 0, facts
        assert a["rx"] == b["tx"] + b["tx_drop"], facts
        assert dpdk.tx_drops_with_reason(b) == b["tx_drop"], facts
        assert b["tx"] == sent[1 - i]["rx"], facts
        pairs.append((sent[i]["tx"], b["tx"], b["tx_drop"]))
    return pairs


def left(switch, before, out, back):
    """Number of packets received on one port that were neither sent on the other nor dropped there."""
    b = switch.counters_since("br0", back, before[back])
    return switch.counters_since("br0", out, before[out])["rx"] - b["tx"] - b["tx_drop"]


def until_moved(switch, guest, before, what, mode, first, since=((0, 0, 0), (0, 0, 0))):
    """Forwards until both ports have received more than before, repeatedly on a busy machine; returns the counters."""
    for _ in range(int(4 * lab.PATIENCE)):
        guest.burst(mode, BURST, first)
        counts = balance(switch, guest, before, what)
        if all(now[1] > then[1] + 32 for now, then in zip(counts, since)):
            return counts
    raise AssertionError("%s: nothing moves: %s, before %s\n%s" % (what, counts, since, guest.do("show fwd stats all")))


@by_both
def test_every_packet_is_accounted_for(library):
    """Split and packed rings, queues, mergeable buffers or not, 64 to 9000 B: the counters of guest and switch agree."""
    dpdk.need()
    s = dpdk.Switch.for_guests(library).start()
    s.secure_bridge("br0")
    s.add("br0", s.client("v0", 1, mtu=9000), s.client("v1", 2, mtu=9000))
    s.flows("br0", "in_port=1,actions=output:2", "in_port=2,actions=output:1")
    some = [("split", False, 2), ("packed", True, 4)]
    every = [(r, m, q) for r in ("split", "packed") for m in (True, False) for q in (1, 2, 3, 4)]
    for ring, mergeable, queues in every if dpdk.LONG else some:
        ports = [listening(s.socket(p), ring, mergeable, queues) for p in ("v0", "v1")]
        try:
            guest = dpdk.Testpmd(*ports, queues=queues, mbuf_size=2176 if mergeable else 10240,
                                 args=["--max-pkt-len=9018", "--tx-offloads=0x8000", "--txonly-multi-flow"]
                                 + (["--enable-scatter"] if mergeable else []))
        except AssertionError as e:
            raise AssertionError("%s\nthe switch:\n%s" % (e, s.log()[-4000:])) from None
        s.wait_for_guests("br0", "v0", "v1")
        before = {p: s.counters("br0", p) for p in ("v0", "v1")}
        for size in (64, 594, 1518, 4000, 9014) if dpdk.LONG else (64, 9014):
            what = "%s rings, %d queues, mergeable %s, %d B" % (ring, queues, mergeable, size)
            guest.do("set txpkts " + segments(size))
            # If the guest does not read, the rings fill and the switch drops; if it forwards, frames circulate.
            flooded = until_moved(s, guest, before, what + ", flood", "txonly", "")
            until_moved(s, guest, before, what + ", circles", "io", "tx_first", flooded)
        guest.quit()
        s.settle()
    s.alive()


def test_frames_too_long_are_counted():
    """Frames longer than the receiving port's MTU are dropped, and each is counted with that reason."""
    dpdk.need()
    s = dpdk.Switch().start()
    s.secure_bridge("br0")
    s.add("br0", s.client("v0", 1, mtu=3000), s.client("v1", 2))
    s.flows("br0", "in_port=1,actions=output:2")
    guest = dpdk.Testpmd(*[listening(s.socket(p), "split", True, 1) for p in ("v0", "v1")],
                         args=["--tx-offloads=0x8000", "--enable-scatter", "--max-pkt-len=9018"])
    s.wait_for_guests("br0", "v0", "v1")
    before = {p: s.counters("br0", p) for p in ("v0", "v1")}
    guest.do("set txpkts 1500,500")
    guest.burst("txonly", BURST)
    sent = guest.drain()
    lab.wait_until(lambda: s.counters_since("br0", "v0", before["v0"])["rx"] == sent[0]["tx"], "the switch received all")
    one = s.counters_since("br0", "v1", before["v1"])
    assert sent[0]["tx"] > 0 and sent[1]["rx"] == one["tx"] == 0, (sent, one)
    assert one["ovs_tx_mtu_exceeded_drops"] == one["tx_drop"] == sent[0]["tx"], (sent, one)


@by_both
def test_kills_under_load(library):
    """Guests are killed under traffic, in both connection modes: another guest's frames pass, and packet accounting balances."""
    dpdk.need()
    s = dpdk.Switch(library=library).start()
    s.secure_bridge("br0")
    # A port that receives endlessly, one that discards, two of the surviving guest, two for those that are killed.
    s.add("br0", s.client("v0", 1), s.client("v1", 2), s.client("dies", 3), ("shot", 4, "dpdkvhostuser", {}),
          ("sink", 5, "dpdk", {"dpdk-devargs": "net_null0,no-rx=1"}))
    s.flows("br0", "in_port=1,actions=output:2", "in_port=2,actions=output:1,output:3,output:4",
            "in_port=3,actions=output:5,output:4", "in_port=4,actions=output:5,output:3")
    lives = dpdk.Testpmd(*[listening(s.socket(p), "split", True, 1) for p in ("v0", "v1")])
    s.wait_for_guests("br0", "v0", "v1")
    before = {p: s.counters("br0", p) for p in ("v0", "v1")}
    lives.do("set fwd io", "start tx_first 4")
    seed, seen = random.Random(3), 0
    for turn in range(100 if dpdk.LONG else 6):
        name, ring = ("dies", "shot")[turn % 2], ("split", "packed")[turn // 2 % 2]
        port = "path=%s,packed_vq=%d,queues=2%s" % (
            s.socket(name) if name == "dies" else s.dir + "/shot", ring == "packed", ",server=1" if name == "dies" else "")
        guest = dpdk.Testpmd(port, queues=2)
        guest.do("set fwd %s" % seed.choice(["txonly", "io", "flowgen"]), "start tx_first")
        time.sleep(seed.uniform(0, 0.2))
        guest.kill()
        s.alive()
        now = s.counters_since("br0", "v0", before["v0"])["rx"]
        assert now > seen, "turn %d: the other guest's frames stand still at %d" % (turn, now)
        seen = now
    lives.do("stop")
    balance(s, lives, before, "after the kills")
    s.settle()
    # Packets from killed guests: all went to the sink, which discards them.
    dead = s.flow_packets("br0", "in_port=3") + s.flow_packets("br0", "in_port=4")
    sink = s.counters("br0", "sink")
    assert dead == sink["tx"] + sink["tx_drop"] and dead > 0, (dead, sink)


@by_both
def test_guests_that_come_back(library):
    """A guest that reconnects with other rings and queues is served each time, and its port shows it."""
    dpdk.need()
    s = dpdk.Switch.for_guests(library).start()
    s.secure_bridge("br0")
    s.add("br0", s.client("v0", 1), s.client("v1", 2))
    s.flows("br0", "in_port=1,actions=output:2", "in_port=2,actions=output:1")
    seed = random.Random(9)
    for turn in range(30 if dpdk.LONG else 4):
        queues, ring, mergeable = seed.randrange(1, 5), seed.choice(["split", "packed"]), seed.random() < 0.5
        guest = dpdk.Testpmd(*[listening(s.socket(p), ring, mergeable, queues) for p in ("v0", "v1")], queues=queues)
        s.wait_for_guests("br0", "v0", "v1")
        before = {p: s.counters("br0", p) for p in ("v0", "v1")}
        assert guest.stats() == [{"rx": 0, "tx": 0}] * 2
        until_moved(s, guest, before, "turn %d, %d queues, %s" % (turn, queues, ring), "io", "tx_first")
        # Every third one is killed instead of closing its connection.
        guest.kill() if turn % 3 == 2 else guest.quit()
        lab.wait_until(lambda: "disconnected" in s.vsctl("get", "interface", "v0", "status"), "v0 is disconnected")
    s.settle()
    s.alive()
