"""Hostile vhost-user front-ends: whatever one does to its port, the switch lives, the other ports forward, and the port
serves the next guest that behaves."""
import ctypes
import fcntl
import os
import random
import select
import socket
import stat
import struct
import threading
import time

from lib import fuse, lab, vhost_user as vu
from lib.vhost_user import Closed, Guest, frame

ROUND = 20
OTHER_CONFIG = {"dpdk-init": "true", "dpdk-lcore-mask": "0x1", "pmd-cpu-mask": "0x2",
                "dpdk-extra": "--no-pci --no-huge --legacy-mem --no-shconf -m 512 --no-telemetry"}


class Ground:
    """A switch with three guests: two that behave and talk to each other, and one (`bad`) that does not."""

    def __init__(self):
        lab.need_root()
        if os.cpu_count() < 2:
            raise lab.Skip("needs two processors")
        self.switch = switch = lab.Switch().start()
        switch.vsctl("set", "open_vswitch", ".", *['other_config:%s="%s"' % pair for pair in OTHER_CONFIG.items()])
        if switch.vsctl("get", "open_vswitch", ".", "dpdk_initialized").strip() != "true":
            raise lab.Skip("needs DPDK, which does not start here")
        switch.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        names = ["good1", "good2", "bad"]
        paths = {n: "%s/%s.sock" % (switch.dir, n) for n in names}
        self.guests = {n: Guest(paths[n]) for n in names}
        for i, n in enumerate(names):
            switch.vsctl("add-port", "br0", n, "--", "set", "interface", n, "type=dpdkvhostuserclient",
                         "ofport_request=%d" % (i + 1), "options:vhost-server-path=" + paths[n])
        # What the third sends comes to the first.
        for flow in "in_port=1,actions=2", "in_port=2,actions=1", "in_port=3,actions=1":
            switch.ofctl("add-flow", "br0", flow)
        self.bad = self.guests["bad"]
        self.number = 0
        for guest in self.guests.values():
            guest.accept().handshake()
        for name in names:
            lab.wait_until(lambda: self.up(name), name + " is up")

    def up(self, name):
        return self.switch.vsctl("get", "interface", name, "link_state").strip() == "up"

    def pass_on(self, source, sink):
        """All of some packets go from one guest to another, in order. A ring that jumped may send those of before once more."""
        source, sink = self.guests[source], self.guests[sink]
        sink.received()
        wanted = list(range(self.number, self.number + ROUND))
        self.number += ROUND
        for n in wanted:
            source.send(frame(n))
        got, deadline = [], time.time() + 40
        while len(got) < ROUND and time.time() < deadline:
            for p in sink.received():
                number = struct.unpack_from("<I", p, 14)[0]
                if p[12:14] == b"\x88\xb5" and number >= wanted[0]:
                    got.append(number)
            time.sleep(0.01)
        assert got == wanted, "%s got %s, not %s" % (sink.path, got, wanted)

    def others(self):
        """The switch and the other ports are as they were."""
        assert self.switch.daemon.poll() is None, "the switch died"
        self.pass_on("good1", "good2")
        self.pass_on("good2", "good1")

    def recover(self):
        """The port of the bad guest serves one that behaves."""
        self.bad.drop()
        self.bad.fresh()
        deadline = time.time() + 20
        while True:
            try:
                self.bad.accept().handshake()
                break
            except (Closed, TimeoutError):
                assert time.time() < deadline, "the port accepts no guest any more"
        lab.wait_until(lambda: self.up("bad"), "the port is up again")
        self.pass_on("bad", "good1")


def try_each(attacks):
    ground = Ground()
    for name, attack in attacks:
        try:
            try:
                attack(ground.bad)
            except (Closed, TimeoutError):
                pass
            time.sleep(0.2)
            ground.others()
            ground.recover()
        except Exception as e:
            raise AssertionError("%s: %s\n%s" % (name, e, ground.switch.log()[-2000:])) from e


# Rings.

