"""Makes the same calls of the stock clients on two switches, and compares the replies.

A call is a line of text: the tool, then its arguments as a shell would split them, with `$DB` for the database's remote,
`$DIR` for the run directory and `$FILE` for a file with the call's input. Options of the table stand before the tool:

    ~         while the replies differ, both switches are asked again, for up to three seconds
    ?         only the exit status counts
    sorted    the order of lines is ignored
    blocks    the order of the ports' blocks of lines is ignored
    flood     the order in which a flood reaches the ports is ignored
    /RE/      only lines that match are compared (RE without blanks; \\s stands for one)

A reply is exit status, standard output and standard error. It is normalised: values that differ between any two runs
are replaced by their names.
"""
import difflib
import os
import re
import shlex
import subprocess
import time

from lib import lab

PROGRAMS = {"vsctl": "ovs-vsctl", "ofctl": "ovs-ofctl", "appctl": "ovs-appctl", "db": "ovsdb-client"}
OPTIONS = {"~", "?", "sorted", "blocks", "flood"}
# Seconds for which a call with option `~` is repeated.
SETTLE = 3.0

# Values that differ between two runs of the same switch. The order matters: the most specific patterns come first.
RULES = [(re.compile(pattern, re.M), replacement) for pattern, replacement in [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\|\d+\|", "<time>|"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "<time>"),
    (r"\bxid=0x[0-9a-f]+", "xid=<xid>"),
    (r"duration=[0-9.]+s", "duration=<t>s"),
    (r"duration_sec=\d+|duration_nsec=\d+", "duration=<t>"),
    (r"\bidle_age=\d+, |\bhard_age=\d+, ", ""),
    (r"used:[0-9.]+s", "used:<t>s"),
    # Dummy devices get consecutive addresses when they are opened. The stock switch opens a device again after it failed to add it.
    (r"0000aa55aa55[0-9a-f]{4}|aa:55:aa:55(:[0-9a-f]{2}){2}", "<mac>"),
    (r"(\bp[ab]\): addr:)[0-9a-f:]{17}", r"\1<random>"),
    (r"\brecirc_id=[1-9]\d*", "recirc_id=<id>"),
    (r"recirc_id\((0x[1-9a-f][0-9a-f]*)\)", "recirc_id(<id>)"),
    (r"\brecirc\(0x[0-9a-f]+\)", "recirc(<id>)"),
    (r"\(Open vSwitch\) [0-9.]+\S*", "(Open vSwitch) <version>"),
    (r"^Software: [0-9.]+\S*", "Software: <version>"),
    (r"^DB Schema [0-9.]+", "DB Schema <version>"),
    # Which of these errors a client gets depends on which side closes first.
    (r"\((Broken pipe|Protocol error|Connection reset by peer)\)", "(<disconnected>)"),
    (r"\btime=[0-9.]+ ms", "time=<t> ms"),
    (r"\bpid \d+", "pid <pid>"),
]]

def sort_outputs(actions, tag):
    """Sorts the actions by kind; each output gets the VLAN tag (initially `tag`) that packets have there."""
    parts, depth = [""], 0
    for c in actions:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    now, out = tag, []
    for part in (p.strip() for p in parts):
        pushed = re.match(r"push_vlan\(vid=(\d+)", part)
        if part == "pop_vlan":
            now = None
        elif pushed:
            now = pushed.group(1)
        else:
            out.append("%s with %s" % (part, "tag " + now if now else "no tag"))
    return "actions: " + ", ".join(sorted(out))


