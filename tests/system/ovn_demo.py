"""`make ovn`: the demonstration works, and `make stop` removes all of it."""
import os
import re
import subprocess

from lib import lab


def test_the_demonstration():
    """scripts/ovn starts three chassis, and each kind of traffic has the wanted result; `stop` leaves no process and no
    namespace."""
    lab.need_root()
    for program in ("ovn-northd", "ovn-controller", "busybox", "iperf3", "jq"):
        lab.need(program)
    prefix, directory = lab.unique("slo") + "-", lab.scratch() + "/ovn"
    env = dict(os.environ, OVN_DEMO_DIR=directory, OVN_DEMO_PREFIX=prefix, OVN_DEMO_SECONDS="1")
    script = lab.ROOT + "/scripts/ovn"
    try:
        r = subprocess.run([script], env=env, capture_output=True, text=True, timeout=120 * lab.PATIENCE)
        assert r.returncode == 0, r.stdout + r.stderr
        assert r.stdout.count("3 of 3 answered") == 4 and r.stdout.count(" web1 web2\n") == 2 and "Gbit/s" in r.stdout, r.stdout
        for chassis in ("hv1", "hv2", "gw"):
            with open("%s/%s/sluiced.log" % (directory, chassis)) as f:
                # A tool may end when it has its answer, while the server writes it the next update.
                left = re.compile(r"\|reconnect\|WARN\|unix#\d+: connection dropped \(Broken pipe\)$")
                wrong = [line for line in f if ("|WARN|" in line or "|ERR|" in line) and not left.search(line)]
            assert not wrong, wrong
    finally:
        lab.sh(script, "stop", env=env)
    assert prefix not in lab.sh("ip", "netns", "list") and not os.path.exists(directory)
    assert not subprocess.run(["pgrep", "-f", directory], capture_output=True, text=True).stdout
