"""Shared parts of the system tests: a switch (ours or the stock one) in its own run directory, namespaces, clean-up.

`clean_up`, which the runner calls after each test, ends every process and removes every namespace made here.
"""
import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from lib import own_network

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Our programs under the stock names: those of `make compat`, or another build of them, including `sluiced`.
COMPAT = os.environ.get("TEST_PROGRAMS") or os.path.join(ROOT, "target", "compat")
SLUICED = os.path.join(os.environ.get("TEST_PROGRAMS") or os.path.join(ROOT, "target", "release"), "sluiced")
# Factor of all time limits: for instrumented builds, which are slow, and for busy machines.
PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))
STOCK_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"

_processes, _directories, _namespaces, _mounts = [], [], [], []
_counter = 0


class Skip(Exception):
    """The test cannot run here; the text names what is missing."""


def one_try(test):
    """A test with a new random seed each time: it is not repeated after a failure."""
    test.one_try = True
    return test


def seed(limit):
    """The seed of a test: a new one below `limit`, or that of TEST_SEED, which repeats a run."""
    return int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(limit))


@contextlib.contextmanager
def locked(path):
    """A context that only one process at a time can enter with this path. The lock is the file path.lock."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def need_long_run():
    """Skips a long test unless TEST_LONG is set: a run in CI may take half an hour."""
    if not os.environ.get("TEST_LONG"):
        raise Skip("TEST_LONG=1 runs it")


def need_root():
    if os.geteuid():
        raise Skip("needs root")


def need(program, purpose="test"):
    """The path of a program. `purpose`: the argument with which scripts/setup installs it."""
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        raise Skip("needs %s (scripts/setup %s)" % (program, purpose))
    return path


def unique(prefix):
    """A name that no other test or run uses; at most 15 bytes, so that it is valid for a device."""
    global _counter
    _counter += 1
    return "%s%d-%d" % (prefix, os.getpid() % 10000, _counter)


def spawn(argv, **kw):
    """Starts a process that clean_up will end."""
    p = subprocess.Popen(argv, **kw)
    _processes.append(p)
    return p


def sh(*argv, timeout=60, check=True, env=None, input=None):
    """Runs a command; returns its standard output. Raises an exception with its standard error if it fails."""
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=timeout * PATIENCE, env=env,
                       input=input)
    if check and r.returncode:
        raise AssertionError("%s: exit %d\n%s%s" % (" ".join(map(str, argv)), r.returncode, r.stdout, r.stderr))
    return r.stdout


def free_ports(count):
    """Numbers of TCP ports that nothing uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def free_port():
    return free_ports(1)[0]


def wait_until(condition, what, seconds=10):
    """Polls until the condition is true; fails with `what` after this many seconds."""
    seconds *= PATIENCE
    deadline = time.time() + seconds
    while time.time() < deadline:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("not within %d s: %s" % (seconds, what))


def iperf3_server(network, *args):
    """Starts `iperf3 -s` in a network, and waits until it listens."""
    need("iperf3")
    server = network.spawn("iperf3", "-s", *args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: ":5201" in network.run("ss", "-ltn"), "iperf3 listens")
    return server


