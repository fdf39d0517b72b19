"""One list of calls of the stock clients against two switches, and what differs in their answers.

A call is a line of text: the tool, then its arguments as a shell would split them, with `$DB` for the database's remote,
`$DIR` for the run directory and `$FILE` for a file with the call's input. Options of the table stand before the tool:

    ~         the answer settles: while the two differ both are asked again, up to three seconds
    ?         only the exit status counts
    sorted    the order of the lines carries no meaning
    blocks    the order of the ports' blocks of lines carries no meaning
    flood     the order in which a flood reaches the ports carries no meaning
    /RE/      only lines that match count (RE without blanks; \\s stands for one)

The answer is exit status, standard output and standard error, normalised: what no two runs share is replaced by its name.
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
SETTLE = 3.0

# What differs between two runs of one and the same switch. Order matters: the first are the most specific.
RULES = [(re.compile(pattern, re.M), replacement) for pattern, replacement in [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\|\d+\|", "<time>|"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "<time>"),
    (r"\bxid=0x[0-9a-f]+", "xid=<xid>"),
    (r"duration=[0-9.]+s", "duration=<t>s"),
    (r"duration_sec=\d+|duration_nsec=\d+", "duration=<t>"),
    (r"\bidle_age=\d+, |\bhard_age=\d+, ", ""),
    (r"used:[0-9.]+s", "used:<t>s"),
    # Dummies are numbered as they are opened, which the stock switch does again for a device that it failed to add.
    (r"0000aa55aa55[0-9a-f]{4}|aa:55:aa:55(:[0-9a-f]{2}){2}", "<mac>"),
    (r"(\bp[ab]\): addr:)[0-9a-f:]{17}", r"\1<random>"),
    (r"\brecirc_id=[1-9]\d*", "recirc_id=<id>"),
    (r"recirc_id\((0x[1-9a-f][0-9a-f]*)\)", "recirc_id(<id>)"),
    (r"\brecirc\(0x[0-9a-f]+\)", "recirc(<id>)"),
    (r"\(Open vSwitch\) [0-9.]+\S*", "(Open vSwitch) <version>"),
    (r"^Software: [0-9.]+\S*", "Software: <version>"),
    (r"^DB Schema [0-9.]+", "DB Schema <version>"),
    # Which of these a client sees depends on who is first to close.
    (r"\((Broken pipe|Protocol error|Connection reset by peer)\)", "(<disconnected>)"),
    (r"\btime=[0-9.]+ ms", "time=<t> ms"),
    (r"\bpid \d+", "pid <pid>"),
]]

def sort_outputs(actions, tag):
    """Sorts the actions by what they are, each output with the VLAN tag (of `tag` at first) that packets have there."""
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
    """One row of a table of calls."""

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
        """(exit status, output, errors) as the client gives them."""
        r = subprocess.run(self.argv(switch), capture_output=True, text=True, errors="replace", timeout=30, env=switch.env,
                           input=self.stdin or "")
        return r.returncode, r.stdout, r.stderr

    def answer(self, switch):
        """The normalised answer, as lines."""
        status, out, err = self.raw(switch)
        lines = ["exit status %d" % status]
        if "?" in self.options:
            return lines
        lines += self.select(normalise(self.rewrite(out), switch))
        # Complaints about options name the program as it was called.
        err = err.replace(switch.tools + "/", "") if switch.tools else err
        lines += ["stderr: " + line for line in normalise(self.rewrite(err), switch).splitlines()]
        return lines

    def rewrite(self, text):
        for rule in REWRITES:
            if rule.calls.search(self.text):
                text = rule.pattern.sub(rule.replacement, text)
        return text

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
    """Takes out of `text` what belongs to this run and not to this program."""
    text = text.replace(switch.dir, "<rundir>").replace(switch.name + ".ctl", "<daemon>.ctl")
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


class Rewrite:
    """A difference that is meant and that shows in many calls: rewritten on both sides before they are compared."""

    def __init__(self, calls, pattern, replacement, reason):
        self.calls, self.pattern = re.compile(calls), re.compile(pattern, re.M)
        self.replacement, self.reason = replacement, reason


REWRITES = [
    Rewrite("^ovs-appctl", r"(?<=[^\n])ovs-appctl: (?=\S+: server returned)", "\novs-appctl: ",
            "since 3.3 it is the client, no longer the daemon, that ends an error's text with a newline; the client here is 3.1"),
]


class Difference:
    """A call whose answers differ: the lines of a diff (`-` stock, `+` ours), and those that no expectation covers."""

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
STATUS = re.compile(r"^[-+]exit status \d+$")
# Lines that say nothing: a pattern that finds one of them would cover any difference.
ANYTHING = [sign + start + "\uffff" for sign in "-+" for start in ("", " ", "stderr: ", "exit status ")]


class Expected:
    """A difference that is meant: of which calls, in which lines of the diff (with their sign), and why.

    Both are regular expressions, and no line pattern may match just anything. An exit status is never covered by a pattern:
    where it differs, `statuses` says exactly what the two are. An entry that covers nothing in a run that makes such calls
    fails the run (`long`: fails a long run, which alone has the calls that differ).
    """

    def __init__(self, calls, lines, reason, statuses=None, long=False):
        self.calls, self.pattern, self.reason = re.compile(calls), re.compile(lines), reason
        self.statuses, self.long = statuses, long
        self.called = self.used = False
        assert not any(self.pattern.search(line) for line in ANYTHING), "%r matches any line" % lines
        assert not any(self.calls.search(call) for call in ("\uffff", "ovs-\uffff")), "%r matches any call" % calls

    def uncovered(self, call, stock, ours, lines):
        """Those of the lines of a call's diff that are not expected."""
        if not self.calls.search(call):
            return lines
        statuses_as_said = self.statuses == (status(stock), status(ours))
        return [line for line in lines if not (statuses_as_said if STATUS.match(line) else self.pattern.search(line))]

    def is_stale(self):
        """Whether such calls were made, and none of them differed in this way."""
        return self.called and not self.used and (LONG or not self.long)


