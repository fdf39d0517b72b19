"""A vhost-user front-end that keeps its rings, and their inflight area, while the switch is away.

Each buffer has a number; a chain is offered under the number of its first buffer. A buffer that is given back twice, or
that was not offered, fails the test.
"""
import os
import struct

from lib import vhost_user as vu

GET_INFLIGHT_FD, SET_INFLIGHT_FD = 31, 32
MQ, INFLIGHT = 1, 1 << 12
AVAILABLE, USED = 1 << 7, 1 << 15


class SplitRing:
    base = 0

    def __init__(self, guest, number):
        self.guest, self.number, self.chains = guest, number, {}
        self.offered = self.taken = 0

    def offer(self, chains, flags):
        """Offers chains, lists of (buffer, length), all at once."""
        for chain in chains:
            self.chains[chain[0][0]] = [b for b, _ in chain]
            for (b, length), (following, _) in zip(chain, chain[1:] + [(0, 0)]):
                more = vu.NEXT if b != chain[-1][0] else 0
                self.guest.descriptor(self.number, b, vu.PHYSICAL + self.guest.buffer(self.number, b), length, flags | more, following)
            struct.pack_into("<H", self.guest.memory, self.number * vu.RING + 0x1004 + 2 * (self.offered % vu.SIZE), chain[0][0])
            self.offered += 1
        self.guest.jump(self.number, self.offered)

    def take_used(self):
        """The chains that were given back since the last call: the first buffer, its chain, the length."""
        while self.taken & 0xffff != self.guest.used(self.number):
            at = self.number * vu.RING + 0x2004 + 8 * (self.taken % vu.SIZE)
            first, length = struct.unpack_from("<II", self.guest.memory, at)
            self.taken += 1
            yield first, self.chains.pop(first), length


class PackedRing:
    base = 1 << 15

    def __init__(self, guest, number):
        self.guest, self.number, self.chains = guest, number, {}
        # The next descriptors that are offered and given back, counted from the start.
        self.offered = self.taken = 0

    def word(self, n):
        """The index in `guest.words` of the flags of descriptor `n`."""
        return (self.number * vu.RING + 16 * (n % vu.SIZE) + 14) // 2

    def offer(self, chains, flags):
        begin, first_flags = self.offered, None
        for chain in chains:
            self.chains[chain[0][0]] = [b for b, _ in chain]
            for b, length in chain:
                more = vu.NEXT if b != chain[-1][0] else 0
                at = self.number * vu.RING + 16 * (self.offered % vu.SIZE)
                address = vu.PHYSICAL + self.guest.buffer(self.number, b)
                struct.pack_into("<QIH", self.guest.memory, at, address, length, chain[0][0])
                value = flags | more | (USED if self.offered // vu.SIZE % 2 else AVAILABLE)
                if self.offered == begin:
                    first_flags = value
                else:
                    self.guest.words[self.word(self.offered)] = value
                self.offered += 1
        # Last, because the switch polls the first descriptor: its flags offer all of them.
        if first_flags is not None:
            self.guest.words[self.word(begin)] = first_flags

    def take_used(self):
        while self.chains:
            wrap = self.taken // vu.SIZE % 2 == 0
            flags = self.guest.words[self.word(self.taken)]
            if not bool(flags & AVAILABLE) == bool(flags & USED) == wrap:
                return
            at = self.number * vu.RING + 16 * (self.taken % vu.SIZE)
            length, first = struct.unpack_from("<IH", self.guest.memory, at + 8)
            chain = self.chains.pop(first)
            self.taken += len(chain)
            yield first, chain, length


class KeptGuest(vu.Guest):
    def __init__(self, path, packed):
        super().__init__(path)
        kind = PackedRing if packed else SplitRing
        self.packed_rings = packed
        self.to_guest, self.from_guest = [kind(self, n) for n in (0, 1)]
        self.free = list(range(vu.SIZE))
        self.area = self.pending = None
        self.partial = []
        self.to_guest.offer([[(b, vu.BUFFER)] for b in range(vu.SIZE)], vu.WRITE)

    def close(self):
        super().close()
        if self.area:
            os.close(self.area[1])
        self.area = None

    def reply_with_file(self):
        header, fds, _, _ = vu.socket.recv_fds(self.peer, 12, 4)
        return self.read(struct.unpack("<III", header)[2]), fds

    def connect(self):
        """Accepts the switch's connection, and continues with the present rings. The handshake contains the ring position of the
        start, because a killed switch could not report another one. Packets that were left in the rings are sent after `start`."""
        self.accept()
        features = vu.F_VERSION_1 | vu.F_MRG_RXBUF | (vu.F_PACKED if self.packed_rings else 0)
        for request, payload, fds, wants in self.steps(features=features):
            if request == vu.SET_PROTOCOL_FEATURES:
                payload = struct.pack("<Q", MQ | INFLIGHT)
            if request == vu.SET_VRING_BASE:
                number = struct.unpack("<II", payload)[0]
                payload = struct.pack("<II", number, self.to_guest.base * 0x10001)
            if request == vu.SET_VRING_ENABLE and payload[0] == 1:
                continue
            self.message(request, payload, fds)
            if wants:
                self.reply()
            if request == vu.SET_MEM_TABLE:
                if not self.area:
                    self.message(GET_INFLIGHT_FD, struct.pack("<QQHH", 0, 0, 2, vu.SIZE))
                    payload, (fd,) = self.reply_with_file()
                    self.area = payload, fd
                self.message(SET_INFLIGHT_FD, self.area[0], [self.area[1]])
        return self

    def start(self):
        self.message(vu.SET_VRING_ENABLE, struct.pack("<II", 1, 1))

    def send_all(self, packets):
        """Offers packets at once; returns the number for which there were buffers."""
        chains = []
        for packet in packets:
            data = bytes(vu.HEADER) + packet
            parts = [data[n:n + vu.BUFFER] for n in range(0, len(data), vu.BUFFER)]
            if len(parts) > len(self.free):
                break
            chain = [(self.free.pop(0), len(part)) for part in parts]
            for (b, _), part in zip(chain, parts):
                at = self.buffer(1, b)
                self.memory[at:at + len(part)] = part
            chains.append(chain)
        self.from_guest.offer(chains, 0)
        return len(chains)

    def sent_all(self):
        """Takes back the buffers of sent packets; returns whether the switch has returned all of them."""
        for _, chain, _ in self.from_guest.take_used():
            self.free += chain
        return not self.from_guest.chains

    def received(self):
        """The packets that arrived, of one buffer or more; their buffers are offered again."""
        packets, again = [], []
        for first, _, length in self.to_guest.take_used():
            at = self.buffer(0, first)
            part = bytes(self.memory[at:at + length])
            again.append([(first, vu.BUFFER)])
            if not self.partial:
                self.partial, self.num_buffers = [part[vu.HEADER:]], struct.unpack_from("<H", part, vu.HEADER - 2)[0]
            else:
                self.partial.append(part)
            if len(self.partial) == self.num_buffers:
                packets.append(b"".join(self.partial))
                self.partial = []
        if again:
            self.to_guest.offer(again, vu.WRITE)
        return packets
