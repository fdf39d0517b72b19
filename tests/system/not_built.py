"""Settings without effect are reported: in the rows, in the log, by the doctor with and without a daemon."""
import json
import os
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")


def doctor(env, *args):
    """Exit status and findings of `sluice doctor`."""
    r = subprocess.run([SLUICE, "doctor", "--json", *args], env=env, capture_output=True, text=True, timeout=60)
    return r.returncode, json.loads(r.stdout)["findings"]


def problems(env, *args):
    return [f["text"] for f in doctor(env, *args)[1] if f["level"] == "problem"]


def vsctl_in_silence(s, *args):
    """Runs ovs-vsctl, which must succeed without a message, as in Open vSwitch."""
    r = subprocess.run(["ovs-vsctl", "--timeout=%d" % (20 * lab.PATIENCE), "--db=unix:%s/db.sock" % s.dir, *args],
                       capture_output=True, text=True, env=s.env)
    assert (r.returncode, r.stderr) == (0, ""), (args, r)


def test_settings_that_ask_in_vain():
    """Encryption of a tunnel, and hardware offload: reported with row and reason in the column error, once in the log,
    and by the doctor as a problem, online and offline; until the setting is removed."""
    lab.need_root()
    s = lab.Switch().start()
    br, tunnel = lab.unique("slb"), lab.unique("slv")
    s.add_bridge(br)
    vsctl_in_silence(s, "add-port", br, tunnel, "--", "set", "Interface", tunnel, "type=vxlan", "options:remote_ip=10.9.9.9",
                     "options:psk=secret")
    vsctl_in_silence(s, "set", "Open_vSwitch", ".", "other_config:hw-offload=true")
    report = "options:psk has no effect in this version of Sluice"

    def error():
        return s.vsctl("get", "Interface", tunnel, "error")

    lab.wait_until(lambda: report + ": " in error(), "the error of a port")
    # The port works nevertheless.
    assert s.vsctl("get", "Interface", tunnel, "ofport").strip() == "1"
    assert s.log().count("|WARN|Interface %s: %s" % (tunnel, report)) == 1

    def check(problem_texts):
        assert sum(t.startswith("Interface %s: %s" % (tunnel, report)) for t in problem_texts) == 1, problem_texts
        assert sum(t.startswith("other_config:hw-offload has no effect") for t in problem_texts) == 1, problem_texts
        # One cause is one finding: the errors of the ports are not reported again.
        assert not any(t.startswith("port ") for t in problem_texts), problem_texts

    check(problems(s.env))
    s.vsctl("remove", "Interface", tunnel, "options", "psk")
    lab.wait_until(lambda: error() == "[]\n", "no error is left")
    s.vsctl("set", "Interface", tunnel, "options:psk=secret")
    s.stop()
    check(problems(s.env))


def test_a_database_of_the_stock_switch():
    """Before a migration: the doctor lists the unsupported settings of the host's conf.db, without a running switch."""
    lab.need_root()
    s = lab.Switch(ours=False).start()
    br, tunnel, port = lab.unique("slb"), lab.unique("slv"), lab.Namespace().port
    s.add_bridge(br, port)
    s.vsctl("add-port", br, tunnel, "--", "set", "Interface", tunnel, "type=vxlan", "options:remote_ip=10.9.9.9", "options:psk=x")
    s.vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=true")
    s.stop()
    code, found = doctor(s.env)
    problem_texts = [f["text"] for f in found if f["level"] == "problem"]
    assert code == 1
    assert sum(t.startswith("Interface %s: options:psk has no effect in this version of Sluice: encryption of" % tunnel)
               for t in problem_texts) == 1, problem_texts
    assert sum("hw-offload has no effect" in t for t in problem_texts) == 1, problem_texts
    # Its other options are not reported.
    assert sum(tunnel in f["text"] for f in found) == 1, found
