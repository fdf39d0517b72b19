"""Our tools beside the stock ones on the same switch, and what they say about themselves."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from lib import lab

SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")
TOOLS = ("vsctl", "ofctl", "appctl", "dpctl", "db", "settings", "doctor")
SCHEMA = {"name": "ordinals", "version": "5.1.3", "cksum": "12345678 9", "tables": {"ordinals": {
    "columns": {"number": {"type": "integer"}, "name": {"type": "string"}}, "indexes": [["number"]]}}}
# What no two runs share. The order of tables, rows and columns carries no meaning to the stock tools, so lines are sorted.
RULES = [(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "<uuid>"), (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "<time>"),
         (r"\([0-9a-f]{8}\)", "(<id>)"), (r"^\S+Z\|.*\n", ""), (r'"comp[^"]*"$', '"<comment>"')]

FILES = r"""
create db schema
create db schema
create x nope
db-name db
db-version db
db-cksum db
db-version nope
db-is-standalone db
db-is-clustered db
schema-name schema
schema-version schema
schema-cksum nope
needs-conversion db schema
compare-versions 1.2.3 < 1.2.4
compare-versions 1.2.3 > 1.2.4
compare-versions x > 1.2.4
nonsense
create a b c d
db-version
transact db ["ordinals",{"op":"insert","table":"ordinals","row":{"name":"one","number":1}},{"op":"comment","comment":"hi"}]
transact db ["ordinals",{"op":"update","table":"ordinals","where":[],"row":{"name":"uno"}}]
query db ["ordinals",{"op":"select","table":"ordinals","where":[]}]
transact db ["other"]
transact db {"a":1}
transact db ["ordinals",{"op":"nonsense"}]
show-log db
-m show-log db
-mm show-log db
compact db
show-log db
compact db second
query second ["ordinals",{"op":"select","table":"ordinals","where":[]}]
"""

SERVER = r"""
list-dbs
list-dbs unix:nope
list-dbs xx:nope
list-dbs a b c
get-schema-version
get-schema-cksum
get-schema-version $DB _Server
get-schema nope
get-schema _Server
list-tables
list-columns $DB Bridge
-f csv list-columns
transact ["Open_vSwitch",{"op":"select","table":"Bridge","where":[],"columns":["name"]}]
transact $DB ["x"]
transact {"a":1}
query ["Open_vSwitch",{"op":"delete","table":"Bridge","where":[]}]
query ["Open_vSwitch",{"op":"nonsense","table":"Bridge","where":[]}]
dump Bridge
dump Bridge name _uuid
dump nope
dump Bridge nope
-f json dump Port name
-f list dump Interface name type
-f html dump Bridge name
-f csv dump Bridge
--bare dump Bridge name ports
-d json dump Bridge
--no-headings dump Port name
--pretty get-schema _Server
monitor nope
monitor Bridge nope
-t 1 monitor Bridge name,ports
-t 1 monitor-cond [["name","==","br0"]] Bridge name
-t 1 monitor-cond-since [["name","==","br0"]] Bridge name
-t 1 -f json monitor Bridge name
wait Open_vSwitch connected
wait Open_vSwitch foo
-t 1 lock $OWN
"""


def answer(program, args, folder, env):
    r = subprocess.run([program, *args], capture_output=True, text=True, timeout=20, cwd=folder, env=env)
    texts = []
    for text in (r.stdout, r.stderr):
        for pattern, replacement in RULES:
            text = re.sub(pattern, replacement, text, flags=re.M)
        texts.append(sorted(text.splitlines()))
    return [r.returncode, *texts]


def compare(program, table, switch, folders):
    different = []
    for line in table.strip().splitlines():
        args = line.replace("$DB", "unix:%s/db.sock" % switch.dir)
        # A lock of each: that of the one before is held until the server has seen its end.
        stock, ours = (answer(p, args.replace("$OWN", os.path.basename(folder)).split(" "), folder, switch.env) for p, folder in
                       zip((lab.need(program), os.path.join(lab.COMPAT, program)), folders))
        if stock != ours:
            different.append("%s %s\n  stock %s\n  ours  %s" % (program, line, stock, ours))
    assert not different, "\n".join(different)


def test_database_tools_beside_the_stock_ones():
    """`ovsdb-tool` and `ovsdb-client`: exit status, output and errors of each call are the stock tools'."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    folders = [s.dir + "/stock", s.dir + "/ours"]
    for folder in folders:
        os.mkdir(folder)
        with open(folder + "/schema", "w") as f:
            json.dump(SCHEMA, f)
    compare("ovsdb-tool", FILES, s, folders)
    compare("ovsdb-client", SERVER, s, folders)


