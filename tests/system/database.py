"""The database server alone (`ovsdb-server`), and inside the daemon: with stock clients, stock switch, stock files."""
import os
import re
import resource
import socket
import subprocess
import time

from lib import cluster, kills, lab, ovn, ovsdb

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


class Database:
    """`ovsdb-server`, ours or the stock one, with a file in a run directory that it does not remove."""

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


def test_stock_switch():
    """The stock ovs-vswitchd runs on our database server, even while the server compacts its file."""
    database = Database()
    create(database)
    database.start()
    switch = lab.need("ovs-vswitchd")
    daemon = lab.spawn([switch, "--enable-dummy=override", "--disable-system", "--pidfile=%s/v.pid" % database.dir,
                        "--unixctl=%s/v.ctl" % database.dir, "-vconsole:off", "unix:" + database.sock],
                       env=database.env, stderr=subprocess.DEVNULL)
    database.vsctl("add-br", "br0")
    database.appctl("ovsdb-server/compact")
    # Without --no-wait the tool returns when the switch has confirmed the change in the database.
    database.vsctl("add-port", "br0", "p1", "--", "set", "Interface", "p1", "type=dummy")
    assert database.vsctl("get", "Interface", "p1", "ofport").strip() == "1"
    daemon.terminate()
    daemon.wait(10)
    database.stop()


def test_ovn():
    """OVN's northd, nbctl, sbctl and controller and the stock switch use our server: a logical switch forwards, an ACL applies."""
    host = ovn.Host().start()
    lab.need("ethtool")
    a, b = (lab.Namespace("10.77.0.%d/24" % n, mac="02:00:00:00:0a:0%d" % n) for n in (1, 2))
    host.nbctl("ls-add", "sw0")
    host.attach(a, "lpa")
    host.attach(b, "lpb")
    host.nbctl("--wait=hv", "sync")
    for port in ("lpa", "lpb"):
        lab.wait_until(lambda: "up" in host.nbctl("lsp-get-up", port), port + " is up", 20)

    def pings():
        return subprocess.run(["ip", "netns", "exec", a.name, "ping", "-q", "-c", "2", "-i", "0.2", "-W", "1", "10.77.0.2"],
                              capture_output=True, timeout=20).returncode == 0

    assert pings()
    host.nbctl("--wait=hv", "acl-add", "sw0", "to-lport", "1000", 'outport=="lpb" && ip4', "drop")
    assert not pings()
    host.server.ask("ovsdb-server/compact")
    host.nbctl("--wait=hv", "acl-del", "sw0")
    assert pings()


def test_cluster():
    """The database is a cluster of three: the switch keeps forwarding when the leader dies, and follows the next one."""
    lab.need_root()
    members = cluster.Cluster()
    switch = lab.Switch(args=[members.address()])

    def vsctl(*args):
        # While one of the three is dead, the tool needs more than one attempt.
        return lab.sh("ovs-vsctl", "--timeout=30", "--retry", "--db=" + members.address(), *args, env=switch.env)

    vsctl("--no-wait", "init")
    switch.start_daemon()
    a, b = lab.Namespace("10.78.0.1/24"), lab.Namespace("10.78.0.2/24")
    vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
    vsctl("add-port", "br0", a.port, "--", "add-port", "br0", b.port)
    a.run("ping", "-c", "2", "-i", "0.2", "10.78.0.2")
    pings = a.spawn("ping", "-q", "-c", "40", "-i", "0.1", "10.78.0.2", stdout=subprocess.PIPE, text=True)
    for turn in range(3 if os.environ.get("TEST_LONG") else 1):
        leader = members.leader()
        members.kill(leader)
        # Without --no-wait the tool returns when the switch has confirmed the change in the database.
        vsctl("add-port", "br0", "d%d" % turn, "--", "set", "Interface", "d%d" % turn, "type=internal")
        assert int(vsctl("get", "Interface", "d%d" % turn, "ofport")) > 0
        members.servers[leader] = members.start(leader)
    out, _ = pings.communicate(timeout=30)
    assert " 0% packet loss" in out, out
    # A standalone server refuses the database file of a cluster.
    members.kill(0)
    alone = subprocess.run([os.path.join(lab.COMPAT, "ovsdb-server"), members.file(0), "--unixctl=none"],
                           capture_output=True, text=True, timeout=20)
    assert alone.returncode and "clustered database" in alone.stderr, alone.stderr


def test_files_are_interchangeable():
    """The stock server and tool read what our server writes, and vice versa, compacted or not."""
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


def test_kills():
    """Killed at any point of a mixed workload, the server has all confirmed transactions and no partial ones, also for stock tools."""
    lab.need("ovsdb-tool")
    times = 1000 if os.environ.get("TEST_LONG") else 15
    seed = int(os.environ.get("TEST_SEED", "1"))
    print(kills.Kills(seed).run(times), flush=True)


