"""The life cycle of the daemon: detaching, the monitor, start-up errors, a full disk."""
import os
import pwd
import re
import signal
import subprocess
import time

from lib import lab
from lib.detached import Detached

SAVE = "/usr/share/openvswitch/scripts/ovs-save"


def test_detach_and_terminate():
    """`--detach` returns when the switch is ready; SIGTERM removes its files; a second instance is refused."""
    s = Detached()
    assert s.launch() == (0, "")
    try:
        s.vsctl("show")
        with open("/proc/%d/comm" % s.pid()) as f:
            assert f.read().strip() == "sluiced"
        status, text = s.launch()
        assert status == 1 and "already running as pid %d" % s.pid() in text, text
        status, text = s.launch("--pidfile=%s/other.pid" % s.dir)
        assert status == 1 and "locked by another server" in text, text
    finally:
        s.end()
    left = sorted(os.listdir(s.dir))
    assert left == [".conf.db.~lock~", "conf.db"], left


def parent(pid):
    """The parent process."""
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"PPid:\s+(\d+)", f.read()).group(1))


def test_a_watched_daemon_is_started_again():
    """`--monitor`: after a crash a new daemon serves the stored database; after SIGTERM no daemon is started."""
    s = Detached()
    assert s.launch("--monitor") == (0, "")
    try:
        s.vsctl("--no-wait", "set", "open_vswitch", ".", "external_ids:kept=1")
        first = s.pid()
        os.kill(first, signal.SIGSEGV)
        lab.wait_until(lambda: s.pid() not in (None, first) and lab.listens(s.dir + "/db.sock"), "the next daemon")
        assert "kept" in s.vsctl("get", "open_vswitch", ".", "external_ids")
        monitor = parent(s.pid())
    finally:
        s.end()
    # Only the monitor starts daemons.
    lab.wait_until(lambda: not os.path.exists("/proc/%d" % monitor), "the monitor ends")
    assert not os.path.exists(s.pidfile), "the monitor started a daemon that was told to end"


def test_a_start_that_fails_says_why():
    """If the start fails, `--detach` prints the reason and exits with 1; no file remains or is overwritten."""
    s = Detached()
    nowhere = s.dir + "/nowhere"
    with open(s.dir + "/conf.db", "w") as f:
        f.write("not a database\n")
    for args in ((), ("--monitor",)):
        status, text = s.launch(*args)
        assert status == 1 and text.count("conf.db") == 1 and "not a database file" in text, text
    with open(s.dir + "/conf.db") as f:
        assert f.read() == "not a database\n"
    os.unlink(s.dir + "/conf.db")
    for variable, reason in (("OVS_RUNDIR", "No such file or directory"), ("OVS_DBDIR", "No such file or directory")):
        status, text = s.launch(env={variable: nowhere})
        assert status == 1 and nowhere in text and reason in text and "os error" not in text, text
    os.mkdir(s.dir + "/conf.db")
    status, text = s.launch()
    assert status == 1 and "Is a directory" in text, text
    assert not os.path.exists(s.pidfile)


def test_full_disk():
    """Full disk: transactions are refused with the system's error, everything else continues, and free space restores all."""
    lab.need_root()
    disk = lab.tmpfs("300k")
    s = Detached(dbdir=disk)
    assert s.launch() == (0, "")
    try:
        s.vsctl("add-br", "brfull", "--", "set", "bridge", "brfull", "datapath_type=netdev", "external_ids:kept=1")
        fill(disk)
        r = subprocess.run(["ovs-vsctl", "--timeout=10", "--db=unix:%s/db.sock" % s.dir, "--no-wait", "set",
                            "open_vswitch", ".", "external_ids:big=" + "x" * 9000],
                           env=s.env, capture_output=True, text=True)
        assert r.returncode == 1 and '"No space left on device"' in r.stderr, r.stderr
        assert "big" not in s.vsctl("get", "open_vswitch", ".", "external_ids")
        lab.sh("ovs-appctl", "-T", "5", "-t", "sluiced", "fdb/show", "brfull", env=s.env)
        os.unlink(disk + "/fill")
        s.vsctl("set", "open_vswitch", ".", "external_ids:big=" + "x" * 9000)
    finally:
        s.end()
    assert s.launch() == (0, "")
    try:
        assert "big" in s.vsctl("get", "open_vswitch", ".", "external_ids")
        assert "kept" in s.vsctl("get", "bridge", "brfull", "external_ids")
    finally:
        s.end()
    os.unlink(disk + "/conf.db")
    fill(disk)
    status, text = s.launch()
    assert status == 1 and "No space left on device" in text, text
    assert not os.path.exists(disk + "/conf.db")


