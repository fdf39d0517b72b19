"""Switches with two namespaces, and packets that a test chooses."""
from lib import lab

# Sends UDP packets: the first argument is their number, the second a function that draws source and destination address.
SENDER = """
import random, socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for i in range(int(sys.argv[1])):
    addresses = eval(sys.argv[2])(random)
    header = bytes.fromhex("0200000000020200000000010800") + bytes([69, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0])
    s.send(header + addresses + bytes([0, random.choice([5, 7, 9]), 0, 9, 0, 8, 0, 0]) + bytes(18))
"""


def joined(*hosts):
    """A switch between namespaces, on ports 1, 2 and so on, without flows. For each namespace, the addresses: of IPv4, then of IPv6."""
    s = lab.Switch().start()
    namespaces = [lab.Namespace(addresses[0] + "/24") for addresses in hosts]
    for ns, addresses in zip(namespaces, hosts):
        for address in addresses[1:]:
            ns.run("ip", "address", "add", address + "/64", "dev", "eth0", "nodad")
    s.add_bridge("br0", *(ns.port for ns in namespaces))
    s.number_ports(*namespaces)
    s.ofctl("del-flows", "br0")
    return s, *namespaces


def switch_with_two_namespaces():
    s = lab.Switch().start()
    if not s.ours:
        raise lab.Skip("asks our switch, and Debian's is older than these commands")
    a, b = lab.Namespace("10.1.1.1/24", "02:00:00:00:00:01"), lab.Namespace("10.1.1.2/24", "02:00:00:00:00:02")
    s.add_bridge("br0", a.port, b.port)
    s.vsctl("set-fail-mode", "br0", "secure")
    s.number_ports(a, b)
    for ns in (a, b):
        # Without IPv6, the last dropped packet is one of the test's packets.
        ns.run("sysctl", "-q", "net.ipv6.conf.eth0.disable_ipv6=1")
        lab.sh("sysctl", "-q", "net.ipv6.conf.%s.disable_ipv6=1" % ns.port)
    for here, there in ((a, b), (b, a)):
        here.run("ip", "neigh", "add", there.address.split("/")[0], "lladdr", there.mac, "dev", "eth0")
    return s, a, b


def ping(ns, address, *options):
    return " 0% packet loss" in ns.run("ping", "-c", "1", "-W", "1", *options, address, check=False)
