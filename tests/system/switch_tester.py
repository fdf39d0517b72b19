"""os-ken's switch tester: matches, actions, groups and meters, tested from outside.

Two bridges of one switch are linked by three veth pairs; one sends packets through the other and examines the packets
that return. The tests are JSON files of os-ken. The short form runs a few of them that every switch must pass. The
long form (TEST_LONG=1, an hour or more; TEST_DIRS=of13/meter,... for some) runs all of them, on our switch and then
on the stock one: ours must pass each test that the stock one passes. Rates that the tester cannot reach are divided
by 10 or 100, for sending, metering and checking.
"""
import os
import shutil
import tempfile

from lib import lab
from lib.osken import Tester, os_ken, slower, tester_files

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

# Each takes a second or two.
SHORT = ["match/00_IN_PORT", "action/00_OUTPUT", "action/17_PUSH_VLAN"]
ALL = ["of10/match", "of10/action", "of13/match", "of13/action", "of13/group", "of13/meter",
       "of14/match", "of14/action", "of14/group", "of14/meter"]


def test_switch_tester_in_short():
    """os-ken's switch tester passes some matches and actions of OpenFlow 1.3 and 1.4."""
    lab.need_root()
    python = os_ken()
    folder = tempfile.mkdtemp(prefix="sluice-tester-")
    try:
        for version in ("13", "14"):
            files = os.path.join(folder, version)
            os.mkdir(files)
            for name in SHORT:
                shutil.copy("%s/of%s/%s.json" % (tester_files(python), version, name), files)
            # The tester waits three seconds for a reply, which a busy machine may exceed; a test that fails may run
            # once more.
            for _ in range(2):
                run = Tester(python, lab.Switch(ours=True), "openflow" + version, files)
                passed, failed = run.results(60)
                if not failed:
                    break
            assert passed and not failed, failed
    finally:
        shutil.rmtree(folder)


def test_switch_tester_beside_the_stock_switch():
    """Ours passes each test of all files that the stock switch passes."""
    if not os.environ.get("TEST_LONG"):
        raise lab.Skip("long: TEST_LONG=1")
    lab.need_root()
    python = os_ken()
    worse = []
    folder = tempfile.mkdtemp(prefix="sluice-tester-")
    try:
        for name in os.environ.get("TEST_DIRS", ",".join(ALL)).split(","):
            files = os.path.join(folder, name)
            os.makedirs(files)
            slower(os.path.join(tester_files(python), name), files)
            version = name.split("/")[0].replace("of", "openflow")
            runs = [Tester(python, lab.Switch(ours=ours), version, files) for ours in (True, False)]
            (ours, our_misses), (theirs, their_misses) = [run.results(3600) for run in runs]
            print("%-12s passed %d of %d; the stock switch %d of %d" %
                  (name, len(ours), len(ours) + len(our_misses), len(theirs), len(theirs) + len(their_misses)), flush=True)
            here = ["%s: %s: %s: %s" % (name, *missed, our_misses.get(missed, "not run")) for missed in sorted(theirs - ours)]
            print("".join("  " + line + "\n" for line in here), end="", flush=True)
            worse += here
    finally:
        shutil.rmtree(folder)
    assert not worse, "\n".join(worse)
