"""Explanations by the switch: ofproto/trace --last-drop and ofproto/detrace."""
import re

from lib import lab
from lib.pair import ping, switch_with_two_namespaces

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def test_why_the_last_packet_was_dropped():
    """--last-drop prints the reason, the packet and the deciding rule, per port, and detects if the packet would pass now."""
    s, a, b = switch_with_two_namespaces()
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flow", "br0", "priority=5,arp,actions=NORMAL")
    s.ofctl("add-flow", "br0", "priority=5,icmp,actions=resubmit(,4)")
    s.ofctl("add-flow", "br0", "table=4,priority=6,icmp,icmp_type=0,actions=NORMAL")
    s.ofctl("add-flow", "br0", "table=4,priority=7,icmp,nw_tos=32,cookie=0x77,actions=drop")

    def asked(*words):
        text = s.appctl("ofproto/trace", "--last-drop", *words)
        assert re.match(r"Port %s \(\d+ of netdev@ovs-netdev\), \d+\.\d{3} s ago: drop_action_of_pipeline\nThe OpenFlow tables send the packet nowhere\.\n"
                        r"Packet, \d+ bytes, as it was then: [0-9a-f]+\n\nFlow: " % (words[1] if len(words) > 1 else a.port), text), text
        return text, text.splitlines()[-1]

    assert not ping(a, "10.1.1.2")
    text, conclusion = asked("br0", a.port)
    assert "Flow: icmp,in_port=1," in text and "icmp_type=8" in text, text
    assert conclusion == "Dropped by the tables as they are now. Deciding rule, bridge br0: no flow of table 4 matches", conclusion
    assert not ping(a, "10.1.1.2", "-Q", "32")
    for words in ((), ("br0",), ("ovs-netdev",), ("br0", a.port)):
        text, conclusion = asked(*words)
        assert "nw_tos=32" in text and re.search(r"Deciding rule, bridge br0: cookie=0x77, table_id=4, .*nw_tos=32,actions=drop$", conclusion), text
    # The upcall drops the first packet of a flow; the megaflow drops the next ones.
    assert not ping(b, "10.1.1.1", "-Q", "32", "-c", "3", "-i", "0.2")
    assert "nw_src=10.1.1.2" in asked("br0", b.port)[0]
    assert "nw_src=10.1.1.1" in asked("br0", a.port)[0]
    # The command has no side effects, and uses the present tables.
    before = s.ofctl("dump-flows", "br0", "table=4")
    s.appctl("ofproto/trace", "--last-drop", "br0")
    counts = re.compile(r"n_packets=\d+")
    assert counts.findall(before) == counts.findall(s.ofctl("dump-flows", "br0", "table=4"))
    s.ofctl("mod-flows", "br0", "table=4,icmp,nw_tos=32,actions=NORMAL")
    text, conclusion = asked("br0", a.port)
    assert conclusion.startswith("Not dropped by the tables as they are now. Deciding rule, bridge br0: table_id=4"), text
    assert ping(a, "10.1.1.2", "-Q", "32")


