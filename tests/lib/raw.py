"""Raw frames of a namespace's device, for clients that are not installed."""
import ctypes
import os
import socket
import struct
import time

CLONE_NEWNET = 0x40000000


def socket_in(network, device="eth0"):
    """A packet socket of a device in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    own, other = os.open("/proc/self/ns/net", os.O_RDONLY), os.open("/run/netns/" + network.name, os.O_RDONLY)
    try:
        if libc.setns(other, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            s.bind((device, 0))
        finally:
            libc.setns(own, CLONE_NEWNET)
    finally:
        os.close(own)
        os.close(other)
    return s


def receive(s, wanted, seconds=3):
    """The first received frame for which `wanted` returns something true; None if none arrives in time."""
    deadline = time.time() + seconds
    while (left := deadline - time.time()) > 0:
        s.settimeout(left)
        try:
            frame, address = s.recvfrom(65536)
        except TimeoutError:
            break
        # Type 4: a frame that this host sent.
        if address[2] != 4 and wanted(frame):
            return frame
    return None


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def udp6(src, dst, sport, dport, payload):
    """An IPv6 packet with a UDP datagram."""
    pseudo = socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst)
    length = 8 + len(payload)
    header = struct.pack("!HHHH", sport, dport, length, 0)
    total = checksum(pseudo + struct.pack("!IxxxB", length, 17) + header + payload)
    return (struct.pack("!IHBB", 0x60000000, length, 17, 64) + pseudo + header[:6] + struct.pack("!H", total or 0xffff) + payload)


def ip4(src, dst, protocol, payload, options=b"", ttl=64):
    """An IPv4 packet."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(payload), 0, 0, ttl, protocol, 0,
                         socket.inet_aton(src), socket.inet_aton(dst)) + options
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def recorded(path):
    """The packets of a capture file (pcap) that a dummy device writes, as hexadecimal digits."""
    with open(path, "rb") as f:
        data = f.read()[24:]
    packets = []
    while data:
        size = struct.unpack_from("=I", data, 8)[0]
        packets.append(data[16:16 + size].hex())
        data = data[16 + size:]
    return packets
