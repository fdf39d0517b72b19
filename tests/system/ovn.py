"""OVN changes the networks of three chassis under traffic: no packet that is always allowed is lost, no packet that is
always denied arrives, no megaflow is ever wrong, and nothing is left over."""
import os
import random
import time

from lib import lab, ovn_net, ovn_tcp, raw, traffic

LONG = bool(os.environ.get("TEST_LONG"))
CHANGES = 60
# With TEST_LONG, changes for this many seconds.
LONG_SECONDS = int(os.environ.get("TEST_OVN_SECONDS", "180"))

FLOOD = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(b"denied", (sys.argv[1], 6666))
    time.sleep(0.01)
"""


class Changes:
    """An operator's changes. Each is a pair of commands: to do and to undo it."""

    def __init__(self, cloud, seed):
        self.cloud, self.random = cloud, random.Random(seed)
        self.undo, self.count, self.refused, self.restarts, self.serial = [], 0, 0, 0, 0

    def chosen(self):
        n, r = self.random.randrange(1000), self.random
        acl = ("sw%d" % r.randrange(2), r.choice(("from-lport", "to-lport")), str(1000 + n))
        match = r.choice(("ip4 && tcp.dst == %d" % n, "ip4.src == 10.0.0.%d && udp" % (n % 8), "icmp4 && ip.ttl == %d" % (100 + n % 100),
                          "ip4.src == {10.3.0.1, 10.3.0.%d} && tcp.dst == {1, 2, %d}" % (n % 250 + 2, n + 3)))
        verdict = r.choice(("drop", "allow", "allow-related", "reject"))
        lb, vip = "lb%d" % n, "10.91.0.%d:80" % (n % 250 + 1)
        outer = "203.0.113.%d" % (n % 100 + 100)
        return r.choice((
            (("acl-add", *acl, match, verdict), ("acl-del", *acl, match)),
            (("acl-add", *acl, match, verdict), ("acl-del", *acl, match)),
            (("lb-add", lb, vip, "10.0.0.1:80,10.0.1.2:80", "--", "ls-lb-add", "sw0", lb, "--", "lr-lb-add", "r", lb), ("lb-del", lb)),
            (("lr-route-add", "r", "10.%d.0.0/16" % (100 + n % 100), "10.0.0.%d" % (n % 3 + 1)),
             ("lr-route-del", "r", "10.%d.0.0/16" % (100 + n % 100))),
            (("lr-policy-add", "r", str(n + 1), "ip4.dst == 10.0.1.%d && udp" % (n % 250), "drop"), ("lr-policy-del", "r", str(n + 1))),
            (("lrp-add", "r", "extra%d" % n, "02:00:00:01:%02x:%02x" % (n >> 8, n & 255), "10.200.%d.1/24" % (n % 250)),
             ("lrp-del", "extra%d" % n)),
            (("qos-add", "sw0", "from-lport", str(n), "ip4 && udp.dst == %d" % n, "dscp=%d" % (n % 64), "rate=100000"),
             ("qos-del", "sw0", "from-lport", str(n), "ip4 && udp.dst == %d" % n)),
            (("lr-nat-add", "r", "dnat_and_snat", outer, "10.0.0.%d" % (n % 50 + 100)), ("lr-nat-del", "r", "dnat_and_snat", outer)),
            self.port(),
        ))

    def port(self):
        """A port that comes and goes, on any chassis."""
        self.serial += 1
        name, home = "port%d" % self.serial, self.random.choice(self.cloud.chassis)
        def plug():
            home.switch.vsctl("add-port", "br-int", name, "--", "set", "interface", name, "type=internal", "external_ids:iface-id=" + name)
        def unplug():
            home.switch.vsctl("--if-exists", "del-port", "br-int", name)
        return (("lsp-add", "sw%d" % (self.serial % 2), name, "--", "lsp-set-addresses", name, "dynamic", plug), ("lsp-del", name, unplug))

    def execute(self, words):
        *words, last = words
        if callable(last):
            last()
        else:
            words.append(last)
        # Some changes follow each other before a chassis has done the first one.
        self.cloud.central.nbctl(*(["--wait=hv"] if self.random.random() < 0.5 else []), *words)

    def once(self):
        self.count += 1
        if self.undo and self.random.random() < 0.45:
            return self.execute(self.undo.pop(self.random.randrange(len(self.undo))))
        do, back = self.chosen()
        try:
            self.execute(do)
            self.undo.append(back)
        except AssertionError:
            # Two changes may ask for the same address: the second one is refused, and must not be undone.
            self.refused += 1

    def restart(self):
        """Restarts a database, northd or the ovn-controller of a chassis, or kills the daemon of the last chassis."""
        self.restarts += 1
        what, central = self.restarts % 4, self.cloud.central
        if what == 0:
            central.restart_database(self.random.choice(("nb", "sb")))
        elif what == 1:
            self.cloud.chassis[2].restart()
        elif what == 2:
            self.random.choice(self.cloud.chassis).restart_controller()
        else:
            central.restart_northd()

    def undo_all(self):
        for back in self.undo:
            self.execute(back)
        self.undo.clear()


