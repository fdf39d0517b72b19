"""PMD threads blocked by a guest or the scheduler, and the interrupts that guests get."""
import fcntl
import os
import select
import struct
import time

from lib import lab
from lib.hostile_guest import StoppedThread, ThreeGuests, check_control, pmd_thread
from lib.vhost_user import by_both, frame


def test_a_worker_that_stands_still():
    """A stopped PMD thread: ports can be deleted, tools work, the log reports it; afterwards ports can be added again."""
    network = ThreeGuests(library=True)
    switch = network.switch
    with StoppedThread(pmd_thread(switch)):
        for port in "bad", "good2":
            started = time.time()
            switch.vsctl("del-port", "br0", port)
            assert time.time() - started < 15 * lab.PATIENCE, "del-port took %.1f s" % (time.time() - started)
        took = check_control(network)
        assert took < 15 * lab.PATIENCE, "commands took %.1f s" % took
        switch.appctl("dpif-netdev/pmd-stats-show")
        lab.wait_until(lambda: "has not answered for" in switch.log(), "the log tells")
    for i, name in enumerate(("good1", "good2", "bad")):
        if name != "good1":
            switch.vsctl("add-port", "br0", name, "--", "set", "interface", name, "type=dpdkvhostuserclient",
                         "ofport_request=%d" % (i + 1), "options:vhost-server-path=" + network.guests[name].path)
            network.guests[name].drop()
            network.guests[name].fresh()
            network.guests[name].accept().handshake()
        lab.wait_until(lambda: network.up(name), name + " is up")
    network.check_others()
    network.pass_on("bad", "good1")


def fill(guest):
    """Fills the eventfd: the worker that takes the guest's next packet blocks until the guest reads its notification."""
    counter = guest.events[2]
    fcntl.fcntl(counter, fcntl.F_SETFL, fcntl.fcntl(counter, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    if select.select([counter], [], [], 0)[0]:
        os.read(counter, 8)
    os.write(counter, struct.pack("<Q", 2**64 - 2))
    guest.send(frame(0))


@by_both
def test_a_guest_that_takes_no_notification(library):
    """An eventfd that is full and blocks: the worker is released, the connection is closed, and others lose nothing."""
    network = ThreeGuests(library)
    fill(network.bad)
    assert network.bad.ended(20), "the guest goes on to hold the worker"
    network.check_others()
    took = check_control(network)
    assert took < 5 * lab.PATIENCE, "commands took %.1f s" % took
    network.check_recovery()


@by_both
def test_a_port_out_of_service(library):
    """A worker stays inside a guest's rings: the port shows an error, its memory stays mapped, and the port recovers."""
    network = ThreeGuests(library)
    switch, bad = network.switch, network.bad
    thread = pmd_thread(switch)
    error = lambda: switch.vsctl("get", "interface", "bad", "error")
    for _ in range(5):
        held = StoppedThread(thread)
        fill(bad)
        lab.wait_until(lambda: is_in_write(switch, thread), "the worker waits for the guest")
        with held:
            try:
                lab.wait_until(lambda: "out of service" in error(), "the error tells", seconds=5)
            except AssertionError:
                # The worker had left the rings before it was stopped.
                pass
            else:
                assert not network.up("bad")
                assert check_control(network) < 15 * lab.PATIENCE
                stays = [line for line in open("/proc/%d/maps" % switch.daemon.pid) if "memfd:guest" in line]
                assert len(stays) >= 3, "memory was unmapped under a worker: %s" % stays
                break
        network.check_recovery()
    else:
        raise AssertionError("the worker was never held inside")
    lab.wait_until(lambda: "out of service" not in error(), "the port is in service again")
    network.check_others()
    network.check_recovery()


def is_in_write(switch, thread):
    with open("/proc/%d/task/%d/syscall" % (switch.daemon.pid, thread)) as f:
        return f.read().startswith("1 ")


@by_both
def test_interrupts_are_counted(library):
    """The port's interrupt counters equal the interrupts that the guest got, for received and for sent packets."""
    network = ThreeGuests(library)
    guest = network.guests["good1"]
    # Ring 0 is the switch's tx queue, ring 1 its rx queue.
    calls, names = [guest.events[0], guest.events[2]], ["tx_q0_guest_notifications", "rx_q0_guest_notifications"]

    def got():
        ready = select.select(calls, [], [], 0)[0]
        return [struct.unpack("<Q", os.read(call, 8))[0] if call in ready else 0 for call in calls]

    def counted():
        values = (network.switch.vsctl("--if-exists", "get", "interface", "good1", "statistics:" + name) for name in names)
        return [int(value.strip() or -1) for value in values]

    # Setting up rings may cause interrupts, too.
    got()
    network.check_others()
    interrupts = got()
    assert min(interrupts) > 0, interrupts
    lab.wait_until(lambda: counted() == interrupts, "interrupts %s are counted" % interrupts)