class Call:
    """One line of a table of calls."""

    def __init__(self, text, stdin=None):
        self.options, self.keep, self.stdin = set(), None, stdin
        while True:
            word, _, rest = text.partition(" ")
            if word in PROGRAMS:
                break
            if word.startswith("/"):
                self.keep = re.compile(word[1:-1] if word.endswith("/") else word[1:])
            elif word in OPTIONS:
                self.options.add(word)
            else:
                raise ValueError("what is %r in %r?" % (word, text))
            text = rest
        self.tool, self.args = word, shlex.split(rest)
        self.text = PROGRAMS[word] + " " + rest

    def argv(self, switch):
        db = "unix:%s/db.sock" % switch.dir
        file = switch.dir + "/input"
        if "$FILE" in self.args:
            with open(file, "w") as f:
                f.write(self.stdin)
        args = [a.replace("$DB", db).replace("$DIR", switch.dir).replace("$FILE", file) for a in self.args]
        return [os.path.join(switch.tools, PROGRAMS[self.tool])] + {
            "vsctl": ["--timeout=10", "--db=" + db],
            "ofctl": ["--timeout=10"],
            "appctl": ["-T", "10", "-t", "%s/%s.ctl" % (switch.dir, switch.name)],
            "db": ["--timeout=10"],
        }[self.tool] + args

    def raw(self, switch):
        """(exit status, output, errors) of the client."""
        r = subprocess.run(self.argv(switch), capture_output=True, text=True, errors="replace", timeout=30, env=switch.env,
                           input=self.stdin or "")
        return r.returncode, r.stdout, r.stderr

    def answer(self, switch):
        """The normalised reply, as lines."""
        status, out, err = self.raw(switch)
        lines = ["exit status %d" % status]
        if "?" in self.options:
            return lines
        lines += self.select(normalise(out, switch))
        # Error messages about options begin with the path by which the program was called.
        err = err.replace(switch.tools + "/", "") if switch.tools else err
        lines += ["stderr: " + line for line in normalise(err, switch).splitlines()]
        return lines

    def flood(self, line):
        before, word, actions = line.partition("actions:")
        tag = re.search(r"\bvlan\(vid=(\d+)|dl_vlan=(\d+)", before + self.text)
        return before + sort_outputs(actions, tag and (tag.group(1) or tag.group(2))) if word else line

    def select(self, text):
        if "flood" in self.options:
            text = "\n".join(self.flood(line) for line in text.splitlines())
        lines = [line.rstrip() for line in text.splitlines()]
        if self.keep:
            lines = [line for line in lines if self.keep.search(line)]
        if "blocks" in self.options:
            blocks = re.split(r"^(?=  port )", "\n".join(lines), flags=re.M)
            lines = "\n".join(block.rstrip("\n") for block in blocks[:1] + sorted(blocks[1:])).split("\n")
        return sorted(lines) if "sorted" in self.options else lines


def normalise(text, switch):
    """Replaces values in `text` that are specific to this run by their names."""
    text = text.replace(switch.dir, "<rundir>").replace(switch.name + ".ctl", "<daemon>.ctl")
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


class Difference:
    """A call with different replies: the lines of a diff (`-` stock, `+` ours), and the lines that no entry expects."""

    def __init__(self, call, stock, ours, expected):
        self.call = call
        self.lines = [line for line in difflib.unified_diff(stock, ours, n=1, lineterm="")
                      if not line.startswith(("---", "+++", "@@"))]
        changed = [line for line in self.lines if line[0] in "+-"]
        self.reasons, self.unexplained = [], changed
        for entry in expected:
            if entry.uncovered(call.text, stock, ours, changed) != changed:
                entry.used = True
                self.reasons.append(entry.reason)
                self.unexplained = entry.uncovered(call.text, stock, ours, self.unexplained)

    def __str__(self):
        return "\n".join([self.call.text] + ["    " + line for line in self.lines]
                         + ["    because: " + r for r in self.reasons])


LONG = bool(os.environ.get("TEST_LONG"))
# A negative status is the signal that ended the program.
STATUS = re.compile(r"^[-+]exit status -?\d+$")
# Lines without content: a pattern that matches one of them would cover any difference.
ANYTHING = [sign + start + "\uffff" for sign in "-+" for start in ("", " ", "stderr: ", "exit status ")]


