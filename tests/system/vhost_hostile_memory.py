"""Files instead of guest memory: sealed late, never answering, paged by the guest."""
import fcntl
import os
import random
import struct
import threading
import time

from lib import fuse, lab
from lib import vhost_user as vu
from lib.hostile_guest import ThreeGuests, accepted, check_control, refused
from lib.vhost_user import Closed, by_both, frame

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

F_ADD_SEALS, F_SEAL_FUTURE_WRITE = 1033, 0x10
SEAL_TRIES = 400


def seal_late(guest, number, wait):
    """Sends the guest's memory and seven more regions; `wait` seconds later the last one cannot be mapped any more."""
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
        # A different table each time, since the switch need not map the same one again.
        at = (i << 36) + (number << 24)
        table += region(at, vu.MEMORY, at, 0)
    sealing.start()
    try:
        # The guest waits for the reply, and so stays connected.
        return accepted(guest, vu.SET_MEM_TABLE, table, [guest.fd] * 7 + [last])
    finally:
        sealing.join()
        os.close(last)


@by_both
def test_memory_that_is_sealed_late(library):
    """A file becomes read-only between the check of a memory table and its use, under traffic: the switch and all other ports continue."""
    network = ThreeGuests(library)
    bad, dice, outcomes = network.bad, random.Random(1), []
    for n in range(SEAL_TRIES):
        bad.send(frame(n))
        try:
            outcomes.append(seal_late(bad, n, dice.uniform(0, 0.001)))
        except (Closed, TimeoutError):
            outcomes.append(None)
            assert network.switch.daemon.poll() is None, "the switch died at try %d: %s" % (n, outcomes)
            network.check_recovery()
    assert network.switch.daemon.poll() is None, "the switch died: %s" % outcomes
    assert True in outcomes, "no table was taken: %s" % outcomes
    network.check_others()
    network.check_recovery()


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


@by_both
def test_files_that_never_answer(library):
    """A FUSE file that never answers, instead of memory or an eventfd: other guests, the tools and the port continue."""
    network = ThreeGuests(library)
    for name, attack in FILES:
        file = fuse.Unanswered(vu.MEMORY, network.switch.daemon.pid)
        try:
            attack(network.bad, file.fd)
            network.bad.send(frame(0))
            network.bad.ended(0.5)
        except Closed:
            pass
        try:
            network.check_others()
            took = check_control(network)
            assert took < 5 * lab.PATIENCE, "commands took %.1f s" % took
            asked = {fuse.READ: "read", fuse.GETATTR: "stat", fuse.POLL: "poll", fuse.WRITE: "write"}
            used = [asked[n] for n in file.asked if n in asked]
            assert not used, "the file was used: %s" % used
        except Exception as e:
            raise AssertionError("%s: %s\n%s" % (name, e, network.switch.log()[-2000:])) from e
        finally:
            file.end()
        network.check_recovery()


@by_both
def test_pages_that_come_later(library):
    """A guest that was not offered post-copy does not get access to the switch's page faults."""
    network = ThreeGuests(library)
    for request in vu.POSTCOPY_ADVISE, vu.POSTCOPY_LISTEN:
        refused(network.bad, request)
    network.pass_on("bad", "good1")
    network.check_others()
