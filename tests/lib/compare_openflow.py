"""Invalid OpenFlow messages as bytes, and a client that reports which error a switch sends.

The stock tool refuses to send most of these, so they are built here. Numbers: OpenFlow 1.0.1 and 1.3.5.
"""
import socket
import struct

OF10, OF13 = 1, 4
ERROR, ECHO_REQUEST, ECHO_REPLY = 1, 2, 3
BARRIER = {OF10: (18, 19), OF13: (20, 21)}
ASYNCHRONOUS = (10, 11, 12)
NONE32 = 0xffffffff


def message(version, kind, body=b"", xid=0x77, length=None):
    return struct.pack("!BBHI", version, kind, 8 + len(body) if length is None else length, xid) + body


def answer(path, version, data, hello=None, seconds=5):
    """The reply of a switch to `data`: its errors as `type/code`, and whether the connection stays open."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(seconds)
        s.connect(path)
        s.sendall(message(version, 0) if hello is None else hello)
        try:
            s.sendall(data + message(version, BARRIER[version][0], xid=0x99))
        except OSError:
            pass
        return replies(s, BARRIER[version][1])


def replies(s, barrier):
    found, buffer = [], b""
    while True:
        try:
            chunk = s.recv(65536)
        except socket.timeout:
            return found + ["no answer"]
        except ConnectionError:
            chunk = b""
        if not chunk:
            return found + ["closed"]
        buffer += chunk
        while len(buffer) >= 8:
            _, kind, length, xid = struct.unpack_from("!BBHI", buffer)
            if length < 8 or len(buffer) < length:
                break
            body, buffer = buffer[8:length], buffer[length:]
            if kind == ERROR:
                found.append("error %d/%d" % struct.unpack_from("!HH", body))
            elif kind == barrier and xid == 0x99:
                return found + ["open"]
            elif kind not in ASYNCHRONOUS and kind not in (0, ECHO_REQUEST):
                found.append("reply %d" % kind)


# OpenFlow 1.0

def match10(wildcards=0x3fffff, in_port=0, dl_type=0, proto=0, nw_dst=0):
    return struct.pack("!IH6s6sHBxHBBxxIIHH", wildcards, in_port, bytes(6), bytes(6), 0, 0, dl_type, 0, proto, 0, nw_dst, 0, 0)


def flow10(actions=b"", match=None, command=0, priority=7, buffer=NONE32, flags=0):
    head = struct.pack("!QHHHHIHH", 0, command, 0, 0, priority, buffer, 0xffff, flags)
    return message(OF10, 14, (match or match10()) + head + actions)


def output10(port, length=8):
    return struct.pack("!HHHH", 0, length, port, 0)


def packet_out10(actions, buffer=NONE32, in_port=0xfff8, actions_len=None, data=bytes(14)):
    size = len(actions) if actions_len is None else actions_len
    return message(OF10, 13, struct.pack("!IHH", buffer, in_port, size) + actions + data)


def vendor_action(vendor, subtype):
    return struct.pack("!HHIH6x", 0xffff, 16, vendor, subtype)


def of10():
    """(name, messages) in OpenFlow 1.0."""
    exact_in_port = match10(0x3fffff & ~1, in_port=1)
    return [
        ("flow-mod: unknown command", flow10(command=99)),
        ("flow-mod: truncated", message(OF10, 14, match10())),
        ("flow-mod: empty body", message(OF10, 14)),
        ("flow-mod: overlap", flow10(output10(1), exact_in_port, priority=100, flags=2)),
        ("flow-mod: unknown buffer", flow10(output10(1), exact_in_port, command=4, priority=60000, buffer=0x1234)),
        ("flow-mod: emergency flow", flow10(flags=4)),
        ("action: unknown type", flow10(struct.pack("!HHI", 0x7f, 8, 0))),
        ("action: length 0", flow10(output10(1, 0))),
        ("action: length 12", flow10(output10(1, 12) + bytes(4))),
        ("action: longer than the message", flow10(output10(1, 64))),
        ("action: output beyond the last port", flow10(output10(0xff80))),
        ("action: output to none", flow10(output10(0xffff))),
        ("action: output too long for its kind", flow10(struct.pack("!HHHHQ", 0, 16, 1, 0, 0))),
        ("action: enqueue to a bad port", flow10(struct.pack("!HHH6xI", 11, 16, 0xfff0, 1))),
        ("action: VLAN 8191", flow10(struct.pack("!HHHxx", 1, 8, 0x1fff))),
        ("action: VLAN priority 9", flow10(struct.pack("!HHBxxx", 2, 8, 9))),
        ("action: TOS with ECN bits", flow10(struct.pack("!HHBxxx", 8, 8, 3), match10(0x3fffff & ~0x10, dl_type=0x800))),
        ("action: unknown vendor", flow10(vendor_action(0x123456, 1))),
        ("action: unknown Nicira subtype", flow10(vendor_action(0x2320, 999))),
        ("unknown message type", message(OF10, 200)),
        ("statistics: unknown type", message(OF10, 16, struct.pack("!HH", 99, 0))),
        ("statistics: port request cut short", message(OF10, 16, struct.pack("!HHH", 4, 0, 1))),
        ("statistics: unknown vendor", message(OF10, 16, struct.pack("!HHI", 0xffff, 0, 0x123456))),
        ("vendor: unknown", message(OF10, 4, struct.pack("!II", 0x123456, 1))),
        ("vendor: unknown Nicira subtype", message(OF10, 4, struct.pack("!II", 0x2320, 9999))),
        ("port-mod: unknown port", message(OF10, 15, struct.pack("!H6sIII4x", 99, bytes(6), 0, 0, 0))),
        ("port-mod: wrong address", message(OF10, 15, struct.pack("!H6sIII4x", 1, b"\2\0\0\0\0\1", 0, 0, 0))),
        ("port-mod: cut short", message(OF10, 15, bytes(8))),
        ("packet-out: unknown buffer", packet_out10(output10(1), buffer=0x4321, data=b"")),
        ("packet-out: in_port beyond the last", packet_out10(output10(1), in_port=0xff90)),
        ("packet-out: actions longer than the message", packet_out10(output10(1), actions_len=800)),
        ("packet-out: bad action", packet_out10(output10(0xff80))),
        ("queues of a bad port", message(OF10, 20, struct.pack("!Hxx", 0xff70))),
        ("features request with a body", message(OF10, 5, bytes(8))),
        ("a header of another version", message(9, 5)),
        ("a header shorter than a header", message(OF10, 5, length=4)),
        ("a reply that nobody asked for", message(OF10, 6, bytes(24))),
        ("64 kB of bad actions", flow10(struct.pack("!HHI", 0x7f, 8, 0) * 8000)),
        ("64 kB of noise", message(OF10, 14, b"\xff" * 65527)),
    ]


# OpenFlow 1.3

def oxm(field, value, mask=None, length=None, klass=0x8000):
    data = value + (mask or b"")
    size = len(data) if length is None else length
    return struct.pack("!HBB", klass, field << 1 | (mask is not None), size) + data


def match13(*fields, kind=1, length=None):
    data = b"".join(fields)
    size = 4 + len(data) if length is None else length
    return struct.pack("!HH", kind, size) + data + bytes(-(4 + len(data)) % 8)


def flow13(match=None, instructions=b"", table=0, command=0, flags=0, group=NONE32, priority=7):
    head = struct.pack("!QQBBHHHIIIHxx", 0, 0, table, command, 0, 0, priority, NONE32, NONE32, group, flags)
    return message(OF13, 14, head + (match13() if match is None else match) + instructions)


def apply(actions):
    return struct.pack("!HHI", 4, 8 + len(actions), 0) + actions


def goto(table):
    return struct.pack("!HHBxxx", 1, 8, table)


def output13(port):
    return struct.pack("!HHIH6x", 0, 16, port, 0xffff)


def set_field(field):
    size = (4 + len(field) + 7) // 8 * 8
    return struct.pack("!HH", 25, size) + field + bytes(size - 4 - len(field))


def group_mod(command=0, kind=0, group=1, buckets=b""):
    return message(OF13, 15, struct.pack("!HBxI", command, kind, group) + buckets)


def multipart(kind, body=b"", flags=0):
    return message(OF13, 18, struct.pack("!HH4x", kind, flags) + body)


def of13():
    """(name, messages) in OpenFlow 1.3."""
    ip, tcp = oxm(5, b"\x08\x00"), oxm(10, b"\x06")
    port_mod = struct.Struct("!I4x6sxxIII4x")
    return [
        ("flow-mod: table 254", flow13(table=254)),
        ("flow-mod: table 255", flow13(table=255)),
        ("flow-mod: unknown command", flow13(command=9)),
        ("flow-mod: unknown flags", flow13(flags=0x8000)),
        ("flow-mod: overlap", flow13(match13(oxm(0, b"\0\0\0\1")), flags=2, priority=100)),
        ("match: no prerequisite", flow13(match13(oxm(14, b"\0\x50")))),
        ("match: wrong prerequisite", flow13(match13(ip, oxm(10, b"\x11"), oxm(14, b"\0\x50")))),
        ("match: the same field twice", flow13(match13(ip, ip))),
        ("match: bad length of a field", flow13(match13(oxm(5, b"\x08\x00\x00")))),
        ("match: unknown field", flow13(match13(oxm(100, b"\0")))),
        ("match: unknown class", flow13(match13(oxm(5, b"\x08\x00", klass=0x4444)))),
        ("match: VLAN out of range", flow13(match13(oxm(6, b"\x3f\xff")))),
        ("match: DSCP out of range", flow13(match13(ip, oxm(8, b"\xff")))),
        ("match: port out of range", flow13(match13(oxm(0, b"\xff\xfe\0\0")))),
        ("match: bits outside the mask", flow13(match13(ip, oxm(11, b"\x0a\0\0\1", b"\xff\0\0\0")))),
        ("match: mask of a field that takes none", flow13(match13(ip, oxm(10, b"\x06", b"\x0f")))),
        ("match: field past the end", flow13(match13(oxm(5, b"\x08\x00", length=200)))),
        ("match: of the 1.0 kind", flow13(match13(kind=0))),
        ("match: longer than the message", flow13(match13(length=4000))),
        ("match: shorter than its header", flow13(match13(length=2))),
        ("instruction: unknown", flow13(None, struct.pack("!HHI", 77, 8, 0))),
        ("instruction: length 4", flow13(None, struct.pack("!HHI", 1, 4, 0))),
        ("instruction: past the end", flow13(None, struct.pack("!HHI", 4, 80, 0))),
        ("instruction: twice", flow13(None, goto(1) + goto(2))),
        ("instruction: goto itself", flow13(None, goto(3), table=3)),
        ("instruction: goto back", flow13(None, goto(1), table=3)),
        ("instruction: unknown meter", flow13(None, struct.pack("!HHI", 6, 8, 5))),
        ("action: unknown group", flow13(None, apply(struct.pack("!HHI", 22, 8, 5)))),
        ("action: output to no such reserved port", flow13(None, apply(output13(0xfffffff0)))),
        ("action: output to any", flow13(None, apply(output13(NONE32)))),
        ("action: set field without prerequisite", flow13(None, apply(set_field(oxm(14, b"\0\x50"))))),
        ("action: set read-only field", flow13(match13(ip), apply(set_field(oxm(5, b"\x08\x06"))))),
        # For many field numbers the stock switch reports a bad length, because of collisions in its table of fields.
        # Not for this one.
        ("action: set unknown field", flow13(None, apply(set_field(oxm(90, b"\0"))))),
        ("action: set VLAN out of range", flow13(None, apply(set_field(oxm(6, b"\x3f\xff"))))),
        ("action: push VLAN of a wrong type", flow13(None, apply(struct.pack("!HHHxx", 17, 8, 0x1234)))),
        ("action: pop VLAN with a body", flow13(None, apply(struct.pack("!HHIQ", 18, 16, 0, 0)))),
        ("action: dec TTL without IP", flow13(None, apply(struct.pack("!HHI", 24, 8, 0)))),
        ("action: unknown experimenter", flow13(None, apply(struct.pack("!HHIQ", 0xffff, 16, 0x123456, 0)))),
        ("group-mod: unknown type", group_mod(kind=99)),
        ("group-mod: unknown command", group_mod(command=99)),
        ("group-mod: modify an unknown group", group_mod(command=1, group=77)),
        ("group-mod: reserved number", group_mod(group=0xffffff80)),
        ("group-mod: bucket past the end", group_mod(buckets=struct.pack("!HHIII", 200, 0, 0, 0, 0)[:16])),
        ("meter-mod: unknown command", message(OF13, 29, struct.pack("!HHI", 99, 1, 1))),
        ("role request: unknown role", message(OF13, 24, struct.pack("!I4xQ", 99, 0))),
        ("role request: cut short", message(OF13, 24, bytes(4))),
        ("multipart: unknown type", multipart(99)),
        ("multipart: flow request cut short", multipart(1, bytes(8))),
        ("multipart: unknown experimenter", multipart(0xffff, struct.pack("!II", 0x123456, 1))),
        ("multipart: queue of a bad port", multipart(5, struct.pack("!II", 0xffffff70, NONE32))),
        ("port-mod: unknown port", message(OF13, 16, port_mod.pack(99, bytes(6), 0, 0, 0))),
        ("port-mod: wrong address", message(OF13, 16, port_mod.pack(1, b"\2\0\0\0\0\1", 0, 0, 0))),
        ("port-mod: cut short", message(OF13, 16, bytes(4))),
        ("set-async: cut short", message(OF13, 28, bytes(4))),
        ("set-config: unknown flags", message(OF13, 9, struct.pack("!HH", 0x7f0, 128))),
        ("experimenter: unknown", message(OF13, 4, struct.pack("!II", 0x123456, 1))),
        ("unknown message type", message(OF13, 99)),
        ("a message of another version", message(OF10, 5)),
        ("set of TCP port with its prerequisites, to a bad length", flow13(
            match13(ip, tcp), apply(set_field(oxm(14, b"\0\x50\0"))))),
    ]


HELLOS = [
    ("hello: of a version that is not spoken, above one that is", message(2, 0)),
    ("hello: version 0", message(0, 0)),
    ("hello: no hello but a request", message(OF10, 5)),
    ("hello: not OpenFlow at all", b"GET / HTTP/1.0\r\n\r\n"),
    ("hello: a bitmap without a common version", message(6, 0, struct.pack("!HHI", 1, 8, 1 << 3))),
]
