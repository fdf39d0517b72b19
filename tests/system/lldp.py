"""LLDP and auto-attach: the messages of a port, its neighbours, and the VLANs of services, beside the stock switch."""
import os
import random

from lib import lab, raw

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

TO_BRIDGES, FROM_SERVER = "0180c200000e", "020000000009"


class Dummy(lab.Switch):
    """A switch with port p1 of type dummy, whose sent frames are recorded, with LLDP enabled; its time is stopped."""

    def __init__(self, ours):
        super().__init__(ours=ours, args=["--enable-dummy=override", "--disable-system"], datapath_type="dummy")

    def start(self):
        super().start()
        self.add_bridge("br0")
        self.vsctl("add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy", "options:tx_pcap=%s/p1.pcap" % self.dir,
                   "lldp:enable=true")
        self.vsctl("add-port", "br0", "p2", "--", "set", "interface", "p2", "type=dummy", "options:tx_pcap=%s/p2.pcap" % self.dir)
        self.appctl("time/stop")
        return self

    def frames(self, port="p1"):
        """The frames that a port sent, without their source addresses: dummies have addresses in the order of their creation."""
        return [frame.replace(self.mac(), "<mac>") for frame in raw.recorded("%s/%s.pcap" % (self.dir, port))]

    def mac(self):
        return self.vsctl("get", "interface", "p1", "mac_in_use").strip().strip('"').replace(":", "")

    def row(self):
        """The columns of the port that auto-attach changes."""
        return self.vsctl("get", "port", "p1", "trunks", "vlan_mode").split("\n")

    def wait_for_row(self, trunks):
        """Waits for these trunks. The stock switch applies changes when its time passes."""
        def there():
            self.appctl("time/warp", "1000")
            return self.row()[0] == trunks
        lab.wait_until(there, "trunks %s of %s" % (trunks, "our switch" if self.ours else "the stock switch"))

    def receive(self, frame, port="p1"):
        self.appctl("netdev-dummy/receive", port, frame)


