"""Invalid messages, refused descriptors, and incomplete handshakes."""
import os
import stat
import struct
import time

from lib import lab
from lib import vhost_user as vu
from lib.hostile_guest import ThreeGuests, address, at_the_end, number, offer_at_the_end, refused, try_each
from lib.vhost_user import Closed, Guest, by_both, frame

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def say(request, payload=b"", fds=0, flags=0):
    def attack(guest):
        guest.message(request, payload, [guest.fd] * fds, flags)
        guest.ended(0.5)
    return attack


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
    """Sends requests until the socket is full of unread replies."""
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


@by_both
def test_messages_that_lie(library):
    """Invalid tables, addresses, features and requests under traffic: only that port is affected."""
    try_each(MESSAGES, library)


@by_both
def test_refused_descriptors_are_closed(library):
    """A guest that sends hundreds of refused tables does not use up the switch's descriptors."""
    network = ThreeGuests(library)
    folder = "/proc/%d/fd" % network.switch.daemon.pid
    before = len(os.listdir(folder))
    for _ in range(200):
        refused(network.bad, vu.SET_MEM_TABLE, network.bad.table(0, regions=8), [network.bad.fd] * 8)
    after = len(os.listdir(folder))
    assert after <= before + 8, "%d descriptors became %d" % (before, after)
    network.pass_on("bad", "good1")


@by_both
def test_closed_at_any_byte(library):
    """The socket is closed after each byte of the handshake; the port then serves the next guest."""
    network = ThreeGuests(library)
    bad = network.bad
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
            network.check_others()
    network.check_others()
    network.check_recovery()


@by_both
def test_a_silent_peer_delays_no_other_guest(library):
    """Half a message, and then nothing: meanwhile other guests connect and disconnect, and the port can be removed."""
    network = ThreeGuests(library)
    bad, other = network.bad, network.guests["good2"]
    bad.drop()
    bad.accept()
    bad.write(struct.pack("<III", vu.SET_FEATURES, 1, 8))
    started = time.time()
    other.drop()
    other.fresh()
    other.accept().handshake()
    lab.wait_until(lambda: network.up("good2"), "another guest is up")
    assert time.time() - started < 5, "another guest had to wait %.1f s" % (time.time() - started)
    network.check_others()
    bad.drop()
    bad.accept()
    bad.write(struct.pack("<III", vu.SET_FEATURES, 1, 8))
    network.switch.vsctl("del-port", "br0", "bad")
    network.check_others()


@by_both
def test_one_guest_at_a_time(library):
    """A second guest at a path of the switch is refused, without effect on the first one; the next guest is accepted."""
    network = ThreeGuests(library)
    switch, path = network.switch, network.switch.dir + "/server"
    switch.vsctl("add-port", "br0", "server", "--", "set", "interface", "server", "type=dpdkvhostuser", "ofport_request=4")
    switch.ofctl("add-flow", "br0", "in_port=4,actions=1")
    mode = os.stat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o750, oct(mode)
    first, second = (Guest(path, connects=True) for _ in range(2))
    network.guests["server"] = first
    first.accept().handshake()
    lab.wait_until(lambda: network.up("server"), "the guest is up")
    for _ in range(5):
        assert second.accept().ended(20), "a second guest is served"
        network.pass_on("server", "good1")
    # What the first guest may not do, it may not do after another guest has connected either.
    at_the_end(first, 1, 8)
    assert second.accept().ended(20)
    refused(first, vu.SET_VRING_NUM, number(1, 32768))
    offer_at_the_end(first, 0x7000)
    network.check_others()
    # A guest that connects the moment the first one leaves gets rings of its own.
    for n in range(20):
        going, coming = (first, second) if n % 2 == 0 else (second, first)
        coming.fresh()
        going.drop()
        coming.accept().handshake()
        network.guests["server"] = coming
        lab.wait_until(lambda: network.up("server"), "guest %d is up" % n)
        network.pass_on("server", "good1")
    network.check_others()
