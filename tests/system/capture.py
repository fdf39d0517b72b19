"""sluice capture: packets at both sides of the switch, with the metadata of the switch."""
import json
import os
import signal
import subprocess

from lib import lab, pcapng
from lib.pair import ping, switch_with_two_namespaces

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")


def sluice(s, *words, **kw):
    return lab.sh(SLUICE, words[0], "-t", "%s/%s.ctl" % (s.dir, s.name), *words[1:], env=s.env, **kw)


class Capture:
    """A running `sluice capture` that writes to a file."""

    def __init__(self, s, *words, file="out.pcapng"):
        self.s, self.path = s, os.path.join(s.dir, file)
        before = running(s)
        self.process = lab.spawn([SLUICE, "capture", "-t", "%s/%s.ctl" % (s.dir, s.name), *words, "-w", self.path], env=s.env,
                                 stderr=subprocess.PIPE, text=True)
        lab.wait_until(lambda: running(s) > before, "the capture runs")

    def end(self):
        """Ends the capture; returns its packets, the counts of missing packets in its file, and the summary for the user."""
        self.process.send_signal(signal.SIGINT)
        stderr_text = self.process.communicate(timeout=20)[1]
        with open(self.path, "rb") as f:
            packets, counts = pcapng.read(f.read())
        return packets, counts, stderr_text


def captures(s):
    """The captures that run."""
    return [one for datapath in json.loads(sluice(s, "appctl", "--json", "capture/show")).values() for one in datapath["captures"]]


def running(s):
    return len(captures(s))


def test_packets_at_both_sides_with_what_the_switch_knows():
    """Ports, flows, megaflows and drop reasons are captured as pcapng; other tools read the file."""
    s, a, b = switch_with_two_namespaces()
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flow", "br0", "priority=40000,icmp,nw_tos=32,actions=drop")
    s.ofctl("add-flow", "br0", "actions=NORMAL")
    # The first ping teaches the bridge two addresses, so the megaflows of the first packets may be replaced after it.
    assert ping(a, "10.1.1.2", "-c", "3", "-i", "0.2")
    both, one = Capture(s), Capture(s, "-i", b.port, "--tx", "icmp,icmp_type=8", file="one.pcapng")
    assert ping(a, "10.1.1.2") and not ping(a, "10.1.1.2", "-Q", "32", "-c", "2", "-i", "0.2")
    packets, counts, stderr_text = both.end()
    icmp = [(p.port, p.comment_fields["side"], p.comment_fields.get("reason")) for p in packets if p.length == 98]
    # The request and its reply, each at both ports; then two requests that are dropped.
    assert icmp[:4] == [(a.port, "rx", None), (b.port, "tx", None), (b.port, "rx", None), (a.port, "tx", None)], packets
    dropped = [(a.port, "rx", None), (a.port, "drop", "drop_action_of_pipeline")]
    assert sorted(icmp[4:], key=str) == sorted(2 * dropped, key=str), packets
    assert all(p.bytes[12:14] == b"\x08\x00" for p in packets if p.length == 98)
    assert [p.is_sent for p in packets if p.length == 98][:4] == [False, True, False, True]
    ufid = next(p.comment_fields["megaflow"] for p in packets if p.length == 98 and "megaflow" in p.comment_fields)
    assert "ufid:" + ufid in s.appctl("dpctl/dump-flows", "-m"), packets
    assert "lost=0" in counts and stderr_text == "%d packets captured, 0 lost\n" % len(packets), (counts, stderr_text)
    packets, _, _ = one.end()
    assert [(p.port, p.comment_fields) for p in packets] == [(b.port, {"side": "tx"})], packets
    assert "ICMP echo request" in lab.sh(lab.need("tcpdump"), "-r", one.path), "tcpdump reads the file"
    # Each capture has ended with its tool, and nothing of it is left.
    lab.wait_until(lambda: running(s) == 0, "no capture runs")
    assert not [f for f in os.listdir(s.dir) if f.startswith("capture.")]
    megaflow = Capture(s, "--megaflow", ufid)
    assert ping(a, "10.1.1.2")
    packets, _, _ = megaflow.end()
    assert {p.comment_fields["megaflow"] for p in packets} == {ufid}, packets
    # As text, to a pipe, which ends after one packet.
    lines = lab.spawn([SLUICE, "capture", "-t", "%s/%s.ctl" % (s.dir, s.name), "--drops", "-c", "1"], env=s.env,
                      stdout=subprocess.PIPE, text=True)
    lab.wait_until(lambda: running(s) == 1, "the capture runs")
    assert not ping(a, "10.1.1.2", "-Q", "32")
    line = lines.communicate(timeout=20)[0]
    assert " %s drop after rx, 98 bytes: icmp," % a.port in line and line.endswith("[reason=drop_action_of_pipeline]\n"), line


