"""Ports of type afxdp: packets, settings, devices that disappear, killed switches."""
import json
import signal
import subprocess

from lib import lab
from lib.traffic import Traffic

AFXDP = "type=afxdp"
NO_SOCKETS = ("Address family not supported", "Operation not permitted", "Function not implemented")


def started():
    """A switch with one poll thread that sleeps while idle, since other programs use the machine, too."""
    lab.need_root()
    s = lab.Switch().start()
    s.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=1", "other_config:pmd-sleep-max=100")
    return s


def traffic(switch, *settings):
    """A ping every 10 ms through two ports of type afxdp."""
    t = Traffic(switch, *(settings or [AFXDP]))
    why = error(switch, t.a.port)
    if any(word in why for word in NO_SOCKETS):
        raise lab.Skip("needs AF_XDP in the kernel: " + why)
    return t


def error(switch, port):
    return switch.vsctl("get", "Interface", port, "error").strip('[]"\n')


def program_on(device):
    return "xdp" in lab.sh("ip", "link", "show", device).split("qdisc")[0]


def answers(ns, address="10.1.1.2"):
    """Whether a ping is answered."""
    return subprocess.run(["ip", "netns", "exec", ns.name, "ping", "-c", "1", "-W", "1", address],
                          stdout=subprocess.DEVNULL).returncode == 0


def tcp(t):
    """Megabits per second of TCP in both directions."""
    rates = []
    for reverse in ([], ["-R"]):
        lab.iperf3_server(t.b, "-1")
        out = json.loads(t.a.run("iperf3", "-c", "10.1.1.2", "-t", "1", "-J", *reverse))
        rates.append(out["end"]["sum_received"]["bits_per_second"] / 1e6)
    return min(rates)


def test_tcp_without_settings_of_the_devices():
    """TCP and ping between two namespaces with unchanged devices, polled by a poll thread and by the worker of kernel ports."""
    for kind in ("afxdp", "afxdp-nonpmd"):
        s = started()
        t = traffic(s, "type=" + kind)
        # Not at the same time as TCP, which fills all rings.
        t.wait_for(50)
        assert t.lost() == 0
        assert tcp(t) > 1
        assert s.vsctl("get", "Interface", t.a.port, "status:xdp-mode").strip() == "native"
        assert "(%s: n_rxq=1, xdp-mode=best-effort)" % kind in s.appctl("dpctl/show")
        assert (t.a.port in s.appctl("dpif-netdev/pmd-rxq-show")) == (kind == "afxdp")
        s.stop()
        assert not program_on(t.a.port)
        lab.clean_up()


def test_settings_that_change_under_traffic():
    """The number of queues and the mode change; a setting that fails is reported, and a valid setting works afterwards."""
    s = started()
    t = traffic(s)
    # The settings of the other port stay: only one of its queues is polled, and with more queues a random hash would
    # select the queue of its packets.
    lab.sh("ethtool", "-L", t.a.port, "rx", "2", "tx", "2")
    t.a.run("ethtool", "-L", "eth0", "rx", "2", "tx", "2")

    def change(*settings):
        s.vsctl("set", "Interface", t.a.port, *settings)
        return error(s, t.a.port)

    for settings, shown in (("options:n_rxq=2", "n_rxq=2, xdp-mode=best-effort"),
                            ("options:xdp-mode=generic", "n_rxq=2, xdp-mode=generic"),
                            ("options:xdp-mode=native", "n_rxq=2, xdp-mode=native")):
        assert change(settings) == ""
        assert "(afxdp: %s)" % shown in s.appctl("dpctl/show")
        lab.wait_until(lambda: answers(t.a), "an answer after " + settings)
    assert s.appctl("dpif-netdev/pmd-rxq-show").count(t.a.port) == 2
    assert change("options:n_rxq=17") == "%s: could not set configuration (Invalid argument)" % t.a.port
    assert change("options:n_rxq=2", "options:xdp-mode=fast") == \
        "%s: could not set configuration (Invalid argument)" % t.a.port
    assert "%s: Too big 'n_rxq' (17 > 16)." % t.a.port in s.log()
    assert "%s: Incorrect xdp-mode (fast)." % t.a.port in s.log()
    # More queues than the device has.
    assert "Invalid argument" in change("options:n_rxq=3", "options:xdp-mode=native")
    assert not answers(t.a)
    assert change("options:n_rxq=2") == ""
    lab.wait_until(lambda: answers(t.a), "an answer after the failure")
    assert s.daemon.poll() is None


