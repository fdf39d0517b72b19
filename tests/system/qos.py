"""Policers, queueing disciplines and shapers: rates, queue counters, and status."""
import re
import subprocess
import time

from lib import dpdk, lab

# Duration of a rate measurement in seconds, and its tolerance on a machine that others use.
SECONDS, ERROR = 3, 0.05


def column(s, port, key):
    """A counter of a port; zero if the row does not have it."""
    text = s.vsctl("--if-exists", "get", "Interface", port, "statistics:" + key).strip()
    return int(text or 0)


def pair(kind=None):
    """A switch with two namespaces; packets from one port go to the other."""
    s = lab.Switch().start()
    a, b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
    s.add_bridge("br0", a.port, b.port)
    if kind:
        for ns in (a, b):
            s.vsctl("set", "Interface", ns.port, "type=" + kind)
    lab.wait_until(lambda: "1 received" in a.run("ping", "-c", "1", "-W", "1", "10.1.1.2", check=False), "the namespaces")
    return s, a, b


def udp(a, b, length, megabits=60):
    """Received UDP packets per second, with this many bytes of payload, after the bursts."""
    lab.iperf3_server(b, "-1")
    sender = a.spawn("iperf3", "-u", "-c", "10.1.1.2", "-l", str(length), "-b", "%dM" % megabits, "-t", str(SECONDS + 3),
                     stdout=subprocess.DEVNULL)
    time.sleep(1)
    rate = packet_rate(b.received)
    sender.wait(20 * lab.PATIENCE)
    return rate


def near(rate, wanted, error=ERROR, burst=0):
    """Whether a rate is as wanted. `burst`: what a token bucket may have collected before the measurement, if the sender was interrupted."""
    return -error * wanted <= rate - wanted <= error * wanted + burst / SECONDS


def test_a_policed_port_receives_its_rate():
    """ingress_policing_rate and _kpkts_rate of a kernel port, changed and removed under traffic; drops are in its statistics."""
    lab.need("iperf3")
    s, a, b = pair()
    policing = ["ingress_policing_rate=8000", "ingress_policing_burst=2000"]
    s.vsctl("set", "Interface", a.port, *policing)
    for length in (200, 1400):
        rate = udp(a, b, length) * (length + 28) * 8
        assert near(rate, 8e6, burst=2e6), "%d bytes: %.0f" % (length, rate)
    lab.wait_until(lambda: column(s, a.port, "rx_dropped") > 1000, "the drops in the statistics")
    s.vsctl("set", "Interface", a.port, "ingress_policing_rate=0", "ingress_policing_kpkts_rate=1", "ingress_policing_kpkts_burst=1")
    rate = udp(a, b, 1000)
    assert near(rate, 1000), "%.0f packets" % rate
    s.vsctl("set", "Interface", a.port, "ingress_policing_kpkts_rate=0")
    assert udp(a, b, 1000) > 1500


def qdisc(port):
    return lab.sh("tc", "qdisc", "show", "dev", port)


def test_a_device_that_returns_has_its_qos_and_lldp_again():
    """A device that appears, or appears again, after its rows were written gets queues and an LLDP session without a change of the database."""
    lab.need("tc")
    probe = lab.Network()
    probe.run("ip", "link", "add", "probe", "type", "veth", "peer", "name", "other")
    if "unknown" in probe.run("tc", "qdisc", "add", "dev", "probe", "root", "htb", check=False):
        raise lab.Skip("needs HTB in the kernel")
    s = lab.Switch().start()
    s.add_bridge("br0")
    lab.sh("ip", "link", "del", "dev1", check=False)
    s.vsctl("--no-wait", "add-port", "br0", "dev1", "--", "set", "Interface", "dev1", "lldp:enable=true", "--", "set", "Port", "dev1", "qos=@qos",
            "--", "--id=@qos", "create", "QoS", "type=linux-htb", "queues:1=@queue", "--", "--id=@queue", "create", "Queue",
            "other_config:min-rate=8000000")
    lab.wait_until(lambda: "dev1" in s.vsctl("--columns=error", "list", "Interface", "dev1"), "the error of the missing device")
    for _ in range(2):
        lab.sh("ip", "link", "add", "dev1", "type", "veth", "peer", "name", "dev2")
        lab.wait_until(lambda: "htb" in qdisc("dev1"), "the queues of the device")
        lab.wait_until(lambda: "dev1" in s.appctl("lldp/show"), "the session of LLDP")
        lab.sh("ip", "link", "del", "dev1")
        lab.wait_until(lambda: s.vsctl("get", "Interface", "dev1", "ofport").strip() == "-1", "the removal")