class Entry:
    """An expected difference: the calls whose replies have it (a regular expression), and the reason.

    An entry that covers nothing in a run with such calls fails the run. `long`: only the calls of a long run differ.
    """

    def __init__(self, calls, reason, long=False):
        self.calls, self.reason, self.long = re.compile(calls), reason, long
        self.called = self.used = False
        assert not any(self.calls.search(call) for call in ("\uffff", "ovs-\uffff")), "%r matches any call" % calls

    def uncovered(self, call, stock, ours, lines):
        """The lines of a call's diff that are not expected."""
        return lines

    def is_stale(self):
        """Whether such calls were made, and none of them differed in this way."""
        return self.called and not self.used and (LONG or not self.long)


class Expected(Entry):
    """A difference in some lines: a regular expression of the lines of the diff (with their sign).

    A pattern that matches every line is refused. An exit status is never covered by a pattern: if it differs, `statuses`
    gives both values.
    """

    def __init__(self, calls, lines, reason, statuses=None, long=False):
        super().__init__(calls, reason, long)
        self.pattern, self.statuses = re.compile(lines), statuses
        assert not any(self.pattern.search(line) for line in ANYTHING), "%r matches any line" % lines

    def uncovered(self, call, stock, ours, lines):
        if not self.calls.search(call):
            return lines
        statuses_as_said = self.statuses == (status(stock), status(ours))
        return [line for line in lines if not (statuses_as_said if STATUS.match(line) else self.pattern.search(line))]


# The line pattern of an entry that covers an exit status only.
NO_LINE = r"(?!)"


def status(answer):
    """The exit status in a reply."""
    return int(answer[0].rpartition(" ")[2])


def begin(expected):
    """Resets the results of earlier runs in these entries."""
    for entry in expected:
        entry.called = entry.used = False


def stale(expected):
    """A line for each entry whose calls were made since `begin` without the expected difference."""
    return ["no longer different: %s (%s)" % (e.calls.pattern, e.reason) for e in expected if e.is_stale()]


def compare(stock, ours, calls, expected):
    """Makes every call on both switches, in parallel steps; returns the differences."""
    differences = []
    for call in calls:
        wanted, got = call.answer(stock), call.answer(ours)
        deadline = time.time() + SETTLE
        while "~" in call.options and wanted != got and time.time() < deadline:
            time.sleep(0.1)
            wanted, got = call.answer(stock), call.answer(ours)
        alive(call.text, stock, ours)
        for entry in expected:
            entry.called |= bool(entry.calls.search(call.text))
        if wanted != got:
            differences.append(Difference(call, wanted, got, expected))
    return differences


def run(switches, calls, expected):
    """Compares every call on a pair of switches. Fails on an unexpected difference, or if an expected one is missing."""
    begin(expected)
    differences = compare(*switches, calls, expected)
    bad = [d for d in differences if d.unexplained]
    print("compared %d calls: %d alike, %d differ as expected, %d otherwise" % (
        len(calls), len(calls) - len(differences), len(differences) - len(bad), len(bad)))
    if bad or stale(expected):
        raise AssertionError("\n".join(["%d of %d calls differ (- stock, + ours):" % (len(bad), len(calls)), *map(str, bad),
                                        *stale(expected)]))


def alive(after, *switches):
    """Fails if a daemon or a database server has ended: later results would be meaningless."""
    for switch in switches:
        for process in (switch.daemon, switch.db):
            if process is not None and process.poll() is not None:
                raise AssertionError("%s ended (%s) after: %s" % (process.args[0], process.returncode, after))


def two_switches(database="stock", ours=None, args=("--enable-dummy=override", "--disable-system")):
    """The stock switch and ours; by default with dummy devices only."""
    stock = lab.Switch(ours=False, args=args, datapath_type="dummy").start()
    other = (ours or lab.Switch)(args=args, datapath_type="dummy", database=database).start()
    return stock, other


def two_tools():
    """Two stock switches; the second one is used with our tools."""
    stock, other = two_switches(ours=lambda **kw: lab.Switch(ours=False, **kw))
    other.tools = lab.COMPAT
    return stock, other
