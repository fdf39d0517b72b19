"""Live migration of a guest in QEMU to another QEMU, and the data that the guest receives meanwhile.

The guest writes its memory all the time, and QEMU gets little bandwidth, so the migration cannot complete before the test allows it. Until then
each page was transferred at least once. What the switch writes into guest memory after that reaches the destination only if the switch
marks it in the log of written pages (`VHOST_USER_PROTOCOL_F_LOG_SHMFD`).
"""
import hashlib
import random
import signal
import subprocess
import sys

from lib import lab

# The bandwidth in bytes per second while the migration is held back. The guest writes 16 MB again and again.
BANDWIDTH = 32 << 20
WRITER = ("while ! test -e /tmp/end; do for n in 0 2 4 6 8 10 12 14; do "
          "busybox dd if=/bin/busybox of=/tmp/written bs=1M seek=$n conv=notrunc 2> /tmp/dd; done; done")

# Sends data from standard input to a guest, and ends when all was acknowledged.
SENDER = """
import array, fcntl, socket, sys, termios, time
for _ in range(100):
    s = socket.socket()
    if s.connect_ex(("%s", %d)) == 0:
        break
    time.sleep(0.1)
while data := sys.stdin.buffer.read1():
    s.sendall(data)
left = array.array("i", [1])
while left[0]:
    fcntl.ioctl(s, termios.TIOCOUTQ, left)
    time.sleep(0.01)
"""


class Transfer:
    """A TCP connection from a network to a port of a guest, which computes the data's checksum. If `kept`, the guest leaves the data in its
    socket until the end, so the data stay where the switch wrote them."""

    def __init__(self, network, guest, address, port, kept):
        self.port, self.sum = port, hashlib.sha256()
        first = "(while ! test -e /tmp/end%d; do sleep 0.1; done; busybox sha256sum)" % port if kept else "busybox sha256sum"
        guest.begin("busybox nc -l -p %d < /dev/null | %s > /tmp/sum%d" % (port, first, port))
        self.process = network.spawn(sys.executable, "-c", SENDER % (address, port), stdin=subprocess.PIPE)

    def send(self, data):
        self.sum.update(data)
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self):
        """Ends the connection after all data was acknowledged."""
        self.process.stdin.close()
        assert self.process.wait(60 * lab.PATIENCE) == 0

    def check(self, guest):
        """Checks that the guest has received the data that were sent."""
        guest.do("echo > /tmp/end%d" % self.port)
        lab.wait_until(lambda: " -" in guest.do("cat /tmp/sum%d" % self.port), "the guest's checksum", 30)
        assert self.sum.hexdigest() in guest.do("cat /tmp/sum%d" % self.port), "the guest has received other data"


class Migration:
    """Migrates `guest`, at `address`, to the QEMU `destination`, under traffic from `network`.

    `stopped`: for how many seconds QEMU stopped the guest.
    """

    KEPT, STEP = 1 << 20, 1 << 16

    def __init__(self, guest, destination, network, address):
        self.guest, self.destination, self.network, self.address = guest, destination, network, address
        self.random = random.Random(5)

    def state(self):
        return self.guest.qmp.execute("query-migrate")

    def begin(self):
        """Starts the migration, and waits until each page was transferred once."""
        # The socket of the kept data must have space for them.
        self.guest.do("echo '4096 4194304 8388608' > /proc/sys/net/ipv4/tcp_rmem; cd /tmp")
        self.stream = Transfer(self.network, self.guest, self.address, 7001, kept=False)
        self.kept = Transfer(self.network, self.guest, self.address, 7002, kept=True)
        self.guest.begin(WRITER)
        uri = "unix:%s/migration" % self.guest.folder
        self.destination.qmp.execute("migrate-incoming", uri=uri)
        self.guest.qmp.execute("migrate-set-parameters", max_bandwidth=BANDWIDTH, downtime_limit=1)
        self.guest.qmp.execute("migrate", uri=uri)
        lab.wait_until(lambda: self.state().get("ram", {}).get("dirty-sync-count", 0) > 1, "each page was transferred", 60)

    def complete(self):
        """Sends data to the guest, which it keeps; then lets the migration complete, while more data are sent."""
        self.kept.send(self.random.randbytes(self.KEPT))
        self.kept.end()
        self.stream.send(self.random.randbytes(self.STEP))
        assert self.state()["status"] == "active", self.state()
        self.guest.qmp.execute("migrate-set-parameters", max_bandwidth=1 << 40, downtime_limit=300)

        def ended():
            self.stream.send(self.random.randbytes(self.STEP))
            return self.state()["status"] in ("completed", "failed", "cancelled")
        lab.wait_until(ended, "the end of the migration", 60)
        assert self.state()["status"] == "completed", self.state()
        lab.wait_until(lambda: self.destination.qmp.execute("query-status")["running"], "the guest runs")
        self.stopped = self.state()["downtime"] / 1000
        self.guest.process.send_signal(signal.SIGKILL)

    def check(self):
        """Checks the data that the guest has received."""
        self.stream.end()
        self.destination.do("echo > /tmp/end")
        for transfer in self.stream, self.kept:
            transfer.check(self.destination)
