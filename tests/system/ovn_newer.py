"""What OVN has since Debian 12: run with TEST_OVN_TREE, a built tree of OVN 26.03, and TEST_LONG=1."""
from lib import lab, ovn_net, ovn_tcp, raw


def need_newer():
    lab.need_long_run()
    if not ovn_net.TREE:
        raise lab.Skip("needs TEST_OVN_TREE, a tree of OVN 26.03")


def cloud(**settings):
    """A router with two logical switches; a guest on chassis 1, guests and servers on 2 and 3."""
    c = ovn_net.Cloud(3, **settings)
    c.networks()
    one = c.member(1, 0, 1, "one")
    two = c.member(2, 0, 2, "two")
    servers = [c.member(n, 1, n, "server%d" % n) for n in (1, 2, 3)]
    for n, server in enumerate(servers):
        ovn_tcp.serve(server, "s%d" % (n + 1))
    c.central.sync()
    lab.wait_until(lambda: one.pings("10.0.0.2", 1) and one.pings("10.0.1.3", 1), "traffic")
    return c, one, two, servers


def test_one_tunnel_port_for_all_chassis():
    """With flow-based tunnels a chassis has one port for all others; unicast, multicast, fragments and load balancers
    pass it in both directions."""
    need_newer()
    c, one, two, servers = cloud(ovn_enable_flow_based_tunnels="true")
    s = c.chassis[0].switch
    assert s.vsctl("--bare", "--columns=options", "find", "interface", "type=geneve").count("remote_ip=flow") == 1
    assert s.vsctl("--columns=name", "find", "interface", "type=geneve").count("name") == 1
    assert one.pings("10.0.0.2") and two.pings("fd00::1") and one.pings("10.0.1.3", 3, "-s", "4000") and one.pings("fd01::2")
    c.central.nbctl("lb-add", "v4", "10.9.0.1:80", "10.0.1.1:80,10.0.1.2:80,10.0.1.3:80", "--", "ls-lb-add", "sw0", "v4")
    c.central.sync()
    assert ovn_tcp.names(ovn_tcp.connect(one, "10.9.0.1", count=30)) == ["s1", "s2", "s3"]
    # Every chassis with a port of the logical switch gets a broadcast.
    frames = raw.socket_in(two)
    def asked():
        one.run("ping", "-c", "1", "-W", "0.1", "-b", "10.0.0.255", check=False)
        return raw.receive(frames, lambda f: f[:6] == b"\xff" * 6 and f[30:34] == bytes([10, 0, 0, 255]), 0.5)
    lab.wait_until(asked, "a broadcast on another chassis")
    c.check()


def test_mirror_to_a_logical_port():
    """Packets of a logical port that a rule selects are copied to a logical port of another chassis."""
    need_newer()
    c, one, two, _servers = cloud()
    target = c.guest(3, "sw0", "target", "02:00:00:00:00:0a", "10.0.0.10/24", security=False)
    c.central.nbctl("mirror-add", "m", "lport", "from-lport", "target", "--", "mirror-rule-add", "m", "100", "icmp4", "mirror",
                    "--", "mirror-rule-add", "m", "200", "icmp4.type==8 && ip4.dst==10.0.1.3", "skip", "--", "lsp-attach-mirror", "one", "m")
    c.central.sync()
    frames = raw.socket_in(target)

    def copied(to):
        assert one.pings(to, 1)
        return raw.receive(frames, lambda f: f[12:14] == b"\x08\0" and f[30:34] == bytes(map(int, to.split("."))), 0.5)
    lab.wait_until(lambda: copied("10.0.0.2"), "a copy")
    assert copied("10.0.1.2") and not copied("10.0.1.3")
    assert two.pings("10.0.0.1")
    c.check()


