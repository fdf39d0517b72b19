"""SCTP of guests without the kernel's SCTP: raw sockets that exchange INIT and INIT ACK (RFC 9260 section 3.3).

The state cookie of an INIT ACK contains the name of the server.
"""

COMMON = """
import socket, struct, sys, time

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

def packet(source, target, tag, chunk):
    head = struct.pack("!HHI", source, target, tag)
    return head + struct.pack("<I", crc32c(head + bytes(4) + chunk)) + chunk

def received(s):
    "Peer's address, ports, chunk; None for a wrong checksum."
    data, (address, _) = s.recvfrom(2000)
    data = data[(data[0] & 15) * 4:]
    source, target, _ = struct.unpack("!HHI", data[:8])
    right = struct.unpack("<I", data[8:12])[0] == crc32c(data[:8] + bytes(4) + data[12:])
    return address, source, target, data[12:] if right else None

s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 132)
"""

SERVER = COMMON + """
name, port = sys.argv[1].encode(), int(sys.argv[2])
print("ready", flush=True)
while True:
    address, source, target, chunk = received(s)
    if target == port and chunk and chunk[0] == 1:
        tag = struct.unpack("!I", chunk[4:8])[0]
        cookie = struct.pack("!HH", 7, 4 + len(name)) + name + bytes(-len(name) % 4)
        answer = struct.pack("!BBHIIHHI", 2, 0, 20 + len(cookie), 9, 65536, 1, 1, 1) + cookie
        s.sendto(packet(target, source, tag, answer), (address, 0))
"""

CLIENT = COMMON + """
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for n in range(count):
    s.sendto(packet(20000 + n, port, 0, struct.pack("!BBHIIHHI", 1, 0, 20, 7 + n, 65536, 1, 1, 1)), (address, 0))
    end, answer = time.time() + float(sys.argv[4]), "no answer"
    while time.time() < end and answer == "no answer":
        s.settimeout(max(0.01, end - time.time()))
        try:
            peer, source, target, chunk = received(s)
        except TimeoutError:
            continue
        if (peer, source, target) == (address, port, 20000 + n):
            answer = "wrong checksum" if chunk is None else chunk[24:24 + struct.unpack("!H", chunk[22:24])[0] - 4].decode()
    print(answer)
"""


def serve(guest, name, port=80):
    """A server that answers each INIT."""
    server = guest.spawn("python3", "-c", SERVER, name, str(port), stdout=-1, text=True)
    assert server.stdout.readline() == "ready\n"
    return server


def connect(guest, address, port=80, count=1, patience=2):
    """Sends this many INITs, each from another port; returns the names of the servers that answered."""
    return guest.run("python3", "-c", CLIENT, address, port, count, patience).splitlines()
