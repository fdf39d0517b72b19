"""The ten problems of docs/guide/troubleshooting.md: for each, the web page and the command of the guide show the cause."""
import json
import os
import subprocess

from lib import lab
from lib.page import Page
from lib.pair import SENDER, switch_with_two_namespaces

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def sluice(s, tool, *words):
    target = () if tool == "doctor" else ("-t", "%s/%s.ctl" % (s.dir, s.name))
    return subprocess.run([SLUICE, tool, *target, *words], env=s.env, capture_output=True, text=True, timeout=60).stdout


def conclusion(s, *words):
    """The last line of `sluice why`, which is its conclusion; all of it is printed if a test fails."""
    text = sluice(s, "why", "--seconds=0.6", *words)
    return text.rstrip("\n").splitlines()[-1], text


def pinging(ns, *options):
    ns.spawn("ping", "-i", "0.1", *options, "10.1.1.2", **QUIET)


def test_where_packets_of_a_flow_are_lost():
    """A missing flow, a wrong VLAN, an MTU, and a link that flaps: sluice why, its JSON, and the page say the same."""
    s, a, b = switch_with_two_namespaces()
    page = Page(s)
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flow", "br0", "cookie=0x9,icmp,actions=resubmit(,4)")
    s.ofctl("add-flow", "br0", "table=4,icmp,icmp_type=0,actions=NORMAL")
    pinging(a, "-s", "900")
    ask = ("icmp", "10.1.1.1", "10.1.1.2")
    line, text = conclusion(s, *ask)
    assert line.startswith("Packets are dropped at port %s: drop_action_of_pipeline." % a.port), text
    assert line.endswith("bridge br0: no flow of table 4 matches"), text
    page.finding("drop action of pipeline, in by %s" % a.port)
    assert "The rule that drops it, bridge br0: no flow of table 4 matches" in page.why("in by " + a.port, "icmp")
    # `sluice why --last-drop` and `sluice drops` name the same cause.
    line, text = conclusion(s, "--last-drop")
    assert line.endswith("bridge br0: no flow of table 4 matches") and text.startswith("icmp,"), text
    drops = sluice(s, "drops")
    assert "  %s " % a.port in drops and "bridge br0: no flow of table 4 matches" in drops, drops
    s.ofctl("add-flow", "br0", "table=4,icmp,icmp_type=8,actions=NORMAL")
    # The first packets may still be flooded.
    lab.wait_until(lambda: conclusion(s, *ask)[0].startswith("Packets and answers pass the switch."), "packets pass")
    s.vsctl("set", "port", a.port, "tag=10", "--", "set", "port", b.port, "tag=20")
    line, text = conclusion(s, *ask)
    assert "Port %s is an access port of VLAN 10" % a.port in line and "but not %s (access port of VLAN 20)" % b.port in line, text
    for port, vlan in ((a.port, "10"), (b.port, "20")):
        page.shows("port-rows", port, "\t%s\t" % vlan)
    said = page.why("out by br0", "icmp", "10.1.1.2")
    assert "Port %s is an access port of VLAN 10, so the packet is in VLAN 10. Other ports in it: br0; not in it: %s (access port of VLAN 20)." % (
        a.port, b.port) in said and "Port br0 is down." in said, said
    # A sender that does not know the hardware address yet asks for it, in vain for the same reason.
    a.run("ip", "neigh", "del", "10.1.1.2", "dev", "eth0")
    s.ofctl("add-flow", "br0", "table=0,arp,actions=NORMAL")
    lab.wait_until(lambda: conclusion(s, *ask)[0].startswith("The sender does not know the hardware address of 10.1.1.2: it asks by ARP. Requests are dropped"),
                   "the requests are followed")

    def requests_are_dropped():
        line, _ = conclusion(s, "arp", "10.1.1.1", "10.1.1.2")
        return line.startswith("Packets are dropped") and "but not %s (access port of VLAN 20)" % b.port in line

    # The sender sends one request a second, so not every run of `sluice why` sees one.
    lab.wait_until(requests_are_dropped, "the drops of the requests, with the VLAN")
    a.run("ip", "neigh", "replace", "10.1.1.2", "lladdr", b.mac, "dev", "eth0")
    s.vsctl("clear", "port", a.port, "tag", "--", "clear", "port", b.port, "tag")
    lab.sh("ip", "link", "set", b.port, "mtu", "700")
    lab.wait_until(lambda: s.vsctl("get", "interface", b.port, "mtu").strip() == "700", "the port's MTU")
    line, text = conclusion(s, *ask)
    assert "at port %s: datapath_drop_tx_mtu_exceeded." % b.port in line and "port %s, 700 bytes." % b.port in line, text
    page.finding("tx mtu exceeded, out by " + b.port)
    page.shows("reason-rows", "tx mtu exceeded", "out by %s (" % b.port, ", MTU 700)")
    assert "The MTU of port %s is 700 bytes; the packet has 928 behind its Ethernet header." % b.port in page.why("tx mtu exceeded")
    reply = json.loads(sluice(s, "why", "--json", "--seconds=0.6", *ask))
    assert "datapath_drop_tx_mtu_exceeded" in reply["conclusion"] and reply["tables"]["rule"].endswith("actions=NORMAL"), reply
    lab.sh("ip", "link", "set", b.port, "mtu", "1500")
    lab.wait_until(lambda: b.mac in s.appctl("fdb/show", "br0"), "an answer that teaches the address")
    s.vsctl("del-port", b.port)
    line, text = conclusion(s, *ask)
    assert line.startswith("Port %s was removed from bridge br0 " % b.port) and "; %s, to which packets are sent, was there." % b.mac in line, text
    s.vsctl("add-port", "br0", b.port)
    for _ in range(3):
        for state in ("down", "up"):
            before = s.vsctl("get", "interface", b.port, "link_resets")
            b.run("ip", "link", "set", "eth0", state)
            lab.wait_until(lambda: s.vsctl("get", "interface", b.port, "link_resets") != before, "the link is " + state)
    b.run("ip", "link", "set", "eth0", "down")
    lab.wait_until(lambda: " down* " in sluice(s, "top", "--once", "--interval=0.1", "--page=ports"), "top shows a link that flaps")
    page.finding("Port %s: its link comes and goes; it has changed " % b.port)
    page.shows("port-rows", b.port, "down, changed ")
    line, text = conclusion(s, *ask)
    assert "interface %s: the link is down, after " % b.port in s.log(), s.log()
    assert "Port %s has no link." % b.port in line and "The link of port %s has changed" % b.port in line, text


