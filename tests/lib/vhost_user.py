"""A vhost-user front-end: the guest's side of the socket, for tests that follow the protocol or violate it.

`Guest` listens at a path (the switch's port is the client) or connects to one (the switch listens), shares a file in
memory by SCM_RIGHTS, and makes split rings in it. `handshake` follows the protocol; `send` and `received` transfer
packets. All steps are available separately: `message` sends any request with any payload and descriptors, `memory` is
the shared memory as bytes.
"""
import array
import functools
import mmap
import os
import select
import socket
import struct
import time

GET_FEATURES, SET_FEATURES, SET_OWNER, RESET_OWNER, SET_MEM_TABLE = 1, 2, 3, 4, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = 12, 13, 14
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = 15, 16, 17, 18
SET_LOG_BASE, POSTCOPY_ADVISE, POSTCOPY_LISTEN, SET_INFLIGHT_FD = 6, 28, 29, 32
SET_BACKEND_REQ_FD, IOTLB_MSG = 21, 22
VERSION, REPLY, NEED_REPLY = 1, 4, 8

# The guest leaves checksums and segmentation to the switch (HOST), or accepts packets that lack them (GUEST).
F_CSUM, F_GUEST_CSUM, F_GUEST_TSO4, F_GUEST_TSO6, F_HOST_TSO4, F_HOST_TSO6 = (1 << n for n in (0, 1, 7, 8, 11, 12))
F_GUEST_USO4, F_GUEST_USO6, F_HOST_USO = (1 << n for n in (54, 55, 56))
F_MRG_RXBUF, F_LOG_ALL, F_PROTOCOL, F_VERSION_1, F_PACKED = 1 << 15, 1 << 26, 1 << 30, 1 << 32, 1 << 34
MEMORY = 4 << 20
PHYSICAL, VIRTUAL = 0x40000000, 0x7f0000000000
SIZE = 256                  # descriptors of a ring
RING, BUFFERS, BUFFER = 0x4000, 0x100000, 2048
HEADER = 12                 # virtio_net_hdr with num_buffers
NEXT, WRITE, INDIRECT = 1, 2, 4


def by_both(test):
    """Makes two tests of `test(library)`: one of the same name for guests that the switch serves itself, and `…_by_library` for DPDK's library."""
    def variant(library):
        @functools.wraps(test)
        def run():
            test(library)
        return run
    test.__globals__[test.__name__ + "_by_library"] = variant(True)
    return variant(False)


class Closed(Exception):
    """The switch closed the connection."""


