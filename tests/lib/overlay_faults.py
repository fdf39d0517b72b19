"""Faults around tunnels: routes that change, thousands of tunnels, packets from spoofed remote ends."""
import os
import random
import re
import signal
import socket
import struct
import time

from lib import raw


def cpu_seconds(switch):
    """CPU time of the daemon so far."""
    with open("%s/%s.pid" % (switch.dir, switch.name)) as f, open("/proc/%s/stat" % f.read().strip()) as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Pings:
    """Echo requests from one guest to another while something else happens: `count` of them, or until `lost` is called."""

    def __init__(self, a, b, count=None, interval=0.01):
        self.count = count
        # ping waits for missing replies only after its last request.
        limit = ["-c", str(count), "-W", "5"] if count else []
        self.process = a.guest.spawn("ping", "-q", "-i", str(interval), *limit, b.guest_v4, stdout=-1, text=True)

    def lost(self):
        """Number of requests without a reply, after the last one."""
        if self.count is None:
            self.process.send_signal(signal.SIGINT)
        text = self.process.communicate(timeout=120)[0]
        counts = re.search(r"(\d+) packets transmitted, (\d+) received", text)
        assert counts, text
        sent, received = map(int, counts.groups())
        if self.count is None:
            # The reply to the last request may not have arrived yet.
            self.count = sent
            return max(0, sent - received - 1)
        return self.count - received


def flap(host, other, times):
    """Adds and removes a second route to the other host by the same device; returns changes per second."""
    change = "route %%s %s/32 dev br-ex src %s\n" % (other.v4, host.v4)
    start = time.time()
    host.net.run("ip", "-batch", "-", input=(change % "add" + change % "del") * times)
    return 2 * times / (time.time() - start)


def add_tunnels(switch, first, count):
    """Adds tunnels to addresses of a network of their own in one transaction."""
    words = []
    for n in range(first, first + count):
        words += ["--", "add-port", "br-int", "t%d" % n, "--", "set", "interface", "t%d" % n, "type=geneve",
                  "options:remote_ip=172.31.%d.%d" % (64 + n // 250, 1 + n % 250), "options:key=%d" % n]
    switch.vsctl("--timeout=300", *words[1:], timeout=300)


def remove_tunnels(switch, first, count):
    words = []
    for n in range(first, first + count):
        words += ["--", "del-port", "br-int", "t%d" % n]
    switch.vsctl("--timeout=300", *words[1:], timeout=300)


def count_tunnels(switch):
    return len(switch.appctl("ofproto/list-tunnels").splitlines())


def outer(dst_mac, source, host, inner, key=7):
    """A VXLAN packet of a spoofed remote end."""
    vxlan = struct.pack("!II", 0x08000000, key << 8) + inner
    udp = struct.pack("!HHHH", random.randrange(32768, 61000), 4789, 8 + len(vxlan), 0) + vxlan
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, source, socket.inet_aton(host))
    ip = ip[:10] + struct.pack("!H", raw.checksum(ip)) + ip[12:]
    return dst_mac + bytes.fromhex("02beef000001") + b"\x08\x00" + ip + udp


def storm(host, victim, packets):
    """Sends packets of as many spoofed remote ends from one host to the other; returns packets per second."""
    s = raw.socket_in(host.net, "wire")
    mac = raw.mac(victim.net.run("cat", "/sys/class/net/br-ex/address").strip())
    inner = bytes.fromhex("ffffffffffff02beef0000020800") + bytes(46)
    numbers = random.Random(packets)
    start = time.time()
    for n in range(packets):
        s.send(outer(mac, struct.pack("!I", 0x0a000000 | numbers.getrandbits(24)), victim.v4, inner))
    s.close()
    return packets / (time.time() - start)
