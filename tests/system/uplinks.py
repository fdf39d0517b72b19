"""Bonds between two hosts with two links: LACP with the stock switch and with ours, and link failures under traffic."""
import re
import time

from lib import lab
from lib.uplinks import WIRES, pair

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

# Sends two kinds of frames in turn as fast as it can: LACP messages with changing keys, and ARP requests from changing addresses.
FLOOD = """
import itertools, socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
info = lambda key: struct.pack("!BBH6sHHHB3x", 1, 20, 1, b"\\x02Flood", key, 1, 1, 0x3d)
for n in itertools.count():
    key = n % 60000
    lacp = b"\\x01\\x80\\xc2\\0\\0\\2\\x02Flood\\x88\\x09\\1\\1" + info(key) + b"\\2\\x14" + info(key)[2:] + b"\\3\\x10" + bytes(66)
    mac = struct.pack("!HI", 0x0200, n % 50000)
    arp = b"\\xff" * 6 + mac + b"\\x08\\6\\0\\1\\x08\\0\\6\\4\\0\\1" + mac + struct.pack("!I", n) + bytes(6) + struct.pack("!I", n + 1) + bytes(18)
    for frame in (lacp, arp):
        try: s.send(frame)
        except OSError: pass
"""


def each_link_fails(a, b):
    """Traffic continues on the other link, in both directions, and uses both links again afterwards."""
    for wire in WIRES:
        a.net.run("ip", "link", "set", wire, "down")
        lab.wait_until(lambda: a.shows("member %s: disabled" % wire), "the link to be seen down")
        lab.wait_until(lambda: a.reaches(b) and b.reaches(a), "traffic by the other link")
        a.net.run("ip", "link", "set", wire, "up")
        lab.wait_until(lambda: a.shows("member w1: enabled", "member w2: enabled"), "both links")


def test_active_backup_goes_on_by_the_other_link():
    """An active-backup bond between two of our switches: whichever link fails, traffic continues."""
    a, b = pair((True, True), "active-backup")
    lab.wait_until(lambda: a.reaches(b), "the guests")
    each_link_fails(a, b)
    mac = a.switch.vsctl("get", "port", "bond0", "bond_active_slave").strip().strip('"')
    assert "active member mac: %s(" % mac in a.switch.appctl("bond/show", "bond0"), mac


def test_balance_slb_shares_stations():
    """The other end is a plain switch: floods return on both links, and it learns the new place of addresses when a link fails."""
    a, b = pair((True, False), "balance-slb", both=False)
    lab.wait_until(lambda: a.reaches(b), "the guests")
    each_link_fails(a, b)


def negotiated(ours, mode, *settings):
    a, b = pair((True, ours), mode, "lacp=active", "other_config:lacp-time=fast", *settings)
    lab.wait_until(lambda: a.shows("lacp_status: negotiated", "member w1: enabled", "member w2: enabled"), "LACP")
    lab.wait_until(lambda: a.reaches(b) and b.reaches(a), "the guests")
    return a, b


def test_lacp_with_the_stock_switch():
    """Both ends negotiate, and connections are distributed; a failed link is not used, and its end sends nothing on it."""
    a, b = negotiated(False, "balance-tcp")
    each_link_fails(a, b)
    current = a.switch.vsctl("get", "interface", "w1", "lacp_current").strip()
    assert current == "true", current
    assert "partner state: activity timeout aggregation synchronized collecting distributing" in \
        a.switch.appctl("lacp/show", "bond0")
    # The other end stops sending LACP: the bond carries nothing until it resumes.
    b.switch.vsctl("set", "port", "bond0", "lacp=off")
    lab.wait_until(lambda: a.shows("lacp_status: configured"), "the other end to be forgotten")
    assert not a.reaches(b, count=1)
    b.switch.vsctl("set", "port", "bond0", "lacp=passive")
    lab.wait_until(lambda: a.reaches(b), "the other end again")


