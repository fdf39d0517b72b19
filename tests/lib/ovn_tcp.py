"""TCP and UDP of guests: servers that answer with their name, and clients that print the answers."""

SERVER = """
import socket, sys, threading
name, port = sys.argv[1].encode(), int(sys.argv[2])
def udp():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::", port))
    while True:
        data, peer = s.recvfrom(2000)
        s.sendto(name, peer)
def serve(c, peer):
    with c:
        c.sendall(name + b" " + peer[0].removeprefix("::ffff:").encode() + b"\\n")
        try:
            while data := c.recv(65536):
                c.sendall(data)
        except OSError:
            pass
threading.Thread(target=udp, daemon=True).start()
s = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=s.accept(), daemon=True).start()
"""

CLIENT = """
import socket, sys
address, port, count, source = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
patience = float(sys.argv[5])
for i in range(count):
    try:
        with socket.create_connection((address, port), patience, source_address=("", source + i) if source else None) as s:
            print(s.makefile().readline().strip())
    except OSError as e:
        print(type(e).__name__)
"""


def serve(guest, name, port=80):
    """A server that answers each connection with its name and the address of the client."""
    server = guest.spawn("python3", "-c", SERVER, name, str(port), stdout=-1, text=True)
    assert server.stdout.readline() == "ready\n"
    return server


def connect(guest, address, port=80, count=1, source=0, patience=2):
    """Connects this often; returns "name client" of each server that answered, or the kind of an error."""
    return guest.run("python3", "-c", CLIENT, address, port, count, source, patience).splitlines()


def times_out(guest, address, port=80):
    """Whether a connection gets no answer at all."""
    return connect(guest, address, port, patience=0.5) == ["TimeoutError"]


def names(answers):
    """The servers of such answers, each once."""
    return sorted({answer.split()[0] for answer in answers})


class OpenConnection:
    """A connection that stays open; `echoes` tells whether data still passes."""

    SCRIPT = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
f = s.makefile()
print(f.readline().strip(), flush=True)
s.settimeout(float(sys.argv[3]))
for line in sys.stdin:
    try:
        s.sendall(line.encode())
        print(f.readline().strip(), flush=True)
    except OSError as e:
        print(type(e).__name__, flush=True)
"""

    def __init__(self, guest, address, port=80, patience=2):
        self.process = guest.spawn("python3", "-c", self.SCRIPT, address, str(port), str(patience), stdin=-1, stdout=-1, text=True)
        self.server = self.process.stdout.readline().strip()
        self.count = 0

    def echoes(self):
        self.count += 1
        self.process.stdin.write("%d\n" % self.count)
        self.process.stdin.flush()
        return self.process.stdout.readline().strip() == str(self.count)


def has_connection(chassis, *words):
    """Whether a line of the connection table of a chassis has all these words."""
    return any(all(word in line for word in words) for line in chassis.switch.appctl("dpctl/dump-conntrack").splitlines())
