"""UDP segmentation offload (USO) between guests, kernel devices and tunnels: a frame whose sender requests segmentation is forwarded as it
is to receivers that segment, and cut into datagrams for all others."""
import os
import struct

from lib import dpdk, lab, old_kernel, raw, udp_frames, vhost_user
from lib.vhost_user import F_CSUM, F_GUEST_CSUM, F_GUEST_USO4, F_GUEST_USO6, F_HOST_USO

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

MAC, GATEWAY, SOURCE, PORTS = "02:00:00:00:00:09", "02:00:00:00:00:08", {4: "10.1.1.9", 6: "fd00::9"}, (4000, 5000)
SIZE, LAST = 1200, 700
PAYLOAD = bytes(i % 251 for i in range(4 * SIZE + LAST))
# Port numbers of the bridge.
SENDER, WHOLE, PLAIN, VETH, TAP, TUNNEL = 1, 2, 3, 4, 5, 6

SINK = """
import socket, sys
v6, merged, n = ":" in sys.argv[1], sys.argv[2] == "merged", int(sys.argv[3])
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 104, merged)  # UDP_GRO: the size of the datagrams comes with their payloads.
s.bind((sys.argv[1], %d))
print("ready", flush=True)
while n > 0:
    data, ancillary = s.recvmsg(65536, 256)[:2]
    sizes = [int.from_bytes(value[:2], sys.byteorder) for level, kind, value in ancillary if (level, kind) == (17, 104)]
    print(*(sizes or [0]), data.hex(), flush=True)
    n -= len(data)
""" % PORTS[1]

SOURCE_SCRIPT = """
import socket, sys
v6 = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[2], %d))
s.setsockopt(17, 103, int(sys.argv[3]))  # UDP_SEGMENT
s.sendto(bytes(i %% 251 for i in range(int(sys.argv[4]))), (sys.argv[1], %d))
""" % PORTS


class Host:
    """A namespace with the kernel's UDP, on a veth or a tap of the switch."""

    def __init__(self, number):
        self.ns, self.number, self.device = lab.Network(), number, "eth0"
        self.address = {4: "10.1.1.%d" % number, 6: "fd00::%d" % number}

    def ready(self):
        run = self.ns.run
        run("ip", "link", "set", self.device, "up")
        for version, address in self.address.items():
            run("ip", "address", "add", address + ("/24" if version == 4 else "/64"), "dev", self.device, *(["nodad"] if version == 6 else []))
            run("ip", "neigh", "replace", SOURCE[version], "lladdr", MAC, "dev", self.device)
        self.mac = run("cat", "/sys/class/net/%s/address" % self.device).strip()

    def sink(self, version, way):
        server = self.ns.spawn("python3", "-c", SINK, self.address[version], way, str(len(PAYLOAD)), stdout=-1, text=True)
        assert server.stdout.readline() == "ready\n"
        return server

    def sends(self, version):
        self.ns.run("python3", "-c", SOURCE_SCRIPT, SOURCE[version], self.address[version], str(SIZE), str(len(PAYLOAD)))

    def cuts_itself(self):
        """From now on the kernel cuts and completes what the host sends, before the device gets it."""
        lab.need("ethtool")
        self.ns.run("ethtool", "-K", self.device, "tx", "off")


class SwitchOnOldKernel(dpdk.Switch):
    def spawn(self, argv, **kw):
        return super().spawn(argv, preexec_fn=old_kernel.refuse_udp_segmentation, **kw)


