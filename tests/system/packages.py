"""The Debian packages: installed beside and instead of the stock switch, upgraded under traffic, removed, purged, and
replaced by the stock switch again.

The tests run in a copy of this machine's root in memory. With TEST_LONG=1 they run in a new Debian from the archive, and lintian checks
the packages.
"""
import glob
import os
import re

from lib import lab, rooted

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SERVICE = "/etc/init.d/openvswitch-switch"
ADDRESS = "10.78.0.2"


class Host:
    """A root with the stock switch, bridge br0, and two namespaces on it."""

    def __init__(self):
        self.folder = lab.scratch()
        lab.need("dpkg-shlibdeps")
        self.debs = rooted.built(self.folder)
        if rooted.LONG:
            self.root = rooted.from_archive(["openvswitch-switch", "iproute2", "ifupdown", "lintian"])
        else:
            self.root = rooted.overlay()
        self.a, self.b = lab.Namespace("10.78.0.1/24"), lab.Namespace(ADDRESS + "/24")

    def install(self, *names):
        self.root.apt("install", *self.root.put([self.debs[name] for name in names]))

    def service(self, *args, **kw):
        return self.root.run(SERVICE, *args, **kw)

    def vsctl(self, *args):
        return self.root.run("ovs-vsctl", "--timeout=20", *args)

    def version(self):
        """The version that the daemon on the control socket reports."""
        return self.root.run("ovs-appctl", "-t", "ovs-vswitchd", "version")

    def reaches(self):
        self.a.run("ping", "-c", "1", "-W", "2", ADDRESS, check=False)
        self.a.run("ping", "-c", "3", "-i", "0.2", "-W", "2", ADDRESS)

    def pid(self):
        return int(self.root.text("run/openvswitch/ovs-vswitchd.pid"))

    def set_up(self):
        self.service("start")
        # Without the kernel's module only the userspace datapath is there, in both switches.
        self.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        for namespace in (self.a, self.b):
            self.vsctl("add-port", "br0", namespace.port)
        self.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "priority=1,actions=NORMAL")

    def flows(self):
        text = self.root.run("ovs-ofctl", "--no-stats", "--no-names", "-O", "OpenFlow13", "dump-flows", "br0")
        groups = self.root.run("ovs-ofctl", "-O", "OpenFlow13", "dump-groups", "br0")
        meters = self.root.run("ovs-ofctl", "-O", "OpenFlow13", "dump-meters", "br0")
        return [sorted(line for line in reply.splitlines() if " reply (" not in line) for reply in (text, groups, meters)]


def beside(host):
    """Installs the switch beside the stock one, and has the stock scripts start it."""
    before = host.pid()
    host.install("sluice-switch")
    assert host.pid() == before and "Sluice" not in host.version(), "the stock switch stays in charge"
    host.reaches()
    # As the guide says before the changeover. With --db, the doctor does not report the running stock switch
    # as a problem.
    host.root.run("sluice", "doctor", "--db=/etc/openvswitch/conf.db")
    assert "10" in host.root.run("update-alternatives", "--query", "ovs-vswitchd")
    host.root.run("update-alternatives", "--set", "ovs-vswitchd", "/usr/sbin/sluiced")
    host.service("restart", "--save-flows=yes")
    assert os.path.realpath("/proc/%d/exe" % host.pid()).endswith("/usr/sbin/sluiced")
    host.reaches()
    host.root.run("update-alternatives", "--auto", "ovs-vswitchd")
    host.service("restart", "--save-flows=yes")


def instead(host):
    """Takes the place of the stock switch, with its database and its options."""
    identity = host.vsctl("get", "open_vswitch", ".", "external_ids:system-id")
    with open(host.root.path + "/etc/default/openvswitch-switch", "a") as f:
        f.write('OVS_CTL_OPTS="--system-type=probe"\n')
    host.install("sluice-switch", "sluice-ovs-compat")
    assert host.root.status("openvswitch-switch") == "config-files"
    assert "Sluice" in host.root.run("sluice", "appctl", "-t", "sluiced", "version")
    assert host.vsctl("get", "open_vswitch", ".", "external_ids:system-id") == identity
    assert "probe" in host.vsctl("get", "open_vswitch", ".", "system_type")
    host.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "priority=1,actions=NORMAL")
    host.reaches()
    pid = host.pid()
    shown = host.service("status")
    assert shown == "ovsdb-server is running with pid %d\novs-vswitchd is running with pid %d\n" % (pid, pid), shown
    host.service("force-reload")
    assert host.pid() == pid, "a reload restarts nothing"