def tlv(kind, value):
    """An element, as hexadecimal digits."""
    return "%04x" % (kind << 9 | len(value) // 2) + value


def message(*elements, ttl=120, port="eth0"):
    """A frame of a server of auto-attach."""
    mandatory = tlv(1, "04" + FROM_SERVER) + tlv(2, "05" + port.encode().hex()) + tlv(3, "%04x" % ttl)
    return TO_BRIDGES + FROM_SERVER + "88cc" + mandatory + "".join(elements) + tlv(0, "")


def decisions(*each):
    """The element with a server's decisions: service, VLAN and status of each."""
    return tlv(127, "00040d0c" + "00" * 32 + "".join("%04x%06x" % (status << 12 | vlan, isid) for isid, vlan, status in each))


# A server, with an identity of ten bytes.
SERVER = tlv(127, "00040d0b" + "00" * 32 + "08000000" + FROM_SERVER + "00000000")


def test_messages_and_columns_of_the_stock_switch():
    """The same settings: the same messages, the same columns of the port, and the same replies of commands."""
    lab.need_root()
    both = [Dummy(ours).start() for ours in (True, False)]
    for s in both:
        s.vsctl("set", "bridge", "br0", "auto_attach=@a", "--", "--id=@a", "create", "AutoAttach", "system_name=host1",
                "system_description=described", "mappings:66051=7", "mappings:5=100")
    for s in both:
        s.wait_for_row("[7, 100]")
    assert both[0].row() == both[1].row()
    for s in both:
        s.appctl("time/warp", "60000", "1000")
    ours, stock = [s.frames()[-1] for s in both]
    # The order of the services in the stock switch is that of a hash.
    at = len(stock) - 2 * 12
    services = sorted((stock[at:at + 10], stock[at + 10:at + 20]), key=lambda service: service[4:])
    assert ours == stock[:at] + "".join(services) + stock[at + 20:], (ours, stock)

    for s in both:
        s.receive(message(SERVER, decisions((5, 100, 2), (66051, 7, 4), (9, 9, 2))))
        s.appctl("time/warp", "100")
    lab.wait_until(lambda: "System Id" in both[1].appctl("autoattach/status"), "the stock switch has a neighbour")
    assert both[0].appctl("autoattach/status") == both[1].appctl("autoattach/status")
    ours, stock = [sorted(s.appctl("autoattach/show-isid", "br0").splitlines()) for s in both]
    assert ours == stock, (ours, stock)
    assert "5        100  Switch      Active     " in ours, ours

    for s in both:
        s.vsctl("del-aa-mapping", "br0", "66051", "7")
        s.wait_for_row("[100]")
    assert both[0].row() == both[1].row(), [s.row() for s in both]
    for s in both:
        s.vsctl("del-aa-mapping", "br0", "5", "100")
        s.wait_for_row("[]")
    assert both[0].row() == both[1].row(), [s.row() for s in both]


def test_messages_are_not_forwarded_while_lldp_is_enabled():
    """A message ends at a port with LLDP; without LLDP it is forwarded as the flows say."""
    lab.need_root()
    s = Dummy(True).start()
    s.ofctl("add-flow", "br0", "actions=output:2")
    s.receive(message())
    s.receive("020000000002" + FROM_SERVER + "88cc" + "00" * 46)
    s.receive("020000000002" + FROM_SERVER + "0800" + "00" * 46)
    s.appctl("time/warp", "100")
    lab.wait_until(lambda: len(s.frames("p2")) == 1, "only the packet without LLDP is forwarded")
    trace = s.appctl("ofproto/trace", "br0", "in_port=1,dl_type=0x88cc")
    assert "Datapath actions: drop" in trace and "Consists of LLDP packets" in trace, trace
    assert "port: eth0 (interface name)" in s.appctl("lldp/show", "p1")
    s.vsctl("set", "interface", "p1", "lldp:enable=false")
    lab.wait_until(lambda: s.appctl("lldp/show") == "", "the session ends")
    s.appctl("revalidator/wait")
    s.receive(message())
    s.appctl("time/warp", "100")
    lab.wait_until(lambda: len(s.frames("p2")) == 2, "the message is forwarded")


def test_a_neighbour_that_lies_uses_bounded_memory():
    """Random messages of random neighbours, valid and malformed: the number of neighbours is bounded, and the switch still works."""
    lab.need_root()
    s = Dummy(True).start()
    seed = lab.seed(1 << 32)
    draw = random.Random(seed)
    elements = [SERVER, decisions((1, 2, 3)), tlv(5, "41" * 255), tlv(6, "ff" * 511), tlv(8, "05010a000001020000000100"), tlv(99, "00"),
                tlv(7, "0004"), tlv(127, "0080c2"), tlv(1, "0401"), tlv(8, "ff"), "fe"]
    frames = []
    for _ in range(600):
        frame = message(*draw.sample(elements, draw.randrange(4)), ttl=draw.choice((0, 1, 65535)), port="eth%d" % draw.randrange(1000))
        at = 2 * draw.randrange(len(frame) // 2)
        frames.append(draw.choice((frame, frame[:at] + "%02x" % draw.randrange(256) + frame[at + 2:], frame[:max(at, 28)])))
    for n in range(0, len(frames), 50):
        s.appctl("netdev-dummy/receive", "p1", *frames[n:n + 50])
    s.appctl("time/warp", "100")
    counters = dict(line.strip().split(" cnt: ") for line in s.appctl("autoattach/statistics").splitlines()[1:])
    counters = {name: int(value) for name, value in counters.items()}
    assert 0 < counters["rx"] <= len(frames) and counters["rx discarded"] > 0 and counters["drop"] > 0, (seed, counters)
    assert counters["insert"] - counters["delete"] - counters["ageout"] <= 32, (seed, counters)
    assert s.appctl("lldp/show", "p1").count("  chassis: ") <= 32, seed
    s.appctl("time/warp", "70000000", "1000000")
    assert s.appctl("lldp/show", "p1").count("  chassis: ") == 0, seed


def test_two_hosts_discover_each_other():
    """Two switches at the ends of a link, one of them in another namespace: each shows the other's port."""
    lab.need_root()
    far = lab.Namespace()
    here, there = lab.Switch().start(), lab.Switch()
    there.network = far
    there.start()
    for s, port in ((here, far.port), (there, "eth0")):
        s.add_bridge("br0", port)
        s.vsctl("set", "interface", port, "lldp:enable=true", "--", "set", "bridge", "br0", "auto_attach=@a", "--", "--id=@a", "create",
                "AutoAttach", "system_name=" + os.path.basename(s.dir))
    for s, other, port in ((here, there, "eth0"), (there, here, far.port)):
        def shown():
            text = s.appctl("lldp/show")
            return "port: %s (interface name)" % port in text and "system name: " + os.path.basename(other.dir) in text
        lab.wait_until(shown, "the neighbour on " + port)
