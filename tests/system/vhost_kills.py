"""The switch is killed under traffic of guests that keep their rings: no buffer is lost, and no packet comes twice."""
import os
import random
import struct

from lib import lab
from lib.kept_guest import KeptGuest

LONG = bool(os.environ.get("VHOST_KILLS"))
FLOWS = "in_port=1,actions=output:2", "in_port=2,actions=output:1"
# A packet is lost if the switch took it and did not send it yet. One burst of 64 explains most losses; up to 106 packets were seen, and
# which part of the switch has the others is not known.
BURST_MAX = 128


def packet(number, length):
    """A packet whose content says whether it is whole."""
    head = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xb5" + struct.pack("<IH", number, length)
    return head + bytes([number & 0xff]) * (length - len(head))


class Way:
    """Packets from one guest to another, by number."""

    def __init__(self, source, sink):
        self.source, self.sink, self.sent, self.done, self.got = source, sink, 0, 0, []

    def send(self, count, dice):
        packets = [packet(self.sent + n, dice.choice((60, 60, 60, 700, 3000))) for n in range(count)]
        self.sent += self.source.send_all(packets)

    def poll(self):
        for data in self.sink.received():
            number, length = struct.unpack_from("<IH", data, 14)
            assert data == packet(number, length), "packet %d is not whole" % number
            self.got.append(number)
        return self.source.sent_all()

    def passes(self, turn, dice):
        """Sends packets until one arrives, after all that were sent before. Returns how many of those did not arrive."""
        begin, first = self.done, self.sent

        def arrived():
            if self.source.sent_all():
                self.send(1, dice)
            self.poll()
            return self.got and self.got[-1] >= first
        lab.wait_until(arrived, "turn %d: packets pass" % turn, 20)
        lab.wait_until(self.poll, "turn %d: all buffers come back" % turn, 20)
        assert len(set(self.got)) == len(self.got) and self.got == sorted(self.got), "a packet came twice, or late"
        self.done = self.sent
        return len(set(range(begin, first)) - set(self.got))


def test_kill_with_inflight_area():
    """kill -9 under traffic, guests with split and packed rings: each buffer comes back once, no packet twice, at most two bursts are lost."""
    lab.need_root()
    s = lab.Switch()
    s.other_config = {"pmd-cpu-mask": "0x2"}
    s.start()
    s.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
    guests = []
    for number, packed in (1, True), (2, False):
        name = "%s/g%d" % (s.dir, number)
        guests.append(KeptGuest(name, packed))
        guests[-1].name = "g%d" % number
        s.vsctl("add-port", "br0", "g%d" % number, "--", "set", "interface", "g%d" % number, "type=dpdkvhostuserclient",
                "ofport_request=%d" % number, "mtu_request=9000", "options:vhost-server-path=" + name)
    ways = [Way(*guests), Way(*guests[::-1])]
    dice, lost = random.Random(5), []
    for turn in range(100 if LONG else 5):
        # Returns when the daemon has made its ports.
        s.vsctl("set", "bridge", "br0", "external_ids:turn=%d" % turn)
        # Packets that the last switch left in the rings find flows, and guests that receive.
        for flow in FLOWS:
            s.ofctl("add-flow", "br0", flow)
        # One guest is ready before the other one sends: what was left for it must not be lost.
        way = ways[turn % 2]
        for guest in guests:
            guest.connect()
        way.sink.start()
        lab.wait_until(lambda: s.vsctl("get", "interface", way.sink.name, "link_state").strip() == "up",
                       "turn %d: the first guest is served" % turn, 20)
        way.source.start()
        lost.append(way.passes(turn, dice))
        assert lost[-1] <= BURST_MAX, "turn %d: %d packets were lost by one kill" % (turn, lost[-1])
        ways[1 - turn % 2].passes(turn, dice)
        for way in ways:
            way.send(dice.randrange(130, 200), dice)
        # Kills at different moments of the bursts.
        for _ in range(dice.randrange(4)):
            ways[turn % 2].poll()
        s.kill_daemon()
        s.start_daemon()
    for guest in guests:
        guest.close()
    print("    %d packets, of which kills lost %s" % (sum(way.sent for way in ways), lost))
