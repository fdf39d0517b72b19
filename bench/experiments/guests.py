"""Shared parts of the experiments with a measuring guest: its program (guest.c, built here), its switch, and the
compared sleep settings.

The poll thread has core 1, the guest core 0. During measurements they have real-time priority (SCHED_FIFO);
otherwise, on a shared machine, the scheduler's queue would be measured.
"""
import json
import mmap
import os
import re
import select
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from lib import dpdk, lab  # noqa: E402

OUT = os.path.join(ROOT, "target", "experiments")
MEGABYTES = 1024
RING = 2048
PRIORITY = 10


def program():
    """The path of the guest's program, which is built if it is older than its source."""
    source, binary = os.path.join(HERE, "guest.c"), os.path.join(OUT, "guest")
    os.makedirs(OUT, exist_ok=True)
    if not os.path.exists(binary) or os.path.getmtime(binary) < os.path.getmtime(source):
        flags = {k: lab.sh("pkg-config", "--" + k, "libdpdk").split() for k in ("cflags", "libs")}
        lab.sh("gcc", "-O3", "-Wall", "-Wextra", *flags["cflags"], "-march=native", source, "-o", binary, *flags["libs"])
    return binary


class Setting:
    """A sleep setting: `sleep:50` or `target:100`; Open vSwitch has only the former."""

    def __init__(self, text):
        self.text = text
        self.kind, micros = text.split(":")
        self.micros = int(micros)

    def other_config(self, ours):
        if self.kind == "target":
            return {"pmd-latency-target": self.micros, "pmd-sleep-max": 0}
        if ours:
            return {"pmd-sleep-max": self.micros, "pmd-latency-target": 0}
        # The name of the setting in Open vSwitch 3.1.
        return {"pmd-maxsleep": self.micros}

    def is_supported(self, ours):
        """Whether our switch (`ours`) or the stock one has this setting."""
        return ours or self.kind == "sleep"


class GuestSwitch:
    """A switch with some ports for the guest."""

    def __init__(self, ours, ports=2, flows=("in_port=1,ip,actions=output:2",), library=True):
        self.ours = ours
        self.switch = switch = dpdk.Switch(eal=dpdk.HUGE, ours=ours, library=library)
        switch.start()
        switch.secure_bridge("br0")
        names = ["v%d" % i for i in range(ports)]
        self.sockets = [switch.socket(name) for name in names]
        switch.add("br0", *[switch.client(name, i + 1) for i, name in enumerate(names)])
        switch.flows("br0", *flows)

    def set(self, setting):
        pairs = setting.other_config(self.ours).items()
        self.switch.vsctl("set", "open_vswitch", ".", *["other_config:%s=%d" % pair for pair in pairs])

    def guest(self, *args):
        ports = [x for i, path in enumerate(self.sockets)
                 for x in ("--vdev", "net_virtio_user%d,path=%s,server=1,queue_size=%d" % (i, path, RING))]
        argv = [program(), "-l", "0", "--no-pci", "--in-memory", "--single-file-segments", "--no-telemetry", *ports, "--"]
        return Guest(argv + [str(a) for a in args])

    def threads(self, poll=True):
        """The poll threads, or the others, which must answer while both cores are busy."""
        folder = "/proc/%d/task" % self.switch.daemon.pid
        return [int(t) for t in os.listdir(folder) if open("%s/%s/comm" % (folder, t)).read().startswith("pmd-c") == poll]

    def used(self):
        """CPU seconds of the poll threads since their start."""
        folder = "/proc/%d/task" % self.switch.daemon.pid
        return sum(int(open("%s/%d/schedstat" % (folder, t)).read().split()[0]) for t in self.threads()) / 1e9

    def clear(self):
        self.switch.appctl("dpif-netdev/pmd-stats-clear")

    def slept(self):
        """Sleeps since `clear`, their share of all turns in percent, and their mean length in microseconds."""
        text = self.switch.appctl("dpif-netdev/pmd-perf-show", "-nh")
        sleeps = re.search(r"sleep iterations:?\s+(\d+)\s+\(\s*([\d.]+)", text, re.I)
        mean = re.search(r"Sleep time \(us\):\s+\d+\s+\(\s*(\d+)", text)
        return (int(sleeps[1]), float(sleeps[2]), int(mean[1]) if mean else 0) if sleeps else (0, 0.0, 0)


