"""A reader of pcapng files, for tests: packets with interface, direction and comment."""
import struct

SECTION, INTERFACE, STATISTICS, PACKET = 0x0a0d0d0a, 1, 5, 6


def blocks(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4)[0] == length, (at, kind, length)
        yield kind, data[at + 8:at + length - 4]
        at += length


def options(data):
    at, out = 0, {}
    while at + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            break
        out[code] = data[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    return out


class Packet:
    def __init__(self, interfaces, body):
        number, high, low, kept, self.length = struct.unpack_from("<IIIII", body)
        self.port, self.nanoseconds = interfaces[number], high << 32 | low
        self.bytes = body[20:20 + kept]
        found = options(body[20 + (kept + 3) // 4 * 4:])
        self.is_sent = struct.unpack("<I", found[2])[0] & 3 == 2
        self.comment = found.get(1, b"").decode()
        words = [word.partition("=") for word in self.comment.split()]
        self.comment_fields = {name: value for name, _, value in words}

    def __repr__(self):
        return "%s %s %d bytes" % (self.port, self.comment, self.length)


def read(data):
    """The packets, and the comment of the statistics (empty if there are none)."""
    interfaces, packets, statistics_comment = [], [], ""
    for kind, body in blocks(data):
        if kind == SECTION:
            assert struct.unpack_from("<I", body)[0] == 0x1a2b3c4d
        elif kind == INTERFACE:
            found = options(body[8:])
            assert found[9] == b"\x09", "times are in nanoseconds"
            interfaces.append(found[2].decode())
        elif kind == PACKET:
            packets.append(Packet(interfaces, body))
        elif kind == STATISTICS:
            statistics_comment = options(body[12:]).get(1, b"").decode()
    return packets, statistics_comment
