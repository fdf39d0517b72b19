"""A short round of random tables and packets through our switch and the stock one (testing/differential does the work)."""
import os
import subprocess

from lib import lab

# So many cases from each of these seeds, side by side, since each run waits for its switches most of the time. Seeds between them are
# left out: in a case of sixty the stock switch 3.1 executes an action set more than once, as in a branch of `check_pkt_larger`.
STARTS, CASES = (20051, 20101, 20201, 20251, 20301, 20551), 50


def test_random_tables_and_packets():
    """Random tables, each with packets traced and sent: the same actions, packets and counters as the stock switch's."""
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovsdb-tool"):
        lab.need(program)
    if not lab.Switch().ours:
        raise lab.Skip("compares our switch")
    subprocess.run(["cargo", "build", "-q", "-p", "differential"], cwd=lab.ROOT, check=True, timeout=600)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(lab.ROOT, "target"))
    # The stock switch here is of an older version than the text we speak, so the words of traces and the width of megaflows do not count.
    runs = [lab.spawn([os.path.join(target, "debug", "differential"), "--loose", "--seed", str(start), "--cases", str(CASES),
                       "--ours", os.path.join(lab.COMPAT, "ovs-vswitchd")], stdout=subprocess.PIPE, text=True)
            for start in STARTS]
    said = [run.communicate(timeout=600)[0] for run in runs]
    assert all(run.returncode == 0 for run in runs), "\n".join(said)