def test_queues_of_a_kernel_port():
    """linux-htb on a kernel port: classes as in the rows, packets in the queues that flows select, counters, and removal."""
    lab.need("tc")
    s, a, b = pair()
    probe = lab.Network()
    probe.run("ip", "link", "add", "probe", "type", "veth", "peer", "name", "other")
    if "unknown" in probe.run("tc", "qdisc", "add", "dev", "probe", "root", "htb", check=False):
        raise lab.Skip("needs HTB in the kernel")
    s.vsctl("set", "Port", b.port, "qos=@qos", "--", "--id=@qos", "create", "QoS", "type=linux-htb", "other_config:max-rate=80000000",
            "queues:0=@first", "queues:7=@second", "--", "--id=@first", "create", "Queue", "other_config:max-rate=40000000",
            "--", "--id=@second", "create", "Queue", "other_config:min-rate=2000000", "other_config:max-rate=8000000",
            "other_config:burst=160000", "dscp=12")
    classes = lab.sh("tc", "class", "show", "dev", b.port)
    assert re.search(r"class htb 1:1 parent 1:fffe .*ceil 40Mbit", classes), classes
    assert re.search(r"class htb 1:8 parent 1:fffe .*rate 2Mbit ceil 8Mbit burst 2....b", classes), classes
    assert re.search(r"class htb 1:fffe root rate 80Mbit ceil 80Mbit", classes), classes
    s.ofctl("add-flow", "br0", "udp,in_port=%s,actions=set_queue:7,normal" % a.port)
    rate = udp(a, b, 1400) * 1442 * 8
    assert near(rate, 8e6), "%.0f" % rate
    text = s.appctl("qos/show", b.port)
    shown = re.search(r"\nQueue 7:\n  min-rate: 2000000\n  max-rate: 8000000\n  burst: 160000\n  tx_packets: (\d+)\n", text)
    assert text.startswith("QoS: %s linux-htb\nmax-rate: 80000000\n\nDefault:\n" % b.port), text
    assert shown and int(shown[1]) > 1000, text
    stats = s.ofctl("queue-stats", "br0", b.port)
    assert re.search(r"queue 7: bytes=[1-9]\d+, pkts=[1-9]\d+, errors=\d+", stats), stats
    trace = s.appctl("ofproto/trace", "br0", "udp,in_port=%s,nw_tos=0" % a.port)
    assert "set(skb_priority(0x7))" in trace and "set(ipv4(tos=0x30/0xfc))" in trace, trace
    s.vsctl("set", "QoS", b.port, "other_config:max-rate=4000000", check=False)
    s.vsctl("clear", "Port", b.port, "qos")
    assert "htb" not in qdisc(b.port), qdisc(b.port)
    assert s.appctl("qos/show", b.port) == "QoS not configured on %s\n" % b.port
    assert s.appctl("qos/show-types", b.port).count("QoS type: linux-") == 7


def test_a_refused_type_leaves_no_queues():
    """A discipline that the kernel refuses: the old one is gone from the device and from qos/show, and the next one works."""
    lab.need("tc")
    s, _, b = pair()
    s.vsctl("set", "Port", b.port, "qos=@qos", "--", "--id=@qos", "create", "QoS", "type=linux-htb", "other_config:max-rate=80000000")
    if "htb" not in qdisc(b.port):
        raise lab.Skip("needs HTB in the kernel")
    qos = s.vsctl("get", "Port", b.port, "qos").strip()
    # More flows than the kernel accepts, if it has this discipline at all.
    s.vsctl("set", "QoS", qos, "type=linux-fq_codel", "other_config:flows=70000")
    assert "htb" not in qdisc(b.port), qdisc(b.port)
    assert s.appctl("qos/show", b.port) == "QoS not configured on %s\n" % b.port
    assert "Failed to set QoS type linux-fq_codel: " in s.written_log()
    s.vsctl("set", "QoS", qos, "type=linux-htb")
    assert "htb" in qdisc(b.port), qdisc(b.port)
    assert s.appctl("qos/show", b.port).startswith("QoS: %s linux-htb\n" % b.port)


def started(*sources):
    """A switch with DPDK, a port that discards everything, and ports that receive frames of this many bytes
    endlessly."""
    s = dpdk.in_ordinary_memory("other_config:pmd-cpu-mask=1")
    s.ofctl("del-flows", "br0")
    ports = [("out", "net_null9,no-rx=1")] + [("in%d" % i, "net_null%d,size=%d" % (i, size)) for i, size in enumerate(sources)]
    for number, (name, devargs) in enumerate(ports):
        s.vsctl("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk", 'options:dpdk-devargs="%s"' % devargs,
                "ofport_request=%d" % (number + 1))
    return s


def sent(s):
    line = s.appctl("dpctl/show", "-s").split(": out (")[1].split("TX packets:")[1]
    return int(line.split()[0])


def reading(count):
    """A counter and when it was read. A busy machine may interrupt a reading, whose time is then not known: it is repeated."""
    for _ in range(50):
        began, value, ended = time.monotonic(), count(), time.monotonic()
        if ended - began < 0.04:
            break
    return value, (began + ended) / 2


