"""The rules for expected differences (lib/compare_run.py) hold: no switch is started here."""
from lib import compare_run
from lib.compare_run import Call, Difference, Expected

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def refused(calls, lines):
    """Whether an entry with these patterns is refused."""
    try:
        Expected(calls, lines, "a reason")
    except AssertionError:
        return True
    return False


def test_patterns_that_match_anything_are_refused():
    """An entry must say which calls and which lines differ."""
    for lines in (".", "^[-+]", "", "^-", r"^\+stderr: ", ".*", r"^[-+]exit status \d*"):
        assert refused("^ovs-vsctl show$", lines), lines
    for calls in (".", "", "^ovs-"):
        assert refused(calls, "^-x$"), calls
    assert not refused("^ovs-vsctl show$", "^-x$")


def test_entries_without_a_difference_fail_the_run():
    """An entry fails the run if its calls were made and none of them differed in this way."""
    call, entry = Call("vsctl show"), Expected("^ovs-vsctl show$", "^-x$", "a reason")
    compare_run.begin([entry])
    assert compare_run.stale([entry]) == [], "no such call was made"
    entry.called = True
    assert compare_run.stale([entry]) == ["no longer different: ^ovs-vsctl show$ (a reason)"]
    assert Difference(call, ["exit status 0", "x"], ["exit status 0"], [entry]).unexplained == []
    assert compare_run.stale([entry]) == []


def test_other_lines_and_exit_statuses_stay_unexplained():
    """An entry covers its lines only, and an exit status only if it gives both values."""
    call, stock, ours = Call("vsctl show"), ["exit status 0", "x", "y"], ["exit status 1"]
    line = Expected("^ovs-vsctl show$", "^-x$", "a reason")
    assert Difference(call, stock, ours, [line]).unexplained == ["-exit status 0", "-y", "+exit status 1"]
    both = Expected("^ovs-vsctl show$", "^-[xy]$", "a reason", statuses=(0, 1))
    assert Difference(call, stock, ours, [both]).unexplained == []
    other = Expected("^ovs-vsctl show$", "^-[xy]$", "a reason", statuses=(0, 2))
    assert Difference(call, stock, ours, [other]).unexplained == ["-exit status 0", "+exit status 1"]
