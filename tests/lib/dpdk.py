"""Shared parts of the DPDK tests: a switch with DPDK, its ports' counters, and dpdk-testpmd as a guest on
virtio_user.

No huge pages are needed: the switch runs with `--no-huge --legacy-mem` (the latter prevents it from adding
`--in-memory`, which DPDK refuses together with `--no-huge`). A guest with `--no-huge --single-file-segments` has its
memory in one memfd, which the switch can map; without `--single-file-segments` the handshake succeeds but no packet
is transferred.
"""
import contextlib
import os
import re
import signal
import subprocess
import threading
import time

from lib import lab

# The stock switch: Debian's, or another build.
STOCK = os.environ.get("TEST_STOCK_DPDK", "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
LONG = bool(os.environ.get("TEST_LONG"))
HUGE = "--no-pci --in-memory --no-telemetry"
# Number of slots of a guest's ring.
RING = 256
EAL = "--no-pci --no-huge --legacy-mem --no-shconf -m %d --no-telemetry"


def need():
    """Skips the test if the machine lacks what the DPDK tests need."""
    lab.need_root()
    lab.need("dpdk-testpmd")
    if os.cpu_count() < 2:
        raise lab.Skip("needs two processors: one polls for the switch, one for the guest")


def in_ordinary_memory(*settings, megabytes=512):
    """A switch with DPDK in ordinary memory, whose pools are small, with these settings and a bridge."""
    lab.need_root()
    s = lab.Switch().start()
    s.vsctl("set", "Open_vSwitch", ".", "other_config:dpdk-init=true", "other_config:per-port-memory=true", *settings,
            'other_config:dpdk-extra="--no-pci --no-telemetry --no-huge -m %d"' % megabytes)
    if s.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip() != "true":
        raise lab.Skip("needs DPDK, which does not start here")
    s.add_bridge("br0")
    return s


@contextlib.contextmanager
def huge_pages(megabytes):
    """Provides this many megabytes of free 2 MB pages while the body runs; allocates missing pages."""
    folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/"

    def read(name):
        with open(folder + name) as f:
            return int(f.read())

    def write(pages):
        with open(folder + "nr_hugepages", "w") as f:
            f.write(str(pages))

    if not os.path.exists(folder):
        raise lab.Skip("needs huge pages of 2 MB")
    missing = max(0, megabytes // 2 - read("free_hugepages"))
    try:
        if missing:
            try:
                write(read("nr_hugepages") + missing)
            except OSError as e:
                raise lab.Skip("needs %d MB of huge pages, which this machine does not grant: %s" % (megabytes, e)) from None
            if read("free_hugepages") < megabytes // 2:
                raise lab.Skip("needs %d MB of huge pages; the machine has no room for them" % megabytes)
        yield
    finally:
        lab.clean_up()
        if missing:
            write(max(0, read("nr_hugepages") - missing))


class Switch(lab.Switch):
    """A private switch with DPDK: main threads on core 0, one poll thread on core 1.

    If not `library`, the switch serves guests itself, also if it has DPDK (`eal`).
    """

    def __init__(self, eal=EAL % 1024, library=True, **kw):
        super().__init__(**kw)
        if eal is None:
            self.other_config = {"pmd-cpu-mask": "0x2"}
            return
        self.other_config = {"dpdk-init": "true", "dpdk-lcore-mask": "0x1", "pmd-cpu-mask": "0x2",
                             "dpdk-extra": eal, "vhost-sock-dir": "."}
        self.other_config["vhost-backend"] = "dpdk" if library else "own"

    def binary(self):
        if self.ours or self.program:
            return super().binary()
        if not os.access(STOCK, os.X_OK):
            raise lab.Skip("needs openvswitch-switch-dpdk")
        return STOCK

    def start(self):
        super().start()
        if "dpdk-init" in self.other_config:
            self.wait_for_dpdk()
        return self

    @classmethod
    def for_guests(cls, library):
        """A switch whose guests are served by DPDK's library, or by the switch itself without DPDK."""
        return cls() if library else cls(eal=None)

    def wait_for_dpdk(self):
        """Waits until the daemon reports that DPDK is initialized."""
        self.wait(lambda: self.vsctl("get", "open_vswitch", ".", "dpdk_initialized").strip() == "true", "DPDK is up")

    def wait(self, holds, what, seconds=10):
        """`lab.wait_until`, which adds the daemon's log on failure."""
        try:
            lab.wait_until(holds, what, seconds)
        except AssertionError as e:
            raise AssertionError("%s\n%s" % (e, self.log()[-3000:])) from None

    def secure_bridge(self, name):
        """A bridge that forwards only by its flows."""
        self.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=secure",
                   "protocols=[OpenFlow10,OpenFlow13,OpenFlow14]")

    def add(self, bridge, *ports):
        """Adds ports in one transaction: (name, number, type, {option: value}, {column: value}). Fails if any has an
        error."""
        argv = []
        for name, number, kind, options, *columns in ports:
            argv += ["--", "add-port", bridge, name, "--", "set", "interface", name, "type=" + kind, "ofport_request=%d" % number]
            argv += ['options:%s="%s"' % o for o in options.items()] + ["%s=%s" % c for d in columns for c in d.items()]
        self.vsctl(*argv)
        for name, *_ in ports:
            error = self.vsctl("get", "interface", name, "error").strip()
            assert error in ("[]", '""'), "%s: %s" % (name, error)

    def client(self, name, number, mtu=1500):
        """The argument of `add` for a `dpdkvhostuserclient` whose guest listens on `socket(name)`."""
        return name, number, "dpdkvhostuserclient", {"vhost-server-path": self.socket(name)}, {"mtu_request": mtu}

    def socket(self, name):
        return "%s/%s.sock" % (self.dir, name)

    def flows(self, bridge, *flows):
        self.ofctl("-OOpenFlow13", "del-flows", bridge)
        self.ofctl("-OOpenFlow13", "add-flows", bridge, "-", input="\n".join(flows) + "\n")

    def wait_for_guests(self, bridge, *names):
        """Waits until these vhost-user ports have guests: without a guest a port has no counters."""
        for name in names:
            self.wait(lambda: "=?" not in self.ofctl("-OOpenFlow14", "dump-ports", bridge, name).split("errs")[0],
                      name + " has a guest", 20)

    def flow_packets(self, bridge, match):
        """Packets of the only flow with this match."""
        text = self.ofctl("-OOpenFlow13", "dump-flows", bridge, match)
        return sum(map(int, re.findall(r"n_packets=(\d+)", text)))

    def counters(self, bridge, name):
        """Counters of a port: rx, tx, tx_drop, and the drop reasons."""
        text = self.ofctl("-OOpenFlow14", "dump-ports", bridge, name)
        counted = {}
        for direction, packets, drop in re.findall(r"(rx|tx) pkts=(\d+|\?), bytes=\S+ drop=(\d+|\?)", text):
            counted[direction] = 0 if packets == "?" else int(packets)
            counted[direction + "_drop"] = 0 if drop == "?" else int(drop)
        counted.update((k, int(v)) for k, v in re.findall(r"(ovs_[tr]x_\w*drops)=(\d+)", text))
        return counted

    def counters_since(self, bridge, name, since):
        """How much each counter of a port has grown since `since`, an earlier result of `counters`."""
        now = self.counters(bridge, name)
        return {k: now[k] - since.get(k, 0) for k in now}

    def settle(self):
        """Waits until the packet accounting balances: every packet was sent or is counted as dropped."""
        if not self.ours:
            return

        def balanced():
            self.text = self.appctl("dpif/show-accounting")
            return re.search(r"parked: 0\n", self.text) and re.search(r"queued: 0\n", self.text)
        try:
            lab.wait_until(balanced, "packet accounting balances")
        except AssertionError as e:
            raise AssertionError("%s\n%s" % (e, self.text)) from None

    def status(self, what):
        """A value of /proc/PID/status in kB: VmRSS, HugetlbPages."""
        with open("/proc/%d/status" % self.daemon.pid) as f:
            return int(re.search(r"^%s:\s+(\d+)" % what, f.read(), re.M)[1])

    def alive(self):
        assert self.daemon.poll() is None, "the daemon died (%s):\n%s" % (self.daemon.poll(), self.log()[-3000:])


def tx_drops_with_reason(counters):
    """The number of packets that were not sent and are counted by a drop reason."""
    return sum(v for k, v in counters.items() if k.startswith("ovs_tx_"))


class Testpmd:
    """dpdk-testpmd with virtio_user ports, controlled by its prompt.

    ports: the text after `net_virtio_userN,` of each; one that listens (`server=1`) waits for the switch.
    """

    PROMPT = "testpmd> "

    def __init__(self, *ports, queues=1, mbuf_size=2176, megabytes=320, args=(), wait=True):
        for path in (p.split("path=")[1].split(",")[0] for p in ports if "server=1" in p):
            # A killed testpmd leaves its socket, and the next one does not replace it.
            if os.path.exists(path):
                os.unlink(path)
        argv = ["stdbuf", "-oL", "dpdk-testpmd", "-l", "0,1", "--main-lcore", "1", "--no-pci", "--no-huge", "--no-shconf",
                "--single-file-segments", "-m", str(megabytes), "--no-telemetry"]
        for i, port in enumerate(ports):
            argv += ["--vdev", "net_virtio_user%d,%s" % (i, port)]
        # A packed ring keeps sent buffers until their slots are needed again: up to five buffers per slot for the
        # longest chains of these tests. With fewer buffers in total, including those of the receive rings, testpmd
        # runs out of them.
        buffers = len(ports) * queues * RING * (1 + 5) + 2048
        argv += ["--", "-i", "--rxq=%d" % queues, "--txq=%d" % queues, "--total-num-mbufs=%d" % buffers, "--mbuf-size=%d" % mbuf_size,
                 "--no-lsc-interrupt", *args]
        self.text = ""
        self.process = lab.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if wait:
            self.wait_prompt(0, "its start", 40)

    def read(self):
        # The output may contain invalid UTF-8, which is ignored.
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            self.text += chunk.decode(errors="replace")

    def wait_prompt(self, start, what, seconds=20):
        lab.wait_until(lambda: self.PROMPT in self.text[start:] or self.process.poll() is not None, "testpmd: " + what, seconds)
        assert self.process.poll() is None, "testpmd ended:\n" + self.text[-3000:]

    def do(self, *commands):
        """Enters commands, one after another; returns the output of the last one."""
        for command in commands:
            start = len(self.text)
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
            self.wait_prompt(start, command)
        return self.text[start:]

    def burst(self, mode, packets, first="", seconds=1):
        """Forwards in this mode until `packets` packets were received or sent, at most for `seconds`; then stops."""
        wanted = self.count() + packets
        self.do("set fwd " + mode, ("start " + first).strip())
        deadline = time.time() + seconds * lab.PATIENCE
        while self.count() < wanted and time.time() < deadline:
            pass
        self.do("stop")

    def count(self):
        """Packets received and sent by all ports since the start."""
        return sum(port["rx"] + port["tx"] for port in self.stats())

    def stats(self):
        """Packets that the guest has received and sent since it started, by port."""
        text = self.do("show port stats all")
        return [{"rx": int(rx), "tx": int(tx)} for rx, tx in
                re.findall(r"RX-packets: (\d+).*?TX-packets: (\d+)", text, re.S)]

    def drain(self):
        """Receives what is left in the rings; returns the statistics when no packets arrive any more."""
        for _ in range(40):
            before = self.count()
            # Repeat as long as packets arrive, since more may follow.
            self.burst("rxonly", 1, seconds=0.1)
            if self.count() == before:
                return self.stats()
        raise AssertionError("packets go on arriving: %s" % self.stats())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30 * lab.PATIENCE)

    def quit(self):
        self.process.stdin.write(b"stop\nquit\n")
        self.process.stdin.flush()
        self.process.wait(20 * lab.PATIENCE)
