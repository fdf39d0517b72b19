"""A real controller framework (os-ken) drives the switch."""
import os
import subprocess
import sys
import time

from lib import lab


def os_ken():
    """A Python that has os-ken, in an environment of our own below target/."""
    venv = os.path.join(lab.ROOT, "target", "osken")
    python = os.path.join(venv, "bin", "python3")
    try:
        if not os.access(python, os.X_OK):
            lab.sh(sys.executable, "-m", "venv", venv)
        if subprocess.run([python, "-c", "import os_ken"], stderr=subprocess.DEVNULL).returncode:
            lab.sh(python, "-m", "pip", "install", "-q", "os-ken", "setuptools", timeout=300)
    except (AssertionError, subprocess.TimeoutExpired) as e:
        raise lab.Skip("os-ken cannot be installed from PyPI: %s" % str(e)[:200])
    return python


def test_os_ken_learning_switch():
    """An L2-learning application on OpenFlow 1.3 makes two namespaces ping, and leaves flows behind."""
    python = os_ken()
    s = lab.Switch().start()
    a, b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
    s.add_bridge("br0", a.port, b.port)
    s.vsctl("set-fail-mode", "br0", "secure")
    out = a.run("ping", "-c", "1", "-W", "1", "10.1.1.2", check=False)
    assert "100% packet loss" in out, "it forwards before the controller is there"
    port = 20000 + os.getpid() % 20000
    app = os.path.join(lab.ROOT, "tests", "apps", "l2_learning.py")
    with open(s.dir + "/osken.log", "w") as log:
        lab.spawn([python, app, str(port)], stdout=log, stderr=log)
    s.vsctl("set", "bridge", "br0", "protocols=OpenFlow10,OpenFlow13", "--",
            "set-controller", "br0", "tcp:127.0.0.1:%d" % port)
    lab.wait_until(lambda: "true" in s.vsctl("get", "controller", "br0", "is_connected"), "the controller connects", 20)
    time.sleep(0.5)
    out = a.run("ping", "-c", "5", "-i", "0.2", "-W", "2", "10.1.1.2", check=False)
    assert " 0% packet loss" in out, out
    dump = s.ofctl("-O", "OpenFlow13", "dump-flows", "br0")
    assert dump.count("priority=10") >= 2, dump
