"""STP and RSTP: one link of a ring of switches, ours and stock ones, does not forward; it replaces a link that is lost."""
import itertools
import signal
import time

from lib import lab

# The timers of the protocols leave time for a busy machine.
ANY_LOAD = True

# The fastest timers of STP: a port forwards after 8 s, and information expires after 6 s.
FAST = ("other_config:stp-forward-delay=4", "other_config:stp-max-age=6", "other_config:stp-hello-time=1")
ENABLE = {"stp": ("stp_enable=true", *FAST), "rstp": ("rstp_enable=true",)}


class Host:
    """A network with a switch, whose bridge has a guest and the wires to other hosts."""

    def __init__(self, number, ours):
        self.net, self.guest, self.switch = lab.Network(), lab.Network(), lab.Switch(ours=ours)
        self.switch.network, self.number, self.wires = self.net, number, []
        self.address = "10.42.0.%d" % number

    def start(self, protocol):
        s = self.switch.start()
        s.add_bridge("br0")
        self.net.run("ip", "link", "add", "guest", "type", "veth", "peer", "name", "eth0", "netns", self.guest.name)
        self.guest.run("ip", "address", "add", self.address + "/24", "dev", "eth0")
        self.guest.run("ip", "link", "set", "eth0", "up")
        # All priorities are equal, so the host with the lowest address, number 1, is the root.
        s.vsctl("set", "bridge", "br0", "other_config:hwaddr=00:11:22:33:44:%02x" % self.number, *ENABLE[protocol])
        for device in ("guest", *self.wires):
            self.net.run("ip", "link", "set", device, "up")
            # The stock switch does not flood to ports that take no part in RSTP. So the guest's port takes part, as an edge port.
            edge = ["--", "set", "port", device, "other_config:rstp-port-admin-edge=true"] if device == "guest" else []
            s.vsctl("add-port", "br0", device, *edge)

    def states(self, protocol):
        """Roles and states of the wires, by name."""
        lines = [line.split() for line in self.switch.appctl(protocol + "/show", "br0").splitlines()]
        return {words[0]: (words[1].lower(), words[2].lower()) for words in lines if words and words[0] in self.wires}

    def reaches(self, other):
        out = self.guest.run("ping", "-c", "3", "-i", "0.05", "-W", "0.3", other.address, check=False)
        return "3 received" in out


class Ring:
    """Hosts in a ring; `kinds`: whether each switch is ours."""

    def __init__(self, kinds, protocol):
        self.protocol = protocol
        self.hosts = [Host(i + 1, ours) for i, ours in enumerate(kinds)]
        for a, b in zip(self.hosts, self.hosts[1:] + self.hosts[:1]):
            wire = "w%d%d" % (a.number, b.number)
            lab.sh("ip", "link", "add", wire, "netns", a.net.name, "type", "veth", "peer", "name", wire, "netns", b.net.name)
            a.wires.append(wire)
            b.wires.append(wire)
        for host in self.hosts:
            host.start(protocol)

    def blocked(self):
        """The wire of each end that does not forward, except disabled ends. None: the state of some end is still changing."""
        ends = [(wire, state) for host in self.hosts for wire, (role, state) in host.states(self.protocol).items()
                if role != "disabled"]
        changing = [end for end in ends if end[1] not in ("forwarding", "blocking", "discarding")]
        return None if changing else [wire for wire, state in ends if state != "forwarding"]

    def settle(self, blocked, seconds):
        def settled():
            wires = self.blocked()
            return wires is not None and len(wires) == blocked
        try:
            lab.wait_until(settled, "%d ports are blocked" % blocked, seconds)
        except AssertionError as e:
            shown = [host.switch.appctl(self.protocol + "/show", "br0") for host in self.hosts]
            raise AssertionError("\n".join([str(e), *shown])) from e

    def wait_until_connected(self, seconds=5):
        for a, b in itertools.permutations(self.hosts, 2):
            lab.wait_until(lambda a=a, b=b: a.reaches(b), "%s reaches %s" % (a.address, b.address), seconds)

    def is_quiet(self):
        """Whether there is no loop: after five broadcast pings a guest has received fewer than 50 packets."""
        guest = self.hosts[0].guest
        before = guest.received()
        self.hosts[1].guest.run("ping", "-b", "-c", "5", "-i", "0.05", "-W", "0.1", "10.42.0.255", check=False)
        time.sleep(0.3)
        return guest.received() - before < 50

    def cut(self, wire):
        """Sets one end of a wire down; both ends lose their link."""
        owner = next(host for host in self.hosts if wire in host.wires)
        owner.net.run("ip", "link", "set", wire, "down")


def check_ring(kinds, protocol, start, repair):
    """Checks a ring. start, repair: seconds until a new ring forwards, and until another path replaces a lost one."""
    ring = Ring(kinds, protocol)
    ring.settle(1, start)
    ring.wait_until_connected()
    assert ring.is_quiet()
    for host in ring.hosts[1:]:
        assert "This bridge is the root" not in host.switch.appctl(protocol + "/show", "br0")
    # Both wires of the root forward at both ends. The wire between the other two switches is blocked at one end.
    assert ring.blocked() == ["w23"], ring.blocked()
    ring.cut("w12")
    started = time.time()
    ring.wait_until_connected(repair)
    took = time.time() - started
    ring.settle(0, repair)
    assert ring.is_quiet()
    ring.hosts[0].net.run("ip", "link", "set", "w12", "up")
    ring.hosts[1].net.run("ip", "link", "set", "w12", "up")
    ring.settle(1, start)
    ring.wait_until_connected()
    assert ring.is_quiet()
    return took


