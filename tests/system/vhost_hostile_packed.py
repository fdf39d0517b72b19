"""Invalid packed rings and invalid inflight areas: only the port of that guest is affected."""
import os
import struct

from lib import vhost_user as vu
from lib.hostile_guest import accepted, number, refused, start, stop, try_each
from lib.kept_guest import GET_INFLIGHT_FD, INFLIGHT, MQ
from lib.vhost_user import frame

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

AVAILABLE, USED = 1 << 7, 1 << 15
FEATURES = vu.F_VERSION_1 | vu.F_MRG_RXBUF | vu.F_PROTOCOL
WRAP = 1 << 15


def descriptor(guest, ring, slot, address, length, flags, ident=0):
    struct.pack_into("<QIHH", guest.memory, ring * vu.RING + 16 * slot, address, length, ident, flags)


def restart(guest, features, base):
    """Restarts both rings with these features, at this ring position."""
    stop(guest, 0)
    stop(guest, 1)
    assert accepted(guest, vu.SET_FEATURES, struct.pack("<Q", features))
    for ring in 0, 1:
        assert accepted(guest, vu.SET_VRING_NUM, number(ring, vu.SIZE))
        assert accepted(guest, vu.SET_VRING_BASE, number(ring, base))
        assert accepted(guest, vu.SET_VRING_ADDR, guest.ring_address(ring))
        start(guest, ring)


def packed(attack):
    """An attack by a guest whose rings are packed."""
    def run(guest):
        guest.memory[:2 * vu.RING] = bytes(2 * vu.RING)
        # Bit 28: VIRTIO_RING_F_INDIRECT_DESC.
        restart(guest, FEATURES | vu.F_PACKED | 1 << 28, WRAP | WRAP << 16)
        attack(guest)
    return run


def offer(guest, address, length, flags=0, ring=1, slot=0):
    descriptor(guest, ring, slot, address, length, flags | AVAILABLE)


def offer_all(guest, ring, address, length, flags):
    for slot in range(vu.SIZE):
        offer(guest, address, length, flags, ring, slot)


def indirect(guest, address, length, inner=b""):
    guest.memory[vu.BUFFERS:vu.BUFFERS + len(inner)] = inner
    offer(guest, address, length, vu.INDIRECT)


def noise(guest):
    guest.memory[:2 * vu.RING] = os.urandom(2 * vu.RING)


def changing(guest):
    """Flags and lengths change while the switch reads them."""
    for _ in range(20000):
        offer(guest, vu.PHYSICAL + vu.BUFFERS, 100, vu.NEXT)
        offer(guest, vu.PHYSICAL + vu.BUFFERS, 0xffffffff)


INSIDE = vu.PHYSICAL + vu.BUFFERS
RINGS = [
    ("outside", lambda g: offer(g, 0xdead0000, 100)),
    ("at the end", lambda g: offer(g, vu.PHYSICAL + vu.MEMORY - 20, 2000)),
    ("wraps", lambda g: offer(g, 2**64 - 8, 100)),
    ("no length", lambda g: offer(g, INSIDE, 0)),
    ("shorter than its header", lambda g: offer(g, INSIDE, 5)),
    ("4 GB", lambda g: offer(g, INSIDE, 0xffffffff)),
    ("a chain without an end", lambda g: offer_all(g, 1, INSIDE, 100, vu.NEXT)),
    ("an indirect table within a chain", lambda g: offer_all(g, 1, INSIDE, 16, vu.NEXT | vu.INDIRECT)),
    ("indirect outside", lambda g: indirect(g, 0xdead0000, 32)),
    ("indirect, half an entry", lambda g: indirect(g, INSIDE, 7)),
    ("indirect in indirect", lambda g: indirect(g, INSIDE, 16, struct.pack("<QIHH", INSIDE, 16, 0, vu.INDIRECT))),
    ("indirect, 64 MB", lambda g: indirect(g, INSIDE, 64 << 20)),
    ("indirect, empty buffers", lambda g: indirect(g, INSIDE, 0x10000, bytes(0x10000))),
    ("read-only buffers to write to", lambda g: offer_all(g, 0, INSIDE, 2000, 0)),
    ("buffers to write to outside", lambda g: offer_all(g, 0, 2**63, 64, vu.WRITE)),
    ("buffers to write to without an end", lambda g: offer_all(g, 0, INSIDE, 1, vu.WRITE | vu.NEXT)),
    ("the rings themselves as buffers", lambda g: offer_all(g, 0, vu.PHYSICAL, 2000, vu.WRITE)),
    ("noise in the rings", noise),
    ("descriptors that change", changing),
]