def offer_one(guest, address, length, flags=0, following=0, ring=1, slot=0):
    guest.descriptor(ring, slot, address, length, flags, following)
    guest.offer(ring, guest.sent[0], slot)


def chain(guest, links):
    for slot, following in links:
        guest.descriptor(1, slot, vu.PHYSICAL + guest.buffer(1, slot), 100, vu.NEXT, following)
    guest.offer(1, guest.sent[0], links[0][0])


def indirect(guest, address, length, inner=None):
    if inner is not None:
        guest.memory[vu.BUFFERS:vu.BUFFERS + len(inner)] = inner
    offer_one(guest, address, length, vu.INDIRECT)


def shrink(guest):
    os.ftruncate(guest.fd, 0)


def shrink_and_wait(guest):
    shrink(guest)
    time.sleep(1)


def nonsense_rings(guest):
    for at in range(0, 4 * vu.RING, 8):
        guest.memory[at:at + 8] = os.urandom(8)


RINGS = [
    ("outside", lambda g: offer_one(g, 0xdead0000, 100)),
    ("at the end", lambda g: offer_one(g, vu.PHYSICAL + vu.MEMORY - 20, 2000)),
    ("wraps", lambda g: offer_one(g, 2**64 - 8, 100)),
    ("null", lambda g: offer_one(g, 0, 100)),
    ("no length", lambda g: offer_one(g, vu.PHYSICAL + vu.BUFFERS, 0)),
    ("shorter than its header", lambda g: offer_one(g, vu.PHYSICAL + vu.BUFFERS, 5)),
    ("4 GB", lambda g: offer_one(g, vu.PHYSICAL + vu.BUFFERS, 0xffffffff)),
    ("a loop of one", lambda g: chain(g, [(0, 0)])),
    ("a loop of three", lambda g: chain(g, [(0, 1), (1, 2), (2, 0)])),
    ("next beyond the ring", lambda g: chain(g, [(0, 60000)])),
    ("a descriptor beyond the ring", lambda g: g.offer(1, g.sent[0], 60000)),
    ("a chain of the whole ring", lambda g: chain(g, [(i, (i + 1) % vu.SIZE) for i in range(vu.SIZE)])),
    ("indirect outside", lambda g: indirect(g, 0xdead0000, 32)),
    ("indirect, no table", lambda g: indirect(g, vu.PHYSICAL + vu.BUFFERS, 0)),
    ("indirect, half an entry", lambda g: indirect(g, vu.PHYSICAL + vu.BUFFERS, 7)),
    ("indirect in indirect", lambda g: indirect(g, vu.PHYSICAL + vu.BUFFERS, 16, struct.pack(
        "<QIHH", vu.PHYSICAL + vu.BUFFERS, 16, vu.INDIRECT | vu.NEXT, 0))),
    ("indirect, 64 MB", lambda g: indirect(g, vu.PHYSICAL + vu.BUFFERS, 64 << 20)),
    ("the ring jumps ahead", lambda g: g.jump(1, g.sent[0] + 0x8000)),
    ("the ring jumps back", lambda g: g.jump(1, g.sent[0] - 1)),
    ("both rings jump", lambda g: [g.jump(0, 0x7777), g.jump(1, 0x7777)]),
    ("a read-only buffer to write to", lambda g: g.descriptor(0, g.taken[0] % vu.SIZE, vu.PHYSICAL, 64)),
    ("buffers to write to outside", lambda g: [g.descriptor(0, i, 2**63, 64, vu.WRITE) for i in range(vu.SIZE)]),
    ("buffers that loop", lambda g: [g.descriptor(0, i, vu.PHYSICAL, 1, vu.WRITE | vu.NEXT, i) for i in range(vu.SIZE)]),
    ("noise in the rings", nonsense_rings),
    ("memory taken away", shrink),
    ("memory taken away, and silence", shrink_and_wait),
]


def test_rings_that_lie():
    """Descriptors outside of memory, loops, rings that jump, memory that goes away: only that port suffers."""
    try_each(RINGS)


# Messages.

