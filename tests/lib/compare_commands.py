"""Every command of the stock ovs-vsctl, ovs-ofctl and ovs-appctl, with each OpenFlow version, format and option.

The calls are those of compare_ofctl, compare_vsctl and compare_appctl. A normal run makes one call of each command
that compare_calls does not have, and one for each expected difference; a long run makes all of them (see `calls`). The notation is that of compare_run. The
network is small and without traffic, and time is stopped, so that no reply depends on the time of the call.
"""
import re

from lib import compare_appctl, compare_calls, compare_ofctl, compare_vsctl, lab
from lib.compare_run import PROGRAMS, Call

VERSIONS = ["OpenFlow1%d" % n for n in range(6)]

SETUP = r"""
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure other-config:hwaddr=aa:66:aa:66:00:00 protocols=[OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15]
vsctl add-port br0 p1 -- set interface p1 type=dummy ofport_request=1
vsctl add-port br0 p2 -- set interface p2 type=dummy ofport_request=2 external-ids:lab=two
vsctl add-port br0 p-3 -- set interface p-3 type=dummy ofport_request=3
~ vsctl get interface p1 ofport link_state
appctl time/stop
"""


def plain(table):
    """The lines of a table as calls without standard input."""
    return [(line, None) for line in table.strip().splitlines()]


def texts(versions):
    """All calls except those at the end, as (line, input)."""
    return (plain(SETUP) + compare_ofctl.rows(versions) + plain("\n".join(compare_vsctl.formats()))
            + plain(compare_appctl.CALLS) + compare_appctl.FILES + plain(compare_vsctl.CALLS))


def ends():
    """The last calls: they remove what the others need."""
    return plain(compare_vsctl.END)


def calls(switches, long, expected):
    """The calls for these switches: all of them, or the first call of each command that no other test compares, and the
    first call of each expected difference."""
    if long:
        rows = texts(VERSIONS) + plain("\n".join(compare_appctl.wrong_counts(switches)))
    else:
        rows = plain(SETUP) + first_of_each(expected)
    return [Call(text, given) for text, given in rows + ends()]


def first_of_each(expected):
    """The rows of a normal run, in their order."""
    seen, kept = {command_of(call) for call in compare_calls.calls()}, set()
    for text, given in texts(["OpenFlow13"]):
        command = command_of(Call(text, given or ""))
        if command not in seen and " monitor " not in text and "-t 1 " not in text:
            seen.add(command)
            kept.add((text, given))
    rows = list(dict.fromkeys(texts(VERSIONS)))
    for entry in expected:
        of_entry = [row for row in rows if entry.calls.search(Call(row[0], row[1] or "").text)]
        if of_entry and not entry.long and not kept.intersection(of_entry):
            kept.add(of_entry[0])
    return [row for row in rows if row in kept]


def command_of(call):
    """The tool and the command of a call: the words that are neither options nor their values."""
    takes = {"-O", "-F", "-P", "-t", "-T", "-f", "-d"}
    words = iter(call.args)
    for word in words:
        if word in takes:
            next(words, None)
        elif not word.startswith("-"):
            return call.tool, word
    return call.tool, ""


def commands_of_help(tool):
    """The commands in the stock tool's help."""
    text = lab.sh(PROGRAMS[tool], "--help").partition("Options:")[0].partition("Active ")[0]
    return set(re.findall(r"^ {2}(?:\[--[^\]]*\] )?([a-z][a-z-]+)(?= )", text, re.M))
