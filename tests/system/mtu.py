"""The MTU of a bridge's own port, which is the smallest of its ports, as with the stock switch."""
from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def steps(ours):
    """The MTU of the bridge's port after each change of another port or of itself."""
    s = lab.Switch(ours=ours).start()
    bridge, a = lab.unique("slm"), lab.Namespace("10.1.1.1/24")
    s.add_bridge(bridge, a.port)

    def mtu(port):
        return s.vsctl("get", "interface", port, "mtu").strip()

    seen = [mtu(bridge)]
    for port, change, settled in ((a.port, ("ip", "link", "set", a.port, "mtu", "1400"), "1400"),
                                  (bridge, ("ip", "link", "set", bridge, "mtu", "1300"), "1300"),
                                  (a.port, ("ip", "link", "set", a.port, "mtu", "1450"), "1450"),
                                  (a.port, ("mtu_request=1350",), "1350"), (bridge, ("mtu_request=1200",), "1200"),
                                  (a.port, ("mtu_request=1420",), "1420")):
        if change[0] == "ip":
            lab.sh(*change)
        else:
            s.vsctl("set", "interface", port, *change)
        lab.wait_until(lambda: mtu(port) == settled, "%s: %s" % (port, change))
        seen.append(change[-1])
        # The stock switch changes the bridge's port in a later turn.
        for other in (a.port, bridge):
            s.vsctl("set", "interface", other, "external_ids:x=y")
        lab.wait_until(lambda: mtu(bridge) == lab.sh("cat", "/sys/class/net/%s/mtu" % bridge).strip(), "the row of the bridge's port")
        seen.append(mtu(bridge))
    s.stop()
    return seen


def test_the_bridge_follows_its_smallest_port():
    """The bridge's port has the smallest MTU of its ports, whether set by the row or by the host, unless its own row asks for another."""
    lab.need_root()
    assert steps(ours=True) == steps(ours=False)
