"""Recovery from a panic, and limits for the cost of one packet: the restarted process, its log, SIGTERM."""
import os
import re
import signal
import subprocess
import time

from lib import dpdk, lab
from lib.detached import Detached

SIZE_OF_TRACE = 1 << 20


class Watched(Detached):
    """A detached switch with a monitor process, two namespaces on `br0`, and a ping between them that records the
    time of each reply."""

    def __init__(self, *settings):
        lab.need_root()
        super().__init__()
        self.a, self.b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
        self.begin()
        self.vsctl("set", "Open_vSwitch", ".", *["other_config:" + s for s in settings] or ["external_ids:no=settings"])
        self.add_bridge("br0")

    def begin(self):
        assert self.launch("--monitor", "--enable-panic", "--log-file=%s/sluiced.log" % self.dir) == (0, "")

    def add(self, ns, *settings):
        self.vsctl("add-port", "br0", ns.port, *(["--", "set", "Interface", ns.port, *settings] if settings else []))

    def appctl(self, *args, **kw):
        return lab.sh("ovs-appctl", "-T", "%d" % (20 * lab.PATIENCE), "-t", "%s/sluiced.%d.ctl" % (self.dir, self.pid()),
                      *args, env=self.env, **kw)

    def forwards(self):
        ping = ["ip", "netns", "exec", self.a.name, "ping", "-c", "1", "-W", "1", "10.1.1.2"]
        return subprocess.run(ping, stdout=subprocess.DEVNULL).returncode == 0

    def panic(self, thread, provoke=lambda: None):
        """Makes this thread panic; returns the time from the start of the next process to the first ping reply."""
        first = self.pid()
        notes = "%s/ping-%s" % (self.dir, thread)
        with open(notes, "w") as out:
            ping = self.a.spawn("ping", "-D", "-i", "0.01", "10.1.1.2", stdout=out)
        lab.wait_until(lambda: replies(notes), "a reply before a panic of " + thread)
        self.appctl("panic", thread, check=False)
        provoke()
        lab.wait_until(lambda: self.pid() not in (None, first), "the next process after a panic of " + thread)
        second = self.pid()
        began = started_at(second)
        lab.wait_until(lambda: replies(notes)[-1] > began, "forwarding after a panic of " + thread)
        ping.kill()
        return min(t for t in replies(notes) if t > began) - began


def replies(notes):
    """The times of the replies in the output of `ping -D`."""
    with open(notes) as f:
        return [float(t) for t in re.findall(r"^\[([\d.]+)\] \d+ bytes from", f.read(), re.M)]


def started_at(pid):
    """The start time of a process in seconds since 1970; the kernel's resolution is 10 ms."""
    with open("/proc/%d/stat" % pid) as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as f:
        boot = time.time() - float(f.read().split()[0])
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def logged(log, thread):
    """Checks that the log has the panic: thread, location, message and backtrace."""
    found = re.search(r"\|EMER\|thread '(%s[^']*)' panicked at \S+ordered_panic.rs:\d+:\d+: the control socket ordered" % thread, log)
    assert found and "|EMER|backtrace, program at 0x" in log, log[-3000:]


def check_panics(s, cases, limit):
    try:
        times = panics(s, cases)
    finally:
        s.end()
    print("    forwarding after exec, ms: " + ", ".join("%s %d" % (k, v * 1000) for k, v in times.items()))
    assert max(times.values()) < limit * lab.PATIENCE, times


def panics(s, cases):
    """A panic in each of these threads; the function next to its name makes the thread run."""
    times = {}
    for thread, provoke in cases.items():
        s.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:before=" + thread)
        lab.wait_until(s.forwards, "forwarding before a panic of " + thread)
        pid, text = s.pid(), s.log()
        times[thread] = s.panic(thread, provoke)
        text = s.log()[len(text):]
        logged(text, thread)
        assert "1 crashes: pid %d died, killed (signal 6 (SIGABRT))" % pid in text, text[-3000:]
        # The stored state of the process is restored, and the ports.
        assert thread in s.vsctl("get", "Open_vSwitch", ".", "external_ids:before")
        assert s.vsctl("list-ports", "br0").split() == sorted([s.a.port, s.b.port])
        # A monitor restarts once at once, then every ten seconds.
        s.end()
        s.begin()
    return times


def test_a_panic_in_any_thread():
    """Whichever thread panics: the log has the location, and the monitor starts the next process, which forwards at once."""
    s = Watched()
    s.add(s.a)
    s.add(s.b)

    def store():
        s.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:now=%f" % time.time(), check=False)

    def miss():
        """Packets without a megaflow."""
        s.a.run("ping", "-c", "1", "-W", "1", "-I", "10.1.1.1", "10.1.1.77", check=False)

    def say():
        s.appctl("vlog/set", "dbg", check=False)

    def bfd():
        s.vsctl("--no-wait", "set", "Interface", s.a.port, "bfd:enable=true", check=False)

    def ask():
        """An OpenFlow connection."""
        s.ofctl("show", "br0", check=False)

    cases = {"main": lambda: None, "ofconn": ask, "worker": miss, "handler": miss, "revalidator": store, "ovsdb": store, "sync": store,
             "background": lambda: None, "log": say, "timers": bfd}
    check_panics(s, cases, 5)