def test_wrong_captures_are_refused():
    """Unknown ports, reasons and flows are errors before anything is captured."""
    s, a, _ = switch_with_two_namespaces()
    for words, error in ((("-i", "nosuch"), "nosuch: no datapath has such a port"), (("--reason", "nosuch"), "no drop reason has such a name"),
                         (("in_port=1",), "name the port by --port"), (("nosuch=1",), "nosuch"), (("--megaflow", "7"), "not the ufid"),
                         (("--datapath", "x"), "x: no such datapath"), (("--every", "x"), "is not a number")):
        try:
            raise SystemExit(sluice(s, "capture", *words))
        except AssertionError as e:
            assert error in str(e), e
    assert running(s) == 0
    assert a.port in sluice(s, "capture", "-D")


def test_a_tool_that_does_not_read_harms_nobody():
    """A stopped client loses packets of its capture; traffic goes on, and the capture ends when the client is killed."""
    s, a, b = switch_with_two_namespaces()
    s.ofctl("add-flow", "br0", "actions=NORMAL")
    capture = Capture(s, "--memory", "1", "--rate", "0")
    capture.process.send_signal(signal.SIGSTOP)

    def lost():
        return captures(s)[0]["lost"]

    lab.iperf3_server(b)
    for _ in range(20):
        a.run("iperf3", "-c", "10.1.1.2", "-t", "1")
        if lost():
            break
    assert lost() and ping(a, "10.1.1.2")
    capture.process.kill()
    lab.wait_until(lambda: running(s) == 0, "the capture ends")
    # Nobody reads the pipe, so it is soon full. A signal must end the tool although it cannot write.
    unread = lab.spawn([SLUICE, "capture", "-t", "%s/%s.ctl" % (s.dir, s.name), "-w", "-", "--rate", "0"], env=s.env, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL)
    lab.wait_until(lambda: running(s) == 1, "the capture runs")
    a.run("iperf3", "-c", "10.1.1.2", "-t", "1")
    unread.send_signal(signal.SIGINT)
    unread.wait(20 * lab.PATIENCE)
    lab.wait_until(lambda: running(s) == 0, "the capture ends")


def test_wireshark_and_tcpdump():
    """Wireshark's extcap queries are answered, and packets are written to its pipe; ovs-tcpdump works by a mirror."""
    s, a, _ = switch_with_two_namespaces()
    s.ofctl("add-flow", "br0", "actions=NORMAL")
    interfaces = sluice(s, "capture", "--extcap-interfaces", "--extcap-version=4.0")
    value = "sluice-port-" + a.port
    assert "interface {value=%s}" % value in interfaces, interfaces
    assert "dlt {number=1}" in sluice(s, "capture", "--extcap-interface", value, "--extcap-dlts")
    assert "{call=--rate}" in sluice(s, "capture", "--extcap-interface", value, "--extcap-config")
    assert sluice(s, "capture", "--extcap-interface", value, "--extcap-capture-filter", "icmp") == ""
    fifo = os.path.join(s.dir, "fifo")
    os.mkfifo(fifo)
    lab.spawn([SLUICE, "capture", "-t", "%s/%s.ctl" % (s.dir, s.name), "--capture", "--extcap-interface", value, "--fifo", fifo,
               "--extcap-capture-filter", "icmp", "-c", "2"], env=s.env, stderr=subprocess.DEVNULL)
    with open(fifo, "rb") as f:
        lab.wait_until(lambda: running(s) == 1, "the capture runs")
        assert ping(a, "10.1.1.2")
        packets, _ = pcapng.read(f.read())
    assert [(p.port, p.comment_fields["side"]) for p in packets] == [(a.port, "rx"), (a.port, "tx")], packets
    lab.need("ovs-tcpdump")
    dump = lab.spawn(["ovs-tcpdump", "--db-sock", "unix:%s/db.sock" % s.dir, "-i", a.port, "-c", "2", "-l", "icmp"], env=s.env,
                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lab.wait_until(lambda: ping(a, "10.1.1.2") and dump.poll() is not None, "ovs-tcpdump has two packets", 30)
    assert "ICMP echo request" in dump.communicate()[0]
