"""os-ken, a controller framework in Python, and its switch tester."""
import json
import os
import re
import subprocess
import sys

from lib import lab, own_network

PORT = 6653
VERDICT = re.compile(r"^ {4}(\S.*?) +(OK|ERROR)$")


def os_ken():
    """A Python with os-ken, in a virtual environment below target/."""
    venv = os.path.join(lab.ROOT, "target", "osken")
    python = os.path.join(venv, "bin", "python3")
    try:
        if not os.access(python, os.X_OK):
            lab.sh(sys.executable, "-m", "venv", venv)
        if subprocess.run([python, "-c", "import os_ken, eventlet"], stderr=subprocess.DEVNULL).returncode:
            lab.sh(*own_network.of_host(python, "-m", "pip", "install", "-q", "os-ken", "eventlet", "setuptools"), timeout=300)
    except (AssertionError, subprocess.TimeoutExpired) as e:
        raise lab.Skip("os-ken cannot be installed from PyPI: %s" % str(e)[:200])
    return python


def tester_files(python):
    """The directory of os-ken's test files."""
    folder = lab.sh(python, "-c", "import os_ken.tests.switch as s; print(list(s.__path__)[0])").strip()
    if not os.path.isdir(os.path.join(folder, "of13")):
        raise lab.Skip("this os-ken brings no files for its switch tester")
    return folder


# Packets per second that the tester can send and count on a busy machine.
RATE = 200


def slower(files, folder):
    """Copies test files, including subdirectories. In files that send faster than RATE, the rates to send, meter and
    expect are divided by 10 or 100."""
    for path, _, names in os.walk(files):
        to = os.path.join(folder, os.path.relpath(path, files))
        os.makedirs(to, exist_ok=True)
        for name in sorted(names):
            with open(os.path.join(path, name)) as f:
                tests = json.load(f)
            while max(sent(tests), default=0) > RATE:
                tests = divided(tests, 10)
            with open(os.path.join(to, name), "w") as f:
                json.dump(tests, f)
    return folder


def sent(tests):
    """The rates at which tests send for a period."""
    if isinstance(tests, dict) and "duration_time" in tests:
        return [tests["pktps"]]
    parts = tests.values() if isinstance(tests, dict) else tests if isinstance(tests, list) else []
    return [rate for part in parts for rate in sent(part)]


def divided(tests, by):
    """The tests with all rates divided."""
    if isinstance(tests, list):
        return [divided(test, by) for test in tests]
    if not isinstance(tests, dict):
        return tests
    return {key: value // by if key in ("pktps", "kbps", "rate") else divided(value, by) for key, value in tests.items()}


class Tester:
    """A run of the tester over the files of a directory, until its results are requested.

    Each run has its own network namespace: a stock switch makes a device `ovs-netdev`, so the second switch in the same
    namespace would never have a bridge, and its tester would wait forever.
    """

    def __init__(self, python, switch, version, files):
        network = switch.network = lab.Network()
        switch.start()
        ends = [(lab.unique("slt"), lab.unique("slt")) for _ in range(3)]
        for target, tester in ends:
            network.run("ip", "link", "add", target, "type", "veth", "peer", "name", tester)
            for end in (target, tester):
                # Only the tester's packets may arrive.
                network.run("sysctl", "-q", "net.ipv6.conf.%s.disable_ipv6=1" % end)
                network.run("ip", "link", "set", end, "up")
        protocols = version.replace("openflow", "OpenFlow")
        for i, name in enumerate(("target", "tester")):
            switch.add_bridge(name)
            switch.vsctl("set", "bridge", name, "fail_mode=secure", "protocols=" + protocols,
                         "other_config:datapath-id=%016x" % (i + 1), "other_config:disable-in-band=true")
            for n, pair in enumerate(ends):
                switch.vsctl("add-port", name, pair[i], "--", "set", "interface", pair[i], "ofport_request=%d" % (n + 1))
        self.out = os.path.join(switch.dir, "tester.log")
        app = os.path.join(lab.ROOT, "tests", "apps", "switch_tester.py")
        with open(self.out, "w") as log:
            self.process = network.spawn(python, app, str(PORT), version, files, stdout=log, stderr=log)
        for name in ("target", "tester"):
            switch.vsctl("set-controller", name, "tcp:127.0.0.1:%d" % PORT)
        lab.wait_until(lambda: sum(": Join " in line for line in self.lines()) == 2, "both bridges at the tester", 30)

    def lines(self):
        """The output of the tester so far."""
        with open(self.out, errors="replace") as f:
            return f.read().splitlines()

    def results(self, seconds):
        """The results by name of file and test: passed, or the reason of the failure."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        passed, failed, file, last = set(), {}, "", None
        lines = self.lines()
        for line in lines:
            verdict = VERDICT.match(line)
            if verdict:
                last = (file, verdict[1])
                if verdict[2] == "OK":
                    passed.add(last)
                else:
                    failed[last] = ""
            elif line.startswith(" " * 8) and last in failed:
                failed[last] = failed[last] or line.strip()
            elif line.strip(".") and not line.startswith(" "):
                file = line
        assert any("Test end" in line for line in lines), "the tester did not finish:\n" + "\n".join(lines[-20:])
        return passed, failed
