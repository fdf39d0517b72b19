"""The switch is killed under traffic of guests that keep their rings: no buffer is lost, and no packet comes twice."""
import os
import random
import re
import signal
import struct

from lib import lab
from lib import vhost_user as vu
from lib.hostile_guest import SteppedThread, pmd_thread
from lib.kept_guest import KeptGuest

# Number of kills of each test.
KILLS = int(os.environ.get("VHOST_KILLS", 0))
FLOWS = "in_port=1,actions=output:2", "in_port=2,actions=output:1"
# Packets that a worker takes at once.
BURST = 64


def packet(number, length):
    """A packet whose content says whether it is whole."""
    head = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xb5" + struct.pack("<IH", number, length)
    return head + bytes([number & 0xff]) * (length - len(head))


class PacketStream:
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

    def send_until_arrival(self, turn, dice):
        """Sends packets until the last one arrives, after all that were sent before. Returns how many did not arrive."""
        begin, first = self.done, self.sent

        def arrived():
            all_back = self.poll()
            if self.got and self.got[-1] == self.sent - 1 >= first:
                return True
            if all_back:
                self.send(1, dice)
            return False
        lab.wait_until(arrived, "turn %d: packets pass" % turn, 20)
        lab.wait_until(self.poll, "turn %d: all buffers come back" % turn, 20)
        assert len(set(self.got)) == len(self.got) and self.got == sorted(self.got), "a packet came twice, or late"
        self.done = self.sent
        return len(set(range(begin, self.sent)) - set(self.got))


class Kills:
    """A switch that is killed and started again, and two guests, with packed and with split rings."""

    def __init__(self):
        lab.need_root()
        self.s = lab.Switch()
        self.s.other_config = {"pmd-cpu-mask": "0x2"}
        self.s.start()
        self.s.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        self.guests = []
        for number, packed in (1, True), (2, False):
            path = "%s/g%d" % (self.s.dir, number)
            self.guests.append(KeptGuest(path, packed))
            self.s.vsctl("add-port", "br0", "g%d" % number, "--", "set", "interface", "g%d" % number, "type=dpdkvhostuserclient",
                         "ofport_request=%d" % number, "mtu_request=9000", "options:vhost-server-path=" + path)
        self.streams = [PacketStream(*self.guests), PacketStream(*self.guests[::-1])]
        self.dice, self.turn, self.lost, self.dropped = random.Random(5), 0, [], []

    def connect(self):
        """Connects the guests. The flows exist before, so that packets which the killed switch left in the rings reach a guest that receives."""
        # Returns when the daemon has made its ports.
        self.s.vsctl("set", "bridge", "br0", "external_ids:turn=%d" % self.turn)
        for flow in FLOWS:
            self.s.ofctl("add-flow", "br0", flow)
        for guest in self.guests:
            guest.connect()
        # One guest is ready before the other one sends. The reply comes when all messages before it were handled.
        for guest in self.guests[::1 if self.turn % 2 else -1]:
            guest.ask(vu.GET_FEATURES)
            guest.start()
            guest.ask(vu.GET_FEATURES)
        lost = sum(stream.send_until_arrival(self.turn, self.dice) for stream in self.streams)
        # What this switch dropped was not lost by the kill. Its flow cache is empty, and no more than 64 packets of a flow wait for an
        # upcall; and while it handles a message of a guest, packets for that guest are dropped.
        text = self.s.appctl("coverage/show")
        reasons = dict(re.findall(r"^datapath_drop_(\w+) .* total: (\d+)$", text, re.M))
        dropped = sum(map(int, reasons.values()))
        assert dropped <= lost and reasons.keys() <= {"upcall_backlog", "tx_failed"}, "turn %d: %d lost\n%s" % (self.turn, lost, text)
        self.lost.append(lost - dropped)
        self.dropped.append(dropped)
        assert self.lost[-1] <= 2 * BURST, "turn %d: %d packets were lost by one kill" % (self.turn, self.lost[-1])

    def kill(self):
        self.s.kill_daemon()
        self.turn += 1
        self.s.start_daemon()

    def end(self):
        for guest in self.guests:
            guest.close()
        some = [n for n in self.lost if n]
        print("    %d packets, %d kills, of which %d lost packets: %s; dropped by the next switch: %s" % (
            sum(stream.sent for stream in self.streams), self.turn, len(some), some, [n for n in self.dropped if n]))


def test_kill_with_inflight_area():
    """kill -9 under traffic, guests with split and packed rings: each buffer comes back once, no packet twice, at most a burst is lost."""
    t = Kills()
    for _ in range(KILLS or 5):
        t.connect()
        for stream in t.streams:
            stream.send(t.dice.randrange(130, 200), t.dice)
        # Kills at different moments of the bursts.
        for _ in range(t.dice.randrange(4)):
            t.streams[t.turn % 2].poll()
        t.kill()
    t.connect()
    t.end()


def test_kill_at_an_instruction():
    """kill -9 after a random number of the worker's instructions: no packet comes twice, at most two bursts
    are lost, and the next switch drops none."""
    t = Kills()
    for _ in range(KILLS or 5):
        t.connect()
        with SteppedThread(pmd_thread(t.s)) as worker:
            # The guest that sends is served last, so its packets find the other guest.
            t.streams[(t.turn + 1) % 2].send(BURST, t.dice)
            worker.step(t.dice.randrange(60000))
            t.s.daemon.send_signal(signal.SIGKILL)
        t.kill()
    t.connect()
    assert not any(t.dropped), t.dropped
    t.end()
