"""Multicast snooping: hosts that join groups by IGMP and MLD of the kernel, and a router that queries."""
import re
import socket
import subprocess
import sys
import time

from lib import lab

V4, OTHER_V4, V6 = "239.1.1.1", "239.9.9.9", "ff15::1234"
PORT = 5000
PACKETS = 50

# Joins a group, unless there is no group to join, and counts the frames of a multicast Ethernet address until its input
# ends: those that the device receives, and the datagrams that the host gets.
MEMBER = r"""
import select, socket, struct, sys
group, joins, ethernet = sys.argv[1], sys.argv[2] == "join", bytes.fromhex(sys.argv[3])
v6 = ":" in group
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((group, %d))
device = socket.if_nametoindex("eth0")
if joins and v6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", device))
elif joins:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + struct.pack("@4si", bytes(4), device))
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind(("eth0", 0))
# Frames to groups that the host did not join.
raw.setsockopt(263, 1, struct.pack("@iHH8s", device, 2, 0, bytes(8)))
print("ready", flush=True)
frames = datagrams = 0
while True:
    for ready in select.select([s, raw, sys.stdin], [], [])[0]:
        if ready is s:
            datagrams += len(s.recv(2048)) > 0
        elif ready is raw:
            frame, address = raw.recvfrom(2048)
            frames += address[2] != 4 and frame[:6] == ethernet and not frame[12:14] == b"\x08\x06"
        elif not sys.stdin.readline():
            sys.exit()
        else:
            print(frames, datagrams, flush=True)
            frames = datagrams = 0
""" % PORT

SENDER = r"""
import socket, sys
group = sys.argv[1]
s = socket.socket(socket.AF_INET6 if ":" in group else socket.AF_INET, socket.SOCK_DGRAM)
if ":" in group:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex("eth0"))
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 4)
else:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.1.1.1"))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 4)
for n in range(%d):
    s.sendto(b"x", (group, %d))
""" % (PACKETS, PORT)


def ethernet(group):
    """The Ethernet address of a group (RFC 1112, RFC 2464)."""
    if ":" in group:
        return "3333" + socket.inet_pton(socket.AF_INET6, group)[-4:].hex()
    a, b, c, d = socket.inet_aton(group)
    return bytes([0x01, 0x00, 0x5e, b & 0x7f, c, d]).hex()