def test_a_panic_in_a_poll_thread():
    """The same for a poll thread, on AF_XDP."""
    s = Watched("pmd-cpu-mask=1", "pmd-sleep-max=100")
    s.add(s.a, "type=afxdp")
    s.add(s.b)
    if s.vsctl("get", "Interface", s.a.port, "error").strip('[]"\n'):
        s.end()
        raise lab.Skip("needs AF_XDP in the kernel")
    check_panics(s, {"pmd-c": lambda: None}, 5)


def test_a_panic_in_a_poll_thread_of_dpdk():
    """The same with DPDK, which must be initialized again first."""
    dpdk.need()
    s = Watched("dpdk-init=true", "dpdk-lcore-mask=0x1", "pmd-cpu-mask=0x2", "pmd-sleep-max=100", "per-port-memory=true",
                'dpdk-extra="%s"' % (dpdk.EAL % 1024))
    lab.wait_until(lambda: s.vsctl("get", "open_vswitch", ".", "dpdk_initialized").strip() == "true", "DPDK is up")
    s.add(s.a, "type=dpdk", "options:dpdk-devargs=net_af_packet0,iface=" + s.a.port)
    s.add(s.b)
    s.a.run("ethtool", "-K", "eth0", "tx", "off")
    s.b.run("ethtool", "-K", "eth0", "tx", "off")
    check_panics(s, {"pmd-c": lambda: None}, 15)


def test_without_a_monitor_the_status_is_that_of_an_abort():
    """Without a monitor, service managers see a failure, and the first process of a pair does not hang."""
    s = lab.Switch(database="embedded", args=["--enable-panic"]).start()
    s.appctl("panic", "ovsdb", check=False)
    s.vsctl("--no-wait", "show", check=False)
    assert s.daemon.wait(10 * lab.PATIENCE) == -signal.SIGABRT
    logged(s.log(), "ovsdb")


def test_the_command_is_for_tests():
    """Without `--enable-panic` the command does not exist."""
    s = lab.Switch(database="embedded").start()
    assert "is not a valid command" in refusal(lambda: s.appctl("panic", "main"))


def refusal(call):
    try:
        return call()
    except AssertionError as e:
        return str(e)


def looping(wide):
    """Tables that loop, with long lists of actions: 40 levels of two resubmits each, next to `wide` other actions."""
    more = ",".join(["load:%d->NXM_NX_REG0[]" % i for i in range(wide)])
    for i in range(1, 41):
        yield "in_port=%d,actions=%s,resubmit:%d,resubmit:%d" % (i, more, i + 1, i + 1)
    # Packets of the existing ports enter the loop.
    yield "priority=40000,in_port=%d,actions=resubmit:1" % 100
    yield "priority=40000,in_port=%d,actions=resubmit:1" % 101


def loops(s, wide):
    """A bridge with such tables and two namespaces, whose packets enter the loop."""
    a, b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
    s.add_bridge("br0")
    for ns, number in ((a, 100), (b, 101)):
        s.vsctl("add-port", "br0", ns.port, "--", "set", "Interface", ns.port, "ofport_request=%d" % number)
    s.ofctl("add-flows", "br0", "-", input="\n".join(looping(wide)) + "\n")
    return a, b


def test_a_packet_through_a_looping_table():
    """One packet: a trace of about a megabyte in the log, once, with a note that it was truncated; likewise in ofproto/trace."""
    lab.need_root()
    s = lab.Switch().start()
    a, _ = loops(s, 500)
    a.run("ping", "-c", "2", "-i", "0.2", "-W", "1", "10.1.1.2", check=False)
    lab.wait_until(lambda: "Translation failed (Too many resubmits), packet is dropped." in s.log(), "the trace in the log")
    s.appctl("version")
    text = s.log()
    assert len(text) < 2 * SIZE_OF_TRACE, len(text)
    assert text.count("the trace is truncated after 1024 KiB") == 1 and ">>>> over " in text
    text = s.appctl("ofproto/trace", "br0", "in_port=100,ip")
    assert len(text) < 1.5 * SIZE_OF_TRACE, len(text)
    assert "the trace is truncated after 1024 KiB" in text
    assert text.rstrip().endswith("Translation failed (Too many resubmits), packet is dropped."), text[-300:]


def test_signals_are_obeyed_while_tables_loop():
    """While handlers translate packets through such tables without a pause, SIGTERM ends the switch."""
    lab.need_root()
    s = lab.Switch().start()
    a, _ = loops(s, 2000)
    # Each packet is a flow of its own, since every bit of it may have affected the translation.
    s.appctl("upcall/disable-megaflows")
    flood = a.spawn("ping", "-f", "-b", "10.1.1.255", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    dropped = lambda: int(s.appctl("coverage/read-counter", "drop_action_too_many_resubmit"))
    lab.wait_until(lambda: dropped() >= 1, "handlers are in the loop")
    s.vsctl("show")
    began = time.time()
    s.kill_daemon(signal.SIGTERM)
    took = time.time() - began
    flood.kill()
    assert s.daemon.returncode == 0 and took < 5 * lab.PATIENCE, (s.daemon.returncode, took)
    print("    ended %d ms after SIGTERM" % (took * 1000))
