"""The front-end of a guest with an IOMMU, for tests that follow the protocol or violate it.

The I/O virtual addresses of the guest's memory are its physical addresses plus `IOVA`. The front-end translates nothing
by itself: `answer` answers the requests of the switch that have arrived.
"""
import socket
import struct
import time

from lib import vhost_user as vu

F_ACCESS_PLATFORM = 1 << 33
MQ, REPLY_ACK, BACKEND_REQ = 1, 8, 32
MISS, UPDATE, INVALIDATE = 1, 2, 3
READ, WRITE, BOTH = 1, 2, 3
IOVA = 0x10000000000
PAGE = 4096
REQUEST = struct.Struct("<III QQQBB6x")


def payload(kind, iova, size, user=0, access=0):
    return struct.pack("<QQQBB6x", iova, size, user, access, kind)


class IommuGuest:
    """Makes a `vhost_user.Guest` connect again, with an IOMMU."""

    def __init__(self, guest, rings=True):
        """`rings`: the memory of the rings is translated, so that they start."""
        self.guest = guest
        guest.drop()
        guest.fresh()
        self.channel, self.theirs = socket.socketpair()
        self.channel.settimeout(1)
        guest.accept()
        for request, content, fds, wants in guest.steps(vu.F_VERSION_1 | vu.F_MRG_RXBUF | F_ACCESS_PLATFORM):
            if request == vu.SET_PROTOCOL_FEATURES:
                content = struct.pack("<Q", MQ | REPLY_ACK | BACKEND_REQ)
            if request == vu.SET_VRING_ADDR:
                ring = struct.unpack_from("<I", content)[0]
                content = guest.ring_address(ring, IOVA + vu.PHYSICAL + ring * vu.RING)
            guest.message(request, content, fds)
            if wants:
                guest.reply()
        guest.message(vu.SET_BACKEND_REQ_FD, b"", [self.theirs.fileno()])
        if rings:
            self.translate(0, vu.BUFFERS)
            self.requests()

    def post(self, slots=vu.SIZE):
        """Posts buffers for packets to the guest."""
        for slot in range(slots):
            self.guest.post(0, slot)
            self.move(0, slot)

    def move(self, ring, slot):
        """Gives a descriptor an I/O virtual address instead of a physical one."""
        at = ring * vu.RING + 16 * slot
        struct.pack_into("<Q", self.guest.memory, at, IOVA + struct.unpack_from("<Q", self.guest.memory, at)[0])

    def send(self, packet):
        """Makes a packet in one buffer available."""
        guest = self.guest
        slot = guest.slots[0] % vu.SIZE
        at = guest.buffer(1, slot)
        guest.memory[at:at + vu.HEADER + len(packet)] = bytes(vu.HEADER) + packet
        guest.descriptor(1, slot, IOVA + vu.PHYSICAL + at, vu.HEADER + len(packet))
        guest.offer(1, guest.sent[0], slot)
        guest.slots[0] += 1
        guest.sent[0] += 1

    def iotlb(self, *args):
        """Sends a message about the IOTLB; returns whether the switch accepted it."""
        self.guest.message(vu.IOTLB_MSG, payload(*args), flags=vu.NEED_REPLY)
        return struct.unpack("<Q", self.guest.reply())[0] == 0

    def translate(self, at, size, access=BOTH):
        """Translates the addresses of `size` bytes at this offset of the memory."""
        assert self.iotlb(UPDATE, IOVA + vu.PHYSICAL + at, size, vu.VIRTUAL + at, access)

    def requests(self):
        """The requests that have arrived: address and access."""
        found = []
        self.channel.setblocking(False)
        try:
            while data := self.channel.recv(REQUEST.size, socket.MSG_WAITALL):
                request, flags, size, iova, _, _, access, kind = REQUEST.unpack(data)
                assert (request, flags, size, kind) == (1, vu.VERSION, 32, MISS), data
                found.append((iova, access))
        except BlockingIOError:
            pass
        return found

    def answer(self, access=None, seconds=0.5):
        """Answers all requests during this time; returns their number."""
        deadline, count = time.time() + seconds, 0
        while time.time() < deadline:
            for iova, wanted in self.requests():
                self.translate(iova - IOVA - vu.PHYSICAL, PAGE, access or wanted)
                count += 1
            time.sleep(0.005)
        return count

    def close(self):
        self.channel.close()
        self.theirs.close()