def interfaces(host):
    """ifupdown's hook works with the options of Debian's package."""
    def hook(mode, iface, **options):
        env = {"MODE": mode, "IFACE": iface, **{"IF_OVS_" + k.upper(): v for k, v in options.items()}}
        directory = "if-pre-up.d" if mode == "start" else "if-post-down.d"
        host.root.run("/etc/network/%s/openvswitch" % directory, env=env)
    bridge = lab.unique("slb")
    hook("start", bridge, type="OVSBridge", options="-- set bridge %s datapath_type=netdev" % bridge)
    port = lab.unique("sli")
    hook("start", port, type="OVSIntPort", bridge=bridge, options="tag=7", extra="set interface ${IFACE} external-ids:x=$(echo y)")
    assert host.vsctl("get", "port", port, "tag").strip() == "7"
    assert host.vsctl("get", "interface", port, "external_ids:x").strip() == "y"
    assert "UP" in lab.sh("ip", "-br", "link", "show", port)
    hook("start", "patch-x", type="OVSPatchPort", bridge=bridge, patch_peer="patch-y")
    assert host.vsctl("get", "interface", "patch-x", "options:peer").strip() == "patch-y"
    hook("start", "tunnel-x", type="OVSTunnel", bridge=bridge, tunnel_type="vxlan", tunnel_options="options:remote_ip=10.9.9.9")
    hook("stop", port, type="OVSIntPort", bridge=bridge)
    assert host.vsctl("list-ports", bridge).split() == ["patch-x", "tunnel-x"]
    hook("stop", bridge, type="OVSBridge")
    assert host.vsctl("list-br").split() == ["br0"]


def upgraded(host):
    """Installs a rebuilt version under traffic; flows, groups and meters stay. Prints the number of lost pings."""
    host.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-meter", "br0", "meter=3,kbps,band=type=drop,rate=100000")
    host.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-group", "br0", "group_id=4,type=all,bucket=actions=NORMAL")
    host.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "table=0,priority=9,icmp,actions=meter:3,goto_table:1")
    host.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "table=1,priority=9,icmp,actions=group:4")
    host.reaches()
    flows, before = host.flows(), host.pid()
    new = [rooted.rebuilt(host.debs[name], "99-1", host.folder) for name in ("sluice-switch", "sluice-ovs-compat")]
    end = rooted.pinging(host.a, ADDRESS)
    host.root.apt("install", *host.root.put(new))
    host.reaches()
    sent, lost = end()
    assert host.root.run("dpkg-query", "-W", "-f=${Version}", "sluice-switch") == "99-1"
    assert host.pid() != before, "the new program runs"
    assert host.flows() == flows, (flows, host.flows())
    wait = host.root.run("ovs-vsctl", "--if-exists", "get", "open_vswitch", ".", "other_config:flow-restore-wait")
    assert not wait.strip(), wait
    print("  upgrade: %d of %d pings lost at one per 10 ms" % (lost, sent), flush=True)
    # Two seconds: the new program is installed before the old one ends.
    assert lost < 200, "%d of %d pings lost" % (lost, sent)


def back(host):
    """Goes back to the stock switch, and removes every trace of ours."""
    if rooted.LONG:
        host.root.apt("update", online=True)
        host.root.apt("install", "openvswitch-switch", online=True)
    else:
        host.root.apt("install", *host.root.put([rooted.repacked("openvswitch-switch", host.folder)]))
    assert host.root.status("sluice-ovs-compat") in ("config-files", "not-installed"), host.root.status("sluice-ovs-compat")
    host.service("start")
    assert "Sluice" not in host.version() and "ovs-vswitchd" in host.version()
    host.root.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "priority=1,actions=NORMAL")
    host.reaches()
    host.root.apt("purge", "sluice-switch", "sluice-ovs-compat")
    left = host.root.run("find", "/usr", "/etc", "/lib/systemd", "/var/lib", "/var/log", "-xdev", "-name", "*sluice*",
                         "-not", "-path", "/usr/share/doc/*").split()
    left = [path for path in left if "/root/" not in path and "dpkg" not in path]
    assert not left, left
    host.reaches()
    host.service("restart")
    assert "br0" in host.vsctl("list-br"), "the database is still there"


def dead_links(folder):
    """Links of installed pages to files that are not installed."""
    pages = glob.glob(folder + "/**/*.md", recursive=True)
    assert len(pages) > 30, pages
    for page in pages:
        with open(page) as f:
            for target in re.findall(r"\]\(([^()\s:#]+)[)#]", f.read()):
                if not os.path.exists(os.path.join(os.path.dirname(page), target)):
                    yield os.path.relpath(page, folder), target


