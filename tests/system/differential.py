"""Random tables and packets on our switch and the stock one, by testing/differential; see docs/differential.md."""
import os
import re
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

# Each run mostly waits for its switches, so six run in parallel.
RUNS, CASES = 6, 50
# The first cases of the fixed runs. They were chosen from 4,000 cases because they show these expected differences. An expected
# difference that no longer occurs must be removed from the code.
FIXED = (100400, 200050, 300150, 300650, 400300, 400550)
SHOWN = {"trace: action set executed again", "trace: header around a copy", "frames: edits after a packet-in of two tags",
         "frames: lost after a runt", "learned from a partial tag", "megaflow translated again"}
# Other expected differences, each with a case that shows it.
RARE = {"ends: it pushes an Ethernet header onto a packet that has one": 718745276,
        "ends: it recirculates with an action set that is longer than the remaining actions": 718745289,
        "trace: action set in a branch": 718745317}


def ranges(firsts, cases):
    """The options of a run for each range: `cases` cases from `first` on."""
    return [["--seed", str(first), "--cases", str(cases)] for first in firsts]


def compare(options):
    """A run of the tester for each list of options; returns the expected differences that occurred."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovsdb-tool"):
        lab.need(program)
    if not lab.Switch().ours:
        raise lab.Skip("compares our switch")
    subprocess.run(["cargo", "build", "-q", "-p", "differential"], cwd=lab.ROOT, check=True, timeout=600)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(lab.ROOT, "target"))
    # The stock switch here is older than the version whose texts we print, so texts of traces and masks of megaflows
    # are not compared.
    program = [os.path.join(target, "debug", "differential"), "--loose", "--ours", os.path.join(lab.COMPAT, "ovs-vswitchd")]
    runs = [lab.spawn(program + of_run, stdout=subprocess.PIPE, text=True) for of_run in options]
    said = [run.communicate(timeout=600)[0] for run in runs]
    assert all(run.returncode == 0 for run in runs), "\n".join(said)
    return set(re.findall(r"^expected difference: (.*): \d+ \(first: \d+\)$", "\n".join(said), re.M))


def test_fixed_ranges():
    """300 random tables, each with packets traced and sent: equal actions, packets and counters."""
    shown = compare(ranges(FIXED, CASES))
    assert SHOWN <= shown, "no longer different: %s" % sorted(SHOWN - shown)


def test_rare_differences():
    """Cases that show the other expected differences."""
    shown = compare([["--seeds", str(seed)] for seed in RARE.values()])
    assert set(RARE) <= shown, "no longer different: %s" % sorted(set(RARE) - shown)


@lab.one_try
def test_a_fresh_range():
    """The same with 18 new cases each time; the printed seed repeats them."""
    first = lab.seed(10**9)
    print("    testing/differential --loose --seed %d --cases %d" % (first, RUNS * (CASES // 16)), flush=True)
    cases = CASES // 16
    compare(ranges([first + n * cases for n in range(RUNS)], cases))