class Lab:
    """A switch without DPDK in a namespace. Guests: a sender, one that accepts large UDP frames, and one that does not; hosts; a tunnel."""

    def __init__(self, switch=dpdk.Switch):
        if os.cpu_count() < 2:
            raise lab.Skip("needs two processors")
        self.net = lab.Network()
        self.switch = s = switch(eal=None)
        s.network = self.net
        s.start()
        s.secure_bridge("br0")
        self.hosts = [Host(VETH), Host(TAP)]
        self.net.run("ip", "link", "add", "veth", "type", "veth", "peer", "name", "eth0", "netns", self.hosts[0].ns.name)
        self.net.run("ip", "link", "set", "veth", "up")
        tap = self.hosts[1].device = lab.unique("slt")
        self.guests = [vhost_user.Guest(s.socket("v%d" % n)) for n in (SENDER, WHOLE, PLAIN)]
        s.add("br0", *[s.client("v%d" % n, n) for n in (SENDER, WHOLE, PLAIN)],
              ("veth", VETH, "system", {}), (tap, TAP, "tap", {}))
        self.net.run("ip", "link", "set", tap, "netns", self.hosts[1].ns.name)
        features = F_HOST_USO | F_CSUM, F_GUEST_USO4 | F_GUEST_USO6 | F_GUEST_CSUM, 0
        for guest, more in zip(self.guests, features):
            guest.accept().handshake(features=vhost_user.F_VERSION_1 | vhost_user.F_MRG_RXBUF | more)
        for host in self.hosts:
            host.ready()
        s.wait_for_guests("br0", "v1", "v2", "v3")

    def flows(self, *flows):
        self.switch.flows("br0", *flows)

    def frame(self, version, to, mac=GATEWAY):
        macs = bytes.fromhex((mac + MAC).replace(":", ""))
        return udp_frames.frame(macs, SOURCE[version], to, PORTS, PAYLOAD)

    def send(self, whole):
        self.guests[0].send(whole, header=udp_frames.request(whole, SIZE))

    def arrivals(self, number, n):
        """The first n UDP packets that a guest receives, each with its virtio header."""
        found = []

        def enough():
            found.extend(a for a in self.guests[number - 1].arrivals() if is_udp(a[12:]))
            return len(found) >= n

        lab.wait_until(enough, "%d packets come to guest %d, not %d" % (n, number, len(found)))
        return found

    def check_whole(self, whole):
        """The guest that segments has received one frame, and nothing of it was changed."""
        [arrival] = self.arrivals(WHOLE, 1)
        assert arrival[:10] == udp_frames.request(whole, SIZE)[:10], arrival[:12].hex()
        assert arrival[12:] == whole, "the frame was changed"

    def check_plain(self, datagrams):
        """The guest without offloads has received these packets."""
        arrivals = self.arrivals(PLAIN, len(datagrams))
        assert [a[:10] for a in arrivals] == [bytes(10)] * len(datagrams), "offloads were left to a guest without them"
        assert [a[12:] for a in arrivals] == datagrams, "\n".join(a[12:].hex()[:140] for a in arrivals)


def is_udp(frame):
    """Whether this is a UDP packet of the tests; namespaces send other packets, too."""
    at = 16 if frame[12:14] == b"\x81\0" else 12
    kind, ip = frame[at:at + 2], frame[at + 2:]
    return (kind, ip[9]) == (b"\x08\0", 17) or (kind, ip[6]) == (b"\x86\xdd", 17)


def test_guests():
    """A guest's large UDP frame: another guest gets it whole, and one without offloads gets datagrams; with VLAN tags and rewritten headers."""
    t = Lab()
    for version, to in ((4, "10.1.1.1"), (6, "fd00::1")):
        whole = t.frame(version, to)
        t.flows("in_port=1,actions=2,3")
        t.send(whole)
        t.check_whole(whole)
        t.check_plain(udp_frames.cut(whole, SIZE))
        # The checksum field has the sum of the pseudo header, which does not contain the ports.
        changed = whole[:-len(PAYLOAD) - 8] + struct.pack(">H", 77) + whole[-len(PAYLOAD) - 6:]
        changed = udp_frames.tagged(changed, 5)
        t.flows("in_port=1,udp%s,actions=set_field:77->udp_src,push_vlan:0x8100,set_field:4101->vlan_vid,2,3" % ("6" if version == 6 else ""))
        t.send(whole)
        t.check_whole(changed)
        t.check_plain(udp_frames.cut(changed, SIZE))
    # A tag of the guest itself, and addresses that are translated by a connection.
    whole = udp_frames.tagged(t.frame(4, "10.1.1.1"), 9)
    t.flows("in_port=1,actions=2,3")
    t.send(whole)
    t.check_whole(whole)
    t.check_plain(udp_frames.cut(whole, SIZE))
    whole = t.frame(4, "10.1.1.1")
    t.flows("table=0,in_port=1,ip,actions=ct(commit,nat(src=10.1.1.200),table=1)", "table=1,ct_state=+trk-inv,actions=2,3",
            "table=1,ct_state=+inv,actions=drop")
    translated = udp_frames.completed(whole.replace(b"\x0a\x01\x01\x09", b"\x0a\x01\x01\xc8", 1), partial=True)
    t.send(whole)
    t.check_whole(translated)
    t.check_plain(udp_frames.cut(translated, SIZE))
    t.switch.alive()


def test_kernel_devices():
    """A guest's large UDP frame goes to sockets behind a veth and a tap: as datagrams, or merged if the socket accepts that."""
    t = Lab()
    for host in t.hosts:
        for version in (4, 6):
            t.flows("in_port=1,actions=%d" % host.number)
            whole = t.frame(version, host.address[version], host.mac)
            for way, first in (("single", "0 " + PAYLOAD[:SIZE].hex()), ("merged", "%d %s" % (SIZE, PAYLOAD.hex()))):
                server = host.sink(version, way)
                t.send(whole)
                out = server.communicate(timeout=10)[0].split("\n")
                assert out[0] == first, "%s, %s, IPv%d: %s" % (host.device, way, version, out[0][:20])
                assert "".join(line.split(" ")[-1] for line in out) == PAYLOAD.hex(), "the payload differs"


