"""Two hosts with a switch each, joined by a link. A guest behind each switch reaches the other one through a tunnel."""
from lib import lab

SCRIPT_SEND = """
import socket, sys
s = socket.create_connection((sys.argv[1], 5001), 10)
s.sendall(bytes(i % 251 for i in range(int(sys.argv[2]))))
s.shutdown(socket.SHUT_WR)
assert s.recv(3) == b"all"
"""

SCRIPT_RECEIVE = """
import socket
s = socket.create_server(("::", 5001), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    c, n = s.accept()[0], 0
    while d := c.recv(65536):
        assert d == bytes((n + i) % 251 for i in range(len(d))), "data differ"
        n += len(d)
    c.sendall(b"all")
"""


class Host:
    """A network namespace with a switch: `br-ex` has the link and the host's addresses, `br-int` the guest and the
    tunnel."""

    def __init__(self, number, ours=True, program=None):
        self.number, self.net = number, lab.Network()
        self.v4, self.v6 = "172.31.0.%d" % number, "fd31::%d" % number
        self.switch = lab.Switch(ours=ours)
        self.switch.network = self.net
        if program:
            self.switch.program = program
        self.guest = lab.Network()
        self.guest_v4, self.guest_v6 = "10.31.0.%d" % number, "fd00:31::%d" % number

    def start(self, wire):
        self.switch.start().add_bridge("br-ex", wire)
        # The kernel receives the link's packets, too. Only br-ex must answer ARP requests for the host's address.
        self.net.run("ip", "link", "set", wire, "arp", "off", "up")
        return self.add_guest()

    def add_guest(self):
        """Gives `br-ex` the host's addresses, and adds `br-int` with the guest."""
        s = self.switch
        s.add_bridge("br-int")
        self.net.run("ip", "link", "set", "br-ex", "up")
        self.net.run("ip", "address", "add", self.v4 + "/24", "dev", "br-ex")
        self.net.run("ip", "address", "add", self.v6 + "/64", "dev", "br-ex", "nodad")
        self.net.run("ip", "link", "add", "guest", "type", "veth", "peer", "name", "eth0", "netns", self.guest.name)
        self.net.run("ip", "link", "set", "guest", "up")
        self.guest.run("ip", "address", "add", self.guest_v4 + "/24", "dev", "eth0")
        self.guest.run("ip", "address", "add", self.guest_v6 + "/64", "dev", "eth0", "nodad")
        self.guest.run("ip", "link", "set", "eth0", "mtu", "1300", "up")
        s.vsctl("add-port", "br-int", "guest")
        return self

    def tunnel(self, kind, other, v6=False, **options):
        """Sets the tunnel to another host; replaces the previous one."""
        given = {"remote_ip": other.v6 if v6 else other.v4, **options}
        self.switch.vsctl("--if-exists", "del-port", "br-int", "tun", "--", "add-port", "br-int", "tun", "--",
                          "set", "interface", "tun", "type=" + kind,
                          *["options:%s=\"%s\"" % pair for pair in given.items()])

    def pings(self, other, count=3, size=56, v6=False, wait=5):
        """Whether all echo requests are answered."""
        target = other.guest_v6 if v6 else other.guest_v4
        out = self.guest.run("ping", "-c", count, "-i", "0.05", "-W", wait, "-s", size, target, check=False)
        return "%d received" % count in out and " 0%" in out

    def sends(self, other, size=300_000):
        """Sends TCP data to the other guest, over both versions of IP."""
        server = other.guest.spawn("python3", "-c", SCRIPT_RECEIVE, stdout=-1, text=True)
        assert server.stdout.readline() == "ready\n"
        for address in (other.guest_v4, other.guest_v6):
            self.guest.run("python3", "-c", SCRIPT_SEND, address, str(size), timeout=30)
        server.terminate()
        server.wait()


def join(hosts):
    """Starts two hosts and joins them by a link."""
    lab.sh("ip", "link", "add", "wire", "netns", hosts[0].net.name, "type", "veth",
           "peer", "name", "wire", "netns", hosts[1].net.name)
    return [host.start("wire") for host in hosts]


def pair(*kinds):
    """Two joined hosts, each `True` for ours or `False` for the stock switch."""
    return join([Host(i + 1, ours) for i, ours in enumerate(kinds)])
