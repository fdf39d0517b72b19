"""OVN's access lists, their log and rates, and copies of packets."""
from lib import lab, ovn_net, ovn_tcp, raw

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def cloud():
    """Two chassis and one logical switch with three guests; guest 3 is on the second chassis."""
    c = ovn_net.Cloud(2)
    c.central.nbctl("ls-add", "sw0")
    guests = [c.guest(1 if n < 3 else 2, "sw0", "guest%d" % n, "02:00:00:00:00:0%d" % n, "10.0.0.%d/24" % n, "fd00::%d/64" % n)
              for n in (1, 2, 3)]
    c.central.sync()
    return c, guests


def acl(c, *args):
    c.central.nbctl("--wait=hv", *args)


def test_access_lists():
    """Stateful lists let answers through and drop what the other side begins; stateless ones have no connections;
    rejected connections end at once; sets of addresses and ports become conjunctions; changes act on open connections."""
    c, (one, two, three) = cloud()
    for guest, name in ((one, "one"), (two, "two"), (three, "three")):
        ovn_tcp.serve(guest, name)
    acl(c, "acl-add", "sw0", "from-lport", "1002", "inport == \"guest1\" && ip", "allow-related",
        "--", "acl-add", "sw0", "to-lport", "1001", "outport == \"guest1\" && ip", "drop")
    for other in ("10.0.0.2", "10.0.0.3", "fd00::3"):
        assert ovn_tcp.names(ovn_tcp.connect(one, other)) in (["two"], ["three"]), other
        assert one.pings(other)
    assert two.is_refused("10.0.0.1") and three.is_refused("fd00::1")
    open_connection = ovn_tcp.OpenConnection(one, "10.0.0.3", patience=0.5)
    assert open_connection.echoes()
    # The new list concerns connections that exist.
    acl(c, "acl-add", "sw0", "to-lport", "1003", "outport == \"guest3\" && tcp.dst == 80", "drop")
    assert not open_connection.echoes()
    acl(c, "acl-del", "sw0", "--", "acl-add", "sw0", "to-lport", "1000", "outport == \"guest3\" && tcp", "reject")
    assert ovn_tcp.names(ovn_tcp.connect(one, "10.0.0.3")) == ["ConnectionRefusedError"]
    assert ovn_tcp.names(ovn_tcp.connect(one, "fd00::3")) == ["ConnectionRefusedError"]
    acl(c, "acl-del", "sw0", "--", "acl-add", "sw0", "to-lport", "1000", "outport == \"guest3\" && ip4", "drop",
        "--", "acl-add", "sw0", "to-lport", "1001", "outport == \"guest3\" && icmp4", "allow-stateless")
    assert one.pings("10.0.0.3") and ovn_tcp.times_out(one, "10.0.0.3")
    acl(c, "acl-del", "sw0")
    c.central.nbctl("create", "address_set", "name=friends", "addresses=10.0.0.1,10.0.0.7,10.0.0.8")
    acl(c, "acl-add", "sw0", "to-lport", "1001", "outport == \"guest3\" && ip4.src == $friends && tcp.dst == {80, 81, 82}", "allow-related",
        "--", "acl-add", "sw0", "to-lport", "1000", "outport == \"guest3\" && tcp", "drop")
    assert "conjunction(" in c.chassis[1].flows()
    assert ovn_tcp.names(ovn_tcp.connect(one, "10.0.0.3")) == ["three"]
    assert ovn_tcp.times_out(two, "10.0.0.3")
    c.central.nbctl("--wait=hv", "add", "address_set", "friends", "addresses", "10.0.0.2")
    assert ovn_tcp.names(ovn_tcp.connect(two, "10.0.0.3")) == ["three"]
    acl(c, "acl-del", "sw0")
    assert one.pings("10.0.0.3") and two.pings("fd00::3")
    c.check()


def test_logged_packets_and_meters():
    """Packets that a list logs appear in the chassis' log, at most as often as its meter allows; control plane
    protection limits packets to ovn-controller by a meter."""
    c, (one, two, _three) = cloud()
    c.central.nbctl("meter-add", "slow", "drop", "2", "pktps", "2", "--", "--log", "--name=pings", "--meter=slow", "--severity=info",
                    "acl-add", "sw0", "to-lport", "1000", "outport == \"guest2\" && icmp4.type == 8", "allow")
    c.central.sync()
    lab.wait_until(lambda: "rate=2" in c.chassis[0].switch.ofctl("-O", "OpenFlow15", "dump-meters", "br-int"), "the meter")
    one.run("ping", "-q", "-c", "40", "-i", "0.01", "10.0.0.2")

    def logged():
        return c.chassis[0].controller_log().count("name=\"pings\"")
    lab.wait_until(logged, "packets are logged")
    assert "verdict=allow" in c.chassis[0].controller_log() and logged() <= 6, logged()
    stats = c.chassis[0].switch.ofctl("-O", "OpenFlow15", "meter-stats", "br-int")
    assert "packet_in_count:40" in stats, stats
    c.central.nbctl("meter-add", "arp", "drop", "1", "pktps", "1", "--", "copp-add", "protect", "reject", "arp", "--", "ls-copp-add",
                    "protect", "sw0", "--", "acl-add", "sw0", "to-lport", "1001", "outport == \"guest2\" && udp", "reject")
    c.central.sync()
    lab.wait_until(lambda: "rate=1 " in c.chassis[0].switch.ofctl("-O", "OpenFlow15", "dump-meters", "br-int"), "the second meter")
    s = raw.socket_in(one)
    for port in range(30):
        s.send(raw.mac(two.mac) + raw.mac(one.mac) + b"\x08\x00" + raw.ip4("10.0.0.1", "10.0.0.2", 17, bytes([4, port, 4, port, 0, 8, 0, 0])))
    answers = 0
    while raw.receive(s, lambda f: f[12:14] == b"\x08\x00" and f[23] == 1 and f[34] == 3, 0.5):
        answers += 1
    assert 1 <= answers <= 3, answers
    c.check()


def test_mirrors():
    """Packets of a port are copied to another host, in GRE or ERSPAN, and to a port of the same chassis."""
    lab.need_long_run()
    c, (one, two, _three) = cloud()
    collector = ovn_net.Guest(c.central, "02:00:00:00:cc:01", "172.30.0.99/24")
    c.plug(collector, "eth0", "tunnels")
    collector.configure()
    s = raw.socket_in(collector)
    nbctl = c.central.nbctl
    for kind, protocol in (("gre", b"\x65\x58"), ("erspan", b"\x88\xbe")):
        nbctl("mirror-add", "m", kind, "7", "to-lport", "172.30.0.99", "--", "lsp-attach-mirror", "guest1", "m")
        c.central.sync()
        lab.wait_until(lambda: "m" in c.chassis[0].switch.vsctl("--bare", "--columns=name", "list", "mirror"), "the mirror")
        def copies():
            one.run("ping", "-q", "-c", "1", "-W", "1", "10.0.0.2")
            return raw.receive(s, lambda f: f[12:14] == b"\x08\0" and f[23] == 47 and f[36:38] == protocol and
                               bytes([10, 0, 0, 2, 10, 0, 0, 1]) in f, 0.5)
        lab.wait_until(copies, "answers are copied by " + kind)
        nbctl("lsp-detach-mirror", "guest1", "m", "--", "mirror-del", "m")
        c.central.sync()
    c.check()
