"""Poll threads: records of their iterations, the tx queues that they use, and devices that are down."""
import json
import os
import re

from lib import dpdk, lab


def started(s, *ports):
    """Starts a switch that sends packets from port 1 to port 2."""
    s.start()
    s.secure_bridge("br0")
    s.add("br0", *ports)
    s.flows("br0", "in_port=1,actions=output:2")
    return s


def null(name, number, **options):
    arguments = "net_null%d" % number + ("" if number == 1 else ",no-rx=1")
    return name, number, "dpdk", {"dpdk-devargs": arguments, **options}


def perf(s, *args):
    return s.appctl("dpif-netdev/pmd-perf-show", *args)


def test_iterations_are_recorded_while_the_setting_is_on():
    """pmd-perf-metrics: histograms and histories of a busy thread while it is on, none while it is off."""
    dpdk.need()
    s = started(dpdk.Switch(), null("in", 1), null("out", 2))
    lab.wait_until(lambda: re.search(r"Tx packets: +[1-9]", perf(s)), "packets are sent")
    assert "Histograms" not in perf(s)
    s.vsctl("set", "open_vswitch", ".", "other_config:pmd-perf-metrics=true")
    mean = r"cycles/upcall +\n +([1-9]\d+) +([1-9]\d*\.\d{5}) "
    lab.wait_until(lambda: re.search(mean, perf(s)), "turns are recorded")
    text = perf(s, "-nh", "-it", "3", "-ms", "2")
    assert "Histograms" not in text
    turns = re.search(r"\n   iter .*\n((?: .*\n){3})", text)[1].split("\n")
    numbers = [int(line.split()[0]) for line in turns if line]
    assert numbers == list(range(numbers[0], numbers[0] - 3, -1)) and len(text.split("\n   ms ")[1].splitlines()) == 3, text
    s.appctl("dpif-netdev/pmd-perf-log-set", "on", "-us", "0")
    lab.wait_until(lambda: "Suspicious iteration (Excessive total cycles)" in s.log(), "turns are told")
    s.appctl("dpif-netdev/pmd-perf-log-set", "off")
    s.vsctl("set", "open_vswitch", ".", "other_config:pmd-perf-metrics=false")
    assert "Histograms" not in perf(s)


def test_tx_queues_are_taken_where_there_are_too_few():
    """Two poll threads share a device with one tx queue; a device with enough queues gives each thread its own."""
    dpdk.need()
    s = dpdk.Switch()
    s.other_config["pmd-cpu-mask"] = "0x3"
    started(s, null("in", 1, n_rxq="2"), ("out", 2, "dpdk", {"dpdk-devargs": "net_pcap2,tx_pcap=/dev/null"}))

    def queues():
        text = s.appctl("dpif-netdev/pmd-txq-show")
        return {m[1]: (m[2], m[3]) for m in re.finditer(r"port: (\S+) .* mode: (\w+)\n((?:  .*\n)*)", text)}

    lab.wait_until(lambda: queues()["out"] == ("xps", "  queue-id:  0  pmd core_id 0, pmd core_id 1\n"), "both send")
    mode, users = queues()["in"]
    assert mode == "static" and users.splitlines()[1:] == ["  queue-id:  1  pmd core_id 0", "  queue-id:  2  pmd core_id 1"]
    # A thread that sends no more releases its tx queue.
    s.flows("br0", "priority=0,actions=drop")
    lab.wait_until(lambda: queues()["out"] == ("xps", ""), "nobody has the queue")


def test_a_device_that_is_down_neither_receives_nor_sends():
    """mod-port down: a device whose driver has no link to take down neither receives nor sends, and works again when up."""
    dpdk.need()
    s = started(dpdk.Switch(), null("in", 1), null("out", 2))

    def counted(port, what):
        return s.counters("br0", port)[what]

    def moves(port, what):
        before = counted(port, what)
        lab.wait_until(lambda: counted(port, what) > before, "%s of %s grows" % (what, port))

    def stands(port, what):
        before = counted(port, what)
        return before == [counted(port, what) for _ in range(3)][-1]

    moves("out", "tx")
    s.ofctl("-OOpenFlow13", "mod-port", "br0", "out", "down")
    lab.wait_until(lambda: stands("out", "tx"), "nothing is sent")
    s.ofctl("-OOpenFlow13", "mod-port", "br0", "out", "up")
    moves("out", "tx")
    s.ofctl("-OOpenFlow13", "mod-port", "br0", "in", "down")
    lab.wait_until(lambda: stands("in", "rx"), "nothing is received")
    s.ofctl("-OOpenFlow13", "mod-port", "br0", "in", "up")
    moves("in", "rx")


def test_top_and_pmd_rxq_show_agree():
    """pmd-rxq-show and `sluice top` use one counter: a queue that just became active has the same load in both."""
    dpdk.need()
    s = started(dpdk.Switch(), null("out", 2))

    def shown(port):
        return re.search(r"port: %s +queue-id: +0 \(enabled\) +pmd usage: +(NOT AVAIL|\d+)" % port, s.appctl("dpif-netdev/pmd-rxq-show"))[1]

    # The thread's load has been measured, but not that of a new queue.
    lab.wait_until(lambda: shown("out") == "0", "the first interval ends", 20)
    s.add("br0", null("in", 1))
    top = [os.path.join(lab.ROOT, "target", "release", "sluice"), "top", "--json", "--interval=0.5", "-t", "%s/%s.ctl" % (s.dir, s.name)]

    def load():
        datapath, = json.loads(lab.sh(*top, env=s.env))
        return next(q["load"] for q in datapath["queues"] if q["port"] == "in") * 100

    lab.wait_until(lambda: load() > 20, "the queue is loaded")
    there, here = load(), int(shown("in"))
    print("    top: %.0f %%, pmd-rxq-show: %d %%" % (there, here))
    assert there / 2 < here < there * 2 + 10, (there, here, s.appctl("dpif-netdev/pmd-rxq-show"))
