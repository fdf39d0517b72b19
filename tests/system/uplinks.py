"""Bonds between two hosts with two links: LACP with the stock switch and with ours, and link failures under traffic."""
from lib import lab
from lib.uplinks import WIRES, pair


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
