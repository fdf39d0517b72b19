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
    """LLDP: reported with row and reason in column error or status, once in the log,
    and by the doctor as a problem, online and offline; until the setting is removed."""
    lab.need_root()
    s = lab.Switch().start()
    br = lab.unique("slb")
    a = lab.Namespace()
    s.add_bridge(br, a.port)
    vsctl_in_silence(s, "set", "Interface", a.port, "lldp:enable=true")
    vsctl_in_silence(s, "set", "bridge", br, "auto_attach=@a", "--", "--id=@a", "create", "AutoAttach", "system_name=x")
    vsctl_in_silence(s, "set", "Open_vSwitch", ".", "other_config:hw-offload=true")
    asked = {"Interface " + a.port: ["lldp:enable"], "Bridge " + br: ["auto_attach"]}

    def error(port):
        return s.vsctl("get", "Interface", port, "error")

    lab.wait_until(lambda: "lldp" in error(a.port), "the error of a port")
    for name in asked["Interface " + a.port]:
        assert name + " has no effect in this version of Sluice: " in error(a.port), (name, error(a.port))
    status = s.vsctl("get", "bridge", br, "status:not_built")
    assert all(name + " has no effect" in status for name in asked["Bridge " + br]), status
    # The ports work nevertheless.
    assert s.vsctl("get", "Interface", a.port, "ofport", "link_state").split() == ["1", "up"]
    log = s.log()
    for row, names in asked.items():
        for name in names:
            assert log.count("|WARN|%s: %s has no effect in this version of Sluice" % (row, name)) == 1, (row, name)

    def check(told):
        for row, names in asked.items():
            for name in names:
                assert sum(t.startswith("%s: %s has no effect" % (row, name)) for t in told) == 1, (row, name, told)
        assert sum(t.startswith("other_config:hw-offload has no effect") for t in told) == 1, told
        # One cause is one finding: the errors of the ports are not reported again.
        assert not any(t.startswith("port ") for t in told), told

    check(problems(s.env))
    s.vsctl("clear", "Interface", a.port, "lldp")
    lab.wait_until(lambda: error(a.port) == "[]\n", "no error is left")
    s.vsctl("set", "Interface", a.port, "lldp:enable=true")
    s.stop()
    check(problems(s.env))


def test_a_database_of_the_stock_switch():
    """Before a migration: the doctor lists the unsupported settings of the host's conf.db, without a running switch."""
    lab.need_root()
    s = lab.Switch(ours=False).start()
    br, tunnel, port = lab.unique("slb"), lab.unique("slv"), lab.Namespace().port
    s.add_bridge(br, port)
    s.vsctl("add-port", br, tunnel, "--", "set", "Interface", tunnel, "type=vxlan", "options:remote_ip=10.9.9.9", "options:psk=x")
    s.vsctl("set", "Interface", port, "lldp:enable=true")
    s.stop()
    code, found = doctor(s.env)
    told = [f["text"] for f in found if f["level"] == "problem"]
    assert code == 1
    assert sum(t.startswith("Interface %s: options:psk has no effect in this version of Sluice: encryption of" % tunnel)
               for t in told) == 1, told
    assert sum("Interface %s: lldp:enable" % port in t for t in told) == 1, told
    # Its other options are not reported.
    assert sum(tunnel in f["text"] for f in found) == 1, found
