"""Every command of the stock tools, with the stock tools and ours, on both switches; TEST_LONG=1: in all forms."""
from lib import compare_commands, compare_run, lab
from lib.compare_run import Call
from lib.expected_differences import COMMANDS, COMMANDS_OF_TOOLS, OURS_TOGETHER, SWITCH, TOOLS

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def run(pair, expected):
    for program in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"):
        lab.need(program)
    switches = pair()
    calls = compare_commands.calls(switches, compare_run.LONG, expected)
    compare_run.run(switches, calls, expected)


def test_no_command_is_left_out():
    """The table has all commands in the help of the stock ovs-vsctl and ovs-ofctl."""
    called = {compare_commands.command_of(Call(text, given or ""))
              for text, given in compare_commands.texts(["OpenFlow13"]) + compare_commands.ends()}
    for tool in ("vsctl", "ofctl"):
        commands = compare_commands.commands_of_help(tool)
        assert len(commands) > 30, commands
        missing = sorted(c for c in commands if (tool, c) not in called)
        assert not missing, (tool, missing)


def test_stock_tools():
    """The stock tools get the same replies from our switch as from the stock one."""
    run(compare_run.two_switches, SWITCH + COMMANDS)


def test_our_tools():
    """Our tools print the same as the stock ones, on stock switches."""
    run(compare_run.two_tools, TOOLS + COMMANDS_OF_TOOLS)


def test_our_tools_with_our_switch():
    """Our tools on our switch print the same as the stock tools on the stock switch."""
    def all_ours():
        stock, ours = compare_run.two_switches()
        ours.tools = lab.COMPAT
        return stock, ours

    run(all_ours, SWITCH + COMMANDS + TOOLS + COMMANDS_OF_TOOLS + OURS_TOGETHER)
