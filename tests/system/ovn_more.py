"""Less common parts of OVN, one by one. All tests but that with the stock switch need TEST_LONG=1."""
import json

from lib import lab, ovn_net, ovn_tcp, raw

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def cloud(**settings):
    """A router with two logical switches; guests on two chassis."""
    c = ovn_net.Cloud(2, **settings)
    c.networks()
    one = c.member(1, 0, 1, "one")
    two = c.member(2, 0, 2, "two")
    other = c.member(2, 1, 1, "other")
    c.central.sync()
    lab.wait_until(lambda: one.pings("10.0.0.2", 1) and one.pings("10.0.1.1", 1), "traffic")
    return c, one, two, other


def test_beside_the_stock_switch():
    """A chassis with our switch and one with the stock switch carry one tenant's traffic between them, by Geneve, with
    fragments and through the router."""
    c, one, two, other = cloud(stock=(2,))
    ovn_tcp.serve(other, "other")
    assert one.pings("10.0.0.2") and two.pings("fd00::1") and one.pings("10.0.1.1", 3, "-s", "4000") and one.pings("fd01::1")
    assert ovn_tcp.names(ovn_tcp.connect(one, "10.0.1.1", count=3)) == ["other"]
    c.check()


def test_vxlan_between_chassis():
    """With VXLAN, which carries 24 bits of metadata, the same traffic passes."""
    lab.need_long_run()
    c, one, _two, _other = cloud(ovn_encap_type="vxlan")
    assert "vxlan" in c.chassis[0].switch.vsctl("--bare", "--columns=type", "list", "interface")
    assert one.pings("10.0.0.2") and one.pings("10.0.1.1") and one.pings("fd01::1")
    c.check()


def test_large_packets_and_rates():
    """A router answers packets that are longer than the MTU of its port; a QoS row holds a guest to its rate; minimum and
    maximum rates of ports are accepted."""
    lab.need_long_run()
    c, one, two, _other = cloud()
    nbctl = c.central.nbctl
    nbctl("set", "logical_router_port", "r-sw1", "options:gateway_mtu=800", "--", "lrp-set-gateway-chassis", "r-sw1", "hv2",
          "--", "qos-add", "sw0", "from-lport", "100", "inport == \"one\" && ip4 && udp", "rate=2000", "burst=200",
          "--", "set", "logical_switch_port", "two", "options:qos_max_rate=900000000", "options:qos_min_rate=1000000")
    c.central.sync()
    def is_too_long():
        return "mtu" in one.run("ping", "-M", "do", "-s", "1000", "-c", "1", "-W", "1", "10.0.1.1", check=False)
    lab.wait_until(is_too_long, "an answer with the MTU")
    lab.iperf3_server(two)
    end = json.loads(one.run("iperf3", "-u", "-b", "20M", "-t", "2", "-c", "10.0.0.2", "-J"))["end"]["sum"]
    rate = end["bits_per_second"] * (100 - end["lost_percent"]) / 1e8
    assert 1 < rate < 4, rate
    c.check()