def say(request, payload=b"", fds=0, flags=0):
    def attack(guest):
        guest.message(request, payload, [guest.fd] * fds, flags)
        guest.ended(0.5)
    return attack


number = struct.Struct("<II").pack
address = struct.Struct("<IIQQQQ").pack


def table_of(size, **kw):
    return lambda g: [g.message(vu.SET_MEM_TABLE, g.table(size, **kw), [g.fd]), g.ended(0.5)]


def features_change(guest):
    for features in (0, 2**64 - 1, 1 << 34 | vu.F_VERSION_1 | vu.F_PROTOCOL, vu.F_PROTOCOL):
        guest.message(vu.SET_FEATURES, struct.pack("<Q", features))
    guest.send(frame(0))
    guest.ended(0.5)


def on_and_off(guest):
    for i in range(2000):
        guest.message(vu.SET_VRING_ENABLE, number(i % 2, i // 2 % 2))
        if i % 50 == 0:
            guest.send(frame(i))


def reads_no_reply(guest):
    """Questions until the socket is full of answers that nobody takes."""
    guest.peer.settimeout(1)
    for _ in range(3000):
        guest.message(vu.GET_FEATURES)


def longer_than_the_file(guest):
    guest.message(vu.SET_MEM_TABLE, guest.table(64 << 20), [guest.fd])
    guest.message(vu.SET_VRING_ADDR, guest.ring_address(1, vu.VIRTUAL + (32 << 20)))
    guest.ended(0.5)


MESSAGES = [
    ("unknown request", say(99)),
    ("request 0", say(0)),
    ("request 2^32-1", say(0xffffffff)),
    ("owner twice", say(vu.SET_OWNER)),
    ("reset", say(vu.RESET_OWNER)),
    ("features change", features_change),
    ("no regions", say(vu.SET_MEM_TABLE, struct.pack("<II", 0, 0))),
    ("9 regions", say(vu.SET_MEM_TABLE, struct.pack("<II", 9, 0) + bytes(300), fds=1)),
    ("regions without descriptors", say(vu.SET_MEM_TABLE, struct.pack("<IIQQQQ", 1, 0, 0, 4096, 0, 0))),
    ("a region of 0 bytes", table_of(0)),
    ("a region that wraps", table_of(2**64 - 4096, offset=8192)),
    ("a region at an odd offset", table_of(vu.MEMORY - 4096, offset=123)),
    ("a region far beyond its file", table_of(1 << 40)),
    ("regions longer than their file", longer_than_the_file),
    ("two regions, one place", table_of(vu.MEMORY, regions=2)),
    ("a ring of 0", say(vu.SET_VRING_NUM, number(0, 0))),
    ("a ring of 3", say(vu.SET_VRING_NUM, number(0, 3))),
    ("a ring of 2^32-1", say(vu.SET_VRING_NUM, number(0, 0xffffffff))),
    ("ring 65535", say(vu.SET_VRING_NUM, number(65535, 256))),
    ("ring 300 enabled", say(vu.SET_VRING_ENABLE, number(300, 1))),
    ("ring 255 enabled", say(vu.SET_VRING_ENABLE, number(255, 1))),
    ("a ring outside of memory", say(vu.SET_VRING_ADDR, address(1, 0, 1 << 50, 2 << 50, 3 << 50, 0))),
    ("a ring at odd addresses", say(vu.SET_VRING_ADDR, address(1, 0, vu.VIRTUAL + 1, vu.VIRTUAL + 3, vu.VIRTUAL + 5, 0))),
    ("a ring at the end of memory", say(vu.SET_VRING_ADDR, address(1, 0, *[vu.VIRTUAL + vu.MEMORY - 8] * 3, 0))),
    ("a ring's base jumps", say(vu.SET_VRING_BASE, number(1, 0xffff))),
    ("the base of ring 300", say(vu.GET_VRING_BASE, number(300, 0))),
    ("no kick", say(vu.SET_VRING_KICK, struct.pack("<Q", 1))),
    ("a kick that is memory", say(vu.SET_VRING_KICK, struct.pack("<Q", 1), fds=1)),
    ("eight kicks", say(vu.SET_VRING_KICK, struct.pack("<Q", 1), fds=8)),
    ("a call that is memory", say(vu.SET_VRING_CALL, struct.pack("<Q", 0), fds=1)),
    ("descriptors where none belong", say(vu.GET_FEATURES, fds=3)),
    ("no payload", say(vu.SET_FEATURES)),
    ("a payload of 4 GB", lambda g: [g.write(struct.pack("<III", vu.SET_FEATURES, 1, 0xffffffff)), g.ended(0.5)]),
    ("another version", say(vu.GET_FEATURES, flags=2)),
    ("a reply out of the blue", say(vu.GET_FEATURES, flags=vu.REPLY)),
    ("on and off", on_and_off),
    ("reads no reply", reads_no_reply),
]


def test_messages_that_lie():
    """Tables, addresses, features and requests that make no sense, in the middle of traffic: only that port suffers."""
    try_each(MESSAGES)


# Order.

number_of = struct.Struct("<Q").unpack_from


def told(guest, request, payload=b"", fds=()):
    """Whether the switch did it, where the guest wants to know."""
    guest.message(request, payload, fds, vu.NEED_REPLY)
    return number_of(guest.reply())[0] == 0


def refused(guest, request, payload=b"", fds=()):
    assert not told(guest, request, payload, fds), "the switch did what request %d asks" % request


def stop(guest, ring):
    guest.ask(vu.GET_VRING_BASE, number(ring, 0))


def at_the_end(guest, ring, size):
    """A ring of so many descriptors in the last page of the guest's memory, running."""
    stop(guest, ring)
    end = vu.VIRTUAL + vu.MEMORY - 0x1000
    assert told(guest, vu.SET_VRING_NUM, number(ring, size))
    assert told(guest, vu.SET_VRING_BASE, number(ring, 0))
    assert told(guest, vu.SET_VRING_ADDR, address(ring, 0, end, end + 0x800, end + 0x400, 0))
    start(guest, ring)


def start(guest, ring):
    guest.message(vu.SET_VRING_CALL, struct.pack("<Q", ring), [guest.events[2 * ring]])
    guest.message(vu.SET_VRING_KICK, struct.pack("<Q", ring), [guest.events[2 * ring + 1]])
    guest.message(vu.SET_VRING_ENABLE, number(ring, 1))


def offer_at_the_end(guest, index):
    struct.pack_into("<H", guest.memory, vu.MEMORY - 0x1000 + 0x402, index)


def no_such_memory(guest):
    """Tables that cannot be mapped, and a guest that stays: what it had is still there."""
    ours, _theirs = socket.socketpair()
    nowhere = os.open("/proc/self/exe", os.O_RDONLY)
    for size, offset, fd in (0, 0, guest.fd), (2**64 - 4096, 8192, guest.fd), (4096, 0, ours.fileno()), \
            (4096, 0, guest.events[0]), (4096, 0, nowhere), (1 << 62, 0, guest.fd):
        refused(guest, vu.SET_MEM_TABLE, guest.table(size, offset=offset), [fd])
        guest.send(frame(0))
    refused(guest, vu.SET_MEM_TABLE, guest.table(1 << 46, regions=4), [guest.fd] * 4)
    os.close(nowhere)


def grows(guest):
    at_the_end(guest, 1, 8)
    refused(guest, vu.SET_VRING_NUM, number(1, 32768))
    offer_at_the_end(guest, 0x7000)


def without_a_size(guest):
    stop(guest, 1)
    refused(guest, vu.SET_VRING_ADDR, guest.ring_address(1))
    refused(guest, vu.SET_VRING_KICK, struct.pack("<Q", 1), [guest.events[3]])
    guest.message(vu.SET_VRING_ENABLE, number(1, 1))
    guest.send(frame(0))


def another_layout(guest):
    """Rings that have addresses as split ones are called packed, and start."""
    at_the_end(guest, 1, 128)
    stop(guest, 0)
    refused(guest, vu.SET_FEATURES, struct.pack("<Q", vu.F_VERSION_1 | vu.F_PROTOCOL | vu.F_PACKED))
    guest.send(frame(0))


def packed_beyond(guest):
    """A packed ring that goes on far behind its end."""
    stop(guest, 0)
    stop(guest, 1)
    assert told(guest, vu.SET_FEATURES, struct.pack("<Q", vu.F_VERSION_1 | vu.F_PROTOCOL | vu.F_PACKED))
    end = vu.VIRTUAL + vu.MEMORY - 0x1000
    assert told(guest, vu.SET_VRING_NUM, number(1, 128))
    assert told(guest, vu.SET_VRING_BASE, number(1, 0x7fff))
    refused(guest, vu.SET_VRING_ADDR, address(1, 0, end, end + 0x800, end + 0x900, 0))
    assert told(guest, vu.SET_VRING_BASE, number(1, 0x807f))
    assert told(guest, vu.SET_VRING_ADDR, address(1, 0, end, end + 0x800, end + 0x900, 0))
    refused(guest, vu.SET_VRING_BASE, number(1, 0x80))
    start(guest, 1)


def log_elsewhere(guest):
    log = os.memfd_create("log")
    os.ftruncate(log, 1 << 20)
    try:
        guest.message(vu.SET_LOG_BASE, struct.pack("<QQ", 4096, 4096), [log], vu.NEED_REPLY)
        assert number_of(guest.reply())[0] == 1
    finally:
        os.close(log)
    guest.message(vu.SET_FEATURES, struct.pack("<Q", vu.F_VERSION_1 | vu.F_MRG_RXBUF | vu.F_PROTOCOL | vu.F_LOG_ALL))
    guest.send(frame(0))


ORDER = [
    ("no such memory", no_such_memory),
    ("a running ring grows", grows),
    ("a ring without a size", without_a_size),
    ("another layout", another_layout),
    ("a packed ring's base beyond its end", packed_beyond),
    ("a log at an offset", log_elsewhere),
    ("an inflight area", lambda g: refused(g, vu.SET_INFLIGHT_FD, bytes(20), [g.fd])),
]


def test_rings_out_of_order():
    """Sizes, addresses, layouts and memory that change under rings, by a guest that stays: it is told, and goes on."""
    try_each(ORDER)


def test_refused_descriptors_are_closed():
    """A guest that sends hundreds of tables that are refused uses up none of the switch's descriptors."""
    ground = Ground()
    folder = "/proc/%d/fd" % ground.switch.daemon.pid
    before = len(os.listdir(folder))
    for _ in range(200):
        refused(ground.bad, vu.SET_MEM_TABLE, ground.bad.table(0, regions=8), [ground.bad.fd] * 8)
    after = len(os.listdir(folder))
    assert after <= before + 8, "%d descriptors became %d" % (before, after)
    ground.pass_on("bad", "good1")


def test_closed_at_any_byte():
    """The socket is closed after each byte of the hand-shake; the port then serves the next guest."""
    ground = Ground()
    bad = ground.bad
    total = sum(12 + len(payload) for _, payload, _, _ in bad.steps())
    for stop in range(total):
        bad.accept()
        left = stop
        try:
            for request, payload, fds, wants in bad.steps():
                data = bad.packed(request, payload)
                bad.write(data[:left], fds if left else ())
                left -= len(data)
                if left <= 0:
                    break
                if wants:
                    bad.reply()
        except Closed:
            pass
        bad.drop()
        if stop % 100 == 0:
            ground.others()
    ground.others()
    ground.recover()


def test_a_silent_peer_stops_nobody():
    """Half a message, and then nothing: other guests come and go meanwhile, and the port can be removed."""
    ground = Ground()
    bad, other = ground.bad, ground.guests["good2"]
    bad.drop()
    bad.accept()
    bad.write(struct.pack("<III", vu.SET_FEATURES, 1, 8))
    started = time.time()
    other.drop()
    other.fresh()
    other.accept().handshake()
    lab.wait_until(lambda: ground.up("good2"), "another guest is up")
    assert time.time() - started < 5, "another guest had to wait %.1f s" % (time.time() - started)
    ground.others()
    bad.drop()
    bad.accept()
    bad.write(struct.pack("<III", vu.SET_FEATURES, 1, 8))
    ground.switch.vsctl("del-port", "br0", "bad")
    ground.others()


# Files.

F_ADD_SEALS, F_SEAL_FUTURE_WRITE = 1033, 0x10
SEAL_TRIES = 400


def seal_late(guest, number, wait):
    """The guest's memory and seven regions more, the last of which can no longer be mapped so many seconds after it was sent."""
    last = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(last, vu.MEMORY)

    def seal():
        time.sleep(wait)
        try:
            fcntl.fcntl(last, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
        except PermissionError:
            pass

    region, sealing = struct.Struct("<QQQQ").pack, threading.Thread(target=seal)
    table = struct.pack("<II", 8, 0) + region(vu.PHYSICAL, vu.MEMORY, vu.VIRTUAL, 0)
    for i in range(1, 8):
        # Another table each time: the switch need not do twice what it has done.
        at = (i << 36) + (number << 24)
        table += region(at, vu.MEMORY, at, 0)
    sealing.start()
    try:
        # It wants to hear of it, and so stays connected.
        return told(guest, vu.SET_MEM_TABLE, table, [guest.fd] * 7 + [last])
    finally:
        sealing.join()
        os.close(last)


def test_memory_that_is_sealed_late():
    """A file becomes read-only between the switch's look at a table of memory and its use, under traffic: nobody is hurt."""
    ground = Ground()
    bad, dice, outcomes = ground.bad, random.Random(1), []
    for n in range(SEAL_TRIES):
        bad.send(frame(n))
        try:
            outcomes.append(seal_late(bad, n, dice.uniform(0, 0.001)))
        except (Closed, TimeoutError):
            outcomes.append(None)
            assert ground.switch.daemon.poll() is None, "the switch died at try %d: %s" % (n, outcomes)
            ground.recover()
    assert ground.switch.daemon.poll() is None, "the switch died: %s" % outcomes
    assert True in outcomes, "no table was taken: %s" % outcomes
    ground.others()
    ground.recover()


def control(ground):
    """The main thread and the tools go on: a command, a port that comes and goes."""
    started = time.time()
    ground.switch.appctl("version")
    ground.switch.vsctl("add-port", "br0", "passing", "--", "set", "interface", "passing", "type=internal")
    ground.switch.vsctl("del-port", "br0", "passing")
    return time.time() - started


FILES = [
    ("memory", lambda g, fd: g.message(vu.SET_MEM_TABLE, g.table(), [fd], vu.NEED_REPLY)),
    ("memory, the last of eight", lambda g, fd: g.message(vu.SET_MEM_TABLE, g.table(regions=8), [g.fd] * 7 + [fd])),
    ("a kick", lambda g, fd: g.message(vu.SET_VRING_KICK, struct.pack("<Q", 1), [fd])),
    ("a call", lambda g, fd: g.message(vu.SET_VRING_CALL, struct.pack("<Q", 1), [fd])),
    ("an error", lambda g, fd: g.message(vu.SET_VRING_ERR, struct.pack("<Q", 1), [fd])),
    ("a log", lambda g, fd: g.message(vu.SET_LOG_BASE, struct.pack("<QQ", 4096, 0), [fd])),
    ("where none belongs", lambda g, fd: g.message(vu.GET_FEATURES, b"", [fd])),
    ("with half a message", lambda g, fd: g.write(struct.pack("<II", vu.SET_MEM_TABLE, 1), [fd])),
]


def test_files_that_never_answer():
    """A file of FUSE that answers nothing, in the place of memory or a counter: the others, the tools and the port go on."""
    ground = Ground()
    for name, attack in FILES:
        file = fuse.Unanswered(vu.MEMORY, ground.switch.daemon.pid)
        try:
            attack(ground.bad, file.fd)
            ground.bad.send(frame(0))
            ground.bad.ended(0.5)
        except Closed:
            pass
        try:
            ground.others()
            took = control(ground)
            assert took < 5 * lab.PATIENCE, "commands took %.1f s" % took
            asked = {fuse.READ: "read", fuse.GETATTR: "stat", fuse.POLL: "poll", fuse.WRITE: "write"}
            used = [asked[n] for n in file.asked if n in asked]
            assert not used, "the file was used: %s" % used
        except Exception as e:
            raise AssertionError("%s: %s\n%s" % (name, e, ground.switch.log()[-2000:])) from e
        finally:
            file.end()
        ground.recover()


def test_pages_that_come_later():
    """A guest that was not offered post-copy does not get hold of the switch's page faults."""
    ground = Ground()
    for request in vu.POSTCOPY_ADVISE, vu.POSTCOPY_LISTEN:
        refused(ground.bad, request)
    ground.pass_on("bad", "good1")
    ground.others()


# Connections.

def test_one_guest_at_a_time():
    """A second guest at a path of the switch's is sent away, and changes nothing for the first; the next one gets in."""
    ground = Ground()
    switch, path = ground.switch, ground.switch.dir + "/server"
    switch.vsctl("add-port", "br0", "server", "--", "set", "interface", "server", "type=dpdkvhostuser", "ofport_request=4")
    switch.ofctl("add-flow", "br0", "in_port=4,actions=1")
    mode = os.stat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o750, oct(mode)
    first, second = (Guest(path, connects=True) for _ in range(2))
    ground.guests["server"] = first
    first.accept().handshake()
    lab.wait_until(lambda: ground.up("server"), "the guest is up")
    for _ in range(5):
        assert second.accept().ended(20), "a second guest is served"
        ground.pass_on("server", "good1")
    # What the first may not do it may not do either when another one has come.
    at_the_end(first, 1, 8)
    assert second.accept().ended(20)
    refused(first, vu.SET_VRING_NUM, number(1, 32768))
    offer_at_the_end(first, 0x7000)
    ground.others()
    # One that comes the moment the first goes finds rings of its own.
    for n in range(20):
        going, coming = (first, second) if n % 2 == 0 else (second, first)
        coming.fresh()
        going.drop()
        coming.accept().handshake()
        ground.guests["server"] = coming
        lab.wait_until(lambda: ground.up("server"), "guest %d is up" % n)
        ground.pass_on("server", "good1")
    ground.others()


# Workers that are held up.

def pmd_thread(switch):
    """The poll thread of the switch that polls the guests."""
    tasks = "/proc/%d/task" % switch.daemon.pid
    for task in os.listdir(tasks):
        with open("%s/%s/comm" % (tasks, task)) as f:
            if f.read().startswith("pmd-c"):
                return int(task)
    raise AssertionError("no poll thread")


class Held:
    """A thread of another process that stands still, as if its processor had gone."""
    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, thread):
        self.thread, self.libc = thread, ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long] * 4
        self.ask(self.SEIZE)

    def ask(self, request):
        if self.libc.ptrace(request, self.thread, 0, 0):
            raise lab.Skip("needs ptrace: %s" % os.strerror(ctypes.get_errno()))

    def __enter__(self):
        self.ask(self.INTERRUPT)
        os.waitpid(self.thread, self.WALL)
        return self

    def __exit__(self, *_):
        self.ask(self.DETACH)


def test_a_worker_that_stands_still():
    """A poll thread that does not answer: ports come and go, tools answer, the log tells; then everything is as before."""
    ground = Ground()
    switch = ground.switch
    with Held(pmd_thread(switch)):
        for port in "bad", "good2":
            started = time.time()
            switch.vsctl("del-port", "br0", port)
            assert time.time() - started < 15 * lab.PATIENCE, "del-port took %.1f s" % (time.time() - started)
        took = control(ground)
        assert took < 15 * lab.PATIENCE, "commands took %.1f s" % took
        switch.appctl("dpif-netdev/pmd-stats-show")
        lab.wait_until(lambda: "has not answered for" in switch.log(), "the log tells")
    for i, name in enumerate(("good1", "good2", "bad")):
        if name != "good1":
            switch.vsctl("add-port", "br0", name, "--", "set", "interface", name, "type=dpdkvhostuserclient",
                         "ofport_request=%d" % (i + 1), "options:vhost-server-path=" + ground.guests[name].path)
            ground.guests[name].drop()
            ground.guests[name].fresh()
            ground.guests[name].accept().handshake()
        lab.wait_until(lambda: ground.up(name), name + " is up")
    ground.others()
    ground.pass_on("bad", "good1")


def fill(guest):
    """The worker that takes the guest's next packet waits until the guest takes its notification."""
    counter = guest.events[2]
    fcntl.fcntl(counter, fcntl.F_SETFL, fcntl.fcntl(counter, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    if select.select([counter], [], [], 0)[0]:
        os.read(counter, 8)
    os.write(counter, struct.pack("<Q", 2**64 - 2))
    guest.send(frame(0))


def test_a_guest_that_takes_no_notification():
    """A counter that is full and blocks: the worker is freed, the connection ends, and the others lose nothing."""
    ground = Ground()
    fill(ground.bad)
    assert ground.bad.ended(20), "the guest goes on to hold the worker"
    ground.others()
    took = control(ground)
    assert took < 5 * lab.PATIENCE, "commands took %.1f s" % took
    ground.recover()


def test_a_port_out_of_service():
    """A worker that stays inside of a guest's rings: the port's error tells, its memory stays, and the port comes back."""
    ground = Ground()
    switch, bad = ground.switch, ground.bad
    thread = pmd_thread(switch)
    error = lambda: switch.vsctl("get", "interface", "bad", "error")
    for _ in range(5):
        held = Held(thread)
        fill(bad)
        lab.wait_until(lambda: writes(switch, thread), "the worker waits for the guest")
        with held:
            try:
                lab.wait_until(lambda: "out of service" in error(), "the error tells", seconds=5)
            except AssertionError:
                # It had been freed before it was stopped.
                pass
            else:
                assert not ground.up("bad")
                assert control(ground) < 15 * lab.PATIENCE
                stays = [line for line in open("/proc/%d/maps" % switch.daemon.pid) if "memfd:guest" in line]
                assert len(stays) >= 3, "memory was unmapped under a worker: %s" % stays
                break
        ground.recover()
    else:
        raise AssertionError("the worker was never held inside")
    lab.wait_until(lambda: "out of service" not in error(), "the port is in service again")
    ground.others()
    ground.recover()


def writes(switch, thread):
    with open("/proc/%d/task/%d/syscall" % (switch.daemon.pid, thread)) as f:
        return f.read().startswith("1 ")


def test_interrupts_are_counted():
    """What a guest's port says of interrupts is what the guest got, of packets that came and of packets that were taken."""
    ground = Ground()
    guest = ground.guests["good1"]
    # Ring 0 is filled by the switch, ring 1 emptied: its tx and its rx.
    calls, names = [guest.events[0], guest.events[2]], ["tx_q0_guest_notifications", "rx_q0_guest_notifications"]

    def got():
        ready = select.select(calls, [], [], 0)[0]
        return [struct.unpack("<Q", os.read(call, 8))[0] if call in ready else 0 for call in calls]

    def told():
        values = (ground.switch.vsctl("--if-exists", "get", "interface", "good1", "statistics:" + name) for name in names)
        return [int(value.strip() or -1) for value in values]

    # Setting rings up may call, too.
    got()
    ground.others()
    interrupts = got()
    assert min(interrupts) > 0, interrupts
    lab.wait_until(lambda: told() == interrupts, "the interrupts %s are told" % interrupts)