def test_ports_that_come_and_go_under_traffic():
    """A port is deleted and added with another type, twenty times: in between, its device is as before."""
    s = started()
    t = traffic(s)
    for i in range(20):
        s.vsctl("del-port", t.b.port)
        lab.wait_until(lambda: not program_on(t.b.port), "the program is off")
        kind = ("afxdp", "afxdp-nonpmd", "system")[i % 3]
        s.vsctl("add-port", "br0", t.b.port, "--", "set", "Interface", t.b.port, "type=" + kind)
        assert error(s, t.b.port) == ""
        lab.wait_until(lambda: answers(t.a), "an answer through " + kind)
    assert s.daemon.poll() is None


def test_a_device_that_is_deleted():
    """A device is deleted under traffic: others lose no packets, and a new device of that name replaces it, repeatedly."""
    s = started()
    t = traffic(s)
    for kind in ("afxdp", "system", "afxdp-nonpmd"):
        c = lab.Namespace("10.1.1.3/24")
        s.vsctl("add-port", "br0", c.port, "--", "set", "Interface", c.port, "type=" + kind)
        number = s.vsctl("get", "Interface", c.port, "ofport")
        for _ in range(3):
            flood = c.spawn("ping", "-i", "0.01", "10.1.1.1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            lab.wait_until(lambda: answers(c, "10.1.1.1"), "an answer to " + kind)
            lab.sh("ip", "link", "del", c.port)
            lab.wait_until(lambda: "No such device" in s.vsctl("get", "Interface", c.port, "error"), "it is said")
            flood.kill()
            c.make_devices()
        lab.wait_until(lambda: answers(c, "10.1.1.1"), "an answer to the last " + kind)
        lab.wait_until(lambda: s.vsctl("get", "Interface", c.port, "ofport") == number, "its number")
        s.vsctl("del-port", c.port)
        lab.sh("ip", "link", "del", c.port)
    assert t.lost() == 0


def test_the_end_of_the_switch():
    """However the switch ends, its programs are removed from the devices; the next switch finds the ports and forwards."""
    s = started()
    t = traffic(s)
    assert program_on(t.a.port) and program_on(t.b.port)
    for sig in (signal.SIGTERM, signal.SIGKILL):
        s.kill_daemon(sig)
        lab.wait_until(lambda: not program_on(t.a.port) and not program_on(t.b.port), "the programs are off")
        s.start_daemon()
        lab.wait_until(lambda: answers(t.a), "an answer after signal %d" % sig)
        assert program_on(t.a.port) and error(s, t.a.port) == ""


def test_refusals():
    """A missing device, wrong settings, a device that another program uses: reported in the row."""
    s = started()
    t = traffic(s)

    def add(name, *settings):
        s.vsctl("--if-exists", "del-port", name)
        s.vsctl("add-port", "br0", name, "--", "set", "Interface", name, AFXDP, *settings, check=False)
        return error(s, name)

    assert add("nothere") == "could not open network device nothere (No such device)"
    wrong = "%s: could not set configuration (Invalid argument)" % t.b.port
    assert add(t.b.port, "options:n_rxq=17") == wrong
    assert add(t.b.port, "options:xdp-mode=fast") == wrong
    other = lab.Switch().start()
    other.add_bridge("br0")
    other.vsctl("add-port", "br0", t.a.port, "--", "set", "Interface", t.a.port, AFXDP, check=False)
    assert "Device or resource busy" in error(other, t.a.port)
    assert add(t.b.port) == ""
    lab.wait_until(lambda: answers(t.a), "an answer")
