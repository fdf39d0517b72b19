"""The stock clients get the same replies from our switch as from the stock one, except for expected differences."""
from lib import compare_calls, compare_run, expected_differences, lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def run(database, expected=expected_differences.SWITCH):
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovsdb-client"):
        lab.need(program)
    switches = compare_run.two_switches(database) if database else compare_run.two_tools()
    calls = compare_calls.calls()
    assert len(calls) >= 130, len(calls)
    compare_run.run(switches, calls, expected)


def test_calls_with_the_stock_database():
    """All calls, with our switch as a client of the stock ovsdb-server."""
    run("stock")


def test_calls_with_our_database():
    """All calls, with our switch serving its own database."""
    if not lab.Switch().ours:
        raise lab.Skip("the stock switch has no database of its own")
    run("embedded", expected_differences.SWITCH + expected_differences.OWN_DATABASE)


def test_our_tools_with_the_stock_switch():
    """All calls, by our tools and by the stock ones, on stock switches."""
    run(None, expected_differences.TOOLS)
