"""OVN controls three chassis while routers, load balancers and access lists change: no megaflow is ever wrong."""
import os
import random
import time

from lib import lab

# Each chassis has one port in each of the two logical switches, so that routed traffic stays within the chassis;
# traffic between chassis would need tunnels.
CHASSIS = 3
CHANGES = 150


class Ovn:
    """The two databases and northd, with sockets in a directory."""

    def __init__(self):
        lab.need_root()
        for program in ("ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl"):
            lab.need(program)
        self.dir = lab.scratch()
        self.env = dict(os.environ, OVN_RUNDIR=self.dir, OVN_LOGDIR=self.dir, OVN_DBDIR=self.dir, OVS_RUNDIR=self.dir)
        for name in ("nb", "sb"):
            lab.sh("ovsdb-tool", "create", "%s/%s.db" % (self.dir, name), "/usr/share/ovn/ovn-%s.ovsschema" % name)
            lab.spawn(["ovsdb-server", "%s/%s.db" % (self.dir, name), "--remote=punix:" + self.socket(name),
                       "--unixctl=%s/%s.ctl" % (self.dir, name), "-vconsole:off"], env=self.env)
            lab.wait_until(lambda: lab.listens(self.socket(name)), "the %s database" % name)
        self.nbctl("init")
        lab.sh("ovn-sbctl", "--timeout=30", "--db=unix:" + self.socket("sb"), "init", env=self.env)
        lab.spawn(["ovn-northd", "--ovnnb-db=unix:" + self.socket("nb"), "--ovnsb-db=unix:" + self.socket("sb"),
                   "--unixctl=%s/northd.ctl" % self.dir, "--pidfile=%s/northd.pid" % self.dir, "-vconsole:off"],
                  env=self.env)

    def socket(self, name):
        return "%s/%s.sock" % (self.dir, name)

    def nbctl(self, *args, **kw):
        return lab.sh("ovn-nbctl", "--timeout=60", "--db=unix:" + self.socket("nb"), *args, env=self.env, timeout=70, **kw)

    def add_network(self):
        """Two logical switches and a router between them."""
        self.nbctl("lr-add", "router")
        for switch in range(2):
            self.nbctl("ls-add", "switch%d" % switch,
                       "--", "lrp-add", "router", "to%d" % switch, "02:00:00:00:0f:0%d" % switch, "10.90.%d.254/24" % switch,
                       "--", "lsp-add", "switch%d" % switch, "up%d" % switch,
                       "--", "lsp-set-type", "up%d" % switch, "router",
                       "--", "lsp-set-addresses", "up%d" % switch, "router",
                       "--", "lsp-set-options", "up%d" % switch, "router-port=to%d" % switch)


class Chassis:
    """A switch with ovn-controller, and a guest in each logical switch."""

    def __init__(self, ovn, number):
        self.switch = s = lab.Switch().start()
        s.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id=chassis%d" % number,
                "external_ids:ovn-remote=unix:" + ovn.socket("sb"), "external_ids:ovn-encap-type=geneve",
                "external_ids:ovn-encap-ip=127.0.0.%d" % (number + 1), "external_ids:ovn-bridge-datapath-type=netdev",
                "external_ids:ovn-bridge=" + self.bridge_name())
        lab.spawn(["ovn-controller", "--pidfile=%s/ovn-controller.pid" % s.dir, "--log-file=%s/controller.log" % s.dir,
                   "-vconsole:off", "unix:%s/db.sock" % s.dir], env=dict(s.env, OVN_RUNDIR=s.dir, OVN_LOGDIR=s.dir))
        self.guests = []
        for switch in range(2):
            address, mac = "10.90.%d.%d" % (switch, number + 1), "02:00:00:00:%02x:%02x" % (switch, number + 1)
            guest = lab.Namespace(address + "/24", mac)
            guest.run("ip", "route", "add", "default", "via", "10.90.%d.254" % switch)
            port = "guest%d-%d" % (switch, number)
            ovn.nbctl("lsp-add", "switch%d" % switch, port, "--", "lsp-set-addresses", port, "%s %s" % (mac, address),
                      "--", "lsp-set-port-security", port, "%s %s" % (mac, address))
            s.vsctl("add-port", self.bridge, guest.port, "--", "set", "interface", guest.port, "external_ids:iface-id=" + port)
            guest.ip = address
            self.guests.append(guest)

    def bridge_name(self):
        """A unique name: the local ports of all three chassis are in one network namespace."""
        self.bridge = lab.unique("br")
        self.switch.vsctl("add-br", self.bridge, "--", "set", "bridge", self.bridge, "datapath_type=netdev",
                          "fail_mode=secure", "other_config:disable-in-band=true")
        return self.bridge

    def pings(self, count=3):
        a, b = self.guests
        return lab.sh("ip", "netns", "exec", a.name, "ping", "-q", "-c", count, "-i", "0.2", "-W", "1", b.ip,
                      check=False).count(" 0% packet loss") == 1


