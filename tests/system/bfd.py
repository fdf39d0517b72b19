"""BFD and CFM: detect whether the other end of a link is alive."""
import signal
import time

from lib import lab


class Link:
    """Our switch at one end of a veth pair, the stock one at the other."""

    def __init__(self, *settings):
        """settings: those of the interface at each end, with %d for the number of the end, counted from 1."""
        self.namespace = lab.Namespace()
        self.ours, self.stock = lab.Switch().start(), lab.Switch(ours=False)
        if not self.ours.ours:
            raise lab.Skip("asks our switch and the stock one")
        self.stock.network = self.namespace
        self.stock.start()
        self.ends = ((self.ours, self.namespace.port), (self.stock, "eth0"))
        for number, (switch, port) in enumerate(self.ends, 1):
            switch.add_bridge("br0", port)
            switch.vsctl("set", "interface", port, *[text.replace("%d", str(number)) for text in settings])

    def column(self, end, name):
        switch, port = self.ends[end]
        return switch.vsctl("get", "interface", port, name).strip()

    def wait_for_columns(self, end, **wanted):
        def there():
            return all(self.column(end, name) == value for name, value in wanted.items())
        lab.wait_until(there, "%s at end %d" % (wanted, end))

    def status(self, end, key):
        switch, port = self.ends[end]
        return switch.vsctl("--if-exists", "get", "interface", port, "bfd_status:" + key).strip().strip('"')

    def wait_for(self, end, **wanted):
        def there():
            return all(self.status(end, key) == value for key, value in wanted.items())
        lab.wait_until(there, "%s at end %d" % (wanted, end))

    def messages(self):
        """Number of packets received on the veth at each end."""
        ours = lab.sh("cat", "/sys/class/net/%s/statistics/rx_packets" % self.namespace.port)
        return int(ours), self.namespace.received()

    def is_live(self):
        """Whether the port is live for controllers, and for groups that watch it."""
        told = "LIVE" in self.ours.ofctl("-O", "OpenFlow14", "dump-ports-desc", "br0", self.namespace.port)
        sends = "Datapath actions: drop" not in self.ours.appctl("ofproto/trace", "br0", "in_port=LOCAL,ip")
        assert told == sends, (told, sends)
        return told


def bfd(pace):
    """Settings of a session with this many milliseconds between messages."""
    return "bfd:enable=true", "bfd:min_tx=%d" % pace, "bfd:min_rx=%d" % pace


def test_the_stock_switch_understands_our_cfm():
    """CFM: each end hears the other. When the stock switch stops, ours reports a fault to database and controllers, and
    recovers with it; the operational state is reported, too."""
    link = Link("cfm_mpid=%d", "other_config:cfm_interval=100", "other_config:cfm_extended=true")
    link.ours.ofctl("-O", "OpenFlow13", "add-group", "br0", "group_id=1,type=ff,bucket=watch_port:1,output:1")
    link.ours.ofctl("-O", "OpenFlow13", "add-flow", "br0", "in_port=LOCAL,actions=group:1")
    for end, other in ((0, 2), (1, 1)):
        link.wait_for_columns(end, cfm_fault="false", cfm_remote_mpids="[%d]" % other, cfm_remote_opstate="up")
    assert link.is_live()
    shown = link.ours.appctl("cfm/show", link.namespace.port)
    assert "MPID 1: extended\n" in shown and "Remote MPID 2\n" in shown, shown
    link.stock.daemon.send_signal(signal.SIGSTOP)
    link.wait_for_columns(0, cfm_fault="true", cfm_fault_status="[recv]", cfm_remote_mpids="[]")
    assert not link.is_live()
    link.stock.daemon.send_signal(signal.SIGCONT)
    link.wait_for_columns(0, cfm_fault="false", cfm_fault_status="[]")
    assert link.is_live()
    link.stock.vsctl("set", "interface", "eth0", "other_config:cfm_opstate=down")
    link.wait_for_columns(0, cfm_fault="false", cfm_remote_opstate="down")
    assert not link.is_live()
    link.ours.vsctl("clear", "interface", link.namespace.port, "cfm_mpid")
    link.wait_for_columns(1, cfm_fault_status="[recv]")
    link.wait_for_columns(0, cfm_fault="[]", cfm_flap_count="[]", cfm_remote_mpids="[]")
    assert link.is_live()


def test_the_stock_switch_understands_our_bfd():
    """Both sessions come up. When the stock switch stops, ours reports it to database and controllers, and recovers with it."""
    link = Link(*bfd(100))
    link.ours.ofctl("-O", "OpenFlow13", "add-group", "br0", "group_id=1,type=ff,bucket=watch_port:1,output:1")
    link.ours.ofctl("-O", "OpenFlow13", "add-flow", "br0", "in_port=LOCAL,actions=group:1")
    for end in (0, 1):
        link.wait_for(end, state="up", forwarding="true", remote_state="up")
    assert link.is_live()
    shown = link.ours.appctl("bfd/show", link.namespace.port)
    assert "RX Interval: Approx 100ms" in shown and "Remote Detect Multiplier: 3" in shown, shown
    link.stock.daemon.send_signal(signal.SIGSTOP)
    link.wait_for(0, state="down", forwarding="false", diagnostic="Control Detection Time Expired", flap_count="2")
    assert not link.is_live()
    link.stock.daemon.send_signal(signal.SIGCONT)
    link.wait_for(0, state="up", forwarding="true", flap_count="3")
    assert link.is_live()
    # The path behind this port is down, so the other end must not send to the port.
    link.ours.vsctl("set", "interface", link.namespace.port, "bfd:cpath_down=true")
    link.wait_for(1, state="up", forwarding="false", remote_diagnostic="Concatenated Path Down")
    link.ours.vsctl("set", "interface", link.namespace.port, "bfd:enable=false")
    link.wait_for(1, state="down", forwarding="false")
    assert link.is_live() and link.ours.vsctl("get", "interface", link.namespace.port, "bfd_status").strip() == "{}"


def test_messages_do_not_wait_for_the_main_loop():
    """While the main loop is busy creating devices, messages are sent, and no end considers the other one dead."""
    link = Link(*bfd(200))
    for end in (0, 1):
        link.wait_for(end, forwarding="true", flap_count="1")
    words, names = [], [lab.unique("slb") for _ in range(60)]
    for name in names:
        words += ["--", "add-port", "br0", name, "--", "set", "interface", name, "type=internal"]
    started = time.time()
    link.ours.vsctl(*words[1:])
    took = time.time() - started
    # The state may have changed for a moment because of a late message; the next messages restore it.
    before = link.messages()
    lab.wait_until(lambda: all(now >= then + 3 for now, then in zip(link.messages(), before)), "messages go on")
    flaps = [link.status(end, "flap_count") for end in (0, 1)]
    late = [line for line in link.ours.log().splitlines() if "long delay" in line]
    assert flaps == ["1", "1"] and not late, (took, flaps, late)
