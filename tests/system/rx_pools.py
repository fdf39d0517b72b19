"""Shared receive buffers (other_config:rx-pool): ports that share a pool, a flood, changes under traffic."""
import json
import os

from lib import lab
from lib.traffic import Traffic

SPP = ("type=afxdp", "other_config:rx-pool=spp")
# Two of these on the switch's cores send faster than the switch receives: packets then arrive in full bursts.
FLOOD = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwhile True: s.sendto(bytes(1000), ('10.1.1.2', 9))"
NO_SOCKETS = ("Address family not supported", "Operation not permitted", "Function not implemented")


def started(**root):
    lab.need_root()
    s = lab.Switch().start()
    s.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=1", "other_config:pmd-sleep-max=100",
            *["other_config:%s=%s" % (k.replace("_", "-"), v) for k, v in root.items()])
    return s


def error(switch, port):
    return switch.vsctl("get", "Interface", port, "error").strip('[]"\n')


def afxdp(t, switch):
    why = error(switch, t.a.port)
    if any(word in why for word in NO_SOCKETS):
        raise lab.Skip("needs AF_XDP in the kernel: " + why)
    return t


def queues(switch):
    """What each port's first queue holds, by port, and the pools."""
    sluice = lab.SLUICED.removesuffix("d")
    pools = json.loads(lab.sh(sluice, "pool", "--json", "-t", "%s/%s.ctl" % (switch.dir, switch.name), env=switch.env))
    return {q["port"]: q for pool in pools.values() for q in pool["queues"] if "port" in q}, pools


def basic(switch):
    """The shared queues of ports with rx-pool=basic."""
    return queues(switch)[1].get("basic.netdev")


def test_ports_share_a_pool_and_change_under_traffic():
    """Two ports share a pool; mode, threshold and depth change while packets flow; wrong settings are reported."""
    s = started(rx_pool_size=1024, rx_pool_queues=4)
    t = afxdp(Traffic(s, *SPP), s)
    t.wait_for(20)
    assert t.lost() == 0
    use, pools = queues(s)
    assert list(pools) == ["0.0"] and pools["0.0"]["buffers"] == 1024
    assert use[t.a.port]["posted"] == 128 and use[t.a.port]["reserve"] == 128
    assert "pool 0.0: 1024 buffers" in s.appctl("rxpool/show")
    assert s.vsctl("get", "Interface", t.a.port, "status:rx-pool").strip() == "spp"
    t.begin()
    for setting in ("other_config:rx-pool-alpha=0.5", "options:n_rxq_desc=256", "other_config:rx-pool-drain=true",
                    "other_config:rx-pool=none", "other_config:rx-pool=spp", "mtu_request=3000"):
        s.vsctl("set", "Interface", t.a.port, setting)
        t.wait_for(20)
    t.lost()
    # Buffers for the larger MTU are in a pool of their own.
    use, pools = queues(s)
    assert len(pools) == 2 and use[t.a.port]["high"] == 256, pools
    for setting, why in (("rx-pool=basic", "rx-pool=basic is not possible: AF_XDP"), ("rx-pool-alpha=x", "rx-pool-alpha: 'x'")):
        s.vsctl("set", "Interface", t.a.port, "other_config:" + setting)
        lab.wait_until(lambda: why in error(s, t.a.port), why)
        t.a.run("ping", "-c", "1", "-W", "2", "10.1.1.2")
    s.vsctl("set", "Interface", t.a.port, "other_config:rx-pool=spp", "other_config:rx-pool-alpha=1")
    lab.wait_until(lambda: error(s, t.a.port) == "", "no error")


def test_the_size_of_pools_changes_at_once():
    """rx-pool-size and rx-pool-queues apply to ports that are there, and packets pass afterwards."""
    s = started(rx_pool_size=1024, rx_pool_queues=4)
    t = afxdp(Traffic(s, *SPP), s)
    t.wait_for(5)
    for setting, size in (("rx-pool-size=2048", 2048), ("rx-pool-queues=2", 2048)):
        use, pools = queues(s)
        s.vsctl("set", "Open_vSwitch", ".", "other_config:" + setting)
        now_use, now = queues(s)
        assert set(use) == set(now_use) and not set(pools) & set(now), now
        assert all(pool["buffers"] == size for pool in now.values()), now
        t.wait_for(5)
    assert error(s, t.a.port) == ""


