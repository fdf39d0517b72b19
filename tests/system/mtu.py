"""The MTU of a bridge's own port, which is the smallest of its ports, as with the stock switch."""
from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def steps(ours):
    """Changes another port or the bridge's own, by the host and by rows, and waits for the MTU that the bridge's port must have."""
    s = lab.Switch(ours=ours).start()
    bridge, a = lab.unique("slm"), lab.Namespace("10.1.1.1/24")
    s.add_bridge(bridge, a.port)

    def mtu(port):
        return s.vsctl("get", "interface", port, "mtu").strip()

    for port, by_host, asked, expected in ((a.port, True, "1400", "1400"), (bridge, True, "1300", "1300"), (a.port, True, "1450", "1450"),
                                           (a.port, False, "1350", "1350"), (bridge, False, "1200", "1200"), (a.port, False, "1420", "1200")):
        if by_host:
            lab.sh("ip", "link", "set", port, "mtu", asked)
        else:
            s.vsctl("set", "interface", port, "mtu_request=" + asked)
        what = "%s of %s, %s" % (asked, port, "by the host" if by_host else "by its row")
        lab.wait_until(lambda: mtu(port) == asked, what)
        lab.wait_until(lambda: mtu(bridge) == expected, what + ": the bridge's port has %s" % expected)
        assert lab.sh("cat", "/sys/class/net/%s/mtu" % bridge).strip() == expected, what
    s.stop()


def test_the_bridge_follows_its_smallest_port():
    """The bridge's port has the smallest MTU of its ports, whether set by the row or by the host, unless its own row asks for another."""
    lab.need_root()
    for ours in (True, False):
        steps(ours)
