"""Invalid inputs of every kind: the same kind of error as from the stock switch, and no other effect."""
import difflib

from lib import compare_openflow, compare_run, compare_wrong, lab
from lib.compare_run import Call
from lib.expected_differences import SWITCH

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

STATE_QUERIES = [Call(text) for text in [
    "ofctl -O OpenFlow13 --no-stats --sort dump-flows br0",
    "vsctl list-br -- list-ports br0 -- get interface p1 ofport type mtu -- get interface p2 ofport type mtu",
]]
SET_UP = """vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure other-config:hwaddr=aa:66:aa:66:00:00 \
 protocols=[OpenFlow10,OpenFlow13]
vsctl add-port br0 p1 -- set interface p1 type=dummy ofport_request=1
vsctl add-port br0 p2 -- set interface p2 type=dummy ofport_request=2""".splitlines() + compare_wrong.FLOWS_OF_BR0


class Comparison:
    """Two switches with the same small network, the number of inputs that were checked, and the differences that were found."""

    def __init__(self, database="stock", args=("--enable-dummy=override", "--disable-system")):
        for program in ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"):
            lab.need(program)
        self.switches = compare_run.two_switches(database, args=args)
        for text in SET_UP:
            for switch in self.switches:
                status, out, err = Call(text).raw(switch)
                assert status == 0, "%s: %s%s" % (text, out, err)
        self.before = [self.bridge_state(switch) for switch in self.switches]
        self.rows, self.bad = 0, []
        compare_run.begin(SWITCH)

    def bridge_state(self, switch):
        return [line for call in STATE_QUERIES for line in call.answer(switch)]

    def check(self, name, answers):
        """Compares the two replies to one invalid input, and checks that nothing else changed."""
        self.rows += 1
        compare_run.alive(name, *self.switches)
        if answers[0] != answers[1]:
            self.bad.append("%s\n    stock: %s\n    ours:  %s" % (name, *answers))
        for i, name_of in enumerate(("the stock switch", "our switch")):
            now = self.bridge_state(self.switches[i])
            if now != self.before[i]:
                self.bad.append("%s\n    changed %s:\n        %s" % (name, name_of, "\n        ".join(
                    line for line in difflib.unified_diff(self.before[i], now, n=0, lineterm="") if line[:2] not in ("--", "++"))))
                self.before[i] = now

    def each(self, rows, answer):
        for name, data in rows:
            self.check(name, [answer(switch, data) for switch in self.switches])

    def each_call(self, rows):
        for name, calls, undo in rows:
            differences = compare_run.compare(*self.switches, [Call(c) for c in calls], SWITCH)
            bad = [str(d) for d in differences if d.unexplained]
            for text in undo:
                for switch in self.switches:
                    Call(text).raw(switch)
            self.check(name, ["", "\n".join(bad)])

    def finish(self, least):
        assert self.rows >= least, self.rows
        self.bad += compare_run.stale(SWITCH)
        print("%d wrong inputs, %d not answered as by the stock switch" % (self.rows, len(self.bad)))
        if self.bad:
            raise AssertionError("%d findings over %d wrong inputs:\n%s" % (len(self.bad), self.rows, "\n".join(self.bad)))


def test_openflow_messages():
    """Invalid OpenFlow 1.0 and 1.3 messages: the same error type and code, and the same effect on the connection."""
    comparison = Comparison()

    def ask(version):
        return lambda switch, data: compare_openflow.answer(switch.dir + "/br0.mgmt", version, data)

    comparison.each(compare_openflow.of10(), ask(compare_openflow.OF10))
    comparison.each(compare_openflow.of13(), ask(compare_openflow.OF13))
    comparison.each(compare_openflow.HELLOS, lambda switch, data: compare_openflow.answer(
        switch.dir + "/br0.mgmt", compare_openflow.OF10, b"", hello=data))
    comparison.finish(90)


def test_flows_and_commands():
    """Invalid flows through ovs-ofctl and invalid commands through ovs-appctl: the same text."""
    comparison = Comparison()
    comparison.each_call(compare_wrong.FLOWS + compare_wrong.COMMANDS)
    comparison.finish(45)


def test_configuration():
    """Invalid ports, bridges and controllers: the same error in the database."""
    comparison = Comparison()
    comparison.each_call(compare_wrong.CONFIGURATION)
    comparison.finish(25)


def test_devices():
    """Missing devices and devices with invalid names: the same text in Interface.error."""
    lab.need_root()
    comparison = Comparison(args=["--enable-dummy", "--disable-system"])
    comparison.each_call(compare_wrong.DEVICES)
    comparison.finish(4)


def test_database():
    """Invalid JSON, requests and transactions to our own database server: the same errors as from the stock one."""
    comparison = Comparison(database="embedded" if lab.Switch().ours else "stock")
    comparison.each(compare_wrong.DATABASE, compare_wrong.database_answer)
    stock, ours = comparison.switches
    for name, data, expected in compare_wrong.ANSWERED_OTHERWISE if ours.database == "embedded" else ():
        comparison.check(name, [expected, compare_wrong.database_answer(ours, data)])
        if compare_wrong.database_answer(stock, data) == expected:
            comparison.bad.append("%s\n    no longer different" % name)
    comparison.finish(45)