def test_managers():
    """`set-manager` opens a port of the daemon's own database, `del-manager` closes it."""
    switch = lab.Switch(database="embedded").start()
    port = lab.free_port()
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
    """A `pssl:` remote with the key and certificates of table SSL; a client without a valid certificate is refused."""
    database = Database()
    create(database)
    pki = lab.Pki(database.dir)
    column = "db:Open_vSwitch,SSL,"
    database.start("--private-key=%sprivate_key" % column, "--certificate=%scertificate" % column,
                   "--ca-cert=%sca_cert" % column, "--remote=db:Open_vSwitch,Open_vSwitch,manager_options")
    port = lab.free_port()
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


def small_server():
    """A server of a database with one empty table."""
    directory = lab.scratch()
    with open(directory + "/schema", "w") as f:
        f.write('{"name":"D","version":"1.0.0","tables":{"T":{"isRoot":true,"columns":{"name":{"type":"string"},'
                '"n":{"type":"integer"}}}}}')
    lab.sh("ovsdb-tool", "create", directory + "/d.db", directory + "/schema")
    return ovsdb.Server(directory, [directory + "/d.db"]).start()


def memory_mb(server, what="VmRSS"):
    with open("/proc/%d/status" % server.process.pid) as f:
        return int(re.search(what + r":\s+(\d+)", f.read()).group(1)) / 1024


def is_cut_off(sock):
    try:
        return not sock.recv(1 << 16)
    except ConnectionError:
        return True


def test_hostile_clients():
    """Endless messages, endless nesting, noise and many clients cost the senders their connection, and others nothing."""
    lab.need("ovsdb-tool")
    server = small_server()
    good = server.client()
    attacks = [b'{"method":"echo","id":1,"params":["' + b"x" * (70 << 20), b"[" * 5000, b"\xff\x00" * 1000, b"}",
               b'{"method":"transact","id":1,"params":' + b"[" * 999 + b"]" * 999 + b"}", b'{"id":[],"result":1}',
               b'{"method":"echo","id":1,"params":' + b"[" * 1000]
    for attack in attacks:
        bad = server.client(timeout=120)
        try:
            bad.socket.sendall(attack)
        except ConnectionError:
            pass
        if attack != attacks[4]:
            assert is_cut_off(bad.socket), attack[:40]
        bad.close()
        assert good.call("list_dbs")
    # 1,000 levels with the message itself, as many as Open vSwitch takes.
    deep = b"[" * 999 + b"]" * 999
    with server.client() as client:
        client.socket.sendall(b'{"method":"echo","id":1,"params":' + deep + b"}")
        answer = b""
        while deep not in answer:
            piece = client.socket.recv(65536)
            assert piece, answer
            answer += piece
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = []
    try:
        for _ in range(min(10000, hard - 100)):
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            crowd.append(sock)
            # Some are accepted; the system queues or refuses the others.
            sock.connect_ex(server.sock)
        assert good.call("echo", 1) == [1]
    finally:
        for sock in crowd:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with server.client() as late:
        assert late.call("list_dbs")
    peak = memory_mb(server, "VmHWM")
    assert peak < 400, "the server used %d MB" % peak


def test_slow_client():
    """A client that does not read gets all changes merged when it reads again, and costs no more memory than the rows."""
    lab.need("ovsdb-tool")
    server = small_server()
    slow, writer = server.client(), server.client()
    slow.call("monitor", "D", None, {"T": {}})
    name = "x" * 10000
    writer.transact("D", *[{"op": "insert", "table": "T", "row": {"name": name + str(n)}} for n in range(20)])
    before = memory_mb(server)
    for turn in range(1, 2001):
        writer.transact("D", {"op": "update", "table": "T", "where": [], "row": {"n": turn}})
    grown = memory_mb(server) - before
    assert grown < 50, "%d MB for one client that does not read" % grown
    updates, last = 0, 0
    while last < 2000:
        message = slow.receive()
        updates += 1
        for row in message["params"][1]["T"].values():
            last = max(last, row["new"]["n"])
    assert updates < 1000, updates


def test_compaction_keeps_nobody_waiting():
    """While a large file is rewritten, clients get replies."""
    lab.need("ovsdb-tool")
    rows = 200000 if os.environ.get("TEST_LONG") else 20000
    server = small_server()
    with server.client(timeout=120) as client:
        for _ in range(0, rows, 5000):
            client.transact("D", *[{"op": "insert", "table": "T", "row": {"name": "x" * 100}} for _ in range(5000)])
        asked = subprocess.Popen(["ovs-appctl", "-T", "60", "-t", server.control, "ovsdb-server/compact"])
        longest, turns = 0, 0
        while asked.poll() is None:
            started = time.time()
            client.transact("D", {"op": "insert", "table": "T", "row": {"name": "y"}})
            longest, turns = max(longest, time.time() - started), turns + 1
        assert asked.returncode == 0
    print("    %d rows: %d transactions during the compaction, the slowest took %.0f ms" % (rows, turns, longest * 1000))
    assert turns > 3, "nobody was answered"
    server.stop()