def test_gateways_of_the_second_layer_and_local_ports():
    """An L2 gateway joins a network of the provider; a local port exists on each chassis; addresses of unknown guests
    are learned."""
    lab.need_long_run()
    c, one, two, _other = cloud()
    nbctl = c.central.nbctl
    nbctl("lsp-add", "sw0", "l2", "--", "lsp-set-type", "l2", "l2gateway", "--", "lsp-set-addresses", "l2", "unknown",
          "--", "lsp-set-options", "l2", "network_name=provider", "l2gateway-chassis=hv2",
          "--", "lsp-add", "sw0", "meta", "--", "lsp-set-type", "meta", "localport",
          "--", "lsp-set-addresses", "meta", "02:00:00:00:00:aa 10.0.0.200", "--", "ls-add", "sw9")
    for chassis in c.chassis:
        chassis.switch.vsctl("add-port", "br-int", "meta", "--", "set", "interface", "meta", "type=internal", "external_ids:iface-id=meta")
        lab.wait_until(lambda: "meta" in chassis.net.run("ls", "/sys/class/net"), "the local port's device")
        chassis.net.run("ip", "link", "set", "meta", "address", "02:00:00:00:00:aa", "up")
        chassis.net.run("ip", "address", "add", "10.0.0.200/24", "dev", "meta")
    outside = c.outside("10.0.0.77/24")
    first = c.guest(1, "sw9", "first", "02:00:00:00:09:01", "10.0.9.1/24", security=False, known=False)
    c.guest(2, "sw9", "second", "02:00:00:00:09:02", "10.0.9.2/24", security=False, known=False)
    c.central.sync()
    for guest in (one, two):
        for address in ("10.0.0.77", "10.0.0.200"):
            lab.wait_until(lambda: guest.pings(address, 1), address)
            assert guest.pings(address)
    lab.wait_until(lambda: first.pings("10.0.9.2", 1), "a guest whose address is not known")
    lab.wait_until(lambda: c.central.sbctl("--columns=mac", "list", "fdb").count("02:00:00:00:09") == 2, "two learned addresses")
    assert first.pings("10.0.9.2") and outside.pings("10.0.0.1")
    c.check()


def test_equal_routes_with_symmetric_replies_and_bfd():
    """Answers leave by the next hop from which the request came; BFD supervises next hops of static routes."""
    lab.need_long_run()
    c = ovn_net.Cloud(1)
    nbctl = c.central.nbctl
    c.router("gw", ("sw0", "02:00:00:00:00:fe", "10.0.0.254/24"), ("public", "02:00:00:00:0e:fe", "203.0.113.254/24"))
    nbctl("set", "logical_router", "gw", "options:chassis=hv1")
    c.provider()
    guest = c.guest(1, "sw0", "guest", "02:00:00:00:00:01", "10.0.0.1/24", gateway="10.0.0.254")
    hops = [c.outside("203.0.113.%d/24" % n, mac="02:00:00:00:ee:0%d" % n) for n in (1, 2)]
    far = lab.Network()
    far.run("ip", "link", "add", "lan", "type", "bridge")
    for n, hop in enumerate(hops):
        hop.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        hop.run("ip", "route", "add", "10.0.0.0/24", "via", "203.0.113.254")
        hop.run("ip", "link", "add", "lan", "type", "veth", "peer", "name", "lan%d" % n, "netns", far.name)
        hop.run("ip", "address", "add", "192.0.2.%d/24" % (10 + n), "dev", "lan")
        hop.run("ip", "link", "set", "lan", "up")
        far.run("ip", "link", "set", "lan%d" % n, "master", "lan", "up")
    far.run("ip", "address", "add", "192.0.2.1/24", "dev", "lan")
    far.run("ip", "link", "set", "lan", "up")
    for n in (1, 2):
        nbctl("--ecmp-symmetric-reply", "lr-route-add", "gw", "192.0.2.0/24", "203.0.113.%d" % n)
    nbctl("--bfd", "lr-route-add", "gw", "198.51.100.0/24", "203.0.113.1", "gw-public")
    c.central.sync()
    ovn_tcp.serve(guest, "guest")
    for hop in hops:
        lab.wait_until(lambda: hop.pings("203.0.113.254", 1), "a next hop")
    for n, hop in enumerate(hops):
        far.run("ip", "route", "replace", "10.0.0.0/24", "via", "192.0.2.%d" % (10 + n))
        before = [h.received() for h in hops]
        assert ovn_tcp.names(ovn_tcp.connect(far, "10.0.0.1", count=10)) == ["guest"]
        more = [h.received() - b for h, b in zip(hops, before)]
        assert more[n] > 20 and more[1 - n] < 15, more
    messages = raw.socket_in(hops[0])
    assert raw.receive(messages, lambda f: f[12:14] == b"\x08\0" and f[23] == 17 and f[36:38] == b"\x0e\xc8", 5), "no BFD message"
    c.check()