def test_why_a_port_did_not_send():
    """--last-drop reports packets that a device did not accept, and selects drops by flow or reason."""
    s, a, b = switch_with_two_namespaces()
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flow", "br0", "arp,actions=NORMAL")
    s.ofctl("add-flow", "br0", "icmp,actions=output:2")
    s.ofctl("add-flow", "br0", "udp,tp_dst=53,actions=drop")
    lab.sh("ip", "link", "set", b.port, "mtu", "700")
    lab.wait_until(lambda: s.vsctl("get", "interface", b.port, "mtu").strip() == "700", "the port's MTU")

    def asked(*words):
        return s.appctl("ofproto/trace", "--last-drop", *words)

    assert not ping(a, "10.1.1.2", "-s", "900")
    head = r"Output by port %s \(\d+ of netdev@ovs-netdev\), \d+\.\d{3} s ago: datapath_drop_tx_mtu_exceeded\nThe packet is longer than the MTU of the port" % b.port
    why = "The tables sent it to this port, which did not send it. The port's MTU is 700 bytes now"
    text = asked("br0", b.port)
    assert re.match(head + r" that should send it\.\nPacket, 942 bytes, as it was then: [0-9a-f]{1884}\n\nFlow as it was to be sent: icmp,", text) and why in text, text
    # Later drops of other kinds, even a flood of one kind, do not displace the record of this drop.
    send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); [s.sendto(bytes(8), ('10.1.1.2', 53)) for _ in range(300)]"
    a.run("python3", "-c", send + "; s.sendto(bytes(8), ('10.1.1.2', 54))")
    lab.wait_until(lambda: "tp_dst=54" in asked("--list", "br0"), "the last packet is dropped")
    for words in (("--reason", "mtu"), ("--reason=mtu", "br0"), ("--filter", "icmp,nw_dst=10.1.1.0/24", "br0", b.port)):
        assert re.match(head, asked(*words)), asked(*words)
    for port in (53, 54):
        text = asked("--filter=udp,tp_dst=%d" % port, "br0", a.port)
        assert re.match(r"Port %s \(" % a.port, text) and "tp_dst=%d" % port in text, text
    lines = asked("--list").splitlines()
    flows = [re.search(r": (\w+): \d+ bytes, (\w+),.*?(tp_dst=\d+)?$", line).groups() for line in lines]
    assert [reason for reason, *_ in flows].count("datapath_drop_tx_mtu_exceeded") == 1, lines
    # A line for each flow, the newest first.
    assert [port for _, kind, port in flows if kind == "udp"] == ["tp_dst=54", "tp_dst=53"], lines
    assert len(asked("--list", "--filter", "udp").splitlines()) == 2
    for words, error in ((("--filter", "tcp"), "no such packet of any port was dropped"), (("--filter",), "--filter: needs a flow"),
                         (("--filter", "table=1,tcp"), "packets have no table"), (("--filter", "nosuch=1"), "nosuch")):
        try:
            raise SystemExit(asked(*words))
        except AssertionError as e:
            assert error in str(e), e


def test_nothing_to_tell():
    """--last-drop reports that nothing was dropped, and refuses unknown arguments."""
    s, a, _ = switch_with_two_namespaces()
    for words, error in ((("br0", "nosuch"), "br0 has no port nosuch"), (("br9",), "br9: unknown bridge or datapath"),
                         (("--reason", "nosuch", "br0"), "no such packet of br0 was dropped"), (("br0", a.port, "x"), "too many arguments"),
                         (("--generate",), "--generate: not an option of --last-drop")):
        try:
            raise SystemExit(s.appctl("ofproto/trace", "--last-drop", *words))
        except AssertionError as e:
            assert error in str(e), e


def test_what_is_behind_a_datapath_flow():
    """ofproto/detrace prints the rules and the group of a megaflow, with their counters."""
    s, a, b = switch_with_two_namespaces()
    s.ofctl("del-flows", "br0")
    s.ofctl("-OOpenFlow13", "add-group", "br0", "group_id=1,type=all,bucket=output:2")
    s.ofctl("add-flow", "br0", "cookie=0x12,priority=100,ip,in_port=1,actions=resubmit(,1)")
    s.ofctl("-OOpenFlow13", "add-flow", "br0", "table=1,priority=200,ip,actions=group:1")
    s.ofctl("add-flow", "br0", "in_port=2,actions=output:1")
    assert ping(a, "10.1.1.2")
    flows = s.appctl("dpctl/dump-flows", "-m", "--names").splitlines()
    ufid = next(line.split(",")[0] for line in flows if "in_port(%s)" % a.port in line and "0x0800" in line)
    lines = [re.sub(r"duration=\d+s, |n_offload_\w+=0, ", "", line) for line in s.appctl("ofproto/detrace", ufid).splitlines()]
    assert lines == ["cookie=0x12, n_packets=1, n_bytes=98, priority=100,ip,in_port=1,actions=resubmit(,1)",
                     "table_id=1, n_packets=1, n_bytes=98, priority=200,ip,actions=group:1",
                     "group_id=1,type=all,bucket=bucket_id:0,actions=output:2"], lines
    gone = ufid[:-4] + "0000"
    assert s.appctl("ofproto/detrace", gone) == "UFID was not found for netdev@ovs-netdev\n"