def test_life_of_the_packages():
    """The packages install beside and instead of the stock switch, upgrade under traffic with flows kept, and go again."""
    lab.need_root()
    host = Host()
    try:
        host.set_up()
        host.reaches()
        beside(host)
        assert not (dead := list(dead_links(host.root.path + "/usr/share/doc/sluice-switch"))), dead
        instead(host)
        interfaces(host)
        upgraded(host)
        back(host)
        if rooted.LONG:
            print(host.root.run("lintian", "--fail-on", "error", *host.root.put(host.debs.values())))
    finally:
        host.root.end_programs()


def unit_values(name):
    """The words after NAME= in the unit."""
    with open(os.path.join(lab.ROOT, "packaging/systemd/sluiced.service")) as f:
        return [word for line in f for key, _, value in [line.strip().partition("=")] if key == name for word in value.split()]


def test_the_unit():
    """The service's unit is without errors, and its exposure at most 4.0 of 10, as systemd sees it."""
    lab.need("systemd-analyze")
    root = rooted.overlay()
    root.install_tree()
    unit = "/lib/systemd/system/sluiced.service"
    found = root.run("systemd-analyze", "verify", "--man=no", unit, check=False, merged=True)
    assert "sluiced.service" not in found, found
    shown = root.run("systemd-analyze", "security", "--offline=true", "--threshold=40", unit)
    print("  " + shown.strip().splitlines()[-1], flush=True)


def test_the_services_user():
    """With the user and the capabilities of the unit, and no others, all kinds of ports work, and flows are kept."""
    lab.need_root()
    capabilities = [name.lower()[len("cap_"):] for name in unit_values("AmbientCapabilities")]
    assert len(capabilities) > 5 and set(unit_values("CapabilityBoundingSet")) == set(unit_values("AmbientCapabilities"))
    root = rooted.overlay()
    root.install_tree()
    root.run("adduser", "--system", "--group", "--quiet", "--no-create-home", "sluice")
    root.run("sh", "-c", "mkdir -p /run/openvswitch /var/log/openvswitch && chown sluice: /run/openvswitch")
    listed = "-all," + ",".join("+" + name for name in capabilities)
    user = ["setpriv", "--reuid=sluice", "--regid=sluice", "--clear-groups", "--no-new-privs", "--bounding-set=" + listed,
            "--inh-caps=" + listed, "--ambient-caps=" + listed]
    a, b = lab.Namespace("10.79.0.1/24"), lab.Namespace("10.79.0.2/24")

    def start():
        root.run("/usr/lib/sluice/prepare", "sluice:sluice")
        root.run(*user, "sluiced", "--pidfile", "--detach", "--log-file", "--no-chdir", "-vconsole:off")
        root.run(*user, "/usr/lib/sluice/flows", "restore")
    try:
        start()
        pid = root.text("run/openvswitch/sluiced.pid").strip()
        with open("/proc/%s/status" % pid) as f:
            assert "Uid:\t0\t" not in f.read()
        root.run("sluice", "vsctl", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        root.run("sluice", "vsctl", "add-port", "br0", a.port, "--", "set", "interface", a.port, "type=afxdp-nonpmd")
        root.run("sluice", "vsctl", "add-port", "br0", b.port)
        root.run("sluice", "vsctl", "set", "open_vswitch", ".", 'other_config:dpdk-extra="--no-pci --no-huge -m 128"',
                 "other_config:dpdk-init=true")
        root.run("sluice", "vsctl", "add-port", "br0", "n0", "--", "set", "interface", "n0", "type=dpdk",
                 "options:dpdk-devargs=net_null0")
        # A socket of a guest that belongs to another user.
        root.run("sluice", "vsctl", "add-port", "br0", "v0", "--", "set", "interface", "v0", "type=dpdkvhostuserclient",
                 "options:vhost-server-path=/run/v0.sock")
        errors = root.run("sluice", "vsctl", "--columns=name,error", "find", "interface", "error!=[]")
        assert not errors.strip(), errors + root.text("var/log/openvswitch/sluiced.log")
        root.run("sluice", "ofctl", "add-flow", "br0", "priority=3,actions=NORMAL")
        a.run("ping", "-c", "3", "-i", "0.2", "-W", "2", "10.79.0.2")
        root.run(*user, "/usr/lib/sluice/flows", "save")
        root.run(*user, "sluice", "appctl", "-t", "sluiced", "exit")
        lab.wait_until(lambda: not os.path.exists("/proc/" + pid), "the switch has ended")
        start()
        assert "priority=3" in root.run("sluice", "ofctl", "dump-flows", "br0")
        a.run("ping", "-c", "3", "-i", "0.2", "-W", "2", "10.79.0.2")
    finally:
        root.end_programs()