class Member:
    """A host that listens to a group."""

    def __init__(self, host, group, joins=True):
        argv = [sys.executable, "-c", MEMBER, group, "join" if joins else "listen", ethernet(group)]
        self.process = host.spawn(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.datagrams = 0

    def frames(self):
        """Frames since the last call. A host that joined gets the datagrams in them."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        frames, datagrams = map(int, self.process.stdout.readline().split())
        self.datagrams += datagrams
        return frames

    def leave(self):
        self.process.stdin.close()
        self.process.wait(10)


def hosts(number):
    """Hosts with the addresses 10.1.1.1, fe80::1 and so on. They can be used at once. The link-local address that the kernel
    makes could not: for up to a second the kernel asks whether another host has it (RFC 4862, section 5.4)."""
    made = [lab.Namespace("10.1.1.%d/24" % n) for n in range(1, number + 1)]
    for n, host in enumerate(made, 1):
        host.run("ip", "address", "add", "fe80::%d/64" % n, "dev", "eth0", "nodad")
    return made


def snooping_bridge(s, ports, **other_config):
    s.add_bridge("br0", *[p.port for p in ports])
    s.number_ports(*ports)
    settings = ["other_config:%s=%s" % (key.replace("_", "-"), value) for key, value in other_config.items()]
    s.vsctl("set", "bridge", "br0", "mcast_snooping_enable=true", *settings)


def shown(s):
    return [line.split() for line in s.appctl("mdb/show", "br0").splitlines()[1:]]


def members(s, group):
    """The numbers of the ports that joined `group`; for "querier", the numbers of the router ports."""
    # Older versions of Open vSwitch show no protocols.
    return {row[0] for row in shown(s) if row[-2] == group}


def send(host, group):
    host.run(sys.executable, "-c", SENDER, group)


def assert_arrive(listeners, expected, send_packets):
    """Sends packets; each listener's device gets all of them, or none."""
    for listener in listeners:
        listener.frames()
    send_packets()
    got = [0] * len(listeners)

    def wanted_arrived():
        for i, listener in enumerate(listeners):
            got[i] += listener.frames()
        return all(frames >= PACKETS for frames, wanted in zip(got, expected) if wanted)
    lab.wait_until(wanted_arrived, "all packets arrive")
    # Time for packets that should not arrive.
    time.sleep(0.2)
    wanted_arrived()
    assert got == [PACKETS if wanted else 0 for wanted in expected], (got, expected)


def test_groups_reach_their_members():
    """Hosts join by IGMPv2, IGMPv3 and MLDv2 and get the packets of their groups; others get none. A host that leaves
    gets no more. One megaflow has several outputs, and follows each change."""
    s = lab.Switch().start()
    a, b, c, d = hosts(4)
    snooping_bridge(s, (a, b, c, d), mcast_snooping_disable_flood_unregistered="true")
    c.run("sysctl", "-qw", "net.ipv4.conf.eth0.force_igmp_version=2")
    idle = Member(d, V4, joins=False)
    # The megaflow of a group without members exists before the first one joins.
    assert_arrive([idle], [False], lambda: send(a, V4))
    at_b, at_c = Member(b, V4), Member(c, V4)
    lab.wait_until(lambda: members(s, V4) == {"2", "3"}, "both joined")
    assert_arrive([at_b, at_c, idle], [True, True, False], lambda: send(a, V4))
    assert (at_b.datagrams, at_c.datagrams, idle.datagrams) == (PACKETS, PACKETS, 0)
    flows = [line for line in s.appctl("dpctl/dump-flows").splitlines() if "dst=" + V4 in line]
    assert len(flows) == 1 and len(re.search(r"actions:([\d,]+)$", flows[0])[1].split(",")) == 2, flows
    at_c.leave()
    lab.wait_until(lambda: members(s, V4) == {"2"}, "one left")
    other = Member(c, V4, joins=False)
    assert_arrive([at_b, other, idle], [True, False, False], lambda: send(a, V4))
    if s.ours:
        s.verify_megaflows()
    six, not_six = Member(b, V6), Member(c, V6, joins=False)
    lab.wait_until(lambda: members(s, V6) == {"2"}, "it joined by MLD")
    assert_arrive([six, not_six], [True, False], lambda: send(a, V6))
    if s.ours:
        protocols = {(port, group): protocol for port, _, protocol, group, _ in shown(s)}
        # The last report of the IPv4 group may be of either host.
        assert protocols["2", V4] in ("IGMPv2", "IGMPv3") and protocols["2", V6] == "MLDv2", protocols
    assert s.appctl("mdb/flush", "br0") == "table successfully flushed\n"
    assert not members(s, V4)


def test_a_router_gets_all_groups():
    """A port from which queries come gets all multicast and the reports of hosts; its queries renew memberships."""
    s = lab.Switch().start()
    a, b, router = hosts(3)
    snooping_bridge(s, (a, b, router), mcast_snooping_disable_flood_unregistered="true")
    at_router = Member(router, OTHER_V4, joins=False)
    assert_arrive([at_router], [False], lambda: send(a, OTHER_V4))
    # A bridge of the kernel that queries, with the router's address.
    router.run("ip", "address", "flush", "dev", "eth0")
    router.run("ip", "link", "add", "name", "q0", "type", "bridge", "mcast_snooping", "1", "mcast_query_use_ifaddr", "1",
               "mcast_startup_query_interval", "20")
    router.run("ip", "address", "add", "10.1.1.3/24", "dev", "q0")
    router.run("ip", "link", "set", "eth0", "master", "q0")
    router.run("ip", "link", "set", "q0", "up")
    router.run("ip", "link", "set", "q0", "type", "bridge", "mcast_querier", "1")
    lab.wait_until(lambda: members(s, "querier") == {"3"}, "the queries arrive", seconds=20)
    assert_arrive([at_router], [True], lambda: send(a, OTHER_V4))
    # The router learns of a member: its own bridge registers the group behind eth0.
    at_b = Member(b, V4)
    lab.wait_until(lambda: V4 in router.run("bridge", "mdb", "show", "dev", "q0"), "the report arrives at the router")
    lab.wait_until(lambda: members(s, V4) == {"2"}, "the switch knows it, too")
    to_group = Member(router, V4, joins=False)
    assert_arrive([at_b, to_group], [True, True], lambda: send(a, V4))
    if s.ours:
        s.verify_megaflows()
    # Without snooping everything is flooded again.
    s.vsctl("set", "bridge", "br0", "mcast_snooping_enable=false")
    flooded = Member(b, OTHER_V4, joins=False)
    assert_arrive([flooded, at_router], [True, True], lambda: send(a, OTHER_V4))
    assert s.appctl("mdb/show", "br0", check=False) == ""