def messages(host):
    """LACP messages that the links of the bond sent and received, and how often a link expired."""
    text = host.switch.appctl("lacp/show-stats", "bond0")
    return [sum(int(n) for n in re.findall(what + r": (\d+)", text)) for what in ("TX PDUs", "RX PDUs", "Link Expired")]


def test_floods_do_not_delay_lacp():
    """While one port is flooded with LACP messages and ARP requests, the links of a bond send and receive LACP each second, and none expires."""
    a, b = negotiated(False, "balance-tcp")
    attacker = lab.Namespace()
    lab.sh("ip", "link", "set", attacker.port, "netns", a.net.name)
    a.net.run("ip", "link", "set", attacker.port, "up")
    a.switch.vsctl("add-port", "br0", attacker.port, "--", "set", "port", attacker.port, "lacp=passive")
    sent, received, expired = messages(a)
    began, floods = time.time(), [attacker.spawn("python3", "-c", FLOOD) for _ in range(2)]
    lab.wait_until(lambda: messages(a)[1] >= received + 8, "four messages of each link", 10)
    took = time.time() - began
    flooded = int(re.search(r"RX PDUs: (\d+)", a.switch.appctl("lacp/show-stats", attacker.port))[1])
    for flood in floods:
        flood.kill()
    # One a second for each link; an expired link sends and receives nothing for up to three seconds.
    later = messages(a)
    assert later[2] == expired, (later, expired)
    assert later[0] - sent >= 2 * (took - 2), (later, sent, took)
    assert flooded > 1000, flooded


def connect(a, b):
    """Sends three datagrams by each of 200 connections."""
    a.guest.run("python3", "-c", """
import socket
for port in range(20000, 20200):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(3):
        s.sendto(b"x" * 1400, ("%s", port))
""" % b.address)


def sent(host, wire):
    """How many packets have left by a wire."""
    return int(host.net.run("cat", "/sys/class/net/%s/statistics/tx_packets" % wire))


def test_connections_are_shared_between_links():
    """Of many connections each link carries some, and they are counted by bucket."""
    a, b = negotiated(True, "balance-tcp")
    connect(a, b)
    assert all(sent(a, wire) > 100 for wire in WIRES), [sent(a, w) for w in WIRES]
    lab.wait_until(lambda: a.shows("kB load"), "loads of buckets")


def test_connections_are_shared_in_the_datapath():
    """With `lb_output` one megaflow serves all connections, without a second look-up; a link that fails gets nothing more."""
    a, b = negotiated(True, "balance-tcp", "other_config:lb-output-action=true")
    lab.wait_until(lambda: a.shows("lb_output action: enabled"), "the datapath to share")
    recirculated = lambda: [line for line in a.switch.appctl("dpctl/dump-flows").splitlines() if "dp_hash" in line]
    connect(a, b)
    flows = a.switch.appctl("dpctl/dump-flows")
    assert "lb_output(" in flows and not recirculated(), flows
    assert all(sent(a, wire) > 100 for wire in WIRES), [sent(a, w) for w in WIRES]
    assert a.shows("kB load"), a.switch.appctl("bond/show")
    buckets = lambda: a.switch.appctl("dpif-netdev/bond-show").splitlines()
    assert len(buckets()) == 2 + 256 and len({line.split()[-1] for line in buckets()[2:]}) == 2, buckets()
    each_link_fails(a, b)
    a.net.run("ip", "link", "set", "w1", "down")
    lab.wait_until(lambda: len({line.split()[-1] for line in buckets()[2:]}) == 1, "the other link to have all buckets")
    before = sent(a, "w2")
    connect(a, b)
    assert sent(a, "w2") >= before + 600, sent(a, "w2") - before
    # The other way, and nothing is left in the datapath.
    a.switch.vsctl("set", "port", "bond0", "other_config:lb-output-action=false")
    lab.wait_until(lambda: not buckets(), "the datapath to forget the bond")
    lab.wait_until(lambda: a.reaches(b), "the guests")
    connect(a, b)
    assert recirculated() and "lb_output" not in a.switch.appctl("dpctl/dump-flows")