def test_network_function():
    """Packets that an access list selects pass a function on another chassis, and come back unchanged."""
    need_newer()
    c, one, two, _servers = cloud()
    nbctl = c.central.nbctl
    # The function: a bridge between two ports of chassis 3.
    function, home = lab.Network(), c.chassis[2]
    function.run("ip", "link", "add", "through", "type", "bridge")
    function.run("ip", "link", "set", "through", "up")
    for port in ("nf-in", "nf-out"):
        home.net.run("ip", "link", "add", port, "type", "veth", "peer", "name", port + "-f", "netns", function.name)
        home.net.run("ip", "link", "set", port, "up")
        function.run("ip", "link", "set", port + "-f", "master", "through", "up")
        nbctl("lsp-add", "sw0", port, "--", "lsp-set-addresses", port, "unknown", "--", "set", "logical_switch_port", port,
              "options:is-nf=true", "options:receive_multicast=false",
              "options:lsp_learn_mac=false", "options:nf-linked-port=" + ("nf-out" if port == "nf-in" else "nf-in"))
        home.switch.vsctl("add-port", "br-int", port, "--", "set", "interface", port, "external_ids:iface-id=" + port)
    nbctl("nf-add", "f", "1", "nf-in", "nf-out", "--", "nfg-add", "g", "1", "inline", "f")
    nbctl("acl-add", "sw0", "from-lport", "1002", "inport==\"one\" && ip4.dst==10.0.0.2", "allow-related", "g")
    c.central.sync()
    passed = raw.socket_in(function, "nf-in-f")

    def through():
        assert one.pings("10.0.0.2", 1)
        return raw.receive(passed, lambda f: f[12:14] == b"\x08\0" and f[30:34] == bytes([10, 0, 0, 2]), 0.5)
    lab.wait_until(through, "a packet in the function")
    ovn_tcp.serve(two, "two")
    assert ovn_tcp.connect(one, "10.0.0.2", count=3) == ["two 10.0.0.1"] * 3
    c.check()


def test_fragments_with_ports_of_lists():
    """With `acl_ct_translation` lists with ports match all fragments of a datagram."""
    need_newer()
    c, one, two, _servers = cloud()
    nbctl = c.central.nbctl
    nbctl("set", "nb_global", ".", "options:acl_ct_translation=true", "--", "acl-add", "sw0", "to-lport", "1000",
          "outport==\"two\" && udp.dst==4000", "allow-related", "--", "acl-add", "sw0", "to-lport", "900", "outport==\"two\" && ip", "drop")
    c.central.sync()
    allowed, denied = (two.spawn("python3", "-c", RECEIVER, port, stdout=-1, text=True) for port in ("4000", "4001"))
    assert allowed.stdout.readline() == denied.stdout.readline() == "ready\n"
    one.run("python3", "-c", SENDER, "10.0.0.2", "4001")
    one.run("python3", "-c", SENDER, "10.0.0.2", "4000")
    assert allowed.communicate(timeout=10)[0] == "4000 bytes\n"
    assert denied.communicate(timeout=10)[0] == "nothing\n"
    c.check()


RECEIVER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
s.settimeout(2)
print("ready", flush=True)
try:
    print("%d bytes" % len(s.recv(9000)))
except TimeoutError:
    print("nothing")
"""
SENDER = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(4000), (sys.argv[1], int(sys.argv[2])))
"""


def test_local_servers_first():
    """A distributed load balancer uses only servers of the chassis of the client; routes of equal cost can be chosen by
    fields."""
    need_newer()
    c, one, _two, _servers = cloud()
    nbctl = c.central.nbctl
    nbctl("lb-add", "near", "10.9.0.2:80", "10.0.1.1:80,10.0.1.2:80,10.0.1.3:80", "--", "set", "load_balancer", "near",
          "options:distributed=true", *["ip_port_mappings:10.0.1.%d=server%d" % (n, n) for n in (1, 2, 3)], "--", "lr-lb-add", "r", "near",
          "--", "ls-lb-add", "sw0", "near")
    c.central.sync()
    assert ovn_tcp.names(ovn_tcp.connect(one, "10.9.0.2", count=10)) == ["s1"]
    c.check()
