"""OVN with several chassis: its databases and northd, and a network namespace with a switch for each chassis.

Two networks of the kernel join the chassis: `tunnels` for Geneve and `external` for the provider's packets. On a chassis
br-tunnels has the address of the tunnels, and br-external the mapping `provider`. All daemons of OVN are Debian's, or those
of the built tree that TEST_OVN_TREE names.
"""
import os
import re
import shutil
import time

from lib import lab

# A built tree of OVN, whose programs and schemas replace Debian's. Newer OVN needs a newer schema of the switch than that of
# Debian's ovsdb-server, so Sluice serves its own database then.
TREE = os.environ.get("TEST_OVN_TREE")
if TREE:
    os.environ["PATH"] = ":".join(os.path.join(TREE, part) for part in ("northd", "controller", "utilities")) + ":" + os.environ["PATH"]
PROGRAMS = ("ovn-northd", "ovn-controller", "ovn-nbctl", "ovn-sbctl", "ovn-trace", "ovsdb-tool", "ovsdb-server")
# Warnings that ovn-controller logs with any switch: about its own devices and bindings, connections of daemons that are
# restarted, and a busy machine.
USUAL = re.compile(r"\|(if_status|binding|vif_plug_provider|netdev_linux|timeval)\|WARN|br-int.mgmt: connection failed|connection attempt failed|"
                   # ovn-controller counts from 0 until it has the rows of a database that was restarted, and from 1 when the
                   # daemon was restarted.
                   r"\|ofctrl\|WARN\|req_cfg regressed from \d+ to [01]\b|"
                   # Tunnels are created after ports were bound.
                   r"\|physical\|.*(No tunnel endpoint found|Failed to locate tunnel)|"
                   "connection (closed|reset) by peer|connection dropped|send( error)?: Broken pipe|"
                   # A packet of another chassis came before ovn-controller had said what the options of tunnels mean.
                   "Invalid Geneve tunnel metadata")


class Central:
    """The two databases and northd, with sockets in a directory.

    databases: a directory with files `nb.db` and `sb.db`, of which copies are used.
    """

    def __init__(self, databases=None):
        lab.need_root()
        for program in PROGRAMS:
            lab.need(program)
        self.dir = lab.scratch()
        self.env = dict(os.environ, OVN_RUNDIR=self.dir, OVN_LOGDIR=self.dir, OVN_DBDIR=self.dir, OVS_RUNDIR=self.dir,
                        OVN_NB_DB="unix:" + self.socket("nb"), OVN_SB_DB="unix:" + self.socket("sb"))
        self.servers = {}
        for name in ("nb", "sb"):
            file = "%s/%s.db" % (self.dir, name)
            if databases:
                shutil.copy("%s/%s.db" % (databases, name), file)
            else:
                lab.sh("ovsdb-tool", "create", file, "%s/ovn-%s.ovsschema" % (TREE or "/usr/share/ovn", name))
            self.start_database(name)
        self.nbctl("init")
        self.sbctl("init")
        self.start_northd()

    def start_northd(self):
        self.northd = lab.spawn(["ovn-northd", "--unixctl=%s/northd.ctl" % self.dir, "--pidfile=%s/northd.pid" % self.dir,
                                 "-vconsole:off", "--log-file=%s/northd.log" % self.dir], env=self.env)

    def end_northd(self):
        self.northd.terminate()
        self.northd.wait(60)

    def restart_northd(self):
        self.end_northd()
        self.start_northd()

    def start_database(self, name):
        self.servers[name] = lab.spawn(["ovsdb-server", "%s/%s.db" % (self.dir, name), "--remote=punix:" + self.socket(name),
                                        "--unixctl=%s/%s.ctl" % (self.dir, name), "-vconsole:off"], env=self.env)
        lab.wait_until(lambda: lab.listens(self.socket(name)), "the %s database" % name)

    def restart_database(self, name):
        self.servers[name].terminate()
        self.servers[name].wait(10)
        self.start_database(name)

    def socket(self, name):
        return "%s/%s.sock" % (self.dir, name)

    def nbctl(self, *args, **kw):
        return lab.sh("ovn-nbctl", "--timeout=60", *args, env=self.env, timeout=70, **kw)

    def sbctl(self, *args, **kw):
        return lab.sh("ovn-sbctl", "--timeout=30", *args, env=self.env, **kw)

    def sync(self):
        """Waits until every chassis has done what the northbound database says, and guests' ports are bound."""
        self.nbctl("--wait=hv", "sync")
        lab.wait_until(lambda: "name" not in self.nbctl("--columns=name", "find", "logical_switch_port", "up=false", "type=\"\""),
                       "ports of guests are up")
        self.nbctl("--wait=hv", "sync")

    def trace(self, switch, microflow, *args):
        return lab.sh("ovn-trace", "--db=unix:" + self.socket("sb"), *args, switch, microflow, env=self.env)


