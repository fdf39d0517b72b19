"""Traffic between OVN's networks and the outside: address translation, floating IPs, provider networks, failover."""
import re
import signal
import time

from lib import lab, ovn_net, ovn_tcp

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def cloud(gateways, chassis=3, **settings):
    """Chassis 1 with guests, and a router whose port to the provider's network is on the `gateways`, best first."""
    c = ovn_net.Cloud(chassis, **settings)
    nbctl = c.central.nbctl
    c.router("r", ("sw0", "02:00:00:00:00:fe", "10.0.0.254/24", "fd00::fe/64"), ("public", "02:00:00:00:0e:fe", "203.0.113.254/24", "fd13::fe/64"))
    c.provider()
    for n, gateway in enumerate(gateways):
        nbctl("lrp-set-gateway-chassis", "r-public", "hv%d" % gateway, str(100 - n))
    nbctl("lr-nat-add", "r", "snat", "203.0.113.254", "10.0.0.0/24")
    guest = c.member(1, 0, 1, "guest")
    outside = c.outside("203.0.113.1/24", "fd13::1/64")
    outside.run("ip", "route", "add", "fd00::/64", "via", "fd13::fe")
    return c, guest, outside


def test_address_translation_and_floating_addresses():
    """Guests reach the outside by the router's address; the outside reaches a guest by a floating IP, centralised or on
    the guest's own chassis, and servers by a load balancer of the router."""
    c, guest, outside = cloud([2])
    nbctl = c.central.nbctl
    other = c.member(3, 0, 2, "other")
    # OVN itself cannot balance to guests that have distributed floating IPs.
    third = c.member(3, 0, 3, "third")
    for server, name in ((guest, "guest"), (other, "other"), (third, "third"), (outside, "outside")):
        ovn_tcp.serve(server, name)
    nbctl("lr-nat-add", "r", "dnat_and_snat", "203.0.113.101", "10.0.0.1",
          "--", "lr-nat-add", "r", "dnat_and_snat", "203.0.113.102", "10.0.0.2", "other", "02:00:00:00:0f:02",
          "--", "lb-add", "lb", "203.0.113.80:80", "10.0.0.1:80,10.0.0.3:80", "--", "lr-lb-add", "r", "lb",
          "--", "lb-add", "lb6", "[fd13::80]:80", "[fd00::1]:80,[fd00::3]:80", "--", "lr-lb-add", "r", "lb6")
    c.central.sync()
    lab.wait_until(lambda: outside.pings("203.0.113.254", 1), "the router answers")
    lab.wait_until(lambda: guest.pings("203.0.113.1", 1), "the way to the outside")
    assert ovn_tcp.connect(guest, "203.0.113.1") == ["outside 203.0.113.101"]
    assert ovn_tcp.connect(other, "203.0.113.1") == ["outside 203.0.113.102"]
    assert ovn_tcp.connect(outside, "203.0.113.101") == ["guest 203.0.113.1"]
    assert ovn_tcp.connect(outside, "203.0.113.102") == ["other 203.0.113.1"]
    assert outside.pings("203.0.113.101") and outside.pings("203.0.113.102")
    # Packets of a distributed floating IP do not pass the gateway.
    assert "02:00:00:00:0f:02" in outside.run("ip", "neighbour", "show", "203.0.113.102")
    wire = c.chassis[2].net.received("external")
    assert outside.pings("203.0.113.102", 5) and c.chassis[2].net.received("external") >= wire + 5
    for vip in ("203.0.113.80", "fd13::80"):
        answers = ovn_tcp.connect(outside, vip, count=12)
        assert ovn_tcp.names(answers) == ["guest", "third"], answers
    nbctl("--wait=hv", "lr-nat-del", "r", "dnat_and_snat", "203.0.113.101")
    assert ovn_tcp.connect(guest, "203.0.113.1") == ["outside 203.0.113.254"]
    assert outside.pings("fd00::1") and guest.pings("fd13::1")
    c.check()


