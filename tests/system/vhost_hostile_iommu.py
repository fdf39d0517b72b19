"""A guest with an IOMMU, and front-ends that lie about its translations."""
import os
import random
import struct
import time

from lib import lab
from lib import vhost_user as vu
from lib.hostile_guest import ThreeGuests, try_each
from lib.iommu_guest import BOTH, INVALIDATE, IOVA, PAGE, READ, UPDATE, WRITE, IommuGuest
from lib.vhost_user import Closed, frame

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

AT_START = {"vhost-iommu-support": "true"}
# The I/O virtual address of the guest's memory.
BASE = IOVA + vu.PHYSICAL
# Bytes by which the switch may grow while a front-end floods it with translations. 2,048 translations take 64 KB.
GROWTH_MAX = 16 << 20


def resident(pid):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_packets_wait_for_translations():
    """Packets of a guest with an IOMMU arrive in order when their buffers are translated, and not while they are not."""
    network = ThreeGuests(at_start=AT_START)
    guest, sink = IommuGuest(network.bad), network.guests["good1"]
    lab.wait_until(lambda: network.up("bad"), "the port is up")
    sink.received()
    for n in range(20):
        guest.send(frame(1000 + n))
    time.sleep(0.2)
    assert sink.received() == [], "no buffer is translated"
    got, answered = [], 0
    while len(got) < 20:
        answered += guest.answer(seconds=0.05)
        got += sink.received()
        assert answered < 1000, got
    assert got == [frame(1000 + n) for n in range(20)]
    # Two buffers of 2 KB are in each page.
    assert answered == 10, answered
    # After an invalidation the switch asks again.
    assert guest.iotlb(INVALIDATE, BASE + vu.BUFFERS, vu.MEMORY - vu.BUFFERS)
    guest.send(frame(2000))
    lab.wait_until(guest.requests, "a request")
    assert sink.received() == []
    # The test has not answered this request. The next invalidation causes another request. It removes all translations, so the rings stop,
    # too, until the switch has their translations again.
    assert guest.iotlb(INVALIDATE, 0, 0)
    guest.send(frame(2001))
    got, answered = [], 0
    deadline = time.time() + 10 * lab.PATIENCE
    while len(got) < 2 and time.time() < deadline:
        answered += guest.answer(seconds=0.05)
        got += sink.received()
    assert got == [frame(2000), frame(2001)] and answered >= 6, (got, answered)
    assert network.up("bad"), "the link does not flap"
    network.check_others()
    network.check_recovery()


def no_translation(bad):
    """None of the buffers is ever translated."""
    guest = IommuGuest(bad)
    guest.post()
    for n in range(200):
        guest.send(frame(n))
    bad.ended(0.5)
    assert 1 <= len(guest.requests()) <= 200


def unread_requests(bad):
    """The switch requests missing pages again after each change of the IOTLB, and the front-end does not read the requests."""
    guest = IommuGuest(bad)
    guest.post()
    for n in range(200):
        guest.send(frame(n))
    for n in range(3000):
        at = vu.BUFFERS + n % 200 * vu.BUFFER
        guest.translate(at, PAGE, BOTH)
        if n % 7 == 0:
            assert guest.iotlb(INVALIDATE, BASE + vu.BUFFERS, 1 << 20)


def wrong_updates(bad):
    """Translations outside of the memory, of no size, around the end of the address space, with no or unknown rights, of unknown types."""
    guest, user = IommuGuest(bad), vu.VIRTUAL
    for message in [(UPDATE, BASE, 0, user, BOTH), (UPDATE, 2 ** 64 - 1, 2, user, BOTH), (UPDATE, BASE, 2 ** 64 - 1, user, BOTH),
                    (UPDATE, BASE, vu.MEMORY + 1, user, BOTH), (UPDATE, BASE, PAGE, user - 1, BOTH), (UPDATE, BASE, PAGE, 0, BOTH),
                    (UPDATE, BASE, PAGE, user + vu.MEMORY, BOTH), (UPDATE, BASE, PAGE, 2 ** 64 - 1, BOTH),
                    (UPDATE, BASE, PAGE, user, 0), (UPDATE, BASE, PAGE, user, 255), (0, BASE, PAGE, user, BOTH),
                    (1, BASE, PAGE, user, BOTH), (4, BASE, PAGE, user, BOTH), (255, BASE, PAGE, user, BOTH)]:
        assert not guest.iotlb(*message), message
    bad.message(vu.IOTLB_MSG, bytes(25))
    assert bad.ended()


