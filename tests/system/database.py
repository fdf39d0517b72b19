"""The database server alone (`ovsdb-server`), and the one in the daemon: stock clients, stock switch, stock files."""
import os
import socket
import subprocess

from lib import lab


class Database:
    """`ovsdb-server`, ours or the stock one, on the file of a run directory that outlives it."""

    def __init__(self):
        switch = lab.Switch()
        self.dir, self.env = switch.dir, switch.env
        self.file, self.sock, self.control = ["%s/%s" % (self.dir, n) for n in ("conf.db", "db.sock", "db.ctl")]
        self.process = None

    def start(self, *args, ours=True):
        binary = os.path.join(lab.COMPAT, "ovsdb-server") if ours else lab.need("ovsdb-server")
        self.process = lab.spawn([binary, self.file, "--remote=punix:" + self.sock, "--unixctl=" + self.control,
                                  "-vconsole:off", "--log-file=%s/ovsdb-server.log" % self.dir, *args], env=self.env)
        lab.wait_until(lambda: lab.listens(self.sock), "the database server")
        return self

    def stop(self):
        self.appctl("exit")
        assert self.process.wait(10) == 0

    def vsctl(self, *args, db=None):
        return lab.sh("ovs-vsctl", "--timeout=20", "--db=" + (db or "unix:" + self.sock), *args, env=self.env)

    def appctl(self, *args):
        return lab.sh("ovs-appctl", "-T", "20", "-t", self.control, *args, env=self.env)

    def bridges(self, **kw):
        return self.vsctl("--no-wait", "list-br", **kw).split()


def create(database):
    for program in ("ovsdb-tool", "ovs-vsctl", "ovs-appctl"):
        lab.need(program)
    lab.sh("ovsdb-tool", "create", database.file, lab.STOCK_SCHEMA)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_stock_switch():
    """The stock ovs-vswitchd runs on our database server, also while that compacts its file."""
    database = Database()
    create(database)
    database.start()
    switch = lab.need("ovs-vswitchd")
    daemon = lab.spawn([switch, "--enable-dummy=override", "--disable-system", "--pidfile=%s/v.pid" % database.dir,
                        "--unixctl=%s/v.ctl" % database.dir, "-vconsole:off", "unix:" + database.sock],
                       env=database.env, stderr=subprocess.DEVNULL)
    database.vsctl("add-br", "br0")
    database.appctl("ovsdb-server/compact")
    # Without --no-wait the tool returns when the switch has answered in the database.
    database.vsctl("add-port", "br0", "p1", "--", "set", "Interface", "p1", "type=dummy")
    assert database.vsctl("get", "Interface", "p1", "ofport").strip() == "1"
    daemon.terminate()
    daemon.wait(10)
    database.stop()


def test_files_are_interchangeable():
    """What our server writes the stock server and tool read, and the other way round, compacted or not."""
    database = Database()
    create(database)
    for n, ours in enumerate((True, False, True, False)):
        database.start(ours=ours)
        assert len(database.bridges()) == 2 * n
        database.vsctl("--no-wait", "add-br", "a%d" % n)
        database.appctl("ovsdb-server/compact")
        database.vsctl("--no-wait", "add-br", "b%d" % n)
        database.stop()
        query = '["Open_vSwitch",{"op":"select","table":"Bridge","where":[],"columns":["name"]}]'
        assert lab.sh("ovsdb-tool", "query", database.file, query).count('"name"') == 2 * n + 2


def test_managers():
    """`set-manager` opens a port of the daemon's own database, `del-manager` closes it."""
    switch = lab.Switch(database="embedded").start()
    port = free_port()
    target = "tcp:127.0.0.1:%d" % port
    switch.vsctl("set-manager", "ptcp:%d:127.0.0.1" % port)

    def accepts():
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    lab.wait_until(accepts, "the manager's port is open")
    lab.sh("ovs-vsctl", "--timeout=20", "--db=" + target, "add-br", "br0")
    switch.vsctl("del-manager")
    lab.wait_until(lambda: not accepts(), "the manager's port is closed")
    assert switch.vsctl("list-br").split() == ["br0"]


def test_tls_from_the_database():
    """A `pssl:` remote with the key and certificates that table SSL names; who is not vouched for stays outside."""
    database = Database()
    create(database)
    pki = lab.Pki(database.dir)
    column = "db:Open_vSwitch,SSL,"
    database.start("--private-key=%sprivate_key" % column, "--certificate=%scertificate" % column,
                   "--ca-cert=%sca_cert" % column, "--remote=db:Open_vSwitch,Open_vSwitch,manager_options")
    port = free_port()
    database.vsctl("--no-wait", "set-ssl", *pki.files("server"))
    database.vsctl("--no-wait", "set-manager", "pssl:%d:127.0.0.1" % port)
    remote = "ssl:127.0.0.1:%d" % port
    lab.sh("ovs-vsctl", "--timeout=20", "--no-wait", "--db=" + remote, *pki.options("client"), "add-br", "br0")
    assert database.bridges() == ["br0"]
    stranger = lab.Pki(database.dir, "other-ca")
    refused = subprocess.run(["ovs-vsctl", "--timeout=3", "--no-wait", "--db=" + remote, *stranger.options("stranger"),
                              "list-br"], capture_output=True, timeout=20)
    assert refused.returncode != 0
    database.stop()