def test_packets_are_found_in_each_datapath():
    """With bridges of two types, which are two datapaths: sluice why finds the packets without being told where they are."""
    s, a, b = switch_with_two_namespaces()
    s.vsctl("add-br", lab.unique("brs"))
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flow", "br0", "icmp,actions=NORMAL")
    pinging(a)
    ask = ("icmp", "10.1.1.1", "10.1.1.2")
    lab.wait_until(lambda: conclusion(s, *ask)[0].startswith("Packets and answers pass the switch."), "packets pass")
    reply = json.loads(sluice(s, "why", "--json", "--seconds=0.6", *ask))
    assert reply["tables"]["datapath"] == "netdev@ovs-netdev" and reply["megaflow"]["packets-after"], reply


def test_answers_that_connection_tracking_does_not_know():
    """A connection of which the switch tracks one direction only: sluice why and the page."""
    s, a, b = switch_with_two_namespaces()
    s.ofctl("del-flows", "br0")
    for flow in ("priority=60000,tcp,in_port=1,actions=output:2", "tcp,ct_state=-trk,actions=ct(table=1)",
                 "table=1,tcp,ct_state=+trk+est,actions=NORMAL", "cookie=0x666,table=1,priority=100,tcp,ct_state=+trk+inv,actions=drop"):
        s.ofctl("add-flow", "br0", flow)
    b.spawn("python3", "-m", "http.server", "8000", "--bind", "10.1.1.2", **QUIET)
    lab.wait_until(lambda: ":8000" in b.run("ss", "-ltn"), "the server listens")
    a.spawn("sh", "-c", "while true; do curl -s -m 0.2 http://10.1.1.2:8000/; done", **QUIET)
    line, text = conclusion(s, "tcp", "10.1.1.1", "10.1.1.2:8000")
    assert line.startswith("Packets pass, but answers are dropped at port %s: drop_action_of_pipeline." % b.port), text
    assert "cookie=0x666, table_id=1," in line and "invalid (ct_state=inv|trk)" in line, text
    said = Page(s).why("in by " + b.port, "invalid for connection tracking")
    assert "The rule that drops it, bridge br0: cookie=0x666, table_id=1," in said and "it has not seen both directions" in said, said


