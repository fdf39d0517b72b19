"""Invalid rings: descriptors outside memory, loops, indexes that jump; rings that change out of order."""
import os
import socket
import struct

from lib import vhost_user as vu
from lib.hostile_guest import accepted, address, at_the_end, number, number_of, offer_at_the_end, refused, start, stop, try_each
from lib.vhost_user import by_both, frame

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


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
    """Shrinks the memory file and then sends nothing: the switch must detect the missing memory by itself, or not access it."""
    shrink(guest)
    guest.ended(1)


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


@by_both
def test_rings_that_lie(library):
    """Descriptors outside memory, loops, rings that jump, memory that disappears: only that port is affected."""
    try_each(RINGS, library)


def no_such_memory(guest):
    """Memory tables that cannot be mapped, from a guest that stays connected: its present memory remains usable."""
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
    """The features of packed rings are requested while a split ring runs."""
    at_the_end(guest, 1, 128)
    stop(guest, 0)
    refused(guest, vu.SET_FEATURES, struct.pack("<Q", vu.F_VERSION_1 | vu.F_PROTOCOL | vu.F_PACKED))
    guest.send(frame(0))


def packed_beyond(guest):
    """A packed ring that continues far beyond its end."""
    stop(guest, 0)
    stop(guest, 1)
    packed = struct.pack("<Q", vu.F_VERSION_1 | vu.F_PROTOCOL | vu.F_PACKED)
    if not guest.ask(vu.GET_FEATURES) & vu.F_PACKED:
        return refused(guest, vu.SET_FEATURES, packed)
    assert accepted(guest, vu.SET_FEATURES, packed)
    end = vu.VIRTUAL + vu.MEMORY - 0x1000
    assert accepted(guest, vu.SET_VRING_NUM, number(1, 128))
    assert accepted(guest, vu.SET_VRING_BASE, number(1, 0x7fff))
    refused(guest, vu.SET_VRING_ADDR, address(1, 0, end, end + 0x800, end + 0x900, 0))
    assert accepted(guest, vu.SET_VRING_BASE, number(1, 0x807f))
    assert accepted(guest, vu.SET_VRING_ADDR, address(1, 0, end, end + 0x800, end + 0x900, 0))
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


@by_both
def test_rings_out_of_order(library):
    """A guest changes sizes, addresses, layouts and memory of running rings: it gets errors, and stays connected."""
    try_each(ORDER, library)
