"""OVN on one host: its three databases, its daemons, a logical switch with two ports in namespaces."""
import os

from lib import lab, ovsdb

PROGRAMS = ("ovn-northd", "ovn-nbctl", "ovn-sbctl", "ovn-controller", "ovsdb-tool", "ovs-vsctl", "ovs-vswitchd", "ping")
SCHEMAS = {"conf": lab.STOCK_SCHEMA, "nb": "/usr/share/ovn/ovn-nb.ovsschema", "sb": "/usr/share/ovn/ovn-sb.ovsschema"}


class Host:
    """One chassis. A single process of our server serves the three databases."""

    def __init__(self, switch=None):
        lab.need_root()
        for program in PROGRAMS:
            lab.need(program)
        for schema in SCHEMAS.values():
            if not os.path.exists(schema):
                raise lab.Skip("needs " + schema)
        self.dir = lab.scratch()
        self.env = dict(os.environ, **{"%s_%s" % (prefix, kind): self.dir for prefix in ("OVS", "OVN") for kind in
                                       ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")})
        files = []
        for name, schema in SCHEMAS.items():
            files.append("%s/%s.db" % (self.dir, name))
            lab.sh("ovsdb-tool", "create", files[-1], schema)
        self.server = ovsdb.Server(self.dir, files).start()
        self.address = "unix:" + self.server.sock
        self.switch = switch or lab.need("ovs-vswitchd")
        # The stock switch makes a device `ovs-netdev`, so it needs a network namespace of its own.
        self.home = lab.Namespace()

    def start(self):
        self.vsctl("--no-wait", "init")
        self.nbctl("init")
        self.sbctl("init")
        self.daemon("vswitchd", "ip", "netns", "exec", self.home.name, self.switch, "--disable-system", "--pidfile=%s/ovs-vswitchd.pid" % self.dir,
                    self.address)
        self.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id=chassis", "external_ids:ovn-remote=" + self.address,
                   "external_ids:ovn-encap-type=geneve", "external_ids:ovn-encap-ip=127.0.0.1",
                   "external_ids:ovn-bridge-datapath-type=netdev")
        self.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=secure")
        self.daemon("northd", "ovn-northd", "--ovnnb-db=" + self.address, "--ovnsb-db=" + self.address,
                    "--pidfile=%s/ovn-northd.pid" % self.dir)
        self.daemon("controller", "ovn-controller", "--pidfile=%s/ovn-controller.pid" % self.dir, self.address)
        lab.wait_until(lambda: "chassis" in self.sbctl("--bare", "--columns=name", "list", "chassis"),
                       "ovn-controller registers", 20)
        return self

    def daemon(self, name, *argv):
        lab.spawn([*argv, "-vconsole:off", "--log-file=%s/%s.log" % (self.dir, name)], env=self.env)

    def vsctl(self, *args):
        return lab.sh("ovs-vsctl", "--timeout=20", "--db=" + self.address, *args, env=self.env)

    def nbctl(self, *args):
        return lab.sh("ovn-nbctl", "--timeout=20", "--db=" + self.address, *args, env=self.env)

    def sbctl(self, *args):
        return lab.sh("ovn-sbctl", "--timeout=20", "--db=" + self.address, *args, env=self.env)

    def attach(self, namespace, port):
        """Makes a namespace's device a port of the logical switch."""
        # The stock switch does not complete checksums that the sender left to the device.
        namespace.run("ethtool", "-K", "eth0", "tx", "off")
        lab.sh("ip", "link", "set", namespace.port, "netns", self.home.name)
        self.home.run("ip", "link", "set", namespace.port, "up")
        self.nbctl("lsp-add", "sw0", port, "--", "lsp-set-addresses", port,
                   "%s %s" % (namespace.mac, namespace.address.split("/")[0]))
        self.vsctl("add-port", "br-int", namespace.port, "--", "set", "Interface", namespace.port,
                   "external_ids:iface-id=" + port)