def fill(disk):
    """Uses the last byte of this file system."""
    with open(disk + "/fill", "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError:
            pass


def test_a_daemon_of_another_user():
    """`--user`: the switch runs as that user with only the capabilities that its devices need, and forwards; a wrong user is refused."""
    lab.need_root()
    s = Detached()
    os.chmod(s.dir, 0o777)
    status, text = s.launch("--user=nobody:nosuchgroup")
    assert status == 1 and "group nosuchgroup not found" in text, text
    assert s.launch("--user=nobody", "--log-file=%s/sluiced.log" % s.dir) == (0, "")
    try:
        with open("/proc/%d/status" % s.pid()) as f:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        nobody = pwd.getpwnam("nobody")
        assert set(fields["Uid"].split()) == {str(nobody.pw_uid)} and set(fields["Gid"].split()) == {str(nobody.pw_gid)}
        # CAP_NET_BIND_SERVICE, CAP_NET_BROADCAST, CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK
        rights = sum(1 << n for n in (10, 11, 12, 13, 14))
        assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == rights, fields["CapEff"]
        assert int(fields["CapBnd"], 16) == 0 and fields["Groups"].strip() == "", fields
        assert os.stat(s.dir + "/sluiced.log").st_uid == nobody.pw_uid
        a, b = lab.Namespace("10.98.0.1/24"), lab.Namespace("10.98.0.2/24")
        s.add_bridge(lab.unique("slb"), a.port, b.port)
        a.run("ping", "-c", "3", "-i", "0.2", "-W", "2", "10.98.0.2")
    finally:
        s.end()


def test_a_killed_daemon_is_replaced_at_once():
    """kill -9 and immediate restart under traffic: each start succeeds, uses its own database, and forwards without a back-off."""
    lab.need_root()
    s = lab.Switch(database="embedded").start()
    a, b = lab.Namespace("10.97.0.1/24"), lab.Namespace("10.97.0.2/24")
    s.add_bridge(lab.unique("slb"), a.port, b.port)
    a.run("ping", "-c", "2", "-i", "0.2", "-W", "2", "10.97.0.2")
    out = open(s.dir + "/ping", "w+")
    ping = a.spawn("ping", "-D", "-i", "0.002", "10.97.0.2", stdout=out)
    replies = lambda: [float(t) for t in re.findall(r"^\[([0-9.]+)\] \d+ bytes from", open(out.name).read(), re.M)]
    took, waited = [], 0
    for _ in range(5):
        before = len(s.log())
        # The test does not wait for the end of the old process, which still has its locks, its sockets and its
        # devices.
        s.daemon.kill()
        started = time.time()
        old, s.daemon = s.daemon, None
        s.start_daemon()
        old.wait(10 * lab.PATIENCE)
        lab.wait_until(lambda: replies() and replies()[-1] > started + 1, "it forwards again")
        times = [t for t in replies() if t > started - 0.5]
        gap = max(zip(times, times[1:]), key=lambda pair: pair[1] - pair[0])
        took.append(gap[1] - started)
        log = s.log()[before:]
        waited += "which was killed, to end" in log
        assert "connection closed by peer" not in log and "listen failed" not in log and "busy" not in log, log
    ping.kill()
    assert waited, "no start was early enough to meet the one before"
    # The back-off alone takes a second.
    assert min(took) < 0.9, took
    print("    forwards %s ms after exec" % ", ".join("%.0f" % (t * 1000) for t in took))


def test_a_socket_of_another_server_is_left_alone():
    """If another server listens on `db.sock`, the daemon with its own database does not start, nor use that server."""
    s = Detached()
    other = lab.spawn(["python3", "-c", "import signal, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\n"
                       "s.listen()\nsignal.pause()", s.dir + "/db.sock"])
    lab.wait_until(lambda: lab.listens(s.dir + "/db.sock"), "the other server")
    status, text = s.launch()
    assert status == 1 and "cannot listen on %s/db.sock: Address already in use" % s.dir in text, text
    assert other.poll() is None and lab.listens(s.dir + "/db.sock")


def test_stock_scripts_find_the_daemon():
    """`ovs-appctl` without `-t` and `ovs-save` find the daemon as ovs-vswitchd, also after kill -9; the names are removed at its end."""
    lab.need("ovs-appctl")
    s = Detached()
    for _ in range(2):
        assert s.launch() == (0, "")
        first = s.pid()
        assert "sluiced" in lab.sh("ovs-appctl", "-T", "10", "version", env=s.env)
        os.kill(first, signal.SIGKILL)
    assert s.launch() == (0, "")
    try:
        pid = s.pid()
        assert "sluiced" in lab.sh("ovs-appctl", "-T", "10", "version", env=s.env)
        controls = sorted(name for name in os.listdir(s.dir) if name.endswith(".ctl"))
        assert controls == ["ovs-vswitchd.%d.ctl" % pid, "sluiced.%d.ctl" % pid], controls
        s.vsctl("add-br", "brsave", "--", "set", "bridge", "brsave", "datapath_type=netdev")
        s.ofctl("add-flow", "brsave", "priority=7,actions=drop")
        if os.path.exists(SAVE):
            script = lab.sh("sh", SAVE, "save-flows", "brsave", env=dict(s.env, TMPDIR=s.dir))
            saved = re.search(r'"(/\S*flows.dump)"', script).group(1)
            assert "priority=7" in open(saved).read(), script
        # The stock switch detects that a switch of its name runs.
        peer = subprocess.run([lab.need("ovs-vswitchd"), "--pidfile", "-vconsole:off"], env=s.env, capture_output=True,
                              text=True, timeout=20)
        assert peer.returncode == 1 and "already running as pid %d" % pid in peer.stderr, peer.stderr
        assert "sluiced" in lab.sh("ovs-appctl", "-T", "10", "version", env=s.env)
    finally:
        s.end()
    lab.wait_until(lambda: not [n for n in os.listdir(s.dir) if "vswitchd" in n], "its names are gone")


def test_the_name_of_a_stock_switch_is_left_to_it():
    """If an ovs-vswitchd runs in the same directory, `ovs-appctl` still reaches that one, and the log says so."""
    stock = lab.Switch(ours=False).start()
    stock.kill_daemon()
    stock.daemon = stock.spawn([stock.binary(), "--pidfile", "-vconsole:off"], stderr=subprocess.DEVNULL)
    lab.wait_until(lambda: lab.sh("ovs-appctl", "version", env=stock.env, check=False), "the stock switch answers")
    s = Detached(dbdir=lab.scratch())
    s.env["OVS_RUNDIR"] = stock.dir
    lab.sh("ovs-appctl", "-T", "10", "version", env=stock.env)
    ours = s.spawn([s.binary(), "--pidfile", "-vconsole:off", "--log-file=%s/sluiced.log" % s.dir,
                    "--db=unix:%s/other.sock" % stock.dir], stderr=subprocess.DEVNULL)
    lab.wait_until(lambda: "belongs to the running process %d" % stock.daemon.pid in s.log(), "what the log says")
    assert "(Open vSwitch)" in lab.sh("ovs-appctl", "-T", "10", "version", env=stock.env)
    assert "sluiced" not in lab.sh("ovs-appctl", "-T", "10", "version", env=stock.env)
    ours.terminate()
    ours.wait(10 * lab.PATIENCE)
    assert "sluiced" not in lab.sh("ovs-appctl", "-T", "10", "version", env=stock.env)
