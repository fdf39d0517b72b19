"""ovn-trace, which walks the logical flows, and ofproto/trace, which walks those of a chassis, agree."""
from lib import lab, ovn_net, ovn_trace


def packet(guest, dst_mac, dst, rest, src=None):
    """The packet for both tools: as OVN writes it, and protocol and fields of OpenFlow. rest: such as `tcp 80`."""
    kind, *number = rest.split()
    src = src or guest.ip
    logical = "eth.src == %s && eth.dst == %s && ip4.src == %s && ip4.dst == %s && ip.ttl == 64 && " % (guest.mac, dst_mac, src, dst)
    fields = {"dl_src": guest.mac, "dl_dst": dst_mac, "nw_src": src, "nw_dst": dst, "nw_ttl": 64}
    if kind == "icmp":
        return logical + "icmp4.type == 8 && icmp4.code == 0", kind, {**fields, "icmp_type": 8, "icmp_code": 0}
    return (logical + "%s.src == 5000 && %s.dst == %s" % (kind, kind, number[0]), kind,
            {**fields, kind + "_src": 5000, kind + "_dst": number[0]})


def test_twenty_packets():
    """Twenty packets go to the same ports according to both: to guests of the same and another chassis, through the
    router, to the provider's network, denied, forged, expired and unknown ones."""
    c = ovn_net.Cloud(3)
    nbctl = c.central.nbctl
    gate = {"sw0": "02:00:00:00:00:fe", "sw1": "02:00:00:00:01:fe"}
    c.router("r", ("sw0", gate["sw0"], "10.0.0.254/24"), ("sw1", gate["sw1"], "10.0.1.254/24"), ("public", "02:00:00:00:0e:fe", "203.0.113.254/24"))
    c.provider()
    nbctl("lrp-set-gateway-chassis", "r-public", "hv3", "10", "--", "lr-nat-add", "r", "dnat_and_snat", "203.0.113.101", "10.0.0.1",
          "--", "lr-nat-add", "r", "snat", "203.0.113.254", "10.0.0.0/16",
          "--", "lr-route-add", "r", "198.51.100.0/24", "203.0.113.1")
    nbctl("acl-add", "sw1", "to-lport", "1001", "outport == \"d\" && tcp.dst == 80", "allow-related",
          "--", "acl-add", "sw1", "to-lport", "1000", "outport == \"d\" && ip4", "drop",
          "--", "acl-add", "sw0", "from-lport", "1000", "inport == \"guestb\" && udp.dst == 53", "drop")
    guests = {}
    for name, chassis, switch, net, n in (("guesta", 1, "sw0", 0, 1), ("guestb", 2, "sw0", 0, 2), ("guestc", 1, "sw1", 1, 1), ("d", 2, "sw1", 1, 2)):
        mac = "02:00:00:00:0%d:0%d" % (net, n)
        guests[name] = (c.guest(chassis, switch, name, mac, "10.0.%d.%d/24" % (net, n)), chassis, switch)
    outside = c.outside("203.0.113.1/24")
    c.central.sync()
    # OVN learns the address of the outside.
    lab.wait_until(lambda: outside.pings("203.0.113.254", 1) and c.central.sbctl("list", "mac_binding").strip(), "the outside is known")
    c.central.sync()
    for chassis in c.chassis:
        for other in c.chassis:
            # For an unknown next hop the switch sends an ARP request, and the trace ends there.
            mac = other.net.run("cat", "/sys/class/net/br-tunnels/address").strip()
            chassis.switch.appctl("tnl/neigh/set", "br-tunnels", other.address, mac)
    a, b = guests["guesta"][0], guests["guestb"][0]
    cases = [(name, mac, ip, rest, {}) for name, mac, ip, rest in (
        ("guesta", b.mac, b.ip, "icmp"), ("guesta", b.mac, b.ip, "udp 53"), ("guestb", a.mac, a.ip, "udp 53"), ("guestb", a.mac, a.ip, "tcp 53"),
        ("guesta", gate["sw0"], "10.0.1.1", "icmp"), ("guesta", gate["sw0"], "10.0.1.2", "tcp 80"), ("guesta", gate["sw0"], "10.0.1.2", "tcp 81"),
        ("guesta", gate["sw0"], "10.0.1.2", "icmp"), ("guestb", gate["sw0"], "10.0.1.1", "udp 1"), ("guestc", gate["sw1"], "10.0.0.2", "tcp 22"),
        ("guestc", gate["sw1"], "10.0.0.254", "icmp"), ("guestc", gate["sw1"], "203.0.113.254", "icmp"), ("d", gate["sw1"], "10.0.0.1", "udp 7"),
        ("guesta", "02:99:00:00:00:01", "10.0.0.77", "icmp"), ("guesta", gate["sw0"], "192.0.2.7", "icmp"), ("guestb", a.mac, a.ip, "icmp"))]
    cases += [("guesta", b.mac, b.ip, "icmp", {"src": "10.0.0.66"}), ("guestb", gate["sw0"], "10.0.1.1", "icmp", {"src": "10.0.0.1"}),
              ("d", gate["sw1"], "10.0.0.2", "tcp 25", {}), ("guestc", guests["d"][0].mac, "10.0.1.2", "tcp 80", {}),
              ("guesta", gate["sw0"], "203.0.113.1", "icmp", {}), ("guestb", gate["sw0"], "198.51.100.9", "tcp 443", {})]
    reached = 0
    for name, mac, ip, rest, more in cases:
        guest, chassis, switch = guests[name]
        logical, protocol, fields = packet(guest, mac, ip, rest, **more)
        home = c.chassis[chassis - 1]
        wanted = ovn_trace.of_ovn(c, switch, 'inport == "%s" && %s' % (name, logical))
        fields["in_port"] = home.switch.vsctl("get", "interface", name, "ofport").strip()
        found, text = ovn_trace.of_switches(c, home, protocol, fields)
        reached += bool(found)
        assert found == wanted, "%s to %s, %s: ovn-trace %s, ofproto/trace %s\n%s" % (name, ip, rest, wanted, found, text)
    assert len(cases) >= 20 and reached >= 10, reached
    print("%d packets, %d reach a port" % (len(cases), reached), end=" ", flush=True)
    c.check()