def denied(bad):
    """A packet of the guest in memory that its IOMMU does not let the device read."""
    guest = IommuGuest(bad)
    guest.send(frame(1))
    guest.answer(WRITE)
    assert bad.ended(), "the switch goes on although it may not read"


def scattered_ring(bad):
    """A ring whose pages are not adjacent."""
    guest = IommuGuest(bad, rings=False)
    for page in range(0, vu.BUFFERS, PAGE):
        assert guest.iotlb(UPDATE, BASE + page, PAGE, vu.VIRTUAL + vu.BUFFERS - page, BOTH)
    address = struct.pack("<IIQQQQ", 1, 0, BASE + 16, BASE + 0x5000, BASE + 0x6000, 0)
    bad.message(vu.SET_VRING_ADDR, address)
    assert bad.ended()


def moving_rings(bad):
    """The translation of the rings' memory changes again and again while they are used."""
    guest, dice = IommuGuest(bad), random.Random(3)
    guest.translate(vu.BUFFERS, vu.MEMORY - vu.BUFFERS)
    for n in range(500):
        guest.send(frame(n))
        to = dice.randrange(0, vu.BUFFERS, PAGE)
        assert guest.iotlb(UPDATE, BASE + dice.randrange(0, 8) * PAGE, PAGE * dice.randrange(1, 5), vu.VIRTUAL + to, dice.choice((READ, WRITE, BOTH)))


def overlapping_updates(bad):
    """Translations of any size at any address, of which each overlaps others, and invalidations between them, under traffic."""
    guest, dice = IommuGuest(bad), random.Random(4)
    for n in range(20000):
        size = dice.choice((1, 7, PAGE, 2 * PAGE + 1, 1 << 20))
        at = dice.randrange(0, vu.MEMORY - size)
        kind = dice.choice((UPDATE, UPDATE, UPDATE, INVALIDATE))
        iova = BASE + vu.BUFFERS + dice.randrange(1 << 30)
        assert guest.iotlb(kind, iova, size, vu.VIRTUAL + at, BOTH)
        if n % 100 == 0:
            guest.send(frame(n))


def wrong_channels(bad):
    """A channel that is closed, that is full, and one that is no socket."""
    guest = IommuGuest(bad)
    guest.channel.close()
    guest.theirs.close()
    for n in range(50):
        guest.send(frame(n))
    time.sleep(0.2)
    bad.message(vu.SET_BACKEND_REQ_FD, b"", [bad.events[0]])
    assert bad.ended()


def own_memory(bad):
    """The memory of the rings is invalidated again and again while packets wait, and only sometimes translated again."""
    guest = IommuGuest(bad)
    guest.translate(vu.BUFFERS, vu.MEMORY - vu.BUFFERS)
    for n in range(300):
        guest.send(frame(n))
        assert guest.iotlb(INVALIDATE, BASE + n % 8 * PAGE, PAGE)
        if n % 3 == 0:
            guest.translate(0, vu.BUFFERS)


ATTACKS = [(attack.__name__, attack) for attack in (no_translation, unread_requests, wrong_updates, denied, scattered_ring, moving_rings,
                                                    overlapping_updates, wrong_channels, own_memory)]


def test_lies_about_translations():
    """Whatever the front-end of a guest with an IOMMU sends, or does not send, only its own port is affected."""
    try_each(ATTACKS, at_start=AT_START)


def test_memory_of_translations_is_bounded():
    """Endless translations and misses do not make the switch grow."""
    network = ThreeGuests(at_start=AT_START)
    network.check_others()
    before = resident(network.switch.daemon.pid)
    for attack in overlapping_updates, unread_requests:
        try:
            attack(network.bad)
        except (Closed, TimeoutError):
            pass
    grown = resident(network.switch.daemon.pid) - before
    print("    %d KB more" % (grown >> 10))
    assert grown < GROWTH_MAX, grown
    network.check_others()


def test_an_iommu_is_offered_only_if_set():
    """Without `vhost-iommu-support` a guest is not offered an IOMMU, and its messages about translations are refused."""
    network = ThreeGuests()
    bad = network.bad
    assert not bad.ask(vu.GET_FEATURES) & 1 << 33 and not bad.ask(vu.GET_PROTOCOL_FEATURES) & 32
    bad.message(vu.IOTLB_MSG, bytes(32), flags=vu.NEED_REPLY)
    assert struct.unpack("<Q", bad.reply())[0] != 0
    network.check_others()
