"""Tunnels between two hosts with a switch each: real traffic, between our switches and with the stock switch."""
from lib import lab, overlay

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def reach(a, b, what):
    """Each guest reaches the other over both IP versions, with long packets, too, in both directions."""
    # Megaflows of the previous tunnel are revalidated first.
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), what)
    for how, ok in (("back", b.pings(a)), ("long", a.pings(b, size=1200)), ("IPv6", b.pings(a, v6=True))):
        if not ok:
            drops = [[l.split(" ")[0] + l[l.find("total"):] for l in h.switch.appctl("coverage/show").splitlines() if "drop" in l]
                     for h in (a, b)]
            raise AssertionError("%s, %s: %s" % (what, how, drops))


def test_each_kind_carries_traffic_between_two_of_ours():
    """Guests on two hosts reach each other through every kind of tunnel, with IPv4 and IPv6 outside."""
    a, b = overlay.pair(True, True)
    for kind, v6, options in (("vxlan", False, {"key": "7"}), ("vxlan", False, {"key": "7", "csum": "true"}),
                              ("geneve", False, {"key": "flow"}), ("gre", False, {"key": "7", "csum": "true", "seq": "true"}),
                              ("erspan", False, {"key": "7", "erspan_ver": "2", "erspan_dir": "1", "erspan_hwid": "4"}),
                              ("vxlan", True, {"key": "7"}), ("geneve", True, {"key": "7"}), ("gre", True, {})):
        for host, other in ((a, b), (b, a)):
            host.tunnel(kind, other, v6, **options)
        reach(a, b, "%s over IPv%d" % (kind, 6 if v6 else 4))
    a.sends(b)
    assert a.switch.verify_megaflows() > 0


def test_group_policy_of_an_existing_tunnel():
    """A tunnel that gets the extension for group policy later carries groups, and matches them."""
    a, b = overlay.pair(True, True)
    for host, other in ((a, b), (b, a)):
        host.tunnel("vxlan", other, key="7")
    reach(a, b, "the tunnel without groups")
    for host in (a, b):
        host.switch.vsctl("set", "interface", "tun", "options:exts=gbp")
        for flow in ("in_port=guest,actions=set_field:9->tun_gbp_id,output:tun", "in_port=tun,tun_gbp_id=9,actions=output:guest"):
            host.switch.ofctl("add-flow", "br-int", "priority=9," + flow)
        host.switch.ofctl("add-flow", "br-int", "priority=8,in_port=tun,actions=drop")
    reach(a, b, "the tunnel with groups")


def test_segments_are_merged_behind_the_tunnel():
    """For TCP through a tunnel the guest gets merged frames, not the segments that the sender's switch made."""
    a, b = overlay.pair(True, True)
    for host, other in ((a, b), (b, a)):
        host.tunnel("geneve", other, key="7")
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel")
    size, mss = 3_000_000, 1300 - 20 - 20 - 12
    received = lambda: int(b.guest.run("cat", "/sys/class/net/eth0/statistics/rx_packets"))
    before = received()
    a.sends(b, size)
    frames, segments = received() - before, 2 * size // mss
    assert frames < segments / 2, "%d frames for %d segments" % (frames, segments)


def test_the_stock_switch_is_understood():
    """A guest behind our switch and one behind the stock switch reach each other."""
    a, b = overlay.pair(True, False)
    for kind, v6, options in (("vxlan", False, {"key": "7"}), ("geneve", False, {"key": "7", "csum": "true"}),
                              ("gre", False, {"key": "7"}), ("vxlan", True, {"key": "7"}), ("geneve", True, {"key": "7"})):
        for host, other in ((a, b), (b, a)):
            host.tunnel(kind, other, v6, **options)
        reach(a, b, "%s over IPv%d" % (kind, 6 if v6 else 4))


def test_first_packets_wait_for_the_next_hop():
    """Packets to a next hop that is not resolved yet are sent when it answers; none is lost, and a single request is sent."""
    a, b = overlay.pair(True, True)
    # The guests know each other's MAC addresses, so only the hosts must resolve theirs.
    for host, other in ((a, b), (b, a)):
        host.tunnel("geneve", other, key="7")
        mac = other.guest.run("cat", "/sys/class/net/eth0/address").strip()
        host.guest.run("ip", "neighbour", "replace", other.guest_v4, "lladdr", mac, "dev", "eth0")
    lab.wait_until(lambda: a.pings(b, count=1, wait=1), "the tunnel")
    for _ in range(3):
        a.switch.appctl("tnl/neigh/flush")
        b.switch.appctl("tnl/neigh/flush")
        lab.wait_until(lambda: a.switch.verify_megaflows() >= 0, "the megaflows of before are gone")
        assert a.pings(b, count=5), a.switch.appctl("coverage/show")


def test_a_device_outside_of_bridges_is_reported():
    """A route through a device on no bridge is reported in the interface's status; with a bridge's device it carries traffic."""
    a, b = overlay.pair(True, True)
    a.tunnel("vxlan", b, key="7")
    status = lambda: a.switch.vsctl("get", "interface", "tun", "status")
    lab.wait_until(lambda: "tunnel_egress_iface=br-ex" in status(), "the device that the tunnel leaves by")
    a.net.run("ip", "route", "add", b.v4 + "/32", "dev", "lo", "src", a.v4)
    lab.wait_until(lambda: "tunnel_egress_iface=lo" in status() and "is not a port of a bridge" in status(), "the reason")
    a.net.run("ip", "route", "del", b.v4 + "/32", "dev", "lo")
    lab.wait_until(lambda: "tunnel_egress_iface=br-ex" in status() and "is not a port" not in status(), "the way back")
