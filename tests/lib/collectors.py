"""Collectors of sFlow, IPFIX and NetFlow: they decode datagrams by the specifications, with no code of either switch."""
import socket
import struct
import threading
from collections import Counter

# Information elements of IPFIX that tests use.
SRC, DST, PACKETS, DIRECTION, PROTOCOL, DOMAIN_POINT, DROPPED = 8, 12, 2, 61, 4, 138, 133


class Collector:
    """A UDP socket of the tests' network, with what it received."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.target = '"127.0.0.1:%d"' % self.socket.getsockname()[1]
        self.datagrams = []
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        while True:
            self.datagrams.append(self.socket.recv(65535))


def words(data, at, n):
    return struct.unpack_from("!%dI" % n, data, at)


def tagged(data):
    """Pairs of kind and content, as sFlow nests them."""
    at = 0
    while at < len(data):
        kind, length = words(data, at, 2)
        yield kind, data[at + 8:at + 8 + length]
        at += 8 + length
    assert at == len(data), (at, len(data))


def sflow(datagrams):
    """The flow samples and the counter samples of datagrams."""
    flows, counters, last = [], [], 0
    for data in datagrams:
        version, family = words(data, 0, 2)
        assert (version, family) == (5, 1), data[:16].hex()
        _, sequence, _, count = words(data, 12, 4)
        assert sequence == last + 1, (sequence, last)
        last = sequence
        samples = list(tagged(data[28:]))
        assert len(samples) == count, (len(samples), count)
        for kind, body in samples:
            if kind == 1:
                number, source, rate, pool, drops, into, out, n = words(body, 0, 8)
                records = dict(tagged(body[32:]))
                assert len(records) == n
                length, header = words(records[1], 4, 1)[0], records[1][16:16 + words(records[1], 12, 1)[0]]
                flows.append({"rate": rate, "pool": pool, "in": into, "out": out, "length": length - 4, "header": header, "records": records})
            else:
                assert kind == 2, kind
                counters.append({"source": words(body, 4, 1)[0], "blocks": dict(tagged(body[12:]))})
    return flows, counters


def ipfix(datagrams):
    """The data records of messages, each a dictionary by element; templates must come before."""
    templates, records = {}, []
    for data in datagrams:
        version, length, _, _, domain = struct.unpack_from("!HHIII", data)
        assert (version, length) == (10, len(data)), data[:16].hex()
        at = 16
        while at < len(data):
            kind, size = struct.unpack_from("!HH", data, at)
            body, at = data[at + 4:at + size], at + size
            if kind in (2, 3):
                learn(templates, body, 4 if kind == 2 else 6)
            elif kind in templates:
                records.append(dict(read(templates[kind], body), domain=domain))
    return [r for r in records if PACKETS in r]


def learn(templates, body, header):
    while body:
        number, count = struct.unpack_from("!HH", body)
        body, fields = body[header:], []
        for _ in range(count):
            element, size = struct.unpack_from("!HH", body)
            body = body[8 if element & 0x8000 else 4:]
            fields.append((element & 0x7fff, size))
        templates[number] = fields


def read(fields, body):
    out = {}
    for element, size in fields:
        if size == 0xffff:
            size, body = body[0], body[1:]
        out[element], body = int.from_bytes(body[:size], "big"), body[size:]
    assert body == b"", "the record is as long as its template says"
    return out


def netflow(datagrams):
    """Packets by source, destination, input and output."""
    sums = Counter()
    for data in datagrams:
        version, count = struct.unpack_from("!HH", data)
        assert version == 5 and len(data) == 24 + 48 * count and count <= 30, data[:24].hex()
        for i in range(count):
            src, dst, _, into, out, packets = struct.unpack_from("!IIIHHI", data, 24 + 48 * i)
            sums[src, dst, into, out] += packets
    return sums