def test_old_kernels():
    """On a kernel that does not segment UDP, sockets behind a veth and a tap receive datagrams, which the switch has cut; guests get whole frames."""
    t = Lab(SwitchOnOldKernel)
    for host in t.hosts:
        for version in (4, 6):
            t.flows("in_port=1,actions=%d,2" % host.number)
            whole = t.frame(version, host.address[version], host.mac)
            server, before = host.sink(version, "merged"), host.ns.received(host.device)
            t.send(whole)
            t.check_whole(whole)
            out = server.communicate(timeout=10)[0].split()
            assert out[0::2] == ["0"] * 5 and "".join(out[1::2]) == PAYLOAD.hex(), "%s, IPv%d: %s" % (host.device, version, out[0::2])
            assert host.ns.received(host.device) - before >= 5, "the kernel got fewer packets"


def test_kernel_senders():
    """What a socket leaves to be segmented (UDP_SEGMENT): guests get it whole or cut, with the bytes that the kernel itself would send."""
    t = Lab()
    for host in t.hosts:
        wholes = {}
        for version in (4, 6):
            t.flows("in_port=%d,actions=2,3" % host.number)
            host.sends(version)
            [arrival] = t.arrivals(WHOLE, 1)
            whole = arrival[12:]
            assert arrival[:10] == udp_frames.request(whole, SIZE)[:10], "%s: %s" % (host.device, arrival[:12].hex())
            assert whole == udp_frames.completed(whole, partial=True)
            t.check_plain(udp_frames.cut(whole, SIZE))
            wholes[version] = whole
        host.cuts_itself()
        for version, whole in wholes.items():
            host.sends(version)
            [first, *_] = arrivals = [a[12:] for a in t.arrivals(WHOLE, len(PAYLOAD) // SIZE + 1)]
            assert arrivals == udp_frames.cut(udp_frames.numbered_as(whole, first), SIZE), "the kernel cuts in another way"
            t.check_plain(arrivals)


def test_tunnels():
    """A large UDP frame is cut when it enters a tunnel: each datagram has its own outer header."""
    t, far = Lab(), lab.Network()
    s, run = t.switch, t.net.run
    run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "eth0", "netns", far.name)
    s.add_bridge("br-ex", "wire")
    run("ip", "link", "set", "wire", "arp", "off", "up")
    run("ip", "link", "set", "br-ex", "up")
    run("ip", "address", "add", "172.31.0.1/24", "dev", "br-ex")
    far.run("ip", "link", "set", "eth0", "up")
    far.run("ip", "address", "add", "172.31.0.2/24", "dev", "eth0")
    wire = raw.socket_in(far)
    for kind, port in (("geneve", 6081), ("vxlan", 4789)):
        s.vsctl("--if-exists", "del-port", "br0", "tun")
        s.add("br0", ("tun", TUNNEL, kind, {"remote_ip": "172.31.0.2", "key": "7", "csum": "true"}))
        t.flows("in_port=1,actions=%d" % TUNNEL)
        reach(t, wire, port)
        for version, to in ((4, "10.1.1.1"), (6, "fd00::1")):
            whole = t.frame(version, to)
            t.send(whole)
            datagrams = udp_frames.cut(whole, SIZE)
            outers = [raw.receive(wire, lambda f: is_outer(f, port)) for _ in datagrams]
            assert all(outers), "%s: %d of %d packets" % (kind, len(outers) - outers.count(None), len(outers))
            assert [outer[50:] for outer in outers] == datagrams, "%s, IPv%d: the inner packets differ" % (kind, version)
            assert [udp_frames.completed(outer) for outer in outers] == outers, "lengths or checksums of the outer headers"
    wire.close()


def is_outer(frame, port):
    return len(frame) > 50 and frame[12:14] == b"\x08\0" and frame[23] == 17 and struct.unpack_from(">H", frame, 36)[0] == port


def reach(t, wire, port):
    """Sends short packets until one has crossed the tunnel: the next hop is known then."""
    for _ in range(20):
        t.guests[0].send(vhost_user.frame(1))
        if raw.receive(wire, lambda f: is_outer(f, port), seconds=0.5):
            break
    while raw.receive(wire, lambda f: is_outer(f, port), seconds=0.5):
        pass
