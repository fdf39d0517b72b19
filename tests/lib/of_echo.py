"""Measures how long the switch takes to answer echo requests on one OpenFlow connection while other clients keep it busy."""
import socket
import struct
import threading
import time

HELLO, ECHO_REQUEST, ECHO_REPLY, VERSION_15 = 0, 2, 3, 6


class Echoes:
    """A thread that sends an echo request `pause` seconds after each reply, until `longest` is called."""

    def __init__(self, path, pause=0.002):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(60)
        self.buffer, self.pause, self.times = b"", pause, []
        self.socket.sendall(struct.pack("!BBHI", VERSION_15, HELLO, 8, 1))
        while self.message()[1] != HELLO:
            pass
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def message(self):
        while len(self.buffer) < 8 or len(self.buffer) < struct.unpack("!H", self.buffer[2:4])[0]:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the switch closed the connection")
            self.buffer += data
        length = struct.unpack("!H", self.buffer[2:4])[0]
        message, self.buffer = self.buffer[:length], self.buffer[length:]
        return message

    def ask(self):
        while not self.ended.wait(self.pause):
            began = time.time()
            self.socket.sendall(struct.pack("!BBHI", VERSION_15, ECHO_REQUEST, 8, 7))
            while self.message()[1] != ECHO_REPLY:
                pass
            self.times.append(time.time() - began)

    def longest(self):
        """Ends the requests; returns the longest time to a reply in seconds."""
        self.ended.set()
        self.thread.join(60)
        self.socket.close()
        assert len(self.times) > 10, self.times
        return max(self.times)