class Ping:
    """A ping of a flow that is always allowed."""

    def __init__(self, guest, to):
        self.what = "%s to %s" % (guest.ip, to)
        self.process = guest.spawn("ping", "-q", "-i", "0.02", to, stdout=-1, text=True)

    def lost(self):
        return traffic.end(self.process, 21)


def state(c):
    """What must be the same after all changes were undone: number of flows, groups, meters and ports of each chassis."""
    def lines(chassis, command):
        return len(chassis.switch.ofctl("-O", "OpenFlow15", command, "br-int").splitlines())
    return [[lines(chassis, "dump-" + what) for what in ("flows", "groups", "meters", "ports")] for chassis in c.chassis]


@lab.one_try
def test_networks_change_under_traffic():
    """Ports, access lists, load balancers, routes, addresses and routers come and go by a seed, databases and daemons of
    OVN and of a chassis are restarted, while traffic passes."""
    seed = lab.seed(1 << 32)
    print("seed %d" % seed, end=" ", flush=True)
    # A new ovn-controller replaces the flows of the previous one when it has all of its own.
    c = ovn_net.Cloud(3, ovn_ofctrl_wait_before_clear=2000)
    nbctl = c.central.nbctl
    c.router("r", ("sw0", "02:00:00:00:00:fe", "10.0.0.254/24"), ("sw1", "02:00:00:00:01:fe", "10.0.1.254/24"),
             ("public", "02:00:00:00:0e:fe", "203.0.113.254/24"))
    c.provider()
    for switch in range(2):
        nbctl("set", "logical_switch", "sw%d" % switch, "other_config:subnet=10.0.%d.0/24" % switch)
    nbctl("lrp-set-gateway-chassis", "r-public", "hv2", "10", "--", "lr-nat-add", "r", "snat", "203.0.113.254", "10.0.0.0/16",
          "--", "acl-add", "sw1", "to-lport", "32000", "ip4 && udp.dst == 6666", "drop")
    one = c.guest(1, "sw0", "one", "02:00:00:00:00:01", "10.0.0.1/24", gateway="10.0.0.254")
    two = c.guest(2, "sw0", "two", "02:00:00:00:00:02", "10.0.0.2/24", gateway="10.0.0.254")
    other = c.guest(2, "sw1", "other", "02:00:00:00:01:01", "10.0.1.1/24", gateway="10.0.1.254")
    third = c.guest(3, "sw1", "third", "02:00:00:00:01:02", "10.0.1.2/24", gateway="10.0.1.254")
    outside = c.outside("203.0.113.1/24")
    c.central.sync()
    lab.wait_until(lambda: one.pings("203.0.113.1", 1), "the way to the outside")
    lab.wait_until(lambda: third.pings("10.0.0.1", 1) and one.pings("10.0.1.1", 1), "the way through the router")
    ovn_tcp.serve(two, "two")
    connection = ovn_tcp.OpenConnection(one, "10.0.0.2")
    denied = raw.socket_in(other)
    one.spawn("python3", "-c", FLOOD, "10.0.1.1")
    before = state(c)
    pings = [Ping(one, "10.0.0.2"), Ping(one, "10.0.1.1"), Ping(two, "203.0.113.1")]
    changes, began = Changes(c, seed), time.time()
    while time.time() - began < LONG_SECONDS if LONG else changes.count < CHANGES:
        changes.once()
        if changes.count % 15 == 14:
            changes.restart()
        if changes.count % 20 == 10:
            assert raw.receive(denied, lambda f: b"denied" in f, 0.001) is None, "a denied packet arrived"
    print("%d changes (%d refused), %d restarts in %.0f s" % (changes.count, changes.refused, changes.restarts, time.time() - began),
          end=" ", flush=True)
    assert changes.refused < changes.count / 4, changes.refused
    changes.undo_all()
    c.central.sync()
    lost = {ping.what: ping.lost() for ping in pings}
    assert connection.echoes(), "an open connection broke"
    lab.wait_until(lambda: third.pings("10.0.0.1"), "traffic of the chassis that was restarted")
    assert not any(lost.values()), lost
    lab.wait_until(lambda: state(c) == before, "flows, groups, meters and ports as before: %s, %s" % (before, state(c)))
    megaflows = c.check()
    assert outside and megaflows > 10, megaflows
    print("%d megaflows" % megaflows, end=" ")
