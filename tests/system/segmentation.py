"""TCP segmentation offload between ports of all kinds: unfinished checksums and segmentation are kept with a packet,
adapted when it is changed, and done where the next device cannot do them."""
import contextlib
import os
import struct

from lib import dpdk, guest_tcp, lab, vhost_user
from lib.guest_tcp import ALL, NOTHING

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

MAC, FAKE = "02:00:00:00:00:09", "10.1.1.77"
PORT, FAKE_PORT = 5000, 5077
BYTES = 300_000

SINK = """
import socket, sys
s = socket.create_server((sys.argv[1], %d), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
c, n = s.accept()[0], 0
while n < int(sys.argv[2]):
    d = c.recv(65536)
    assert d == bytes((n + i) %% 251 for i in range(len(d))), "data differ"
    n += len(d)
if len(sys.argv) > 3:
    c.sendall(bytes(i %% 251 for i in range(n)))
print("all", flush=True)
c.recv(1)
""" % PORT

SOURCE = """
import socket, sys
s = socket.create_connection((sys.argv[1], %d), 5)
s.sendall(bytes(i %% 251 for i in range(int(sys.argv[2]))))
""" % PORT


def pattern(n):
    return bytes(i % 251 for i in range(n))


class Host:
    """A host with the kernel's TCP: a namespace with a device that is, or leads to, a port of the switch."""

    def __init__(self, number):
        self.ns, self.number, self.device = lab.Namespace(), number, "eth0"
        self.v4, self.v6 = "10.1.1.%d" % number, "fd00::%d" % number

    def address(self):
        self.ns.run("ip", "link", "set", self.device, "up")
        for address in (self.v4 + "/24", self.v6 + "/64"):
            self.ns.run("ip", "address", "add", address, "dev", self.device, *(["nodad"] if ":" in address else []))

    def take(self, device):
        """Moves a device of the switch into the namespace."""
        lab.sh("ip", "link", "set", device, "netns", self.ns.name)
        self.device = device
        self.address()

    def sink(self, address, n, *echo):
        server = self.ns.spawn("python3", "-c", SINK, address, str(n), *echo, stdout=-1, text=True)
        assert server.stdout.readline() == "ready\n"
        return server


def send(source, sink):
    """TCP over both IP versions; no retransmission because of a wrong checksum."""
    for address in (sink.v4, sink.v6):
        server = sink.sink(address, BYTES)
        source.ns.run("python3", "-c", SOURCE, address, str(BYTES), timeout=20)
        assert server.stdout.readline() == "all\n", "%d to %s" % (source.number, address)
        server.wait(10)


@contextlib.contextmanager
def wire(s, host):
    """A device that leads to a host by tagged packets: its other end is the trunk port of a bridge that removes tag
    5. The kernel does not tag the packets itself, since that needs devices which not every kernel has."""
    ends = lab.unique("slw"), lab.unique("slw")
    lab.sh("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    try:
        for end in ends:
            lab.sh("ip", "link", "set", end, "up")
        s.add_bridge("br1")
        s.vsctl("add-port", "br1", ends[1], "trunks=5", "--", "add-port", "br1", host.ns.port, "tag=5")
        host.address()
        yield ends[0]
    finally:
        lab.sh("ip", "link", "del", ends[0])


def mean(s, number, bridge="br0"):
    """Average size of the packets received from this port, in bytes."""
    line = s.ofctl("-OOpenFlow13", "dump-ports", bridge, str(number)).split("rx pkts=")[1]
    packets, count = line.split(",")[0], line.split("bytes=")[1].split(",")[0]
    return int(count) / max(int(packets), 1)


def checksum_errors(host):
    """Packets with a wrong checksum that the kernel of this host has received."""
    text = host.ns.run("cat", "/proc/net/snmp", "/proc/net/snmp6")
    names, values = [line.split() for line in text.splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(names, values))["InCsumErrors"])


def test_kernel_ports():
    """A veth, a tap, an internal port and a VLAN trunk: TCP between each two, IPv4 and IPv6, in packets longer than the MTU."""
    s = lab.Switch().start()
    veth, trunk, tap, internal = hosts = [Host(n) for n in (1, 2, 3, 4)]
    s.add_bridge("br0")
    s.vsctl("add-port", "br0", veth.ns.port, "tag=5", "--", "set", "interface", veth.ns.port, "ofport_request=1")
    veth.address()
    with wire(s, trunk) as tagged:
        s.vsctl("add-port", "br0", tagged, "trunks=5", "--", "set", "interface", tagged, "ofport_request=2")
        kernel_ports(s, hosts, tagged)


