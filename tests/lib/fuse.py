"""A FUSE file that never answers one process; the test is its server.

No request of that process is answered until `end`. Requests of other processes are, so that the test and its children
can open and close the file. The mount is in a namespace of two threads of the test, and disappears with them.
"""
import ctypes
import os
import select
import struct
import tempfile
import threading

from lib import lab

LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, RELEASE, FLUSH, INIT, INTERRUPT, POLL = 1, 2, 3, 14, 15, 16, 18, 25, 26, 36, 40
ENOSYS, NEWNS, PRIVATE = 38, 0x20000, 1 << 18 | 1 << 14
ROOT, FILE = 1, 2


def attributes(node, size):
    mode = 0o40755 if node == ROOT else 0o100666
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Unanswered:
    """A file whose requests from process `pid` are not answered. `fd`: the open file; `asked`: those requests, by opcode."""

    def __init__(self, size, pid):
        lab.need_root()
        self.pid, self.size, self.asked, self.fd, self.error = pid, size, [], -1, None
        self.done = threading.Event()
        opener = threading.Thread(target=self.open, daemon=True)
        opener.start()
        opener.join()
        if self.error:
            raise lab.Skip("needs FUSE: %s" % self.error)

    def open(self):
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
            folder = tempfile.mkdtemp(prefix="fuse-")
            options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % self.device
            for call, args in ((libc.unshare, (NEWNS,)), (libc.mount, (None, b"/", None, PRIVATE, None)),
                               (libc.mount, (b"fuse", folder.encode(), b"fuse", 0, options.encode()))):
                if call(*args):
                    raise OSError(ctypes.get_errno(), "mount")
            # The new thread inherits this thread's mount namespace.
            self.server = threading.Thread(target=self.serve, daemon=True)
            self.server.start()
            self.fd = os.open(folder + "/file", os.O_RDWR | os.O_CLOEXEC)
        except OSError as e:
            self.error = e

    def serve(self):
        # Threads of the process have thread IDs of their own in requests.
        theirs = lambda thread: os.path.exists("/proc/%d/task/%d" % (self.pid, thread))
        while not self.done.is_set():
            if not select.select([self.device], [], [], 0.1)[0]:
                continue
            try:
                request = os.read(self.device, 1 << 20)
            except OSError:
                return
            _, opcode, unique, node, _, _, thread, _ = struct.unpack_from("<IIQQIIII", request)
            if opcode in (FORGET, INTERRUPT):
                continue
            if theirs(thread):
                self.asked.append(opcode)
                continue
            error, reply = self.reply(opcode, node)
            os.write(self.device, struct.pack("<IiQ", 16 + len(reply), -error, unique) + reply)

    def reply(self, opcode, node):
        if opcode == INIT:
            return 0, struct.pack("<4I2H2I2H32x", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0)
        if opcode == LOOKUP:
            return 0, struct.pack("<4Q2I", FILE, 0, 3600, 3600, 0, 0) + attributes(FILE, self.size)
        if opcode == GETATTR:
            # Not cacheable, so that other processes send requests, too.
            return 0, struct.pack("<Q2I", 0, 0, 0) + attributes(node, self.size)
        if opcode == OPEN:
            return 0, struct.pack("<QII", 1, 0, 0)
        return (0 if opcode in (FLUSH, RELEASE) else ENOSYS), b""

    def end(self):
        """Fails all waiting requests."""
        os.close(self.fd)
        self.done.set()
        self.server.join()
        os.close(self.device)
