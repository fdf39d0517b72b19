"""Shared parts of the experiments that replay UDP flows on DPDK ports: the frames, the device, and how packets are counted."""
import os
import re
import struct
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
FOLDER = os.path.join(ROOT, "target", "experiments")
LEARNED = "02:00:00:00:00:02"
# Flows of a file: each queue of the driver keeps its file in its own packet buffers.
PART = 20_000


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def frame(n, length):
    """A UDP frame; n selects its destination address."""
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, length - 14, 0, 0x4000, 64, 17, 0, 0x0a000001, 0x14000000 + n)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    ethernet = bytes.fromhex(LEARNED.replace(":", "")) + bytes.fromhex("0200000000010800")
    return (ethernet + ip + struct.pack("!HHHH", 1024, 4788, length - 34, 0)).ljust(length, b"\0")


def capture(first, count, length):
    """A pcap file of these flows."""
    path = "%s/flows-%d-%d-%d.pcap" % (FOLDER, length, first, count)
    os.makedirs(FOLDER, exist_ok=True)
    if not os.path.exists(path):
        with open(path, "wb") as f:
            f.write(struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for n in range(first, first + count):
                f.write(struct.pack("<IIII", 0, 0, length, length) + frame(n, length))
    return path


def device(flows, length=60, queues=None):
    """A device that replays flows: its arguments, and the number of rx queues (as many as the flows need, or these)."""
    part = min(PART, flows) if queues is None else flows // queues
    files = [capture(at, min(part, flows - at), length) for at in range(0, flows, part)]
    return "net_pcap0,%s,infinite_rx=1" % ",".join("rx_pcap=" + f for f in files), len(files)


def poll_seconds(pid):
    """CPU time of the poll threads so far."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        folder = "/proc/%d/task/%s/" % (pid, task)
        with open(folder + "comm") as comm, open(folder + "schedstat") as time_spent:
            if comm.read().startswith("pmd-c"):
                total += int(time_spent.read().split()[0])
    return total / 1e9


def received(switch):
    """Packets that the poll threads have received."""
    text = switch.appctl("dpif-netdev/pmd-stats-show").split("main thread:")[0]
    return sum(map(int, re.findall(r"packets received: (\d+)", text)))


def per_core(switch, seconds, count=received):
    """Million packets per CPU second of the poll threads."""
    n, cpu = count(switch), poll_seconds(switch.daemon.pid)
    time.sleep(seconds)
    return (count(switch) - n) / (poll_seconds(switch.daemon.pid) - cpu) / 1e6
