"""The stock clients get the same answers from our switch as from the stock one, but for differences listed with a reason."""
from lib import compare_calls, compare_known, compare_run, lab


def run(database, known=compare_known.KNOWN):
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovsdb-client"):
        lab.need(program)
    stock, ours = compare_run.two_switches(database) if database else compare_run.two_tools()
    calls = compare_calls.calls()
    assert len(calls) >= 130, len(calls)
    differences = compare_run.compare(stock, ours, calls, known)
    bad = [d for d in differences if d.unexplained]
    print("compared %d calls: %d alike, %d with differences that have a reason, %d without" % (
        len(calls), len(calls) - len(differences), len(differences) - len(bad), len(bad)))
    if bad:
        raise AssertionError("%d of %d calls differ from the stock switch (- stock, + ours):\n%s" % (
            len(bad), len(calls), "\n".join(map(str, bad))))


def test_calls_with_the_stock_database():
    """Each call of the table, our switch as a client of the stock ovsdb-server."""
    run("stock")


def test_calls_with_our_database():
    """Each call of the table, against the switch that serves its own database."""
    if not lab.Switch().ours:
        raise lab.Skip("the stock switch has no database of its own")
    run("embedded")


def test_our_tools_with_the_stock_switch():
    """Each call of the table, our tools beside the stock ones, on stock switches."""
    run(None, compare_known.TOOLS)