class Chassis:
    """A namespace with a switch and ovn-controller."""

    def __init__(self, cloud, number, ours):
        self.cloud, self.number, self.name = cloud, number, "hv%d" % number
        self.net = lab.Network()
        self.address = "172.30.0.%d" % number
        self.switch = lab.Switch(ours=ours, database="embedded" if ours and TREE else "stock")
        self.switch.network = self.net
        self.env = dict(self.switch.env, OVN_RUNDIR=self.switch.dir, OVN_LOGDIR=self.switch.dir)
        self.controller = None

    def start(self, **settings):
        """settings: more external_ids, with `_` for `-`."""
        s, central = self.switch.start(), self.cloud.central
        for network in ("tunnels", "external"):
            self.cloud.plug(self.net, network, network)
            self.net.run("ip", "link", "set", network, "arp", "off")
        ids = {"system_id": self.name, "hostname": self.name, "ovn_remote": "unix:" + central.socket("sb"),
               "ovn_encap_type": "geneve", "ovn_encap_ip": self.address, "ovn_bridge_datapath_type": "netdev",
               "ovn_bridge_mappings": "provider:br-external", **settings}
        words = ["set", "open_vswitch", "."]
        words += ["external_ids:%s=\"%s\"" % (key.replace("_", "-"), value) for key, value in ids.items()]
        for network in ("tunnels", "external"):
            words += ["--", "add-br", "br-" + network, "--", "set", "bridge", "br-" + network, "datapath_type=netdev",
                      "--", "add-port", "br-" + network, network]
        s.vsctl(*words)
        self.give_address()
        self.start_controller()
        return self

    def give_address(self):
        """Configures the address of the tunnels: at the start, and after a new daemon has made the device again."""
        lab.wait_until(lambda: "br-tunnels" in self.net.run("ls", "/sys/class/net"), "br-tunnels")
        self.net.run("ip", "address", "replace", self.address + "/24", "dev", "br-tunnels")
        self.net.run("ip", "link", "set", "br-tunnels", "up")

    def start_controller(self):
        d = self.switch.dir
        self.controller = self.net.spawn(
            "ovn-controller", "--pidfile=%s/ovn-controller.pid" % d, "-vconsole:off",
            "--log-file=%s/controller.log" % d, "unix:%s/db.sock" % d, env=self.env)

    def restart_controller(self):
        """Kills ovn-controller and starts it again; the flows stay until the new one replaces them."""
        self.controller.kill()
        self.controller.wait(10)
        self.start_controller()

    def restart(self):
        """Kills the switch's daemon and starts it again."""
        self.check()
        self.switch.kill_daemon()
        self.switch.start_daemon()
        self.give_address()

    def control(self, *args, **kw):
        """Asks ovn-controller."""
        return lab.sh("ovn-appctl", "-T", "20", "-t", "ovn-controller", *args, env=self.env, **kw)

    def flows(self):
        return self.switch.ofctl("-O", "OpenFlow15", "dump-flows", "br-int")

    def check(self):
        """Checks that megaflows are right and that no log has a warning; returns the number of megaflows."""
        if not self.switch.ours:
            return 0
        count = self.switch.verify_megaflows()
        wrong = [line for line in (self.switch.written_log() + self.controller_log()).splitlines()
                 if re.search(r"\|(WARN|ERR|EMER)\|", line) and not USUAL.search(line)]
        assert not wrong, "%s logs:\n%s" % (self.name, "\n".join(wrong[:20]))
        return count

    def controller_log(self):
        with open(self.switch.dir + "/controller.log") as f:
            return f.read()


class Guest(lab.Network):
    """A namespace with a port of a logical switch, or of a kernel network of the fabric."""

    def __init__(self, central, mac, *addresses):
        super().__init__()
        self.central, self.mac, self.addresses = central, mac, addresses
        self.ip = addresses[0].split("/")[0] if addresses else None

    def configure(self, gateway=None, gateway6=None):
        self.run("ip", "link", "set", "eth0", "address", self.mac)
        for address in self.addresses:
            self.run("ip", "address", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))
        self.run("ip", "link", "set", "eth0", "mtu", "1442", "up")
        for to in filter(None, (gateway, gateway6)):
            self.run("ip", "route", "replace", "default", "via", to)

    def pings(self, to, count=3, *args):
        """Whether every echo request is answered."""
        out = self.run("ping", "-q", "-c", count, "-i", "0.05", "-W", "2", *args, to, check=False)
        return "%d received" % count in out and " 0%" in out

    def is_refused(self, to):
        """Whether no echo request is answered."""
        return "0 received" in self.run("ping", "-q", "-c", "2", "-i", "0.1", "-W", "0.3", to, check=False)


