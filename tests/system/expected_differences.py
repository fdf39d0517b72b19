"""The rules for expected differences (lib/compare_run.py) hold: no switch is started here."""
from lib import compare_calls, compare_commands, compare_run, compare_wrong, expected_differences
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


def test_every_entry_has_a_call():
    """No entry is left over after its calls were removed from the tables."""
    wrong = compare_wrong.CONFIGURATION + compare_wrong.DEVICES + compare_wrong.FLOWS + compare_wrong.COMMANDS
    rows = [(call, None) for _, calls, _ in wrong for call in calls]
    rows += compare_commands.texts(compare_commands.VERSIONS) + compare_commands.ends()
    calls = [call.text for call in compare_calls.calls() + [Call(text, given or "") for text, given in rows]]
    lists = [value for value in vars(expected_differences).values() if isinstance(value, list)]
    entries = [entry for entries in lists for entry in entries if not entry.long]
    assert len(entries) > 10, entries
    left_over = [entry.calls.pattern for entry in entries if not any(entry.calls.search(call) for call in calls)]
    assert not left_over, "no such calls: %s" % left_over


def test_other_lines_and_exit_statuses_stay_unexplained():
    """An entry covers its lines only, and an exit status only if it gives both values."""
    call, stock, ours = Call("vsctl show"), ["exit status 0", "x", "y"], ["exit status 1"]
    line = Expected("^ovs-vsctl show$", "^-x$", "a reason")
    assert Difference(call, stock, ours, [line]).unexplained == ["-exit status 0", "-y", "+exit status 1"]
    killed = Difference(call, ["exit status -14", "x"], ["exit status 0"], [Expected("^ovs-vsctl show$", "^-(x|exit status -14)$", "a reason")])
    assert killed.unexplained == ["-exit status -14", "+exit status 0"]
    both = Expected("^ovs-vsctl show$", "^-[xy]$", "a reason", statuses=(0, 1))
    assert Difference(call, stock, ours, [both]).unexplained == []
    other = Expected("^ovs-vsctl show$", "^-[xy]$", "a reason", statuses=(0, 2))
    assert Difference(call, stock, ours, [other]).unexplained == ["-exit status 0", "+exit status 1"]