def test_backup_and_restore():
    """A backup of ours is a database to the stock tool, and restores what was there, through either client."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    ours = os.path.join(lab.COMPAT, "ovsdb-client")
    before = s.client(ours, "dump", "Bridge", "name")
    with open(s.dir + "/backup", "w") as f:
        subprocess.run([ours, "backup"], env=s.env, stdout=f, check=True, timeout=20)
    assert "br0" in s.client("ovsdb-tool", "query", s.dir + "/backup",
                             '["Open_vSwitch",{"op":"select","table":"Bridge","where":[]}]')
    for client in (ours, "ovsdb-client"):
        s.vsctl("--no-wait", "del-br", "br0")
        with open(s.dir + "/backup") as f:
            subprocess.run([client, "restore"], env=s.env, stdin=f, check=True, timeout=20)
        assert s.client(ours, "dump", "Bridge", "name") == before


def test_database_clients_in_the_background():
    """`ovsdb-client --detach`: monitor and lock go on alone, and are told by ovs-appctl what to do, as the stock ones."""
    lab.need("ovsdb-client")
    s = lab.Switch().start()
    printed = [in_the_background(s, program) for program in ("ovsdb-client", os.path.join(lab.COMPAT, "ovsdb-client"))]
    assert printed[0] == printed[1], "%s\n---- ours ----\n%s" % tuple(printed)


def in_the_background(s, program):
    """What such clients print. Each call returns when there is a first answer, and all is gone at the end."""
    folder = lab.scratch()
    server = "unix:%s/db.sock" % s.dir
    file = lambda name: os.path.join(folder, name)

    def start(name, *args):
        with open(file(name), "w") as out:
            subprocess.run([program, "--detach", "--no-chdir", "--pidfile=" + file("pid." + name), *args], env=s.env,
                           check=True, timeout=20, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def tell(name, *args):
        pid = open(file("pid." + name)).read().strip()
        return lab.sh("ovs-appctl", "-t", "%s/ovsdb-client.%s.ctl" % (s.dir, pid), *args, env=s.env)

    def seen(name, text):
        lab.wait_until(lambda: text in open(file(name)).read(), "%s in what %s prints" % (text, name))

    s.vsctl("--no-wait", "add-br", "one")
    start("monitor", "--format=csv", "--no-heading", "monitor-cond", server, "Open_vSwitch", '[["name","!=","two"]]', "Bridge", "name")
    seen("monitor", "one")
    answers = [tell("monitor", "ovsdb-client/block"), tell("monitor", "ovsdb-client/block")]
    s.vsctl("--no-wait", "add-br", "two", "--", "add-br", "three")
    time.sleep(0.3)
    assert "three" not in open(file("monitor")).read()
    answers += [tell("monitor", "ovsdb-client/unblock"), tell("monitor", "ovsdb-client/unblock")]
    seen("monitor", "three")
    answers.append(tell("monitor", "ovsdb-client/cond_change", "Bridge", '[["name","==","two"]]'))
    seen("monitor", "two")
    start("lock", "lock", server, "mine")
    start("second", "lock", server, "mine")
    tell("lock", "unlock", "mine")
    seen("second", "locked")
    for name in ("monitor", "lock", "second"):
        tell(name, "exit")
        lab.wait_until(lambda: not os.path.exists(file("pid." + name)), "the end of " + name)
    s.vsctl("--no-wait", "del-br", "one", "--", "del-br", "two", "--", "del-br", "three")
    # Rows come in the order of their UUIDs.
    printed = [(name, sorted(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uuid>", open(file(name)).read()).splitlines()))
               for name in ("monitor", "lock", "second")]
    return answers + printed


def test_dpctl():
    """`sluice dpctl` prints what `ovs-appctl dpctl/...` prints; refusals are its own words."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    for call in ("show", "dump-dps", "-s show", "dump-flows", "dump-flows nope", "show nope", "list-commands"):
        args = call.split(" ")
        ours = s.client(SLUICE, "dpctl", "-T", s.dir + "/ovs-vswitchd.ctl", *args, check=False)
        command = args.pop() if args[0].startswith("-") else args.pop(0)
        assert ours == s.appctl("dpctl/" + command, *args, check=False), call