class Guest:
    def __init__(self, argv):
        for path in re.findall(r"path=([^,]+)", " ".join(argv)):
            if os.path.exists(path):
                os.unlink(path)
        self.log = os.path.join(OUT, "guest.log")
        with open(self.log, "w") as log:
            self.process = lab.spawn(argv, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.PIPE, text=True)

    def wait(self, word):
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError("the guest ended: " + self.errors())

    def threads(self):
        return [int(t) for t in os.listdir("/proc/%d/task" % self.process.pid)]

    def has_ended(self):
        """Whether its result has arrived."""
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise AssertionError("the guest ended: " + self.errors())

    def end(self):
        """Sends no more commands."""
        self.process.stdin.close()
        self.process.wait(60)

    def result(self):
        """The result; the guest has only one."""
        result = self.line()
        self.end()
        return result

    def errors(self):
        self.process.wait(10)
        return open(self.log).read()[-500:]


class Priority:
    """In this context the poll threads and the guest have real-time priority, and the threads that answer requests a
    higher one."""

    def __init__(self, fixture=None, guest=None):
        busy = (fixture.threads() if fixture else []) + (guest.threads() if guest else [])
        rare = [0] + (fixture.threads(poll=False) if fixture else [])
        self.priorities = dict.fromkeys(busy, PRIORITY) | dict.fromkeys(rare, PRIORITY + 1)

    def __enter__(self):
        self.schedule(os.SCHED_FIFO, self.priorities)

    def __exit__(self, *_):
        self.schedule(os.SCHED_OTHER, dict.fromkeys(self.priorities, 0))

    @staticmethod
    def schedule(policy, priorities):
        for thread, priority in priorities.items():
            try:
                os.sched_setscheduler(thread, policy, os.sched_param(priority))
            except ProcessLookupError:
                pass


def timer_noise(micros=50, times=2000):
    """The delay of timer sleeps on core 1: median, 95th and 99th percentile, in microseconds."""
    before, late = os.sched_getaffinity(0), []
    os.sched_setaffinity(0, {1})
    with Priority():
        for _ in range(times):
            start = time.perf_counter_ns()
            time.sleep(micros / 1e6)
            late.append((time.perf_counter_ns() - start) / 1000 - micros)
    os.sched_setaffinity(0, before)
    return percentiles(late)


def wake_noise(gap=1000, times=2000):
    """The delay until a woken thread runs on core 1, with one wake-up in `gap` microseconds; as `timer_noise`."""
    waker, woken, stamp = os.eventfd(0), os.eventfd(0), mmap.mmap(-1, 8)
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        late = []
        os.sched_setaffinity(0, {1})
        with Priority():
            for _ in range(times):
                os.eventfd_read(waker)
                late.append((time.perf_counter_ns() - int.from_bytes(stamp[:], "little")) / 1000)
                os.eventfd_write(woken, 1)
        os.write(say, json.dumps(percentiles(late)).encode())
        os._exit(0)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    for _ in range(times):
        end = time.perf_counter_ns() + 1000 * gap
        while time.perf_counter_ns() < end:
            pass
        stamp[:] = time.perf_counter_ns().to_bytes(8, "little")
        os.eventfd_write(waker, 1)
        os.eventfd_read(woken)
    os.sched_setaffinity(0, before)
    os.waitpid(pid, 0)
    late = json.loads(os.read(said, 1000))
    for fd in (waker, woken, said, say):
        os.close(fd)
    return tuple(late)


def percentiles(late):
    """Median, 95th, 99th percentile."""
    late.sort()
    return tuple(late[len(late) * p // 100] for p in (50, 95, 99))
