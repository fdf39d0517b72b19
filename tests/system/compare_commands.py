"""Every command of the stock tools, by them and by ours, against both switches; TEST_LONG=1: in all forms."""
import os

from lib import compare_commands, compare_known, compare_run, lab
from lib.compare_run import Call

LONG = bool(os.environ.get("TEST_LONG"))


def run(pair, known):
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"):
        lab.need(program)
    switches = pair()
    calls = compare_commands.calls(switches, LONG)
    differences = compare_run.compare(*switches, calls, known)
    bad = [d for d in differences if d.unexplained]
    print("compared %d calls: %d alike, %d with differences that have a reason, %d without" % (
        len(calls), len(calls) - len(differences), len(differences) - len(bad), len(bad)))
    if bad:
        raise AssertionError("%d of %d calls differ (- stock, + ours):\n%s" % (len(bad), len(calls), "\n".join(map(str, bad))))


def test_no_command_is_left_out():
    """What the help of the stock ovs-vsctl and ovs-ofctl lists is in the table."""
    called = {compare_commands.command_of(Call(text, given or ""))
              for text, given in compare_commands.texts(["OpenFlow13"]) + compare_commands.ends()}
    for tool in ("vsctl", "ofctl"):
        commands = compare_commands.commands_of_help(tool)
        assert len(commands) > 30, commands
        missing = sorted(c for c in commands if (tool, c) not in called)
        assert not missing, (tool, missing)


def test_stock_tools():
    """The stock tools get the same answers from our switch as from the stock one."""
    run(compare_run.two_switches, compare_known.KNOWN + compare_known.COMMANDS)


def test_our_tools():
    """Our tools say what the stock ones say, on stock switches."""
    run(compare_run.two_tools, compare_known.TOOLS + compare_known.COMMANDS_OF_TOOLS)


def test_our_tools_with_our_switch():
    """Our tools on our switch say what the stock ones say on the stock switch."""
    def all_ours():
        stock, ours = compare_run.two_switches()
        ours.tools = lab.COMPAT
        return stock, ours

    run(all_ours, compare_known.KNOWN + compare_known.COMMANDS + compare_known.TOOLS + compare_known.COMMANDS_OF_TOOLS)