# The pattern of an entry that is not about lines.
NO_LINE = r"(?!)"


class Refused(Expected):
    """A command that we do not have yet: our whole answer is that it is none, whatever the stock one is."""

    ANSWER = re.compile(r'exit status 2\nstderr: "\S+" is not a valid command.*\nstderr: ovs-appctl: \S+: server returned an error')

    def __init__(self, calls, reason):
        super().__init__(calls, NO_LINE, reason)

    def uncovered(self, call, stock, ours, lines):
        if self.calls.search(call) and self.ANSWER.fullmatch("\n".join(ours)):
            return []
        return lines


def status(answer):
    """The exit status in an answer."""
    return int(answer[0].rpartition(" ")[2])


def begin(expected):
    """Forgets what earlier runs found of these entries."""
    for entry in expected:
        entry.called = entry.used = False


def stale(expected):
    """A line for each entry whose calls were made since `begin`, and whose difference was not there."""
    return ["no longer different: %s (%s)" % (e.calls.pattern, e.reason) for e in expected if e.is_stale()]


def compare(stock, ours, calls, expected):
    """Runs every call against both switches, in step; returns the differences."""
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
    """Compares every call on a pair of switches; fails when a difference is not expected, or an expected difference is not there."""
    begin(expected)
    differences = compare(*switches, calls, expected)
    bad = [d for d in differences if d.unexplained]
    print("compared %d calls: %d alike, %d differ as expected, %d otherwise" % (
        len(calls), len(calls) - len(differences), len(differences) - len(bad), len(bad)))
    if bad or stale(expected):
        raise AssertionError("\n".join(["%d of %d calls differ (- stock, + ours):" % (len(bad), len(calls)), *map(str, bad),
                                        *stale(expected)]))


def alive(after, *switches):
    """Fails when a daemon or a database server has ended: nothing after that would mean anything."""
    for switch in switches:
        for process in (switch.daemon, switch.db):
            if process is not None and process.poll() is not None:
                raise AssertionError("%s ended (%s) after: %s" % (process.args[0], process.returncode, after))


def two_switches(database="stock", ours=None, args=("--enable-dummy=override", "--disable-system")):
    """The stock switch and ours; unless told otherwise with dummy devices only."""
    stock = lab.Switch(ours=False, args=args, datapath_type="dummy").start()
    other = (ours or lab.Switch)(args=args, datapath_type="dummy", database=database).start()
    return stock, other


def two_tools():
    """Two stock switches, the second to be spoken to with our tools."""
    stock, other = two_switches(ours=lambda **kw: lab.Switch(ours=False, **kw))
    other.tools = lab.COMPAT
    return stock, other
