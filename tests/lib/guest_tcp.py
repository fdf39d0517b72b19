"""Minimal TCP in a vhost-user guest: one connection that fails the test on any loss, and checks each packet.

The guest segments and checksums what it sends, or leaves that to the switch if its features allow. Received packets
must be complete and valid, or unfinished in a way that its features allow; `longest` is the length of the longest
one.
"""
import ipaddress
import struct
import time

from lib.vhost_user import F_CSUM, F_GUEST_CSUM, F_GUEST_TSO4, F_GUEST_TSO6, F_HOST_TSO4, F_HOST_TSO6

NOTHING = 0
ALL = F_CSUM | F_GUEST_CSUM | F_GUEST_TSO4 | F_GUEST_TSO6 | F_HOST_TSO4 | F_HOST_TSO6
MSS, WINDOW = 1400, 60000
FIN, SYN, PSH, ACK = 1, 2, 8, 16
NEEDS_CSUM, GSO_TCP4, GSO_TCP6 = 1, 1, 4


def sum16(data):
    """The ones' complement sum, not inverted."""
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data[:len(data) & ~1])) + (data[-1] << 8 if len(data) & 1 else 0)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


class Packet:
    """A TCP packet of an Ethernet frame, strictly parsed. Requests of its virtio header: `needs_checksum`, and
    the kind of segmentation (`gso`; 0: none)."""

    def __init__(self, arrival):
        flags, self.gso, _, self.size, start, offset = struct.unpack_from("<BBHHHH", arrival)
        frame = arrival[12:]
        at, self.tags = 12, []
        while frame[at:at + 2] == b"\x81\0":
            self.tags.append(struct.unpack_from(">H", frame, at + 2)[0] & 0xfff)
            at += 4
        ip = frame[at + 2:]
        self.frame, self.v6 = frame, frame[at:at + 2] == b"\x86\xdd"
        if self.v6:
            assert len(ip) == 40 + struct.unpack_from(">H", ip, 4)[0], "length of IPv6"
            addresses, tcp = ip[8:40], ip[40:]
        else:
            assert ip[0] == 0x45 and len(ip) == struct.unpack_from(">H", ip, 2)[0], "length of IPv4"
            assert sum16(ip[:20]) == 0xffff, "checksum of IPv4"
            addresses, tcp = ip[12:20], ip[20:]
        half = len(addresses) // 2
        self.src, self.dst = (str(ipaddress.ip_address(a)) for a in (addresses[:half], addresses[half:]))
        pseudo = sum16(addresses + struct.pack(">HH", 6, len(tcp)))
        self.sport, self.dport, self.seq, self.ack, words, self.flags, _, checksum_field = struct.unpack_from(">HHIIBBHH", tcp)
        self.payload = tcp[(words >> 4) * 4:]
        self.needs_checksum = bool(flags & NEEDS_CSUM)
        if self.needs_checksum:
            assert (start, offset) == (len(frame) - len(tcp), 16), "where the checksum is"
            assert checksum_field == pseudo, "sum of the pseudo header: %04x, not %04x" % (checksum_field, pseudo)
        else:
            assert not self.gso, "asks for segmentation, but its checksum field has no sum of the pseudo header"
            assert sum16(struct.pack(">H", pseudo) + tcp) == 0xffff, "checksum of TCP"


class Tcp:
    def __init__(self, guest, features, mac, peer_mac, address, peer, port, sport):
        self.guest, self.features, self.macs = guest, features, bytes.fromhex((peer_mac + mac).replace(":", ""))
        self.address, self.peer = (ipaddress.ip_address(a) for a in (address, peer))
        self.sport, self.port = sport, port
        self.seq, self.next = 1000, 0
        self.longest, self.id, self.data = 0, 7, b""

    def packet(self, flags, payload=b"", options=b"", partial=False):
        """A frame; `partial`: the checksum field has only the sum of the pseudo header."""
        tcp = struct.pack(">HHIIBBHHH", self.sport, self.port, self.seq & 0xffffffff, self.next, (20 + len(options)) // 4 << 4, flags,
                          WINDOW, 0, 0) + options + payload
        addresses = self.address.packed + self.peer.packed
        total = sum16(addresses + struct.pack(">HH", 6, len(tcp)))
        if not partial:
            total = 0xffff - sum16(struct.pack(">H", total) + tcp)
        tcp = tcp[:16] + struct.pack(">H", total) + tcp[18:]
        self.id += 1
        if self.address.version == 6:
            ip = b"\x60\0\0\0" + struct.pack(">HBB", len(tcp), 6, 64) + addresses
            return self.macs + b"\x86\xdd" + ip + tcp
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), self.id, 0x4000, 64, 6, 0) + addresses
        ip = ip[:10] + struct.pack(">H", 0xffff - sum16(ip)) + ip[12:]
        return self.macs + b"\x08\0" + ip + tcp

    def say(self, flags, payload=b"", options=b""):
        """Sends data. The switch divides it into segments if the features allow; otherwise this function does."""
        partial, v6 = bool(self.features & F_CSUM), self.address.version == 6
        l4 = 14 + (40 if v6 else 20)
        segment_size = len(payload) if self.features & F_HOST_TSO4 else MSS
        for start in range(0, max(len(payload), 1), max(segment_size, 1)):
            part = payload[start:start + segment_size]
            gso = (GSO_TCP6 if v6 else GSO_TCP4) if len(part) > MSS else 0
            header = struct.pack("<BBHHHHH", NEEDS_CSUM, gso, l4 + 20, MSS if gso else 0, l4, 16, 0) if partial else bytes(12)
            self.guest.send(self.packet(flags, part, options, partial), header=header)
            self.seq += len(part)

    def connect(self):
        self.say(SYN, options=struct.pack(">BBH", 2, 4, MSS))
        self.seq += 1
        self.receive_until(lambda: self.next)
        self.say(ACK)
        return self

    def receive_until(self, done, seconds=10):
        """Receives packets and answers them until `done`."""
        deadline = time.time() + seconds
        while not done():
            assert time.time() < deadline, "TCP in a guest: %d bytes came within %d s" % (len(self.data), seconds)
            for arrival in self.guest.arrivals():
                self.take(arrival)
            time.sleep(0.001)

    def take(self, arrival):
        if arrival[24:26] not in (b"\x08\0", b"\x86\xdd") or arrival[26 + (6 if arrival[24] == 0x86 else 9)] != 6:
            return
        p = Packet(arrival)
        assert not p.needs_checksum or self.features & F_GUEST_CSUM, "has an open offload request, which the guest did not accept"
        assert not p.gso or p.gso == (GSO_TCP6 if p.v6 else GSO_TCP4) and self.features & F_GUEST_TSO4, "kind of segmentation %d" % p.gso
        assert len(p.frame) <= 1514 or p.gso, "longer than the MTU"
        if p.dport != self.sport:
            return  # The FIN of another connection.
        assert (p.src, p.sport) == (str(self.peer), self.port), "from %s:%d" % (p.src, p.sport)
        self.longest = max(self.longest, len(p.frame))
        if p.flags & SYN:
            self.next = p.seq + 1 & 0xffffffff
        elif p.payload and p.seq == self.next:
            self.data += p.payload
            self.next = self.next + len(p.payload) & 0xffffffff
            self.say(ACK)
        elif p.payload:
            # Sent again because our ACK was slow; or a hole, which is an error.
            assert (self.next - p.seq & 0xffffffff) < 1 << 20, "a segment is missing"
            self.say(ACK)
