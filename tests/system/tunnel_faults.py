"""Faults around tunnels: a tunnel recovers from failures, and faults of others do not affect established tunnels."""
from lib import lab, overlay, overlay_faults as faults

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def joined(kind="vxlan", **options):
    """Two hosts whose guests reach each other through a tunnel."""
    a, b = overlay.pair(True, True)
    for host, other in ((a, b), (b, a)):
        host.tunnel(kind, other, **{"key": "7", **options})
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel")
    return a, b


def test_a_next_hop_that_moves_and_an_address_that_moves():
    """The tunnel works again when the remote bridge has another Ethernet address, after a link failure, and with another local address."""
    a, b = joined()
    b.switch.vsctl("set", "bridge", "br-ex", "other_config:hwaddr=02:00:00:00:31:09")
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel to another Ethernet address", 30)
    b.net.run("ip", "link", "set", "wire", "down")
    assert not a.pings(b, count=1, wait=1)
    b.net.run("ip", "link", "set", "wire", "up")
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel after the link failure", 30)
    b.net.run("ip", "address", "del", b.v4 + "/24", "dev", "br-ex")
    b.net.run("ip", "address", "add", "172.31.0.22/24", "dev", "br-ex")
    a.switch.vsctl("set", "interface", "tun", "options:remote_ip=172.31.0.22")
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel to another IP address", 30)
    assert a.switch.verify_megaflows() > 0 and b.switch.verify_megaflows() > 0


def test_routes_that_flap_lose_no_packet():
    """While a second route to the remote end comes and goes a thousand times, no packet of the tunnel is lost."""
    a, b = joined()
    pings, before = faults.Pings(a, b, 150), faults.cpu_seconds(a.switch)
    rate = faults.flap(a, b, 500)
    lost, took = pings.lost(), faults.cpu_seconds(a.switch) - before
    print("    %d route changes a second, %.2f s of CPU time" % (rate, took))
    assert lost == 0, "%d of 150 packets lost" % lost
    assert a.switch.verify_megaflows() > 0


def test_tunnels_come_and_go_beside_one_that_carries_traffic():
    """Three hundred tunnels are added and removed; the tunnel beside them loses no packet."""
    count = 300
    a, b = joined("geneve")
    before = faults.count_tunnels(a.switch)
    pings, cpu = faults.Pings(a, b, 100), faults.cpu_seconds(a.switch)
    faults.add_tunnels(a.switch, 100, count)
    took = faults.cpu_seconds(a.switch) - cpu
    assert faults.count_tunnels(a.switch) == before + count
    faults.remove_tunnels(a.switch, 100, count)
    assert faults.count_tunnels(a.switch) == before
    lost = pings.lost()
    print("    %.2f ms of CPU time for each tunnel that was added" % (1e3 * took / count))
    assert lost == 0, "%d of 100 packets lost" % lost


def test_a_storm_of_remote_ends():
    """Packets from ten thousand spoofed ends, to a tunnel port of any end and to none, take nothing from the tunnel beside them."""
    a, b = joined()
    for remote in ("172.31.0.1", "flow"):
        b.switch.vsctl("set", "interface", "tun", "options:remote_ip=" + remote)
        if remote == "flow":
            b.switch.ofctl("add-flow", "br-int", "priority=9,in_port=guest,actions=set_field:172.31.0.1->tun_dst,output:tun")
        lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel")
        pings = faults.Pings(a, b, 100)
        rate = faults.storm(a, b, 10_000)
        lost = pings.lost()
        print("    remote_ip=%s: %d packets a second" % (remote, rate))
        assert lost == 0, "%d of 100 packets lost" % lost
        if remote != "flow":
            megaflows = len(b.switch.appctl("dpctl/dump-flows").splitlines())
            assert megaflows < 200, "%d megaflows" % megaflows
        hops = b.switch.appctl("tnl/neigh/show").splitlines()
        assert any(a.v4 in line for line in hops) and len(hops) < 5000, "%d next hops" % len(hops)
    assert b.switch.verify_megaflows() > 0
