"""A client of QEMU's control protocol (QMP) on a Unix socket."""
import json
import socket

from lib import lab


class Qmp:
    """A connection. `events`: the names of all events that QEMU has reported, in order."""

    def __init__(self, path):
        self.socket, self.events = socket.socket(socket.AF_UNIX), []
        lab.wait_until(lambda: self.socket.connect_ex(path) == 0, "QEMU's control socket", 30)
        self.socket.settimeout(60 * lab.PATIENCE)
        self.lines = self.socket.makefile()
        self.receive()
        self.execute("qmp_capabilities")

    def receive(self):
        line = self.lines.readline()
        assert line, "QEMU closed its control socket"
        message = json.loads(line)
        if "event" in message:
            self.events.append(message["event"])
        return message

    def execute(self, command, **arguments):
        """Executes a command and returns its result. `_` in the name of an argument stands for `-`."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.socket.sendall(json.dumps({"execute": command, "arguments": named}).encode())
        while "event" in (answer := self.receive()):
            pass
        assert "return" in answer, "%s: %s" % (command, answer["error"]["desc"])
        return answer["return"]
