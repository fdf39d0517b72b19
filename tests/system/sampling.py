"""sFlow, IPFIX and NetFlow: what collectors receive of real traffic, compared with the stock switch and with the traffic."""
import ipaddress
import struct
import time
from collections import Counter

from lib import collectors, lab
from lib.collectors import Collector

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

A, B = "10.1.1.1", "10.1.1.2"
PINGS = 12
ADDRESSES = tuple(int(ipaddress.ip_address(a)) for a in (A, B))


def bridge(ours, *flows):
    """A switch with a bridge and two namespaces that know each other."""
    lab.need_root()
    s = lab.Switch(ours=ours).start()
    br = lab.unique("slb")
    a, b = lab.Namespace(A + "/24"), lab.Namespace(B + "/24")
    s.add_bridge(br, a.port, b.port)
    s.number_ports(a, b)
    if flows:
        s.ofctl("del-flows", br)
    for flow in flows:
        s.ofctl("add-flow", br, flow)
    lab.wait_until(lambda: "1 received" in a.run("ping", "-c", "1", "-W", "1", B, check=False), "the namespaces")
    return s, br, a, b


def ping(a, n=PINGS):
    a.run("ping", "-q", "-c", str(n), "-i", "0.02", "-W", "1", B)


def create(s, br, column, table, *settings):
    s.vsctl("set", "bridge", br, "%s=@x" % column, "--", "--id=@x", "create", table, *settings)


def is_icmp(header):
    return header[12:14] == b"\x08\x00" and header[23] == 1


def sampled_by_sflow(ours):
    s, br, a, b = bridge(ours, "actions=NORMAL")
    collector = Collector()
    create(s, br, "sflow", "sFlow", "targets=" + collector.target, "agent=127.0.0.1", "sampling=1", "header=64", "polling=1")
    time.sleep(1)
    ping(a)
    seen = lambda: [f for f in collectors.sflow(list(collector.datagrams))[0] if is_icmp(f["header"])]
    lab.wait_until(lambda: len(seen()) >= 2 * PINGS, "all samples")
    index = {int(s.vsctl("get", "interface", n.port, "ifindex")): name for n, name in ((a, "a"), (b, "b"))}
    ways = Counter((index.get(f["in"]), index.get(f["out"]), f["length"], len(f["header"])) for f in seen())

    def ports():
        """The last counters of each port."""
        counters = collectors.sflow(list(collector.datagrams))[1]
        return {index[c["source"]]: c["blocks"] for c in counters if c["source"] in index}

    def received():
        return {name: struct.unpack_from("!I", blocks[1], 32)[0] for name, blocks in ports().items()}
    lab.wait_until(lambda: len(received()) == 2 and min(received().values()) >= PINGS, "counters with all pings")
    blocks = {name: sorted(blocks) for name, blocks in ports().items()}
    pools = [f["pool"] for f in collectors.sflow(list(collector.datagrams))[0]]
    assert pools == list(range(1, len(pools) + 1)), pools
    s.stop()
    return ways, blocks


def test_sflow_like_the_stock_switch():
    """Every ping is sampled once in each direction, with ports, length and header; counters of ports come at the polling interval."""
    ours, stock = sampled_by_sflow(True), sampled_by_sflow(False)
    assert ours[0] == {("a", "b", 98, 64): PINGS, ("b", "a", 98, 64): PINGS}, ours[0]
    assert ours == stock, (ours, stock)