class Cloud:
    """Central, the fabric and chassis 1 to `count`; those in `stock` have the stock switch, or the switch `program`.
    databases: see Central. direct: two chassis are joined by a wire instead of a bridge of the kernel, and so are the last chassis and
    the host outside. settings: those of each chassis."""

    def __init__(self, count=2, stock=(), program=None, databases=None, direct=False, **settings):
        all_ours = not os.environ.get("TEST_THE_STOCK_SWITCH")
        self.central = Central(databases)
        count_before = len(self.registered())
        self.fabric = lab.Network()
        self.wires, self.direct, self.loose = 0, direct, {}
        for network in ("tunnels", "external"):
            self.fabric.run("ip", "link", "add", network, "type", "bridge", "mcast_snooping", "0")
            self.fabric.run("ip", "link", "set", network, "up")
        self.chassis = [Chassis(self, number, all_ours and number not in stock) for number in range(1, count + 1)]
        for chassis in self.chassis:
            chassis.switch.program = program
            chassis.start(**settings)
        lab.wait_until(lambda: len(self.registered()) == count_before + count, "%d chassis are registered" % count, 60)

    def registered(self):
        return self.central.sbctl("--bare", "--columns=name", "list", "chassis").split()

    def plug(self, network, device, kernel_network):
        """Connects a namespace to a network of the fabric."""
        end = self.loose.pop(kernel_network, None)
        if end:
            self.fabric.run("ip", "link", "set", end, "netns", network.name, "name", device)
        else:
            self.wires += 1
            end = "wire%d" % self.wires
            self.fabric.run("ip", "link", "add", end, "type", "veth", "peer", "name", device, "netns", network.name)
            if self.direct and (kernel_network == "tunnels" or network is self.chassis[-1].net):
                self.loose[kernel_network] = end
            else:
                self.fabric.run("ip", "link", "set", end, "master", kernel_network, "up")
        network.run("ip", "link", "set", device, "up")

    def finish_checksums(self, guest):
        """The stock switch does not complete checksums that the sender left to the device."""
        if not all(chassis.switch.ours for chassis in self.chassis):
            guest.run("ethtool", "-K", "eth0", "tx", "off")

    def guest(self, chassis, switch, name, mac, *addresses, gateway=None, gateway6=None, security=True, known=True):
        """A guest on a chassis (by number) with a port of a logical switch."""
        guest, home = Guest(self.central, mac, *addresses), self.chassis[chassis - 1]
        home.net.run("ip", "link", "add", "name", name, "type", "veth", "peer", "name", "eth0", "netns", guest.name)
        home.net.run("ip", "link", "set", "dev", name, "up")
        self.finish_checksums(guest)
        guest.configure(gateway, gateway6)
        own = " ".join([mac, *(a.split("/")[0] for a in addresses)])
        words = ["lsp-add", switch, name, "--", "lsp-set-addresses", name, own if known else "unknown"]
        if security:
            words += ["--", "lsp-set-port-security", name, own]
        self.central.nbctl(*words)
        home.switch.vsctl("add-port", "br-int", name, "--", "set", "interface", name, "external_ids:iface-id=" + name)
        return guest

    def outside(self, *addresses, mac="02:00:00:00:ee:01"):
        """A host of the provider's network."""
        guest = Guest(self.central, mac, *addresses)
        self.plug(guest, "eth0", "external")
        self.finish_checksums(guest)
        guest.configure()
        return guest

    def member(self, chassis, network, number, name):
        """A guest of logical switch `sw<network>`: its addresses are made of both numbers, its gateway is the router."""
        return self.guest(chassis, "sw%d" % network, name, "02:00:00:00:%02x:%02x" % (network, number),
                          "10.0.%d.%d/24" % (network, number), "fd%02x::%x/64" % (network, number),
                          gateway="10.0.%d.254" % network, gateway6="fd%02x::fe" % network)

    def networks(self):
        """A router `r` between logical switches `sw0` and `sw1`."""
        self.router("r", *(("sw%d" % n, "02:00:00:00:%02x:fe" % n, "10.0.%d.254/24" % n, "fd%02x::fe/64" % n) for n in (0, 1)))

    def router(self, name, *switches):
        """A logical router with a port in each logical switch: (switch, mac, addresses...)."""
        nbctl = self.central.nbctl
        nbctl("--may-exist", "lr-add", name)
        for switch, mac, *addresses in switches:
            port = "%s-%s" % (name, switch)
            nbctl("--may-exist", "ls-add", switch, "--", "lrp-add", name, port, mac, *addresses,
                  "--", "lsp-add", switch, switch + "-up", "--", "lsp-set-type", switch + "-up", "router",
                  "--", "lsp-set-addresses", switch + "-up", "router",
                  "--", "lsp-set-options", switch + "-up", "router-port=" + port)

    def provider(self, switch="public", *words):
        """A logical switch with the provider's network."""
        self.central.nbctl("--may-exist", "ls-add", switch, "--", "lsp-add", switch, switch + "-net", *words,
                           "--", "lsp-set-type", switch + "-net", "localnet",
                           "--", "lsp-set-addresses", switch + "-net", "unknown",
                           "--", "lsp-set-options", switch + "-net", "network_name=provider")

    def check(self):
        return sum(chassis.check() for chassis in self.chassis)

    def within(self, condition, what, seconds=10):
        """Seconds until the condition is true."""
        began = time.time()
        lab.wait_until(condition, what, seconds)
        return time.time() - began
