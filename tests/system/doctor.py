"""`sluice doctor`: which switch it examines, its findings about values, and that an empty result is not mistaken for
health."""
import json
import os
import shutil
import signal
import subprocess

from lib import lab

SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")


def ask(env, *args):
    """Exit status, and findings by subject."""
    r = subprocess.run([SLUICE, "doctor", "--json", *args], env=env, capture_output=True, text=True, timeout=60)
    findings = json.loads(r.stdout)["findings"]
    # No finding is reported twice.
    texts = [f["text"] for f in findings]
    assert len(set(texts)) == len(texts), texts
    return r.returncode, {f["subject"]: f for f in findings}


def test_no_findings_without_a_switch_are_no_good_news():
    """No configuration, no switch, no bridge, no answer: each is a finding, and affects the exit status."""
    nothing = lab.scratch()
    env = dict(os.environ, OVS_RUNDIR=nothing, OVS_DBDIR=nothing)
    code, found = ask(env)
    assert code == 1 and {"no-configuration", "no-switch"} <= set(found), found
    assert nothing in found["no-switch"]["text"]
    s = lab.Switch().start()
    code, found = ask(s.env)
    assert code == 1 and "no-bridge" in found and "no-switch" not in found, found
    br = lab.unique("slb")
    s.add_bridge(br)
    code, found = ask(s.env)
    assert code == 0 and not {"no-bridge", "no-switch", "no-answer", "no-configuration"} & set(found), found
    s.daemon.send_signal(signal.SIGSTOP)
    try:
        code, found = ask(s.env)
    finally:
        s.daemon.send_signal(signal.SIGCONT)
    assert code == 1 and "process %d" % s.daemon.pid in found["no-answer"]["text"], found
    s.kill_daemon()
    # Its pid file still exists.
    code, found = ask(s.env)
    assert code == 1 and "no-switch" in found, found
    s.stop()
    code, found = ask(s.env, "--db=" + s.dir + "/conf.db")
    assert "no-configuration" not in found and "no-bridge" not in found, found


def test_the_switch_of_the_run_directory():
    """Open vSwitch in another run directory is ignored; in this one it is a problem."""
    lab.need_root()
    ours, stock = lab.Switch().start(), lab.Switch(ours=False).start()
    br = lab.unique("slb")
    ours.add_bridge(br)
    code, found = ask(ours.env)
    assert "ovs-vswitchd" not in found and str(stock.daemon.pid) not in str(found), found
    code, found = ask(stock.env)
    assert code == 1 and "process %d" % stock.daemon.pid in found["ovs-vswitchd"]["text"], found


def test_values_that_the_switch_does_not_take():
    """Values that the daemon ignores or truncates are reported, each with a command that removes it and works."""
    s = lab.Switch().start()
    br = lab.unique("slb")
    s.add_bridge(br)
    for key, value in (("pmd-rxq-assign", "foo"), ("pmd-sleep-max", "99999999"), ("pmd-latency-target", "soon"),
                       ("megaflow-memory", "much"), ("max-idle", "3")):
        s.vsctl("set", "open_vswitch", ".", "other_config:%s=%s" % (key, value))
        code, found = ask(s.env)
        [finding] = [f for f in found.values() if "other_config:%s=%s" % (key, value) in f["text"]]
        assert code == 1 and finding["level"] == "warning", finding
        command = finding["fix"].split()
        lab.sh(SLUICE, *command[1:], env=s.env)
        assert ask(s.env)[0] == 0, (key, value)
    assert s.log().count("pmd-sleep-max: '99999999' is more than the maximum of 10000 microseconds; the maximum is used") == 1
    s.vsctl("set", "Interface", br, "other_config:pmd-rxq-affinity=all")
    _, found = ask(s.env)
    assert any("pmd-rxq-affinity=all" in f["text"] for f in found.values()), found
    if os.path.exists("/usr/sbin/update-grub"):
        assert "grubby" not in str(found), found


def test_a_user_who_may_not_ask():
    """Another user gets "access denied", not "the switch is stuck"."""
    lab.need_root()
    s = lab.Switch().start()
    s.add_bridge(lab.unique("slb"))
    os.chmod(s.dir, 0o755)
    # The checkout may not be accessible for other users, but the program's copy is.
    program = os.path.join(s.dir, "sluice")
    shutil.copy(SLUICE, program)
    r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "doctor"],
                       env=s.env, capture_output=True, text=True, timeout=60)
    assert r.returncode == 1 and "[no-access]" in r.stdout and "sudo sluice doctor" in r.stdout, r
    assert "kill" not in r.stdout, r.stdout