def listens(path):
    """Whether a server accepts connections on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) == 0


def clean_up():
    """Ends every process, and removes every namespace and directory of this test."""
    for p in reversed(_processes):
        if p.poll() is None:
            p.terminate()
            try:
                p.wait(5 * PATIENCE)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
    _processes.clear()
    own_network.delete_taps()
    for ns in _namespaces:
        subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL)
    _namespaces.clear()
    for folder in _mounts:
        subprocess.run(["umount", "-l", folder], stderr=subprocess.DEVNULL)
    _mounts.clear()
    for d in _directories:
        shutil.rmtree(d, ignore_errors=True)
    _directories.clear()


def scratch():
    """A directory that clean_up removes."""
    folder = tempfile.mkdtemp(prefix="sluice-test-")
    _directories.append(folder)
    return folder


def tmpfs(size):
    """A file system of this size, for tests of full disks."""
    folder = tempfile.mkdtemp(prefix="sluice-disk-")
    sh("mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", folder)
    _mounts.append(folder)
    _directories.append(folder)
    return folder


class Network:
    """A network namespace with only a loopback device."""

    def __init__(self):
        need_root()
        self.name = unique("sln")
        sh("ip", "netns", "add", self.name)
        _namespaces.append(self.name)
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv, **kw):
        return sh("ip", "netns", "exec", self.name, *argv, **kw)

    def spawn(self, *argv, **kw):
        return spawn(["ip", "netns", "exec", self.name, *argv], **kw)

    def received(self, device="eth0"):
        """Number of packets received by a device."""
        return int(self.run("cat", "/sys/class/net/%s/statistics/rx_packets" % device))


class Namespace(Network):
    """A namespace with a veth pair: `eth0` inside, `port` outside."""

    def __init__(self, address=None, mac=None):
        super().__init__()
        self.address, self.mac = address, mac
        self.port = unique("slp")
        self.make_devices()

    def make_devices(self):
        """Makes the pair, at the start and after it was deleted."""
        sh("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        if self.mac:
            self.run("ip", "link", "set", "eth0", "address", self.mac)
        if self.address:
            self.run("ip", "address", "add", self.address, "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        sh("ip", "link", "set", self.port, "up")


class Pki:
    """A certificate authority in a directory, and certificates that it signs; made by openssl."""

    def __init__(self, directory, name="ca"):
        need("openssl")
        self.dir, self.name = directory, name
        self.certificate, self.key = self.path("cert"), self.path("key")
        sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
           "-keyout", self.key, "-out", self.certificate, "-subj", "/CN=" + name)

    def path(self, what, name=None):
        return "%s/%s-%s.pem" % (self.dir, name or self.name, what)

    def files(self, name):
        """Private key, certificate and authority of an identity."""
        key, certificate = self.path("key", name), self.path("cert", name)
        request, extensions = self.path("request", name), self.path("extensions", name)
        if not os.path.exists(certificate):
            # Without an extension openssl makes a version 1 certificate, which is not accepted.
            with open(extensions, "w") as f:
                f.write("subjectKeyIdentifier=hash\n")
            sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
               "-keyout", key, "-out", request, "-subj", "/CN=" + name)
            sh("openssl", "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "2",
               "-CAcreateserial", "-extfile", extensions, "-out", certificate)
            # The chain up to the authority, for peers that learn the authority.
            with open(certificate, "a") as f, open(self.certificate) as ca:
                f.write(ca.read())
        return key, certificate, self.certificate

    def options(self, name):
        """The same as command line options."""
        key, certificate, authority = self.files(name)
        return ["-p", key, "-c", certificate, "-C", authority]


class Switch:
    """A private switch: `ours` (target/compat/ovs-vswitchd) or the stock one, on a database of its own.

    database: 'stock' (Debian's ovsdb-server) or 'embedded' (sluiced serves its own; ours only).
    """

    def __init__(self, ours=not os.environ.get("TEST_THE_STOCK_SWITCH"), database="stock", args=(), datapath_type="netdev"):
        # Use this switch instead of the stock switch on the path.
        self.program = None
        # The directory of the clients of compared calls; default: the path.
        self.tools = ""
        self.ours, self.database, self.args, self.datapath_type = ours, database, list(args), datapath_type
        self.dir = scratch()
        self.env = dict(os.environ, OVS_RUNDIR=self.dir, OVS_LOGDIR=self.dir, OVS_DBDIR=self.dir,
                        OVS_SYSCONFDIR=self.dir)
        self.name = "sluiced" if database == "embedded" else "ovs-vswitchd"
        self.other_config = {}
        # The network of the switch, if it is not that of the tests.
        self.network = None
        self.db = self.daemon = None

    def start(self):
        own_network.note_taps()
        if self.database == "stock":
            need("ovsdb-server")
            sh("ovsdb-tool", "create", self.dir + "/conf.db", STOCK_SCHEMA)
            self.start_database()
            self.vsctl("--no-wait", "init")
            if self.other_config:
                self.vsctl("--no-wait", "set", "open_vswitch", ".",
                           *["other_config:%s=\"%s\"" % pair for pair in self.other_config.items()])
        self.start_daemon()
        return self

    def spawn(self, argv, **kw):
        if self.network:
            return self.network.spawn(*argv, env=self.env, **kw)
        return spawn(argv, env=self.env, **kw)

    def start_database(self):
        self.db = self.spawn(["ovsdb-server", self.dir + "/conf.db", "--remote=punix:%s/db.sock" % self.dir,
                              "--unixctl=%s/ovsdb.ctl" % self.dir, "-vconsole:off"])
        wait_until(lambda: listens(self.dir + "/db.sock"), "the database server")

    def binary(self):
        if not self.ours:
            return self.program or need("ovs-vswitchd")
        return os.path.join(COMPAT, "ovs-vswitchd") if self.database == "stock" else SLUICED

    def start_daemon(self):
        self.daemon = self.spawn([self.binary(), *["--%s=%s/%s.%s" % (option, self.dir, self.name, end) for option, end in
                                                   (("pidfile", "pid"), ("log-file", "log"), ("unixctl", "ctl"))],
                                  "-vconsole:off", *self.args], stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists("%s/%s.pid" % (self.dir, self.name)) or self.daemon.poll() is not None,
                   "the daemon's pid file")
        if self.database == "embedded":
            # The socket of a killed daemon still exists, but nothing listens on it.
            wait_until(lambda: listens(self.dir + "/db.sock") or self.daemon.poll() is not None, "the database's socket")
        assert self.daemon.poll() is None, "the daemon ended at once:\n" + self.log()

    def kill_daemon(self, sig=signal.SIGKILL):
        self.daemon.send_signal(sig)
        self.daemon.wait(10 * PATIENCE)

    def log(self):
        try:
            with open("%s/%s.log" % (self.dir, self.name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def written_log(self):
        """The log with all lines logged before this call; the daemon's writer thread writes them in order."""
        name = "%s/%s.log" % (self.dir, self.name)
        os.rename(name, name + ".old")
        self.appctl("vlog/reopen")
        wait_until(lambda: "opened log file" in self.log(), "the log is written")
        with open(name + ".old", errors="replace") as f:
            return f.read()

    # Stock clients by default: the tests show that they work unmodified.
    def vsctl(self, *args, **kw):
        return sh("ovs-vsctl", "--timeout=%d" % (20 * PATIENCE), "--db=unix:%s/db.sock" % self.dir, *args, env=self.env, **kw)

    def ofctl(self, *args, **kw):
        # Both switches disconnect a client whose hello is more than a second late, which may happen to tools on a
        # busy machine.
        for left in reversed(range(int(3 * PATIENCE))):
            try:
                return sh("ovs-ofctl", *args, env=self.env, **kw)
            except AssertionError as e:
                if "(Broken pipe)" not in str(e) or not left:
                    raise

    def appctl(self, *args, **kw):
        return sh("ovs-appctl", "-T", "%d" % (20 * PATIENCE), "-t", "%s/%s.ctl" % (self.dir, self.name), *args, env=self.env, **kw)

    def verify_megaflows(self):
        """Checks that every megaflow does what the tables say and none was repaired by the sweep; returns their
        number."""
        text = self.appctl("revalidator/verify")
        found = re.findall(r": (\d+) megaflows correct, (\d+) wrong", text)
        assert found and all(wrong == "0" for _, wrong in found), text
        repaired = self.appctl("coverage/read-counter", "revalidate_repaired").strip()
        assert repaired == "0", "%s repaired:\n%s" % (repaired, "\n".join(l for l in self.log().splitlines() if "is repaired" in l))
        return sum(int(right) for right, _ in found)

    def client(self, program, *args, **kw):
        return sh(program, *args, env=self.env, **kw)

    def add_bridge(self, name, *ports):
        self.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=" + self.datapath_type)
        for port in ports:
            self.vsctl("add-port", name, port)

    def number_ports(self, *namespaces):
        """Gives the ports of the namespaces the OpenFlow numbers 1, 2 and so on."""
        for number, ns in enumerate(namespaces, 1):
            self.vsctl("set", "interface", ns.port, "ofport_request=%d" % number)

    def stop(self):
        for p in (self.daemon, self.db):
            if p and p.poll() is None:
                p.terminate()
                p.wait(10 * PATIENCE)