def sampled_by_ipfix(ours):
    s, br, a, b = bridge(ours, "actions=NORMAL")
    collector = Collector()
    create(s, br, "ipfix", "IPFIX", "targets=" + collector.target, "sampling=1", "obs_domain_id=5", "obs_point_id=6",
           "cache_active_timeout=1", "cache_max_flows=100")
    ping(a)
    # The set of `sample` actions has a collector of its own.
    flows = Collector()
    s.vsctl("--", "--id=@b", "get", "bridge", br, "--", "--id=@i", "create", "IPFIX", "targets=" + flows.target,
            "cache_active_timeout=1", "cache_max_flows=100",
            "--", "create", "Flow_Sample_Collector_Set", "id=7", "bridge=@b", "ipfix=@i")
    s.ofctl("add-flow", br, "icmp,priority=40000,in_port=1,actions="
            "sample(probability=65535,collector_set_id=7,obs_domain_id=8,obs_point_id=9,sampling_port=2,egress),NORMAL")
    ping(a)

    def sums(collector):
        total = Counter()
        for r in collectors.ipfix(list(collector.datagrams)):
            if r.get(collectors.PROTOCOL) == 1:
                key = r["domain"], r[collectors.DOMAIN_POINT], r[collectors.DIRECTION], r[collectors.SRC], r[collectors.DST]
                total[key] += r[collectors.PACKETS]
        return total

    lab.wait_until(lambda: sum(sums(collector).values()) >= 8 * PINGS and sum(sums(flows).values()) >= PINGS, "all records", seconds=20)
    bridge_stats, flow_stats = s.ofctl("dump-ipfix-bridge", br), s.ofctl("dump-ipfix-flow", br)
    s.stop()
    return sums(collector), sums(flows), bridge_stats, flow_stats


def test_ipfix_like_the_stock_switch():
    """Records of a bridge and of a `sample` action add up to the packets that were sent, in both directions; statistics agree."""
    ours, stock = sampled_by_ipfix(True), sampled_by_ipfix(False)
    a, b = ADDRESSES
    assert ours[0] == {(5, 6, way, *pair): 2 * PINGS for way in (0, 1) for pair in ((a, b), (b, a))}, ours[0]
    assert ours[1] == {(8, 9, 1, a, b): PINGS}, ours[1]
    assert ours[:2] == stock[:2], (ours, stock)
    assert "sampled pkts=%d," % PINGS in ours[3] and "id   7: flows=" in ours[3], ours[3]
    assert "bridge ipfix: flows=" in ours[2] and "tx errs=0" in ours[2], ours[2]


def test_netflow_adds_up():
    """NetFlow reports each packet once, with its ports, when flows end and while they are active."""
    s, br, a, b = bridge(True, "actions=NORMAL")
    collector = Collector()
    create(s, br, "netflow", "NetFlow", "targets=" + collector.target, "active_timeout=1", "engine_id=3")
    lab.wait_until(lambda: "ipv4(src=" in s.appctl("dpctl/dump-flows") or a.run("ping", "-c", "1", B), "megaflows that match addresses")
    before = collectors.netflow(list(collector.datagrams))
    ping(a)
    src, dst = ADDRESSES

    def new(way):
        return collectors.netflow(list(collector.datagrams))[way] - before[way]

    ways = [(src, dst, 1, 2), (dst, src, 2, 1)]
    lab.wait_until(lambda: all(new(way) >= PINGS for way in ways), "the active flows", seconds=20)
    assert all(new(way) <= PINGS + 2 for way in ways), [new(way) for way in ways]
    s.stop()


def test_sampling_one_in_many():
    """Of many packets about one in ten is sampled, and the switch forwards all of them."""
    s, br, a, b = bridge(True, "actions=NORMAL")
    collector = Collector()
    create(s, br, "sflow", "sFlow", "targets=" + collector.target, "agent=127.0.0.1", "sampling=10", "polling=0")
    time.sleep(1)
    total = 4000
    out = a.run("ping", "-q", "-f", "-c", str(total), B)
    assert "%d received" % total in out, out
    count = lambda: len([f for f in collectors.sflow(list(collector.datagrams))[0] if is_icmp(f["header"])])
    # Of 8000 packets 800 ± 27; eight standard deviations are accepted.
    lab.wait_until(lambda: count() >= 585, "samples")
    time.sleep(1.5)
    assert 585 <= count() <= 1015, count()
    assert "sample_queue_full" not in s.appctl("coverage/show"), s.appctl("coverage/show")
    s.stop()
