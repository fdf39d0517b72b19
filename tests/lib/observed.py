"""A switch that serves metrics and the web page."""
import json
import subprocess
import urllib.request

from lib import lab

# The flow that drops packets.
DROPPED = "priority=10,icmp,nw_dst=10.0.0.9,actions=drop"


class Switch(lab.Switch):
    """A switch with two namespaces that ping each other, which serves metrics by TCP, too."""

    def __init__(self):
        super().__init__(database="embedded")
        self.start()
        self.socket = self.dir + "/sluiced.metrics.sock"
        self.url = "http://127.0.0.1:%d" % lab.free_port()
        self.a, self.b = lab.Namespace("10.0.0.1/24"), lab.Namespace("10.0.0.2/24")
        # Nothing has this address; packets to it are dropped.
        self.a.run("ip", "neigh", "add", "10.0.0.9", "lladdr", "02:00:00:00:00:09", "dev", "eth0")
        self.add_bridge("br0", self.a.port, self.b.port)
        self.ofctl("add-flow", "br0", DROPPED)
        self.listen(self.url[7:])
        lab.wait_until(lambda: "metrics and the web page are at" in self.log(), "the switch listens")

    def listen(self, address):
        self.vsctl("set", "open_vswitch", ".", 'other_config:metrics-listen="%s"' % address)

    def ping(self, address="10.0.0.2", interval=0.05):
        return self.a.spawn("ping", "-q", "-i", str(interval), address, stdout=subprocess.DEVNULL)

    def get(self, path, accept="*/*"):
        request = urllib.request.Request(self.url + path, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=20 * lab.PATIENCE) as answer:
            return answer.read().decode()

    def json(self, path):
        return json.loads(self.get(path))

    def value(self, name, **labels):
        """The value of a sample, from the JSON of the metrics server."""
        family = self.json("/api/metrics?name=" + name)["metrics"].get(name, {"labels": [], "samples": []})
        fits = [v for ls, v in family["samples"] if all(dict(zip(family["labels"], ls))[k] == v2 for k, v2 in labels.items())]
        assert len(fits) == 1, (name, labels, family)
        return fits[0]


def answer(connection):
    """All that a server sends until it closes the connection."""
    data = b""
    while chunk := connection.recv(65536):
        data += chunk
    return data
