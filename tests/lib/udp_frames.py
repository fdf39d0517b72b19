"""UDP frames of guests and namespaces: frames whose sender requests segmentation, and how a sender without offloads would cut them."""
import ipaddress
import struct

from lib.guest_tcp import NEEDS_CSUM, sum16

GSO_UDP_L4 = 5
UDP = 17


def place(frame):
    """Offsets of the IP header and of the UDP header, and whether the packet is IPv6; VLAN tags are skipped."""
    at = 12
    while frame[at:at + 2] == b"\x81\0":
        at += 4
    v6 = frame[at:at + 2] == b"\x86\xdd"
    assert v6 or frame[at:at + 3] == b"\x08\0\x45", "an IP packet without options: %s" % frame[:40].hex()
    assert frame[at + 2 + (6 if v6 else 9)] == UDP, "a UDP packet"
    return at + 2, at + 2 + (40 if v6 else 20), v6


def completed(frame, partial=False):
    """The frame with the right lengths and checksums; `partial`: that of UDP is only the sum of the pseudo header."""
    ip, udp, v6 = place(frame)
    out, length = bytearray(frame), len(frame) - udp
    if v6:
        struct.pack_into(">H", out, ip + 4, length)
        addresses = frame[ip + 8:ip + 40]
    else:
        struct.pack_into(">H", out, ip + 2, len(frame) - ip)
        struct.pack_into(">H", out, ip + 10, 0)
        struct.pack_into(">H", out, ip + 10, 0xffff - sum16(out[ip:udp]))
        addresses = frame[ip + 12:ip + 20]
    pseudo = sum16(addresses + struct.pack(">HH", UDP, length))
    struct.pack_into(">HH", out, udp + 4, length, 0)
    total = pseudo if partial else (0xffff - sum16(struct.pack(">H", pseudo) + out[udp:])) or 0xffff
    struct.pack_into(">H", out, udp + 6, total)
    return bytes(out)


def frame(macs, source, to, ports, payload, partial=True):
    """An Ethernet frame with a UDP packet. macs: destination and source."""
    source, to = (ipaddress.ip_address(a) for a in (source, to))
    if to.version == 6:
        ip = b"\x86\xdd\x60\0\0\0\0\0" + bytes([UDP, 64]) + source.packed + to.packed
    else:
        ip = b"\x08\0\x45\0\0\0" + struct.pack(">HHBBH", 1000, 0x4000, 64, UDP, 0) + source.packed + to.packed
    return completed(macs + ip + struct.pack(">HHHH", *ports, 0, 0) + payload, partial)


def request(whole, size):
    """The virtio header of a frame that the guest leaves to be cut into datagrams of this size."""
    udp = place(whole)[1]
    return struct.pack("<BBHHHHH", NEEDS_CSUM, GSO_UDP_L4, udp + 8, size, udp, 6, 0)


def cut(whole, size):
    """The datagrams of a sender without offloads. Their IPv4 identifications count up from that of the whole frame."""
    ip, udp, v6 = place(whole)
    datagrams = []
    for number, start in enumerate(range(udp + 8, len(whole), size)):
        out = bytearray(whole[:udp + 8] + whole[start:start + size])
        if not v6:
            first = struct.unpack_from(">H", whole, ip + 4)[0]
            struct.pack_into(">H", out, ip + 4, first + number & 0xffff)
        datagrams.append(completed(bytes(out)))
    return datagrams


def numbered_as(whole, other):
    """The frame with the identification of another one; IPv6 has none."""
    ip, _, v6 = place(whole)
    return whole if v6 else whole[:ip + 4] + other[ip + 4:ip + 6] + whole[ip + 6:]


def tagged(whole, tag):
    return whole[:12] + b"\x81\0" + struct.pack(">H", tag) + whole[12:]