def kernel_ports(s, hosts, tagged):
    veth, trunk, tap, internal = hosts
    for host, kind in ((tap, "tap"), (internal, "internal")):
        name = lab.unique("slt")
        s.vsctl("add-port", "br0", name, "tag=5", "--", "set", "interface", name, "type=" + kind,
                "ofport_request=%d" % host.number)
        host.take(name)
    for source in hosts:
        for sink in hosts:
            if source is not sink:
                send(source, sink)
    for host in hosts:
        assert mean(s, host.number) > 1514, "port %d: TCP comes in small pieces" % host.number
        assert checksum_errors(host) == 0, "port %d: wrong checksums" % host.number
    # A port whose MTU is smaller than the segments drops them, like other packets of that length.
    s.vsctl("set", "interface", tagged, "mtu_request=1200")
    lab.wait_until(lambda: s.vsctl("get", "interface", tagged, "mtu").strip() == "1200", "the MTU is obeyed")
    trunk.sink(trunk.v4, BYTES)
    veth.ns.spawn("python3", "-c", SOURCE, trunk.v4, str(BYTES))
    lab.wait_until(lambda: "drop=0" not in s.ofctl("-OOpenFlow13", "dump-ports", "br0", "2").split("tx pkts=")[1],
                   "segments longer than the MTU are counted as dropped")


def tso_switch():
    if os.cpu_count() < 2:
        raise lab.Skip("needs two processors")
    lab.need_root()
    s = dpdk.Switch(eal=dpdk.EAL % 512).start()
    s.secure_bridge("br0")
    return s


