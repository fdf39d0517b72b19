"""Two hosts with a switch each, joined by links that form a bond."""
from lib import lab

WIRES = ("w1", "w2")


class Host:
    """A network namespace with a switch whose bridge has a guest and a bond of some links.

    `program`: the daemon to run instead of the stock switch.
    """

    def __init__(self, number, ours, wires=WIRES, program=None):
        self.net, self.guest, self.switch, self.wires = lab.Network(), lab.Network(), lab.Switch(ours=ours), wires
        self.switch.program = program
        self.switch.network = self.net
        self.address = "10.41.0.%d" % number

    def start(self, mode, *settings):
        s = self.switch.start()
        s.add_bridge("br0")
        self.net.run("ip", "link", "add", "guest", "type", "veth", "peer", "name", "eth0", "netns", self.guest.name)
        self.guest.run("ip", "address", "add", self.address + "/24", "dev", "eth0")
        self.guest.run("ip", "link", "set", "eth0", "up")
        for device in (*self.wires, "guest"):
            self.net.run("ip", "link", "set", device, "up")
        s.vsctl("add-port", "br0", "guest")
        if mode:
            s.vsctl("add-bond", "br0", "bond0", *self.wires, "bond_mode=" + mode, *settings)
        else:
            for wire in self.wires:
                s.vsctl("add-port", "br0", wire)

    def reaches(self, other, count=5):
        """Whether all echo requests are answered."""
        out = self.guest.run("ping", "-c", count, "-i", "0.05", "-W", "1", other.address, check=False)
        return "%d received" % count in out and " 0%" in out

    def shows(self, *words):
        text = self.switch.appctl("bond/show", "bond0")
        return all(word in text for word in words)


def pair(kinds, mode, *settings, both=True, wires=WIRES, program=None):
    """Two hosts, each `True` for ours or `False` for the stock switch, with a bond between them; `both=False`: the
    second one has no bond configured."""
    hosts = [Host(i + 1, ours, wires, program) for i, ours in enumerate(kinds)]
    for wire in wires:
        lab.sh("ip", "link", "add", wire, "netns", hosts[0].net.name, "type", "veth",
               "peer", "name", wire, "netns", hosts[1].net.name)
    hosts[0].start(mode, *settings)
    hosts[1].start(mode if both else None, *settings)
    return hosts