def need_stock():
    if not lab.Switch().ours:
        raise lab.Skip("asks our switch and the stock one")
    lab.need("ovs-vswitchd")


def test_a_ring_of_rstp():
    """Three of our switches in a ring: one end is blocked, and within seconds another path replaces a lost wire."""
    check_ring((True, True, True), "rstp", start=20, repair=5)


def test_the_stock_switch_is_the_root_of_rstp():
    """The same with the stock switch as root."""
    need_stock()
    check_ring((False, True, True), "rstp", start=20, repair=10)


def test_the_stock_switch_obeys_a_root_of_rstp():
    """The same with the stock switch as designated bridge of the blocked wire, and then as the switch that blocks it."""
    lab.need_long_run()
    need_stock()
    check_ring((True, False, True), "rstp", start=20, repair=10)
    lab.clean_up()
    check_ring((True, True, False), "rstp", start=20, repair=10)


def test_the_stock_switch_is_the_root_of_stp():
    """STP: the same, within its timers."""
    need_stock()
    check_ring((False, True, True), "stp", start=30, repair=30)


def test_the_stock_switch_obeys_a_root_of_stp():
    """The same with the stock switch as designated bridge of the blocked wire."""
    lab.need_long_run()
    need_stock()
    check_ring((True, False, True), "stp", start=30, repair=30)


def test_a_neighbour_that_is_silent():
    """A stock root that is stopped, while its links stay up, is considered lost after three hello times; it comes back."""
    need_stock()
    ring = Ring((False, True, True), "rstp")
    ring.settle(1, 20)
    root = ring.hosts[0].switch
    root.daemon.send_signal(signal.SIGSTOP)
    others = ring.hosts[1:]
    lab.wait_until(lambda: "This bridge is the root" in others[0].switch.appctl("rstp/show", "br0"), "a new root", 12)
    lab.wait_until(lambda: others[0].reaches(others[1]), "the others reach each other", 12)
    root.daemon.send_signal(signal.SIGCONT)
    ring.settle(1, 20)
    ring.wait_until_connected(10)


def test_rows_and_descriptions_of_ports():
    """Columns of bridge and port, the state in OpenFlow port descriptions, and both protocols at once."""
    lab.need_root()
    s, a = lab.Switch().start(), lab.Namespace()
    br = lab.unique("slb")
    s.add_bridge(br, a.port)
    s.vsctl("set", "bridge", br, "stp_enable=true", "other_config:stp-priority=4096", *FAST)

    def column(*words):
        return s.vsctl("get", *words).strip().strip('"')

    lab.wait_until(lambda: "STP_LEARN" in s.ofctl("dump-ports-desc", br), "the port learns", 10)
    lab.wait_until(lambda: "STP_FORWARD" in s.ofctl("dump-ports-desc", br), "the port forwards", 10)
    lab.wait_until(lambda: column("port", a.port, "status:stp_state") == "forwarding", "the row of the port", 10)
    assert column("port", a.port, "status:stp_role") == "designated"
    assert column("port", a.port, "status:stp_port_id") == str(128 << 8 | 1)
    identifier = column("bridge", br, "status:stp_bridge_id")
    assert identifier.startswith("1000.") and column("bridge", br, "status:stp_designated_root") == identifier
    lab.wait_until(lambda: int(column("port", a.port, "statistics:stp_tx_count")) > 0, "messages are counted", 10)
    s.vsctl("set", "bridge", br, "rstp_enable=true")
    lab.wait_until(lambda: column("bridge", br, "rstp_status") != "{}", "the status of RSTP")
    lab.wait_until(lambda: column("bridge", br, "status") == "{}", "no status of STP")
    assert "%s: RSTP and STP are mutually exclusive but both are configured; enabling RSTP" % br in s.log()
    lab.wait_until(lambda: column("port", a.port, "rstp_status:rstp_port_state") == "Forwarding", "the row of the port", 10)
    s.vsctl("set", "bridge", br, "rstp_enable=false", "stp_enable=false")
    lab.wait_until(lambda: column("port", a.port, "rstp_status") == column("port", a.port, "status") == "{}", "nothing is left")


def test_messages_do_not_wait_for_the_main_loop():
    """While the main loop is busy creating devices, BPDUs are sent: the neighbour does not miss its root."""
    ring = Ring((True, True, True), "rstp")
    ring.settle(1, 20)
    root = ring.hosts[0].switch
    words = []
    for name in [lab.unique("slb") for _ in range(60)]:
        words += ["--", "add-port", "br0", name, "--", "set", "interface", name, "type=internal"]
    root.vsctl(*words[1:])
    for host in ring.hosts[1:]:
        assert "This bridge is the root" not in host.switch.appctl("rstp/show", "br0")
        assert host.switch.log().count("detected topology change") < 10
    assert ring.blocked() == ["w23"], ring.blocked()
