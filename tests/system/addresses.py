"""Ethernet addresses of the switch's own devices that another program changes, as with the stock switch."""
from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def steps(ours):
    """Changes the addresses of the bridge's port and of an internal port, and waits until they are back."""
    s = lab.Switch(ours=ours).start()
    bridge, port = lab.unique("sla"), lab.unique("slp")
    s.add_bridge(bridge)
    s.vsctl("add-port", bridge, port, "--", "set", "Interface", port, "type=internal", 'mac="02:00:00:00:00:77"')

    def address(device):
        return lab.sh("cat", "/sys/class/net/%s/address" % device).strip()

    lab.wait_until(lambda: address(port) == "02:00:00:00:00:77", "the internal port has its address")
    before = address(bridge)
    for device, wanted in ((bridge, before), (port, "02:00:00:00:00:77")):
        lab.sh("ip", "link", "set", device, "address", "02:00:00:00:00:99")
        lab.wait_until(lambda: address(device) == wanted, "%s has its address again" % device)
    s.stop()


def test_a_changed_address_is_restored():
    """The bridge's port gets the bridge's address back, and an internal port the address in its row."""
    lab.need_root()
    for ours in (True, False):
        steps(ours)