def test_help_manual_and_completion():
    """Each tool has help and a manual page that groff takes without a warning; bash completes commands."""
    for tool in ("", *TOOLS):
        text = lab.sh(SLUICE, *([tool] if tool else []), "--help")
        assert "usage: sluice" in text and max(map(len, text.splitlines())) <= 140, tool
        man = lab.sh(SLUICE, "man", *([tool] if tool else []))
        if shutil.which("groff"):
            r = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-z"], input=man, capture_output=True, text=True)
            assert r.stderr == "", (tool, r.stderr)
    script = lab.sh(SLUICE, "completion", "bash")
    probe = script + "\nCOMP_WORDS=(sluice vsctl add-b); COMP_CWORD=2; _sluice; echo ${COMPREPLY[@]}"
    assert lab.sh("bash", "-c", probe).split() == ["add-br", "add-bond", "add-bond-iface"]
    for shell in ("zsh", "fish"):
        script = lab.sh(SLUICE, "completion", shell)
        assert "add-port" in script
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=20)


def test_install():
    """What `make install` puts below a directory: programs, manual pages, completion."""
    folder = tempfile.mkdtemp(prefix="sluice-install-")
    try:
        lab.sh(os.path.join(lab.ROOT, "scripts", "install"), "/usr", env=dict(os.environ, DESTDIR=folder))
        for file in ("sbin/sluiced", "bin/sluice", "share/man/man8/sluice.8", "lib/systemd/system/sluiced.service",
                     "share/bash-completion/completions/sluice", *("share/man/man8/sluice-%s.8" % t for t in TOOLS)):
            assert os.path.getsize(os.path.join(folder, "usr", file)) > 0, file
    finally:
        shutil.rmtree(folder)


def test_json():
    """`ofctl --json` and `vsctl -f json` print JSON that says what the text says."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    s.ofctl("add-flow", "br0", "priority=7,tcp,nw_dst=10.0.0.0/8,actions=mod_vlan_vid:5,LOCAL")
    ask = lambda *args: json.loads(s.client(SLUICE, *args))
    flow = [f for f in ask("ofctl", "--json", "dump-flows", "br0") if f["priority"] == 7][0]
    assert flow["match"] == {"tcp": True, "nw_dst": "10.0.0.0/8"} and flow["actions"] == ["mod_vlan_vid:5", "LOCAL"]
    assert flow["packets"] == 0
    assert [p["name"] for p in ask("ofctl", "--json", "show", "br0")["ports"]] == ["br0"]
    assert ask("ofctl", "--json", "dump-ports", "br0")[0]["port"] == "LOCAL"
    assert ask("ofctl", "--json", "dump-aggregate", "br0", "tcp")["flows"] == 1
    table = ask("vsctl", "-f", "json", "--columns=name", "list", "bridge")
    assert table == {"headings": ["name"], "data": [["br0"]]}
    assert "netdev@ovs-netdev" in ask("appctl", "-f", "json", "-t", s.dir + "/ovs-vswitchd.ctl", "dpif/show")
