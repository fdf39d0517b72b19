"""A separate Debian system that is booted with systemd, in a container without access to the host's network.

systemd-nspawn (package systemd-container) starts it, without the machine service; commands run in it by nsenter(1).
"""
import os
import signal
import subprocess

from lib import lab, own_network, rooted

# Packages with which a minimal root can be booted and examined.
PROGRAMS = ["systemd", "systemd-sysv", "dbus", "libpam-systemd", "iproute2", "iputils-ping", "procps", "adduser", "openvswitch-switch"]


def cgroups():
    """Where control groups of version 2 are mounted, alone or beside those of version 1."""
    with open("/proc/mounts") as f:
        return next(where for _, where, kind, *_ in map(str.split, f) if kind == "cgroup2")


class Host:
    """A host with a root of this suite of Debian and these packages. The files `debs` (.deb) are copied to its /root."""

    def __init__(self, suite, packages, debs):
        lab.need_root()
        self.nspawn, debootstrap = lab.need("systemd-nspawn", "long"), lab.need("debootstrap", "long")
        self.name, self.process = lab.unique("slm"), None
        self.path = os.path.join(lab.tmpfs("3g"), "root")
        include = "--include=" + ",".join(PROGRAMS + packages)
        lab.sh(*own_network.of_host(debootstrap, "--variant=minbase", include, suite, self.path), timeout=900)
        self.group = os.path.join(cgroups(), self.name)
        self.archives = os.path.join(self.path, "var/cache/apt/archives")
        for deb in debs:
            lab.sh("cp", deb, self.path + "/root")

    def boot(self):
        """Starts it; returns when systemd has started everything, or failed to."""
        # In a control group of its own: two containers in one would share the groups of services with the same name.
        enter = 'mkdir -p "$0"; echo $$ >"$0/cgroup.procs"; exec "$@"'
        argv = ["sh", "-c", enter, self.group, self.nspawn, "--quiet", "--register=no", "--keep-unit", "--private-network",
                "--machine=" + self.name, "--capability=all", "--console=pipe", "-D", self.path, "--boot"]
        self.process = lab.spawn(argv, env=dict(os.environ, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="1"), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lab.wait_until(lambda: self.leader() and self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"),
                       "systemd has started everything", 60)

    def leader(self):
        """Process ID of the container's first process. For a moment at the start, it is that of another process."""
        return lab.sh("ps", "-o", "pid=", "--ppid", str(self.process.pid), check=False).strip()

    def end(self):
        leader = int(self.leader())
        os.kill(leader, signal.SIGRTMIN + 3)
        try:
            self.process.wait(30 * lab.PATIENCE)
        except subprocess.TimeoutExpired:
            os.kill(leader, signal.SIGKILL)
            self.process.wait()
        # Empty groups stay when their processes have ended.
        lab.sh("find", self.group, "-depth", "-type", "d", "-delete", check=False)

    def reboot(self):
        self.end()
        self.boot()

    def run(self, *argv, timeout=60, **kw):
        where = ["nsenter", "-t", self.leader(), "-m", "-u", "-i", "-n", "-p", "-C", "--"]
        return lab.sh(*where, *argv, env=dict(rooted.ENV, TERM="dumb"), timeout=timeout, **kw)

    def script(self, text):
        """Runs a shell script, which fails if one of its commands fails."""
        return self.run("sh", "-ec", text, timeout=300)

    def apt(self, *packages):
        self.script("cd /root; apt-get -y -q --no-install-recommends --allow-downgrades install " + " ".join(packages))

    def write(self, name, text):
        with open(self.path + name, "w") as f:
            f.write(text)
        os.chmod(self.path + name, 0o600)

    def vsctl(self, *args):
        return self.run("ovs-vsctl", "--timeout=20", *args)

    def unit(self, name):
        """State and main process of a unit, by any of its names."""
        shown = self.run("systemctl", "show", "-p", "ActiveState", "-p", "MainPID", "--value", name).split()
        return sorted(shown)

    def failed(self):
        return self.run("systemctl", "--failed", "--no-legend", "--plain").split()[::5]