def test_packed_rings_that_lie():
    """Packed rings with descriptors outside memory, chains without an end, tables within tables, noise: only that port is affected."""
    try_each([(name, packed(attack)) for name, attack in RINGS])


def area(guest, content, features=FEATURES, size=vu.SIZE, offset=0, base=0):
    """Restarts the rings with this inflight area."""
    fd = os.memfd_create("area")
    os.ftruncate(fd, 1 << 20)
    os.pwrite(fd, content, offset)
    stop(guest, 0)
    stop(guest, 1)
    guest.message(vu.SET_PROTOCOL_FEATURES, struct.pack("<Q", MQ | INFLIGHT))
    try:
        assert accepted(guest, vu.SET_INFLIGHT_FD, struct.pack("<QQHH", 1 << 19, offset, 2, size), [fd])
    finally:
        os.close(fd)
    restart(guest, features, base)
    guest.send(frame(0))
    guest.ended(0.5)


def invalid_areas(guest):
    """Impossible areas, of a guest that stays connected."""
    stop(guest, 0)
    stop(guest, 1)
    guest.message(vu.SET_PROTOCOL_FEATURES, struct.pack("<Q", MQ | INFLIGHT))
    for length, offset, rings, size in (0, 0, 2, 8), (1 << 40, 0, 2, 8), (4096, 1, 2, 8), (4096, 2**64 - 4096, 2, 8), \
            (4096, 0, 0, 8), (4096, 0, 300, 8), (4096, 0, 2, 0), (4096, 0, 2, 0xffff):
        refused(guest, vu.SET_INFLIGHT_FD, struct.pack("<QQHH", length, offset, rings, size), [guest.fd])
    refused(guest, vu.SET_INFLIGHT_FD, struct.pack("<QQHH", 4096, 0, 2, 8))
    refused(guest, vu.SET_INFLIGHT_FD, struct.pack("<QQHH", 4096, 0, 2, 8), [guest.events[0]])
    refused(guest, GET_INFLIGHT_FD, struct.pack("<QQHH", 0, 0, 0xffff, 0xffff))


def while_it_runs(guest):
    guest.message(vu.SET_PROTOCOL_FEATURES, struct.pack("<Q", MQ | INFLIGHT))
    refused(guest, vu.SET_INFLIGHT_FD, struct.pack("<QQHH", 1 << 19, 0, 2, vu.SIZE), [guest.fd])
    guest.send(frame(0))


def head(*words):
    """The header of a used ring's region in an inflight area (`vu.SIZE` descriptors), followed by `words`."""
    return struct.pack("<QHH", 0, 1, vu.SIZE) + struct.pack("<%dH" % len(words), *words)


PACKED = FEATURES | vu.F_PACKED
AREAS = [
    ("areas that cannot be", invalid_areas),
    ("an area for rings that run", while_it_runs),
    ("an area for shorter rings", lambda g: area(g, b"", size=8)),
    ("an area of another ring", lambda g: area(g, struct.pack("<QHH", 0, 1, 8))),
    ("a list without an end", lambda g: area(g, head(0, 0xffff))),
    ("a list beyond the ring", lambda g: area(g, head(0xffff, 0x8000))),
    ("everything in flight", lambda g: area(g, head(0, 0) + b"\xff" * 0x8000)),
    ("a packed ring beyond its end", lambda g: area(g, head(0, 0, 0xffff, 0x7fff), PACKED, base=WRAP)),
    ("a packed ring, all of it together", lambda g: area(g, head(0, 0, 5, 0, 0x101, 0xffff), PACKED, base=WRAP)),
    ("a packed ring that was never there", lambda g: area(g, head(0, 0, 7, 0, 0x101, vu.SIZE) + b"\xaa" * 0x2000, PACKED, base=WRAP)),
    ("noise", lambda g: area(g, head() + os.urandom(0x8000), PACKED, base=WRAP)),
]


def test_inflight_areas_that_lie():
    """Inflight areas beyond their file, with lists without an end, places beyond the ring, noise: only that port is affected."""
    try_each(AREAS)
