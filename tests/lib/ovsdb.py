"""A minimal client of a database server: JSON over a socket, one request at a time."""
import json
import socket

from lib import lab


class Refused(Exception):
    """The server replied with an error."""


class Client:
    """A connection; raises ConnectionError when it is closed."""

    def __init__(self, address, timeout=30):
        """`address` is the path of a Unix socket or (host, port)."""
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(timeout)
        # The server's backlog may be full for a moment.
        lab.wait_until(self.connects(address), "the server accepts the connection", timeout)
        self.text, self.last_id, self.notified = "", 0, []

    def connects(self, address):
        def attempt():
            try:
                self.socket.connect(address)
                return True
            except BlockingIOError:
                return False
        return attempt

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, method, params):
        self.last_id += 1
        self.socket.sendall(json.dumps({"method": method, "params": params, "id": self.last_id}).encode())
        return self.last_id

    def receive(self):
        """The next message."""
        while True:
            if self.text:
                try:
                    message, end = json.JSONDecoder().raw_decode(self.text)
                    self.text = self.text[end:].lstrip()
                    return message
                except json.JSONDecodeError:
                    pass
            got = self.socket.recv(1 << 20)
            if not got:
                raise ConnectionError("the server hung up")
            self.text += got.decode()

    def answer(self, wanted):
        """The result of request `wanted`; notifications before it are kept in `notified`."""
        while True:
            message = self.receive()
            if message.get("method") == "echo":
                self.socket.sendall(json.dumps({"result": message["params"], "error": None, "id": message["id"]}).encode())
            elif message.get("method") is not None:
                self.notified.append(message)
            elif message["id"] == wanted:
                if message["error"] is not None:
                    raise Refused(message["error"])
                return message["result"]

    def call(self, method, *params):
        return self.answer(self.send(method, list(params)))

    def transact(self, database, *operations):
        """The results; raises the first error among them."""
        results = self.call("transact", database, *operations)
        for result in results:
            if result and result.get("error"):
                raise Refused(result)
        return results


class Server:
    """`ovsdb-server`, ours or another one, with files that it does not delete."""

    def __init__(self, directory, files, binary=None, args=()):
        self.dir, self.files, self.args = directory, files, list(args)
        self.binary = binary or lab.COMPAT + "/ovsdb-server"
        self.sock, self.control = directory + "/db.sock", directory + "/db.ctl"
        self.process = None

    def start(self):
        self.process = lab.spawn([self.binary, *self.files, "--remote=punix:" + self.sock, "--unixctl=" + self.control,
                                  "-vconsole:off", "--log-file=%s/server.log" % self.dir, *self.args])
        lab.wait_until(lambda: self.process.poll() is not None or lab.listens(self.sock), "the database server")
        assert self.process.poll() is None, "the server ended at once"
        return self

    def client(self, **kw):
        return Client(self.sock, **kw)

    def ask(self, command, *args):
        """Sends a control command like `ovs-appctl`."""
        with Client(self.control) as control:
            return control.call(command, *args)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.ask("exit")
        assert self.process.wait(10) == 0
