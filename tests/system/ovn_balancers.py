"""OVN's load balancers: connection tracking with address translation, groups and learned flows."""
from lib import lab, ovn_net, ovn_sctp, ovn_tcp

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SERVERS = "10.0.1.1:80,10.0.1.2:80"


def cloud():
    """A client on chassis 1, and a server on each chassis in another logical switch."""
    c = ovn_net.Cloud(2)
    c.networks()
    client = c.member(1, 0, 1, "client")
    servers = [c.member(n, 1, n, "server%d" % n) for n in (1, 2)]
    for n, server in enumerate(servers):
        ovn_tcp.serve(server, "s%d" % (n + 1))
    return c, client, servers


def attach(c, *balancers):
    for name in balancers:
        c.central.nbctl("ls-lb-add", "sw0", name, "--", "ls-lb-add", "sw1", name)
    c.central.sync()


def test_load_balancers_of_both_versions_of_ip():
    """Connections are spread over all servers; a server reaches itself by the virtual address; one client stays at one
    server with affinity; templates differ by chassis; SCTP is balanced too."""
    c, client, servers = cloud()
    for n, server in enumerate(servers):
        ovn_sctp.serve(server, "s%d" % (n + 1))
    nbctl = c.central.nbctl
    nbctl("lb-add", "v4", "10.9.0.1:80", SERVERS, "--", "lb-add", "v6", "[fd09::1]:80", "[fd01::1]:80,[fd01::2]:80",
          "--", "lb-add", "sticky", "10.9.0.2:80", SERVERS, "--", "set", "load_balancer", "sticky", "options:affinity_timeout=60")
    for chassis, backend in (("hv1", "10.0.1.2:80"), ("hv2", "10.0.1.1:80")):
        nbctl("create", "chassis_template_var", "chassis=" + chassis, "variables={vip=10.9.0.5,backends=\"%s\"}" % backend)
    nbctl("--template", "lb-add", "template", "^vip:80", "^backends", "tcp", "ipv4")
    nbctl("lb-add", "sctp", "10.9.0.6:80", SERVERS, "sctp")
    attach(c, "v4", "v6", "sticky", "template", "sctp")
    for vip in ("10.9.0.1", "fd09::1"):
        answers = ovn_tcp.connect(client, vip, count=12)
        assert ovn_tcp.names(answers) == ["s1", "s2"], answers
        # A server that is its own client: the source address becomes the virtual address.
        answers = ovn_tcp.connect(servers[0], vip, count=12)
        assert ovn_tcp.names(answers) == ["s1", "s2"], answers
    assert ovn_tcp.has_connection(c.chassis[0], "dst=10.9.0.1", "src=10.0.1.2"), c.chassis[0].switch.appctl("dpctl/dump-conntrack")
    # With any switch, the first connection with affinity fails in OVN 23.03.
    ovn_tcp.times_out(client, "10.9.0.2")
    answers = ovn_tcp.connect(client, "10.9.0.2", count=8)
    assert len(ovn_tcp.names(answers)) == 1 and answers[0][0] == "s", answers
    assert ovn_tcp.names(ovn_tcp.connect(client, "10.9.0.5", count=4)) == ["s2"]
    assert ovn_tcp.names(ovn_tcp.connect(servers[1], "10.9.0.5", count=4)) == ["s1"]
    # Each INIT gets one answer, from the virtual address, with a right checksum.
    assert sorted(set(ovn_sctp.connect(client, "10.9.0.6", count=12))) == ["s1", "s2"]
    c.check()


def test_servers_are_checked():
    """A server that does not answer health checks gets no connections."""
    lab.need_long_run()
    c, client, servers = cloud()
    nbctl = c.central.nbctl
    nbctl("lb-add", "checked", "10.9.0.3:80", SERVERS, "--", "set", "load_balancer", "checked",
          "ip_port_mappings:10.0.1.1=server1:10.0.1.250", "ip_port_mappings:10.0.1.2=server2:10.0.1.250",
          "--", "--id=@check", "create", "load_balancer_health_check", "vip=\"10.9.0.3:80\"", "options:interval=1", "options:timeout=1",
          "options:success_count=1", "options:failure_count=1", "--", "add", "load_balancer", "checked", "health_check", "@check")
    attach(c, "checked")

    def monitors(state):
        return c.central.sbctl("--columns=status", "list", "service_monitor").count(state)
    lab.wait_until(lambda: monitors("online") == 2, "both servers are checked")
    assert ovn_tcp.names(ovn_tcp.connect(client, "10.9.0.3", count=12)) == ["s1", "s2"]
    servers[0].run("ip", "link", "set", "eth0", "down")
    lab.wait_until(lambda: monitors("offline"), "one server fails its checks")
    c.central.sync()
    assert ovn_tcp.names(ovn_tcp.connect(client, "10.9.0.3", count=8)) == ["s2"]
    c.check()