def test_a_flood_leaves_the_reserves():
    """A port with a flood holds no more than its allowance; a port that is added then receives with its own reserve."""
    s = started(rx_pool_size=1024, rx_pool_queues=4)
    t = afxdp(Traffic(s, *SPP), s)
    t.wait_for(20)
    t.lost()
    floods = [t.a.spawn("python3", "-c", FLOOD) for _ in range(2)]
    lab.wait_until(lambda: queues(s)[0][t.a.port]["became-busy"] > 0, "the flood arrives in full bursts")
    late = lab.Namespace("10.1.1.3/24")
    s.vsctl("add-port", "br0", late.port, "--", "set", "Interface", late.port, *SPP)
    late.run("ping", "-c", "3", "-i", "0.2", "-W", "2", "10.1.1.2")
    use, pools = queues(s)
    assert use[late.port]["posted"] >= 64 and use[late.port]["lost"] == 0, use
    assert use[t.a.port]["peak"] <= 128 + (1024 - 4 * 160), use
    assert pools["0.0"]["held"] <= 1024
    for flood in floods:
        flood.kill()
        flood.wait()
    assert int(s.vsctl("get", "Interface", t.a.port, "statistics:rx_pool_became_busy")) >= 0
    s.vsctl("del-port", t.a.port)
    lab.wait_until(lambda: queues(s)[1]["0.0"]["held"] <= 2 * 160, "buffers of a removed port are free")


def test_kernel_ports_share_a_socket_or_a_pool():
    """Ports of type system: each mode passes packets, and the mode changes under traffic."""
    s = started()
    t = Traffic(s, "other_config:rx-pool=basic")
    for mode in ("spp", "none", "basic"):
        t.wait_for(20)
        s.vsctl("set", "Interface", t.a.port, "other_config:rx-pool=" + mode)
    t.wait_for(20)
    t.lost()
    assert "pool basic.netdev: 1 queues by flow, 2 ports" in s.appctl("rxpool/show")
    assert s.vsctl("get", "Interface", t.b.port, "status:rx-pool").strip() == "basic"
    assert error(s, t.a.port) == ""


def test_ports_share_several_queues():
    """Shared queues by flow and by port, on a PMD thread or not, with changes under traffic: each port gets its own packets."""
    s = started()
    s.vsctl("set", "Open_vSwitch", ".", "other_config:rx-pool-basic-queues=8", "other_config:rx-pool-basic-pmd=true")
    t = Traffic(s, "other_config:rx-pool=basic")
    t.wait_for(20)
    assert len(basic(s)["queues"]) == 8
    assert s.appctl("dpif-netdev/pmd-rxq-show").count("rx-shared") == 8
    for setting in ("hash=port", "queues=3", "pmd=false", "hash=flow", "queues=1", "pmd=true"):
        s.vsctl("set", "Open_vSwitch", ".", "other_config:rx-pool-basic-" + setting)
        t.wait_for(20)
    # A port more, and one less: the others go on.
    late = lab.Namespace("10.1.1.3/24")
    s.vsctl("add-port", "br0", late.port, "--", "set", "Interface", late.port, "other_config:rx-pool=basic")
    late.run("ping", "-c", "2", "-i", "0.2", "-W", "2", "10.1.1.2")
    assert late.port in basic(s)["ports"]
    # The datapath counts the packets of a shared queue for the port that received them.
    counted = s.appctl("dpctl/show", "-s").split(": " + late.port)[1].split("RX packets:")[1]
    assert int(counted.split()[0]) >= 2, counted
    s.vsctl("del-port", late.port)
    assert late.port not in basic(s)["ports"]
    # Without descriptors for the sockets the rows say why nothing is received; with fewer queues there are enough.
    files = len(os.listdir("/proc/%d/fd" % s.daemon.pid))
    lab.sh("prlimit", "--pid", s.daemon.pid, "--nofile=%d:" % (files + 30))
    s.vsctl("set", "Open_vSwitch", ".", "other_config:rx-pool-basic-queues=128")
    lab.wait_until(lambda: "cannot set up 128 shared queues (packets distributed by flow) for 2 ports: Too many open files" in error(s, t.b.port), "the row says why")
    s.vsctl("set", "Open_vSwitch", ".", "other_config:rx-pool-basic-queues=2")
    lab.wait_until(lambda: error(s, t.b.port) == "", "no error")
    t.wait_for(20)
    t.lost()
    for port in (t.a.port, t.b.port):
        assert error(s, port) == ""
        s.vsctl("set", "Interface", port, "other_config:rx-pool=none")
    assert basic(s) is None and "rx-shared" not in s.appctl("dpif-netdev/pmd-rxq-show")
