"""The tools over TLS: to a database, to a switch, and listening for connections."""
import os
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

DATABASE, SWITCH, CALLED = (21000 + os.getpid() % 10000 + 10000 * n for n in range(3))


def tool(switch, *args, check=True):
    return lab.sh(os.path.join(lab.ROOT, "target", "release", "sluice"), *args, env=switch.env, check=check, timeout=20)


def test_tools_over_tls():
    """`vsctl`, `db` and `ofctl` on ssl: and pssl:, with the stock database server and the switch."""
    s = lab.Switch()
    pki, stranger = lab.Pki(s.dir), lab.Pki(s.dir, "other")
    s.start()
    ovsdb = s.dir + "/ovsdb.ctl"
    s.vsctl("set-ssl", *pki.files("switch"))
    s.db.terminate()
    s.db.wait(10)
    s.db = lab.spawn(["ovsdb-server", s.dir + "/conf.db", "--remote=punix:%s/db.sock" % s.dir, "--unixctl=" + ovsdb,
                      "--remote=pssl:%d:127.0.0.1" % DATABASE, "-vconsole:off", *pki.options("switch")], env=s.env)
    lab.wait_until(lambda: lab.listens(s.dir + "/db.sock"), "the database server")
    db, us = "ssl:127.0.0.1:%d" % DATABASE, pki.options("client")
    tool(s, "vsctl", "--db=" + db, *us, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "--",
         "set-controller", "br0", "pssl:%d:127.0.0.1" % SWITCH)
    assert tool(s, "vsctl", "--db=" + db, *us, "list-br") == "br0\n"
    at = "ssl:127.0.0.1:%d" % SWITCH
    lab.wait_until(lambda: "LOCAL(br0)" in tool(s, "ofctl", *us, "show", at, check=False), "the switch listens")
    tool(s, "ofctl", *us, "add-flow", at, "priority=7,actions=drop")
    assert "priority=7 actions=drop" in tool(s, "ofctl", *us, "dump-flows", at)
    # The authority is learned from the first connection, and trusted from then on.
    learned = s.dir + "/learned.pem"
    key, certificate, _ = pki.files("client")
    boot = ["-p", key, "-c", certificate, "--bootstrap-ca-cert=" + learned]
    assert tool(s, "vsctl", "--db=" + db, *boot, "list-br") == "br0\n"
    with open(learned) as a, open(pki.certificate) as b:
        assert a.read() == b.read()
    # A peer with a certificate of another authority is refused, on both sides.
    for options in (stranger.options("stranger"), us[:4] + ["-C", stranger.certificate]):
        for call in (["vsctl", "--db=" + db, *options, "list-br"], ["ofctl", *options, "show", at]):
            assert tool(s, *call, check=False) == "", call
    # The tool listens for the connection.
    waiting = subprocess.Popen([os.path.join(lab.ROOT, "target", "release", "sluice"), "vsctl", "--timeout=20", *us,
                                "--db=pssl:%d:127.0.0.1" % CALLED, "list-br"], env=s.env, stdout=subprocess.PIPE, text=True)
    lab.sh("ovs-appctl", "-T", "10", "-t", ovsdb, "ovsdb-server/add-remote", "ssl:127.0.0.1:%d" % CALLED, env=s.env)
    assert waiting.communicate(timeout=20)[0] == "br0\n"
