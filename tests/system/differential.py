"""A short round of random tables and packets through our switch and the stock one (testing/differential does the work)."""
import os
import subprocess

from lib import lab

SEED, CASES = 20001, 300
# Each run waits for its switches most of the time.
RUNS = 6


def test_random_tables_and_packets():
    """Random tables, each with packets traced and sent: the same actions, packets and counters as the stock switch's."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovsdb-tool"):
        lab.need(program)
    if not lab.Switch().ours:
        raise lab.Skip("compares our switch")
    subprocess.run(["cargo", "build", "-q", "-p", "differential"], cwd=lab.ROOT, check=True, timeout=600)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(lab.ROOT, "target"))
    # The stock switch here is of an older version than the text we speak, so the words of traces and the width of megaflows do not count.
    each = CASES // RUNS
    runs = [lab.spawn([os.path.join(target, "debug", "differential"), "--loose", "--seed", str(SEED + i * each), "--cases", str(each),
                       "--ours", os.path.join(lab.COMPAT, "ovs-vswitchd")], stdout=subprocess.PIPE, text=True)
            for i in range(RUNS)]
    said = [run.communicate(timeout=600)[0] for run in runs]
    assert all(run.returncode == 0 for run in runs), "\n".join(said)
