"""A real controller framework (os-ken) controls the switch."""
import os

from lib import lab
from lib.osken import os_ken


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