def talk(host, guest, features, address, peer, sport):
    """A guest connects to a host, sends data and receives it back."""
    server = host.sink(host.v6 if ":" in peer else host.v4, BYTES // 6, "echo")
    mac = host.ns.run("cat", "/sys/class/net/%s/address" % host.device).strip()
    tcp = guest_tcp.Tcp(guest, features, MAC, mac, address, peer, FAKE_PORT if peer == FAKE else PORT, sport)
    tcp.connect()
    tcp.say(guest_tcp.ACK | guest_tcp.PSH, pattern(BYTES // 6))
    tcp.receive_until(lambda: len(tcp.data) >= BYTES // 6)
    assert tcp.data == pattern(BYTES // 6), "what came back is not what was sent"
    assert (tcp.longest > 1514) == (features != NOTHING), "the longest packet has %d bytes" % tcp.longest
    server.kill()
    server.wait()
    return tcp


def test_guests():
    """A guest with and without offloads, a veth: TCP in both directions, with address translation and VLAN tags."""
    s = tso_switch()
    host, tagged = Host(1), Host(2)
    host.address()
    with wire(s, tagged) as device:
        guests(s, host, tagged, device)


def guests(s, host, tagged, device):
    for h in (host, tagged):
        for address in ("10.1.1.9", "fd00::9", "10.1.1.78"):
            h.ns.run("ip", "neigh", "replace", address, "lladdr", MAC, "dev", "eth0")
    guest = vhost_user.Guest(s.socket("v0"))
    s.add("br0", s.client("v0", 1), (host.ns.port, 2, "system", {}), (device, 3, "system", {}))
    plain = ("in_port=1,actions=2", "in_port=2,actions=1")
    tags = ("in_port=1,actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:3", "in_port=3,dl_vlan=5,actions=pop_vlan,output:1")
    # The second rule does not match what the host still sends for a connection without translation.
    translated = (
        "in_port=1,tcp,actions=set_field:10.1.1.78->ip_src,set_field:10.1.1.1->ip_dst,set_field:1%%(port)d->tcp_src,"
        "set_field:%d->tcp_dst,dec_ttl,output:2" % PORT,
        "in_port=2,tcp,nw_dst=10.1.1.78,tp_dst=1%%(port)d,actions=set_field:%s->ip_src,set_field:10.1.1.9->ip_dst,"
        "set_field:%d->tcp_src,set_field:%%(port)d->tcp_dst,output:1" % (FAKE, FAKE_PORT))
    # Each connection has its own ports, since closing one takes time.
    for sport, features in ((4000, NOTHING), (5000, ALL)):
        guest.accept()
        guest.fresh()
        guest.handshake(features=vhost_user.F_VERSION_1 | vhost_user.F_MRG_RXBUF | features)
        s.wait_for_guests("br0", "v0")
        status = s.vsctl("get", "interface", "v0", "status")
        assert 'tx_tcp_seg_offload="%s"' % ("true" if features else "false") in status, status
        s.flows("br0", *plain)
        talk(host, guest, features, "10.1.1.9", host.v4, sport + 1)
        talk(host, guest, features, "fd00::9", host.v6, sport + 2)
        s.flows("br0", *tags)
        talk(tagged, guest, features, "10.1.1.9", tagged.v4, sport + 3)
        talk(tagged, guest, features, "fd00::9", tagged.v6, sport + 4)
        s.flows("br0", *[flow % {"port": sport} for flow in translated])
        talk(host, guest, features, "10.1.1.9", FAKE, sport)
        guest.drop()
    assert checksum_errors(host) == checksum_errors(tagged) == 0, "wrong checksums arrived"


def test_invalid_virtio_headers():
    """Guests with invalid virtio headers lose their packets, which are counted; another guest's packets are
    forwarded, and segmented for a guest without offloads."""
    s = tso_switch()
    names = ("v0", "v1")
    guests = [vhost_user.Guest(s.socket(n)) for n in names]
    s.add("br0", *[s.client(n, i + 1) for i, n in enumerate(names)])
    s.flows("br0", "in_port=1,actions=2")
    basic = vhost_user.F_VERSION_1 | vhost_user.F_MRG_RXBUF
    for guest, features in zip(guests, (ALL, NOTHING)):
        guest.accept().handshake(features=basic | features)
    s.wait_for_guests("br0", *names)
    tcp = guest_tcp.Tcp(guests[0], ALL, MAC, "02:00:00:00:00:01", "10.1.1.9", "10.1.1.1", PORT, 4000)
    frame = tcp.packet(guest_tcp.ACK, pattern(5000), partial=True)
    before = s.counters("br0", "v0"), s.counters("br0", "v1")

    def header(flags=1, gso=1, size=1400, start=34):
        return struct.pack("<BBHHHHH", flags, gso, 54, size, start, 16, 0)

    shorter = frame[:46] + bytes([0x10]) + frame[47:]
    longer = frame[:40 + 14] + b"x" * 3
    lies = [(frame, header(size=n)) for n in (1, 2)] + [(shorter, header()), (longer[:46] + b"\xf0" + longer[47:], header()),
            (frame, header(size=0)), (frame, header(gso=0))]
    for packet, note in lies:
        guests[0].send(packet, header=note)
    # The last packet must not be segmented, so it is too long for the other guest; the other packets are refused at once.
    lab.wait_until(lambda: s.counters_since("br0", "v0", before[0])["rx_drop"] + s.counters_since("br0", "v1", before[1])["tx_drop"] == len(lies),
                   "all of them are counted: %s" % s.counters("br0", "v0"))
    assert s.counters_since("br0", "v1", before[1])["tx"] == 0
    guests[1].received()
    guests[0].send(frame, header=header())
    parts = []

    def whole():
        parts.extend(guest_tcp.Packet(a) for a in guests[1].arrivals())
        return sum(len(p.payload) for p in parts) >= 5000

    lab.wait_until(whole, "the good one goes on")
    assert b"".join(p.payload for p in parts) == pattern(5000) and len(parts) == 4, [len(p.payload) for p in parts]
    assert not any(p.needs_checksum for p in parts)
    s.alive()


def test_devices_of_dpdk():
    """A DPDK device that completes checksums but does not segment: TCP with a veth, in both directions."""
    s = tso_switch()
    host, other, name = Host(1), Host(2), lab.unique("slt")
    host.address()
    s.add("br0", (host.ns.port, 1, "system", {}), ("d0", 2, "dpdk", {"dpdk-devargs": "net_tap0,iface=" + name}))
    s.flows("br0", "in_port=1,actions=2", "in_port=2,actions=1")
    other.take(name)
    status = s.vsctl("get", "interface", "d0", "status")
    assert 'tx_tcp_csum_offload="true"' in status and 'tx_tcp_seg_offload="false"' in status, status
    send(host, other)
    send(other, host)
    assert mean(s, 1) > 1514, "TCP comes in small pieces"
    assert checksum_errors(host) == checksum_errors(other) == 0, "wrong checksums"


def test_devices_that_segment():
    """A DPDK device with segmentation, on a guest port of another switch: packets of 64 KB pass both, unless it is turned off."""
    with dpdk.huge_pages(640):
        hosts = host, other = Host(1), Host(2)
        for h in hosts:
            h.address()
        for segmentation in ("true", "false"):
            two_switches(host, other, segmentation)
        assert checksum_errors(host) == checksum_errors(other) == 0, "wrong checksums"


def two_switches(host, other, segmentation):
    near, far = (dpdk.Switch(eal=dpdk.HUGE + " --single-file-segments -m 192") for _ in range(2))
    for s, bridge in ((far, "br1"), (near, "br0")):
        s.other_config.update({"per-port-memory": "true", "pmd-sleep-max": "100", "userspace-tso-enable": segmentation})
        s.start().secure_bridge(bridge)
    far.add("br1", (other.ns.port, 1, "system", {}), ("v0", 2, "dpdkvhostuser", {}))
    device = {"dpdk-devargs": "net_virtio_user0,path=%s/v0,queue_size=1024" % far.dir}
    near.add("br0", (host.ns.port, 1, "system", {}), ("d0", 2, "dpdk", device))
    for s, bridge in ((far, "br1"), (near, "br0")):
        s.flows(bridge, "in_port=1,actions=2", "in_port=2,actions=1")
    status = near.vsctl("get", "interface", "d0", "status")
    assert 'tx_tcp_seg_offload="%s"' % segmentation in status, status
    send(host, other)
    send(other, host)
    came = mean(far, 2, "br1")
    assert (came > 1514) == (segmentation == "true"), "%s: %d bytes in the mean" % (segmentation, came)
    near.stop()
    far.stop()