def test_masks_controllers_and_misses():
    """Many masks, a controller that is away, and handlers that are too slow: sluice top, doctor, and the page."""
    s, a, _ = switch_with_two_namespaces()
    page = Page(s)
    s.vsctl("set-controller", "br0", "tcp:127.0.0.1:6699")
    lab.wait_until(lambda: "no connection to the controller tcp:127.0.0.1:6699: Connection refused" in sluice(s, "doctor"), "doctor names it")
    page.finding("Bridge br0: controller tcp:127.0.0.1:6699 is not connected")
    s.vsctl("del-controller", "br0")
    s.ofctl("del-flows", "br0")
    flows = "".join("priority=%d,udp,nw_src=10.%d.0.0/%d,nw_dst=10.2.0.0/%d,tp_src=%d,actions=drop\n" % (p + q, p, p, q, 7 + (p + q) % 2 * 2)
                    for p in range(8, 33) for q in (1, 8, 16, 24, 32))
    s.ofctl("add-flows", "br0", "-", input=flows + "priority=1,actions=output:2\n")
    random = ("lambda r: bytes([10, r.choice([1, 2, 4, 8, 16, 32, 64, 128, 9, 10, 12, 20, 24]), r.randrange(256), 1, "
              "10, r.choice([1, 2, 3, 66]), r.choice([0, 1]), 2])")
    a.run("python3", "-c", SENDER, "4000", random)
    top = sluice(s, "top", "--once", "--interval=0.1", "--page=flows")
    masks = int(top.splitlines()[0].split(", ")[1].split()[0])
    assert masks > 32 and top.splitlines()[1].startswith("Port %s has " % a.port), top
    page.finding("Port %s" % a.port, " masks", "Each mask costs a look-up")
    # Each packet is a miss, and its translation takes long.
    s.vsctl("set", "open_vswitch", ".", "other_config:n-handler-threads=1")
    flows = "".join("table=%d,actions=resubmit(,%d)\n" % (n, n + 1) for n in range(60))
    whole = "move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],move:NXM_OF_IP_DST[]->NXM_NX_REG1[],output:2"
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flows", "br0", "-", input=flows + "table=60,ip,actions=" + whole + "\n")
    for _ in range(2):
        a.spawn("python3", "-c", SENDER, "100000000", "lambda r: r.randbytes(8)", **QUIET)
    lab.wait_until(lambda: "datapath_drop_upcall_backlog" in sluice(s, "drops"), "packets are dropped because handlers are too slow", 20)
    page.finding("upcall backlog, in by " + a.port)
    page.shows("reason-rows", "upcall backlog", "n-handler-threads gives more threads")
    drops = sluice(s, "drops", "backlog")
    assert "  %s " % a.port in drops and "other_config:n-handler-threads gives more threads" in drops, drops

    def overloaded():
        thread, = json.loads(sluice(s, "top", "--json", "--interval=0.5"))[0]["threads"]
        return thread["upcalls-per-second"] > 1000 and thread["drops-per-second"] > 0

    lab.wait_until(overloaded, "top shows more than 1,000 upcalls in a second, and drops")


def test_full_rings_and_unbalanced_threads():
    """sluice top: a port that receives more than its thread can process, and a thread that has all queues; pmd plan: the moves
    that help."""
    from lib import dpdk
    dpdk.need()
    s = dpdk.Switch()
    s.other_config["pmd-cpu-mask"] = "0x3"
    s.start()
    s.secure_bridge("br0")
    # Each poll of a net_null port returns packets.
    s.add("br0", ("in", 1, "dpdk", {"dpdk-devargs": "net_null0", "n_rxq": "2"}, {"other_config:pmd-rxq-affinity": '"0:0,1:0"'}))
    s.flows("br0", "in_port=1,actions=drop")

    def shown():
        datapath, = json.loads(sluice(s, "top", "--json", "--interval=0.5"))
        threads = {t["core"]: t for t in datapath["threads"]}
        return threads[0], threads[1], [q for q in datapath["queues"] if q["port"] == "in"]

    def is_shown():
        full, idle, queues = shown()
        return (full["busy"] > 0.9 and full["isolated"] and full["queues"] == 2 and idle["busy"] < 0.5 and len(queues) == 2
                and all(q["full-burst-share"] > 0.9 and q["core"] == 0 for q in queues))

    lab.wait_until(is_shown, "top shows full queues on one of two threads", 20)
    text = sluice(s, "top", "--once", "--interval=0.3")
    assert " isolated\n" in text and "! Port in, queue 0: most polls find a full burst" in text, text
    assert "! Poll threads are unbalanced: core 0 is " in text and "(pmd-rxq-affinity)" in text, text
    page = Page(s)
    page.finding("Port in, queue 0: most polls find a full burst, so its ring is full. Thread pmd-c00 does not keep up.")
    page.finding("Poll threads are unbalanced: pmd-c00 is ", "The queues of pmd-c00 are bound to it (pmd-rxq-affinity)")
    # Without affinity a rebalance helps.
    s.vsctl("remove", "interface", "in", "other_config", "pmd-rxq-affinity", "--", "set", "open_vswitch", ".", "other_config:pmd-rxq-isolate=true")
    assert "dpif-netdev/pmd-rxq-rebalance" in sluice(s, "pmd", "plan")
    lab.wait_until(lambda: {q["core"] for q in shown()[2]} == {0, 1}, "both threads have a queue", 20)
