"""Three vhost-user guests on one switch, one of them hostile. Whatever that guest does, the switch must survive, the
other ports must forward, and its port must serve the next guest."""
import ctypes
import os
import struct
import time

from lib import lab
from lib import vhost_user as vu
from lib.vhost_user import Closed, Guest, frame

ROUND = 20
OTHER_CONFIG = {"dpdk-init": "true", "dpdk-lcore-mask": "0x1", "pmd-cpu-mask": "0x2",
                "dpdk-extra": "--no-pci --no-huge --legacy-mem --no-shconf -m 512 --no-telemetry"}


def packet(number):
    """A numbered packet. Every second one is long: the switch leaves its tail in the sender's memory until the packet is sent."""
    return frame(number) + (b"" if number % 2 else bytes((number + i) % 251 for i in range(1340)))


class ThreeGuests:
    """A switch with three guests: two that behave and exchange packets, and a hostile one (`bad`).

    The guests are served by the switch itself, without DPDK, or (`library`) by DPDK's vhost library. `at_start`: settings that are
    read when the switch starts.
    """

    def __init__(self, library=False, at_start=None):
        lab.need_root()
        if os.cpu_count() < 2:
            raise lab.Skip("needs two processors")
        self.switch = switch = lab.Switch()
        switch.other_config.update(at_start or {})
        switch.start()
        config = OTHER_CONFIG if library else {"pmd-cpu-mask": "0x2"}
        switch.vsctl("set", "open_vswitch", ".", *['other_config:%s="%s"' % pair for pair in config.items()])
        if library and switch.vsctl("get", "open_vswitch", ".", "dpdk_initialized").strip() != "true":
            raise lab.Skip("needs DPDK, which does not start here")
        switch.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure")
        names = ["good1", "good2", "bad"]
        paths = {n: "%s/%s.sock" % (switch.dir, n) for n in names}
        self.guests = {n: Guest(paths[n]) for n in names}
        for i, n in enumerate(names):
            switch.vsctl("add-port", "br0", n, "--", "set", "interface", n, "type=dpdkvhostuserclient",
                         "ofport_request=%d" % (i + 1), "options:vhost-server-path=" + paths[n])
        # Packets of the third guest go to the first one.
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
        """Sends packets from one guest to another; all must arrive, in order. A ring whose index jumped may send
        earlier packets again."""
        source, sink = self.guests[source], self.guests[sink]
        sink.received()
        wanted = list(range(self.number, self.number + ROUND))
        self.number += ROUND
        for n in wanted:
            source.send(packet(n))
        got, deadline = [], time.time() + 40
        while len(got) < ROUND and time.time() < deadline:
            for p in sink.received():
                number = struct.unpack_from("<I", p, 14)[0]
                if p[12:14] == b"\x88\xb5" and number >= wanted[0]:
                    assert p == packet(number), "packet %d has changed" % number
                    got.append(number)
            time.sleep(0.01)
        assert got == wanted, "%s got %s, not %s" % (sink.path, got, wanted)

    def check_others(self):
        """Checks the switch and the other ports."""
        assert self.switch.daemon.poll() is None, "the switch died"
        self.pass_on("good1", "good2")
        self.pass_on("good2", "good1")

    def check_recovery(self):
        """Checks that the port of the hostile guest serves a well-behaved one."""
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


def try_each(attacks, library=False, at_start=None):
    """Makes each attack, then checks the other guests, and that the port serves the next guest."""
    network = ThreeGuests(library, at_start)
    for name, attack in attacks:
        try:
            try:
                attack(network.bad)
            except (Closed, TimeoutError):
                pass
            # One thread polls all guests in turn: when packets of the others pass, the rings of `bad` have been
            # polled, too.
            network.check_others()
            network.check_recovery()
        except Exception as e:
            raise AssertionError("%s: %s\n%s" % (name, e, network.switch.log()[-2000:])) from e


# Payloads of requests: `number` packs struct vhost_vring_state (ring, value), `address` packs
# struct vhost_vring_addr.
number = struct.Struct("<II").pack
address = struct.Struct("<IIQQQQ").pack
number_of = struct.Struct("<Q").unpack_from


def accepted(guest, request, payload=b"", fds=()):
    """Sends a request that needs a reply; returns whether the reply reports success."""
    guest.message(request, payload, fds, vu.NEED_REPLY)
    return number_of(guest.reply())[0] == 0


def refused(guest, request, payload=b"", fds=()):
    """Checks that the reply to a request reports an error. Unlike `accepted`, it returns nothing."""
    assert not accepted(guest, request, payload, fds), "the switch accepted request %d" % request


def stop(guest, ring):
    guest.ask(vu.GET_VRING_BASE, number(ring, 0))


def at_the_end(guest, ring, size):
    """Starts a ring of `size` descriptors in the last page of the guest's memory."""
    stop(guest, ring)
    end = vu.VIRTUAL + vu.MEMORY - 0x1000
    assert accepted(guest, vu.SET_VRING_NUM, number(ring, size))
    assert accepted(guest, vu.SET_VRING_BASE, number(ring, 0))
    assert accepted(guest, vu.SET_VRING_ADDR, address(ring, 0, end, end + 0x800, end + 0x400, 0))
    start(guest, ring)


def start(guest, ring):
    guest.message(vu.SET_VRING_CALL, struct.pack("<Q", ring), [guest.events[2 * ring]])
    guest.message(vu.SET_VRING_KICK, struct.pack("<Q", ring), [guest.events[2 * ring + 1]])
    guest.message(vu.SET_VRING_ENABLE, number(ring, 1))


def offer_at_the_end(guest, index):
    struct.pack_into("<H", guest.memory, vu.MEMORY - 0x1000 + 0x402, index)


def check_control(network):
    """Checks the main thread and the tools: a command, adding and deleting a port."""
    started = time.time()
    network.switch.appctl("version")
    network.switch.vsctl("add-port", "br0", "passing", "--", "set", "interface", "passing", "type=internal")
    network.switch.vsctl("del-port", "br0", "passing")
    return time.time() - started


def pmd_thread(switch):
    """The poll thread of the guests."""
    tasks = "/proc/%d/task" % switch.daemon.pid
    for task in os.listdir(tasks):
        with open("%s/%s/comm" % (tasks, task)) as f:
            if f.read().startswith("pmd-c"):
                return int(task)
    raise AssertionError("no poll thread")


class StoppedThread:
    """Stops a thread of another process with ptrace, as if it had lost its core."""
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


class SteppedThread(StoppedThread):
    """Stops a thread, and executes its instructions one by one. In the end its process is killed."""
    STEP = 9

    def step(self, count):
        ask, wait, thread, wall = self.libc.ptrace, os.waitpid, self.thread, self.WALL
        for _ in range(count):
            ask(self.STEP, thread, 0, 0)
            wait(thread, wall)

    def __exit__(self, failed, *_):
        if failed:
            return super().__exit__()
        # The process ends when the last thread is waited for.
        while os.WIFSTOPPED(os.waitpid(self.thread, self.WALL)[1]):
            pass