class Guest:
    def __init__(self, path, pairs=1, connects=False):
        self.path, self.pairs, self.listener = path, pairs, None
        if not connects:
            if os.path.exists(path):
                os.unlink(path)
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.listener.bind(path)
            self.listener.listen(8)
        self.peer = None
        self.fresh()

    def fresh(self):
        """New memory and new rings."""
        self.close_memory()
        self.fd = os.memfd_create("guest")
        os.ftruncate(self.fd, MEMORY)
        self.memory = mmap.mmap(self.fd, MEMORY)
        # Ring indexes must be read and written atomically; `struct` accesses them byte by byte.
        self.words = memoryview(self.memory).cast("H")
        self.events = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(4 * self.pairs)]
        self.sent, self.posted, self.taken = [0] * self.pairs, [0] * self.pairs, [0] * self.pairs
        self.slots = [0] * self.pairs

    def close_memory(self):
        for fd in getattr(self, "events", []):
            os.close(fd)
        self.events = []
        if getattr(self, "memory", None):
            self.words.release()
            self.memory.close()
            os.close(self.fd)
            self.memory = None

    def close(self):
        self.drop()
        self.close_memory()
        if self.listener:
            self.listener.close()
            if os.path.exists(self.path):
                os.unlink(self.path)

    # Connection.

    def accept(self, seconds=10):
        """Waits until the switch connects, or connects to it."""
        self.drop()
        if self.listener:
            self.listener.settimeout(seconds)
            self.peer, _ = self.listener.accept()
        else:
            self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.peer.connect(self.path)
        self.peer.settimeout(5)
        return self

    def drop(self):
        if self.peer:
            self.peer.close()
        self.peer = None

    def write(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.peer.sendmsg([data], control)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    @staticmethod
    def packed(request, payload=b"", flags=0):
        return struct.pack("<III", request, VERSION | flags, len(payload)) + payload

    def message(self, request, payload=b"", fds=(), flags=0):
        self.write(self.packed(request, payload, flags), fds)

    def reply(self):
        header = self.read(12)
        return self.read(struct.unpack("<III", header)[2])

    def read(self, n):
        data = b""
        while len(data) < n:
            try:
                part = self.peer.recv(n - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise Closed
            data += part
        return data

    def ask(self, request, payload=b""):
        self.message(request, payload)
        return struct.unpack("<Q", self.reply()[:8])[0]

    def ended(self, seconds=5):
        """Whether the switch closes the connection within this time."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            readable, _, _ = select.select([self.peer], [], [], 0.1)
            try:
                if readable and not self.peer.recv(4096):
                    return True
            except ConnectionResetError:
                return True
        return False

    # Handshake.

    def table(self, size=MEMORY, physical=PHYSICAL, virtual=VIRTUAL, offset=0, regions=1):
        return struct.pack("<II", regions, 0) + struct.pack("<QQQQ", physical, size, virtual, offset) * max(regions, 1)

    def ring_address(self, ring, base=None):
        base = VIRTUAL + ring * RING if base is None else base
        return struct.pack("<IIQQQQ", ring, 0, base, base + 0x2000, base + 0x1000, 0)

    def steps(self, features=F_VERSION_1 | F_MRG_RXBUF):
        """The messages of a handshake: (request, payload, descriptors, needs a reply)."""
        number = struct.Struct("<II").pack
        yield GET_FEATURES, b"", [], True
        yield GET_PROTOCOL_FEATURES, b"", [], True
        yield SET_PROTOCOL_FEATURES, struct.pack("<Q", 1), [], False
        yield GET_QUEUE_NUM, b"", [], True
        yield SET_OWNER, b"", [], False
        for ring in range(2 * self.pairs):
            yield SET_VRING_CALL, struct.pack("<Q", ring), [self.events[2 * ring]], False
        yield SET_FEATURES, struct.pack("<Q", features | F_PROTOCOL), [], False
        yield SET_MEM_TABLE, self.table(), [self.fd], False
        for ring in range(2 * self.pairs):
            yield SET_VRING_NUM, number(ring, SIZE), [], False
            yield SET_VRING_BASE, number(ring, 0), [], False
            yield SET_VRING_ADDR, self.ring_address(ring), [], False
            yield SET_VRING_KICK, struct.pack("<Q", ring), [self.events[2 * ring + 1]], False
        for ring in range(2 * self.pairs):
            yield SET_VRING_ENABLE, number(ring, 1), [], False

    def handshake(self, **kw):
        """The whole handshake; then posts receive buffers."""
        for request, payload, fds, wants in self.steps(**kw):
            self.message(request, payload, fds)
            if wants:
                self.reply()
        for pair in range(self.pairs):
            for slot in range(SIZE):
                self.post(pair, slot)
        return self

    # Rings.

    def buffer(self, ring, slot):
        return BUFFERS + (ring * SIZE + slot) * BUFFER

    def descriptor(self, ring, slot, address, length, flags=0, following=0):
        struct.pack_into("<QIHH", self.memory, ring * RING + 16 * slot, address, length, flags, following)

    def offer(self, ring, index, slot):
        """Puts `slot` into the avail ring as entry number `index`, counted from the start."""
        struct.pack_into("<H", self.memory, ring * RING + 0x1000 + 4 + 2 * (index % SIZE), slot)
        self.jump(ring, index + 1)

    def jump(self, ring, index):
        self.words[(ring * RING + 0x1000 + 2) // 2] = index & 0xffff

    def used(self, ring):
        return self.words[(ring * RING + 0x2000 + 2) // 2]

    def post(self, pair, slot):
        self.descriptor(2 * pair, slot, PHYSICAL + self.buffer(2 * pair, slot), BUFFER, WRITE)
        self.offer(2 * pair, self.posted[pair], slot)
        self.posted[pair] += 1

    def send(self, packet, pair=0, header=bytes(HEADER)):
        """Sends a packet as a chain of as many buffers as it needs."""
        ring, data, first = 2 * pair + 1, header + packet, self.slots[pair] % SIZE
        for start in range(0, len(data), BUFFER):
            slot, part = self.slots[pair] % SIZE, data[start:start + BUFFER]
            self.slots[pair] += 1
            at = self.buffer(ring, slot)
            self.memory[at:at + len(part)] = part
            more = NEXT if start + BUFFER < len(data) else 0
            self.descriptor(ring, slot, PHYSICAL + at, len(part), more, self.slots[pair] % SIZE)
        self.offer(ring, self.sent[pair], first)
        self.sent[pair] += 1

    def received(self):
        """The packets received since the last call; posts their buffers again."""
        return [data[HEADER:] for data in self.arrivals()]

    def arrivals(self):
        """The same, each packet with its header; a packet may consist of several buffers."""
        packets, more = [], 0
        for pair in range(self.pairs):
            ring = 2 * pair
            while self.taken[pair] & 0xffff != self.used(ring):
                at = ring * RING + 0x2000 + 4 + 8 * (self.taken[pair] % SIZE)
                slot, length = struct.unpack_from("<II", self.memory, at)
                start = self.buffer(ring, slot)
                part = bytes(self.memory[start:start + length])
                if more:
                    packets[-1] += part
                    more -= 1
                else:
                    packets.append(part)
                    more = max(struct.unpack_from("<H", part, HEADER - 2)[0], 1) - 1
                self.taken[pair] += 1
                self.post(pair, slot)
        return packets


def frame(number, length=60):
    """An Ethernet frame of an EtherType that no other sender uses, with a number in it."""
    return (b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xb5" + struct.pack("<I", number)).ljust(length, b"\0")
