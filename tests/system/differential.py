"""Random tables and packets through our switch and the stock one: testing/differential does the work, and docs/differential.md tells of it."""
import os
import random
import re
import subprocess

from lib import lab

# Each run waits for its switches most of the time, so six run side by side.
RUNS, CASES = 6, 50
FIXED = 20001
# Expected differences that cases of the fixed range show. One that no longer shows is an entry to remove.
SHOWN = {"trace: action set executed again", "trace: header around a copy"}


def compare(first, cases):
    """Runs cases from `first` on; the expected differences that they showed."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovsdb-tool"):
        lab.need(program)
    if not lab.Switch().ours:
        raise lab.Skip("compares our switch")
    subprocess.run(["cargo", "build", "-q", "-p", "differential"], cwd=lab.ROOT, check=True, timeout=600)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(lab.ROOT, "target"))
    # The stock switch here is of an older version than the text we speak, so the words of traces and the width of megaflows do not count.
    runs = [lab.spawn([os.path.join(target, "debug", "differential"), "--loose", "--seed", str(first + n * cases), "--cases", str(cases),
                       "--ours", os.path.join(lab.COMPAT, "ovs-vswitchd")], stdout=subprocess.PIPE, text=True)
            for n in range(RUNS)]
    said = [run.communicate(timeout=600)[0] for run in runs]
    assert all(run.returncode == 0 for run in runs), "\n".join(said)
    return set(re.findall(r"^expected difference: (.*): \d+$", "\n".join(said), re.M))


def test_a_fixed_range():
    """300 random tables in a row, each with packets traced and sent: the same actions, packets and counters."""
    shown = compare(FIXED, CASES)
    assert SHOWN <= shown, "no longer different: %s" % sorted(SHOWN - shown)


@lab.one_try
def test_a_fresh_range():
    """The same with 60 cases that no run before had; the seed is printed, and repeats them."""
    first = random.SystemRandom().randrange(10**9)
    print("    testing/differential --loose --seed %d --cases %d" % (first, RUNS * CASES // 5), flush=True)
    compare(first, CASES // 5)
