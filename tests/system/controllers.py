"""A real controller framework (os-ken) controls the switch."""
import os
import re

from lib import lab
from lib.osken import os_ken

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def learning_switch(version, header_version, tls):
    """A learning application: two namespaces can ping each other, and flows are installed."""
    python = os_ken()
    s = lab.Switch().start()
    a, b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
    s.add_bridge("br0", a.port, b.port)
    s.vsctl("set-fail-mode", "br0", "secure")
    out = a.run("ping", "-c", "1", "-W", "1", "10.1.1.2", check=False)
    assert "100% packet loss" in out, "it forwards before the controller is there"
    port = 20000 + os.getpid() % 20000
    app = os.path.join(lab.ROOT, "tests", "apps", "l2_learning.py")
    files = []
    if tls:
        pki = lab.Pki(s.dir)
        files = pki.files("controller")
        s.vsctl("set-ssl", *pki.files("switch"))
    with open(s.dir + "/osken.log", "w") as log:
        lab.spawn([python, app, str(port), str(header_version), *files], stdout=log, stderr=log)
    s.vsctl("set", "bridge", "br0", "protocols=OpenFlow10," + version, "--",
            "set-controller", "br0", "%s:127.0.0.1:%d" % ("ssl" if tls else "tcp", port))
    lab.wait_until(lambda: "true" in s.vsctl("get", "controller", "br0", "is_connected"), "the controller connects", 20)
    # The table-miss flow exists once features are exchanged.
    lab.wait_until(lambda: "CONTROLLER" in s.ofctl("-O", version, "dump-flows", "br0"), "the controller's first flow")
    # The first ping may still fail because of the earlier failed neighbour look-up.
    ping = ["ping", "-c", "1", "-W", "1", "10.1.1.2"]
    lab.wait_until(lambda: " 0% packet loss" in a.run(*ping, check=False), "the neighbour is found")
    out = a.run("ping", "-c", "5", "-i", "0.2", "-W", "2", "10.1.1.2", check=False)
    assert " 0% packet loss" in out, out
    dump = s.ofctl("-O", version, "dump-flows", "br0")
    assert dump.count("priority=10") >= 2, dump


def test_os_ken_learning_switch():
    """An L2-learning application on OpenFlow 1.3."""
    learning_switch("OpenFlow13", 4, tls=False)


def test_os_ken_over_tls():
    """The same over TLS, each end with a certificate of a common authority."""
    learning_switch("OpenFlow13", 4, tls=True)


def test_os_ken_openflow_14_over_tls():
    """The same on OpenFlow 1.4."""
    learning_switch("OpenFlow14", 5, tls=True)


def test_os_ken_openflow_15_over_tls():
    """The same on OpenFlow 1.5."""
    learning_switch("OpenFlow15", 6, tls=True)


LISTENER = """
import socket
s = socket.create_server(('10.9.0.2', 6653))
kept = []
while True:
    kept.append(s.accept())
"""


def in_band_flows(ours):
    """Makes a bridge that has the host's address, and a controller that is reached through the bridge. Only the flows of in-band control
    let the controller's packets pass; returns these flows."""
    host, far = lab.Network(), lab.Network()
    s = lab.Switch(ours=ours)
    s.network = host
    s.start()
    port = lab.unique("slp")
    lab.sh("ip", "link", "add", port, "netns", host.name, "type", "veth", "peer", "name", "eth0", "netns", far.name)
    host.run("ip", "link", "set", port, "up")
    far.run("ip", "link", "set", "eth0", "address", "02:00:00:00:00:02", "up")
    far.run("ip", "address", "add", "10.9.0.2/24", "dev", "eth0")
    far.spawn("python3", "-c", LISTENER)
    s.add_bridge("br0", port)
    s.vsctl("set", "bridge", "br0", "fail_mode=secure", "other_config:hwaddr=02:00:00:00:00:01")
    host.run("ip", "address", "add", "10.9.0.1/24", "dev", "br0")
    host.run("ip", "link", "set", "br0", "up")
    connect = "import socket; socket.create_connection(('10.9.0.2', 6653), 1); print('there')"
    s.vsctl("set-controller", "br0", "tcp:10.9.0.2:6653")

    def flows():
        dump = s.appctl("bridge/dump-flows", "br0")
        return sorted(re.sub(r"duration=\S+ |n_packets=\d+, |n_bytes=\d+, ", "", line).strip()
                      for line in dump.splitlines() if "priority=18" in line)
    # The flows of the next hop come when the kernel knows its address.
    lab.wait_until(lambda: len(flows()) == 9, "nine hidden flows")
    if ours:
        lab.wait_until(lambda: "there" in host.run("python3", "-c", connect, check=False), "a connection")
        assert "100% packet loss" in host.run("ping", "-c", "1", "-W", "1", "10.9.0.2", check=False), "other packets pass"
        assert "priority" not in s.ofctl("dump-flows", "br0")
    found = flows()
    s.vsctl("set", "controller", "br0", "connection_mode=out-of-band")
    lab.wait_until(lambda: not flows(), "no hidden flow")
    return found


def test_a_controller_is_reached_through_its_own_bridge():
    """In-band control: the same hidden flows as in the stock switch, and the controller is reached by them alone."""
    ours = in_band_flows(True)
    if lab.Switch().ours:
        assert ours == in_band_flows(False), ours