def packet_rate(count):
    """Increase of a counter per second, after the bursts."""
    time.sleep(1.5)
    before, began = reading(count)
    time.sleep(SECONDS)
    after, ended = reading(count)
    return (after - before) / (ended - began)


def set_qos(s, kind, *settings, queues=()):
    """Sets the QoS of port `out`, and its queues: number and settings."""
    words = ["--", "--id=@qos", "create", "QoS", "type=" + kind, *["other_config:" + setting for setting in settings]]
    words += ["queues:%d=@q%d" % (number, number) for number, *_ in queues]
    for number, *of_queue in queues:
        words += ["--", "--id=@q%d" % number, "create", "Queue", *["other_config:" + setting for setting in of_queue]]
    s.vsctl("set", "Port", "out", "qos=@qos", *words)


def test_policers_of_a_dpdk_port():
    """egress-policer, trtcm-policer and ingress policing of DPDK ports: rates, texts and counters."""
    s = started(64)
    s.ofctl("add-flow", "br0", "in_port=2,actions=output:1")
    # Without the Ethernet header, 50 bytes of each packet count.
    set_qos(s, "egress-policer", "cir=1000000", "cbs=500000")
    rate = packet_rate(lambda: sent(s))
    assert near(rate, 20_000), rate
    assert s.appctl("qos/show", "out") == "QoS: out egress-policer\ncir: 1000000\ncbs: 500000\n"
    lab.wait_until(lambda: column(s, "out", "ovs_tx_qos_drops") > 1000, "the drops in the statistics")
    s.vsctl("--", "clear", "Port", "out", "qos")
    set_qos(s, "trtcm-policer", "cir=2000000", "cbs=900000", "eir=500000", "ebs=250000",
            queues=[(0, "cir=500000", "cbs=250000"), (3, "cir=1500000", "cbs=700000", "eir=9000000", "ebs=900000")])
    rate = packet_rate(lambda: sent(s))
    assert near(rate, 10_000), rate
    s.ofctl("add-flow", "br0", "in_port=2,actions=set_queue:3,output:1")
    rate = packet_rate(lambda: sent(s))
    # The queue's rate beyond 1.5 MB/s is excess of the port.
    assert near(rate, 40_000), rate
    text = s.appctl("qos/show", "out")
    assert "\nQueue 3:\n  cir: 1500000\n  eir: 9000000\n  cbs: 700000\n  ebs: 900000\n  tx_packets: " in text, text
    s.vsctl("clear", "Port", "out", "qos", "--", "set", "Interface", "in0", "ingress_policing_rate=8000", "ingress_policing_burst=4000")
    rate = packet_rate(lambda: sent(s))
    assert near(rate, 20_000), rate
    lab.wait_until(lambda: column(s, "in0", "ovs_rx_qos_drops") > 1000, "the drops in the statistics")
    set_qos(s, "egress-policer", "cbs=20000")
    assert s.appctl("qos/show", "out") == "QoS not configured on out\n"
    assert "Failed to set QoS type egress-policer on port out: Invalid argument" in s.written_log()


def test_a_shaper_of_a_dpdk_port():
    """linux-htb on a port without a kernel device: rates of the port and of queues with several packet sizes."""
    s = started(64, 570)
    s.ofctl("add-flow", "br0", "in_port=2,actions=set_queue:1,output:1")
    s.ofctl("add-flow", "br0", "in_port=3,actions=set_queue:2,output:1")
    set_qos(s, "linux-htb", "max-rate=400000000", queues=[(1, "min-rate=1000000", "max-rate=8000000", "burst=8000000"),
                                                          (2, "min-rate=8000000", "max-rate=32000000", "burst=32000000")])

    def of_queue(number):
        found = re.search(r"port 1 queue %d: bytes=\d+, pkts=(\d+)" % number, s.ofctl("queue-stats", "br0", "1"))
        return int(found[1])

    rate = packet_rate(lambda: of_queue(1)) * 64 * 8
    assert near(rate, 8e6), rate
    rate = packet_rate(lambda: of_queue(2)) * 570 * 8
    assert near(rate, 32e6), rate
    text = s.appctl("qos/show", "out")
    assert text.startswith("QoS: out linux-htb\nmax-rate: 400000000\n\nDefault:\n  min-rate: "), text
    assert "QoS type: linux-htb" in s.appctl("qos/show-types", "out")
    # The settings change while packets wait.
    qos = s.vsctl("get", "Port", "out", "qos").strip()
    s.vsctl("set", "QoS", qos, "other_config:max-rate=12000000")
    rate = packet_rate(lambda: of_queue(1)) * 64 * 8 + packet_rate(lambda: of_queue(2)) * 570 * 8
    # The port's burst is that of a millisecond.
    assert 0.3 * 12e6 < rate < (1 + ERROR) * 12e6, rate
    s.vsctl("clear", "Port", "out", "qos")
    assert packet_rate(lambda: sent(s)) > 20_000