def test_provider_networks_with_vlans():
    """Guests of a logical switch with a VLAN of the provider reach its hosts with this tag, on each chassis; a gateway
    router of one chassis connects another network."""
    lab.need_long_run()
    c = ovn_net.Cloud(2)
    nbctl = c.central.nbctl
    c.provider("vlan7")
    nbctl("set", "logical_switch_port", "vlan7-net", "tag_request=7", "tag=7")
    one = c.guest(1, "vlan7", "one", "02:00:00:00:07:01", "10.7.0.1/24")
    two = c.guest(2, "vlan7", "two", "02:00:00:00:07:02", "10.7.0.2/24")
    c.outside("192.0.2.1/24")
    # A host of the VLAN, on the first chassis; packets between it and the second one have the tag.
    host = c.chassis[0]
    host.switch.vsctl("add-port", "br-external", "host7", "tag=7", "--", "set", "interface", "host7", "type=internal")
    host.net.run("ip", "address", "add", "10.7.0.9/24", "dev", "host7")
    host.net.run("ip", "link", "set", "host7", "up")
    # A gateway router on chassis 2, joined to a distributed router.
    c.router("r", ("sw0", "02:00:00:00:00:fe", "10.0.0.254/24"), ("join", "02:00:00:00:0a:01", "10.10.0.1/24"))
    c.router("gw", ("join2", "02:00:00:00:0b:01", "192.0.2.254/24"))
    nbctl("set", "logical_router", "gw", "options:chassis=hv2", "--", "lrp-add", "gw", "gw-join", "02:00:00:00:0a:02", "10.10.0.2/24",
          "--", "lsp-add", "join", "join-gw", "--", "lsp-set-type", "join-gw", "router", "--", "lsp-set-addresses", "join-gw", "router",
          "--", "lsp-set-options", "join-gw", "router-port=gw-join", "--", "lr-route-add", "r", "0.0.0.0/0", "10.10.0.2",
          "--", "lr-route-add", "gw", "10.0.0.0/24", "10.10.0.1", "--", "lr-nat-add", "gw", "snat", "192.0.2.254", "10.0.0.0/24")
    c.provider("join2")
    three = c.guest(1, "sw0", "three", "02:00:00:00:00:01", "10.0.0.1/24", gateway="10.0.0.254")
    c.central.sync()
    for guest in (one, two):
        assert guest.pings("10.7.0.9"), guest.ip
    assert one.pings("10.7.0.2")
    lab.wait_until(lambda: three.pings("192.0.2.1", 1), "the way through the gateway router")
    assert three.pings("192.0.2.1")
    c.check()


class Gaps:
    """A ping every 5 ms, and the longest time without an answer."""

    def __init__(self, guest, to):
        self.log = "%s/ping-%s" % (guest.central.dir, guest.name)
        self.process = guest.spawn("ping", "-D", "-O", "-n", "-i", "0.005", to, stdout=open(self.log, "w"))
        lab.wait_until(lambda: len(self.answers()) > 20, "answers")

    def answers(self):
        with open(self.log) as f:
            return [float(t) for t in re.findall(r"\[([0-9.]+)\] \d+ bytes from", f.read())]

    def end(self, event):
        """Seconds of the longest gap, once answers have arrived for a second after the event or after the gap."""
        def steady():
            times = self.answers()
            return times[-1] > event + 1 and len([t for t in times if t > times[-1] - 0.5]) > 20
        lab.wait_until(steady, "answers again", 20)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(5)
        times = self.answers()
        return max(b - a for a, b in zip(times, times[1:]))


def fast_bfd(c):
    """BFD between chassis every 100 ms; three lost messages mean that the other one is dead."""
    c.central.nbctl("set", "nb_global", ".", "options:bfd-min-tx=100", "options:bfd-min-rx=100", "options:bfd-mult=3")


def fast_sessions(chassis):
    """The number of sessions that have agreed on their pace: until they are up, messages are sent once a second."""
    return min(chassis.switch.appctl("bfd/show").count("  %s: Approx 100ms" % what) for what in ("TX Interval", "RX Interval"))


def test_failure_of_the_gateway():
    """The chassis that is the gateway is killed: the next one takes its place within a second, by BFD."""
    c, guest, outside = cloud([2, 3])
    fast_bfd(c)
    c.central.sync()
    lab.wait_until(lambda: guest.pings("203.0.113.1", 1), "the way to the outside")
    for chassis in c.chassis:
        lab.wait_until(lambda: fast_sessions(chassis) == 2, "BFD at its pace")
    gaps = Gaps(guest, "203.0.113.1")
    killed = time.time()
    c.chassis[1].switch.kill_daemon()
    gap = gaps.end(killed)
    print("%.2f s without a gateway" % gap, end=" ", flush=True)
    assert gap < 1 * lab.PATIENCE, gap
    for chassis in (c.chassis[0], c.chassis[2]):
        chassis.check()


def test_restart_of_a_chassis():
    """The daemon of a chassis is killed and started again. Other chassis lose nothing; its own guests are reachable
    again when ovn-controller has sent the flows."""
    lab.need_long_run()
    c, guest, outside = cloud([2])
    other = c.guest(3, "sw0", "other", "02:00:00:00:00:02", "10.0.0.2/24", gateway="10.0.0.254")
    c.central.sync()
    for g in (guest, other):
        lab.wait_until(lambda: g.pings("203.0.113.1", 1), "the way to the outside")
    ovn_tcp.serve(outside, "outside")
    connection = ovn_tcp.OpenConnection(other, "203.0.113.1")
    mine, others = Gaps(guest, "203.0.113.1"), Gaps(other, "203.0.113.1")
    # ovn-controller waits longer before it connects again if the connection before lasted about a second only.
    time.sleep(3)
    killed = time.time()
    c.chassis[0].switch.kill_daemon()
    c.chassis[0].switch.start_daemon()
    c.chassis[0].give_address()
    gap, untouched = mine.end(killed), others.end(killed)
    print("%.2f s, others %.3f s" % (gap, untouched), end=" ", flush=True)
    assert untouched < 0.3 and connection.echoes() and gap < 15, (gap, untouched)
    c.check()