def changes(ovn, chosen):
    """The changes of an operator; each can be undone."""
    n = chosen.randrange(1000)
    acl = ("switch%d" % chosen.randrange(2), chosen.choice(("from-lport", "to-lport")), str(1000 + n))
    match = chosen.choice(("ip4 && tcp.dst == %d" % n, "ip4.src == 10.90.0.%d && udp" % (n % 8), "icmp4 && ip.ttl == %d" % (n % 256)))
    verdict = chosen.choice(("drop", "allow", "allow-related", "reject"))
    vip = "10.91.0.%d:80" % (n % 250 + 1)
    return chosen.choice((
        (("acl-add", *acl, match, verdict), ("acl-del", *acl, match)),
        (("lb-add", "lb%d" % n, vip, "10.90.0.1:80,10.90.1.2:80", "--", "ls-lb-add", "switch0", "lb%d" % n),
         ("lb-del", "lb%d" % n)),
        (("lr-route-add", "router", "10.%d.0.0/16" % (100 + n % 100), "10.90.0.%d" % (n % 3 + 1)),
         ("lr-route-del", "router", "10.%d.0.0/16" % (100 + n % 100))),
        (("lr-policy-add", "router", str(n + 1), "ip4.dst == 10.90.1.%d" % (n % 250), "allow"),
         ("lr-policy-del", "router", str(n + 1))),
        (("lrp-add", "router", "extra%d" % n, "02:00:00:01:%02x:%02x" % (n >> 8, n & 255), "10.200.%d.1/24" % (n % 250)),
         ("lrp-del", "extra%d" % n)),
    ))


def test_three_chassis_while_their_networks_change():
    """Guests of three chassis ping through the router continuously; at the end each megaflow matches the tables, and
    the sweep never had to repair one."""
    ovn = Ovn()
    ovn.add_network()
    chassis = [Chassis(ovn, number) for number in range(CHASSIS)]
    ovn.nbctl("--wait=hv", "sync")
    for c in chassis:
        lab.wait_until(c.pings, "traffic through the router of chassis with %s" % c.bridge, 30)
    steady = [c.guests[0].spawn("ping", "-q", "-i", "0.05", c.guests[1].ip, stdout=-3) for c in chassis]
    seed = random.randrange(1 << 32)
    print("seed %d" % seed, end=" ", flush=True)
    chosen, undo = random.Random(seed), []
    began, refused = time.time(), 0
    for _ in range(CHANGES):
        if undo and chosen.random() < 0.4:
            ovn.nbctl("--wait=hv", *undo.pop(chosen.randrange(len(undo))))
        else:
            do, back = changes(ovn, chosen)
            try:
                ovn.nbctl("--wait=hv", *do)
                undo.append(back)
            except AssertionError:
                # Two changes may request the same address: the second one is refused, and must not be undone.
                refused += 1
    print("%d changes (%d refused) in %.0f s" % (CHANGES, refused, time.time() - began), end=" ", flush=True)
    assert refused < CHANGES / 4, refused
    for back in undo:
        ovn.nbctl(*back)
    ovn.nbctl("--wait=hv", "sync")
    megaflows = 0
    for c, ping in zip(chassis, steady):
        assert ping.poll() is None, "a guest's ping ended"
        assert c.pings(), "no traffic after all changes were undone"
        megaflows += c.switch.verify_megaflows()
    assert megaflows > 2 * CHASSIS, megaflows
    print("%d megaflows" % megaflows, end=" ")
