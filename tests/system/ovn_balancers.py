"""OVN's load balancers: connection tracking with address translation, groups and learned flows."""
from lib import lab, ovn_net, ovn_tcp


def test_load_balancers_of_both_versions_of_ip():
    """Connections are spread over all servers; a server reaches itself by the virtual address; one client stays at one
    server with affinity; a server that does not answer health checks gets no connections; templates differ by chassis."""
    c = ovn_net.Cloud(2)
    nbctl = c.central.nbctl
    c.router("r", ("sw0", "02:00:00:00:00:fe", "10.0.0.254/24", "fd00::fe/64"), ("sw1", "02:00:00:00:01:fe", "10.0.1.254/24", "fd01::fe/64"))
    client = c.guest(1, "sw0", "client", "02:00:00:00:00:01", "10.0.0.1/24", "fd00::1/64", gateway="10.0.0.254", gateway6="fd00::fe")
    servers = [c.guest(n, "sw1", "server%d" % n, "02:00:00:00:01:0%d" % n, "10.0.1.%d/24" % n, "fd01::%d/64" % n,
                       gateway="10.0.1.254", gateway6="fd01::fe") for n in (1, 2)]
    for n, server in enumerate(servers):
        ovn_tcp.serve(server, "s%d" % (n + 1))
    nbctl("lb-add", "v4", "10.9.0.1:80", "10.0.1.1:80,10.0.1.2:80", "--", "lb-add", "v6", "[fd09::1]:80", "[fd01::1]:80,[fd01::2]:80",
          "--", "lb-add", "sticky", "10.9.0.2:80", "10.0.1.1:80,10.0.1.2:80", "--", "set", "load_balancer", "sticky",
          "options:affinity_timeout=60", "--", "lb-add", "checked", "10.9.0.3:80", "10.0.1.1:80,10.0.1.2:80",
          "--", "set", "load_balancer", "checked", "ip_port_mappings:10.0.1.1=server1:10.0.1.250",
          "ip_port_mappings:10.0.1.2=server2:10.0.1.250",
          "--", "lb-add", "udp", "10.9.0.4:80", "10.0.1.1:80,10.0.1.2:80", "udp")
    check = nbctl("--id=@hc", "create", "load_balancer_health_check", "vip=\"10.9.0.3:80\"", "options:interval=1", "options:timeout=1",
                  "options:success_count=1", "options:failure_count=1", "--", "add", "load_balancer", "checked", "health_check", "@hc")
    assert check
    nbctl("create", "chassis_template_var", "chassis=hv1", "variables={vip=10.9.0.5,backends=\"10.0.1.2:80\"}")
    nbctl("create", "chassis_template_var", "chassis=hv2", "variables={vip=10.9.0.5,backends=\"10.0.1.1:80\"}")
    nbctl("--template", "lb-add", "template", "^vip:80", "^backends", "tcp", "ipv4")
    for name in ("v4", "v6", "sticky", "checked", "udp", "template"):
        for switch in ("sw0", "sw1"):
            nbctl("ls-lb-add", switch, name)
    c.central.sync()
    for vip in ("10.9.0.1", "fd09::1"):
        answers = ovn_tcp.connect(client, vip, count=12)
        assert ovn_tcp.names(answers) == ["s1", "s2"], answers
        # A server that is its own client: the source address becomes the virtual address.
        answers = ovn_tcp.connect(servers[0], vip, count=12)
        assert ovn_tcp.names(answers) == ["s1", "s2"], answers
    assert ovn_tcp.has(c.chassis[0], "dst=10.9.0.1", "src=10.0.1.2"), c.chassis[0].switch.appctl("dpctl/dump-conntrack")
    # With any switch, the first connection with affinity fails in OVN 23.03.
    ovn_tcp.times_out(client, "10.9.0.2")
    answers = ovn_tcp.connect(client, "10.9.0.2", count=8)
    assert len(ovn_tcp.names(answers)) == 1 and answers[0][0] == "s", answers
    assert ovn_tcp.names(ovn_tcp.connect(client, "10.9.0.5", count=4)) == ["s2"]
    assert ovn_tcp.names(ovn_tcp.connect(servers[1], "10.9.0.5", count=4)) == ["s1"]
    lab.wait_until(lambda: c.central.sbctl("--columns=status", "list", "service_monitor").count("online") == 2, "both servers are checked")
    assert ovn_tcp.names(ovn_tcp.connect(client, "10.9.0.3", count=12)) == ["s1", "s2"]
    servers[0].run("ip", "link", "set", "eth0", "down")
    lab.wait_until(lambda: "offline" in c.central.sbctl("--columns=status", "list", "service_monitor"), "one server fails its checks")
    c.central.sync()
    assert ovn_tcp.names(ovn_tcp.connect(client, "10.9.0.3", count=8)) == ["s2"]
    c.check()
