"""Our tools compared with the stock ones on the same switch; their help, manuals and messages."""
import json
import os
import re
import shutil
import subprocess
import tempfile

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")
TOOLS = ("vsctl", "ofctl", "appctl", "dpctl", "db", "settings", "doctor", "drops", "metrics", "why", "capture", "host-ids", "bench", "top", "pmd", "pool")
SCHEMA = {"name": "ordinals", "version": "5.1.3", "cksum": "12345678 9", "tables": {"ordinals": {
    "columns": {"number": {"type": "integer"}, "name": {"type": "string"}}, "indexes": [["number"]]}}}
# Values that differ between any two runs. The stock tools print tables, rows and columns in any order, so lines are
# sorted.
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
        # Each tool has a lock of its own: the previous lock is held until the server has noticed the end of its
        # client.
        stock, ours = (answer(p, args.replace("$OWN", os.path.basename(folder)).split(" "), folder, switch.env) for p, folder in
                       zip((lab.need(program), os.path.join(lab.COMPAT, program)), folders))
        if stock != ours:
            different.append("%s %s\n  stock %s\n  ours  %s" % (program, line, stock, ours))
    assert not different, "\n".join(different)


def test_database_tools_beside_the_stock_ones():
    """`ovsdb-tool` and `ovsdb-client`: exit status, output and errors of each call equal those of the stock tools."""
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
    """The stock tool accepts our backup as a database, and either client restores it."""
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
    """`ovsdb-client --detach`: monitor and lock continue in the background, controlled by ovs-appctl, like the stock ones."""
    lab.need("ovsdb-client")
    s = lab.Switch().start()
    printed = [in_the_background(s, program) for program in ("ovsdb-client", os.path.join(lab.COMPAT, "ovsdb-client"))]
    assert printed[0] == printed[1], "%s\n---- ours ----\n%s" % tuple(printed)


def in_the_background(s, program):
    """Runs `ovsdb-client --detach`; returns the replies to control commands and what the clients print. Deletes the bridges at the end."""
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
    start("witness", "--format=csv", "--no-heading", "monitor", server, "Open_vSwitch", "Bridge", "name")
    seen("monitor", "one")
    seen("witness", "one")
    answers = [tell("monitor", "ovsdb-client/block"), tell("monitor", "ovsdb-client/block")]
    s.vsctl("--no-wait", "add-br", "two", "--", "add-br", "three")
    # A monitor that was not blocked has printed it by now.
    seen("witness", "three")
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
    # Rows are ordered by UUID.
    printed = [(name, sorted(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uuid>", open(file(name)).read()).splitlines()))
               for name in ("monitor", "lock", "second")]
    return answers + printed


def test_dpctl():
    """`sluice dpctl` prints the same output as `ovs-appctl dpctl/...`; error messages are not compared."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    for call in ("show", "dump-dps", "-s show", "dump-flows", "dump-flows nope", "show nope", "list-commands"):
        args = call.split(" ")
        ours = s.client(SLUICE, "dpctl", "-T", s.dir + "/ovs-vswitchd.ctl", *args, check=False)
        command = args.pop() if args[0].startswith("-") else args.pop(0)
        assert ours == s.appctl("dpctl/" + command, *args, check=False), call


def test_help_manual_and_completion():
    """Each tool has help, and a manual page that groff formats without a warning; bash completes commands."""
    for tool in ("", *TOOLS):
        text = lab.sh(SLUICE, *([tool] if tool else []), "--help")
        assert "usage: sluice" in text and max(map(len, text.splitlines())) <= 140, tool
        man = lab.sh(SLUICE, "man", *([tool] if tool else []))
        check_roff(tool, man)
    check_roff("sluiced", lab.sh(os.path.join(lab.ROOT, "target", "release", "sluiced"), "--man"))
    script = lab.sh(SLUICE, "completion", "bash")
    probe = script + "\nCOMP_WORDS=(sluice vsctl add-b); COMP_CWORD=2; _sluice; echo ${COMPREPLY[@]}"
    assert lab.sh("bash", "-c", probe).split() == ["add-br", "add-bond", "add-bond-iface"]
    for shell in ("zsh", "fish"):
        script = lab.sh(SLUICE, "completion", shell)
        assert "add-port" in script
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=20)


def check_roff(name, man):
    assert ".SH NAME" in man and (".SH OPTIONS" in man or ".SH OTHER OPTIONS" in man or not name), man[:300]
    if shutil.which("groff"):
        r = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-z"], input=man, capture_output=True, text=True)
        assert r.stderr == "", (name, r.stderr)


def installed(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def test_install():
    """`make install` installs programs, manual pages and completion below a directory; `make uninstall` removes all of them."""
    folder = tempfile.mkdtemp(prefix="sluice-install-")
    try:
        env = dict(os.environ, DESTDIR=folder)
        lab.sh(os.path.join(lab.ROOT, "scripts", "install"), "/usr", env=env)
        for file in ("sbin/sluiced", "bin/sluice", "share/man/man8/sluice.8", "lib/systemd/system/sluiced.service",
                     "share/man/man8/sluiced.8", "share/bash-completion/completions/sluice",
                     *("share/man/man8/sluice-%s.8" % t for t in TOOLS)):
            assert os.path.getsize(os.path.join(folder, "usr", file)) > 0, file
        verify_unit(folder)
        with open(folder + "/usr/bin/other", "w") as f:
            f.write("not ours")
        lab.sh(os.path.join(lab.ROOT, "scripts", "uninstall"), "/usr", env=env)
        assert installed(folder) == ["usr/bin/other"], installed(folder)
    finally:
        shutil.rmtree(folder)


def verify_unit(root):
    """systemd accepts the service file, and its ordering is that which ifupdown needs."""
    path = root + "/usr/lib/systemd/system/sluiced.service"
    text = open(path).read()
    conflicts = re.findall(r"^Conflicts=(.*)", text, re.M)
    assert conflicts == ["shutdown.target"], "what starts a unit of Open vSwitch would stop the switch: %s" % conflicts
    aliases = re.search(r"^Alias=(.*)", text, re.M).group(1).split()
    assert {"openvswitch-switch.service", "ovs-vswitchd.service", "ovsdb-server.service"} <= set(aliases)
    before = re.search(r"^Before=(.*)", text, re.M).group(1).split()
    assert "networking.service" in before and "network.target" in before
    if not shutil.which("systemd-analyze"):
        return
    copy = root + "/sluiced.service"
    with open(copy, "w") as f:
        # Replace the paths of the programs by those below `root`; omit the manual pages, which are not installed on this machine.
        f.write(re.sub(r"^Documentation=.*\n", "", text.replace("/usr/sbin/", root + "/usr/sbin/").replace("=/usr/bin/", "=" + root + "/usr/bin/")
                       .replace("=-/usr/bin/", "=-" + root + "/usr/bin/").replace("/usr/lib/sluice/", root + "/usr/lib/sluice/"), flags=re.M))
    r = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=60)
    os.unlink(copy)
    ours = [line for line in r.stderr.splitlines() if "sluiced" in line]
    assert r.returncode == 0 and not ours, r.stderr


def test_json():
    """The JSON of `ofctl --json` and `vsctl -f json` has the same content as the text."""
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
    ctl = ["-t", s.dir + "/ovs-vswitchd.ctl"]
    assert "netdev@ovs-netdev" in ask("appctl", "-f", "json", *ctl, "dpif/show")
    # Every tool accepts both options.
    for json_option in ("--json", "--format=json"):
        assert ask("vsctl", json_option, "list-br") == ["br0"]
        assert ask("vsctl", json_option, "--columns=name", "list", "bridge") == table
        assert ask("ofctl", json_option, "dump-aggregate", "br0", "tcp")["flows"] == 1
        assert ask("appctl", json_option, *ctl, "list-commands")["version"] == ""
        assert "datapaths" in ask("pmd", json_option, *ctl, "state")
        assert ask("top", json_option, *ctl, "-i", "0.1")[0]["name"] == "netdev@ovs-netdev"
        assert "pmd-cpu-mask" in [row["key"] for row in ask("settings", json_option, "pmd-cpu-mask")]
        assert "datapath_drop_tx_mtu_exceeded" in [row["name"] for row in ask("drops", "--list", json_option, "MTU")]
        assert isinstance(ask("drops", json_option, *ctl), (dict, list))
        assert "findings" in json.loads(lab.sh(SLUICE, "doctor", json_option, env=s.env, check=False))
        assert "headings" in ask("db", json_option, "dump", "Bridge", "name")
        assert "reply" in ask("dpctl", json_option, "-T", s.dir + "/ovs-vswitchd.ctl", "show")
    # Output that is not a table is a JSON value, too; under the peer's name it stays text.
    ports = ask("vsctl", "--json", "show")[0]["bridges"][0]["ports"]
    assert [p["interfaces"][0]["type"] for p in ports] == ["internal"], ports
    assert ask("vsctl", "--json", "br-to-vlan", "br0") == 0 and ask("vsctl", "--json", "get", "bridge", "br0", "name") == "br0"
    assert ask("vsctl", "--json", "list-ports", "br0") == []
    assert s.client(os.path.join(lab.COMPAT, "ovs-vsctl"), "-f", "json", "list-br") == "br0\n"
    # Every command of our own has JSON output, with numbers as numbers.
    counters = ask("appctl", "--json", *ctl, "dpif/show-accounting")["netdev@ovs-netdev"]
    assert all(isinstance(counters[key], int) for key in ("received", "sent", "dropped", "queued")), counters
    caches = ask("appctl", "--json", *ctl, "dpif/show-caches")["netdev@ovs-netdev"]
    assert caches["flow-cache"] == "unified" and caches["threads"][0]["entries"] > 0, caches
    for command in ("dpif/show-shadow", "dpif-netdev/pmd-plan", "dpif-netdev/pmd-state"):
        answer = ask("appctl", "--json", *ctl, command)
        assert "netdev@ovs-netdev" in answer.get("datapaths", answer), answer


def run_tool(s, *args, user=None, **env):
    """Exit status and standard error of a call of our tool."""
    r = subprocess.run([str(a) for a in args], env=dict(s.env, **env), capture_output=True, text=True, timeout=20, user=user)
    return r.returncode, r.stderr.strip()


def test_mistyped_words():
    """For a mistyped tool, command, option, table or column the most similar one is suggested, except under the peer's name."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    ctl = s.dir + "/ovs-vswitchd.ctl"
    for args, meant in (((SLUICE, "vsclt"), "vsctl"), ((SLUICE, "vsctl", "ad-port", "br0", "p"), "add-port"),
                        ((SLUICE, "vsctl", "list", "Brigde"), "Bridge"), ((SLUICE, "vsctl", "get", "bridge", "br0", "nmae"), "name"),
                        ((SLUICE, "vsctl", "--no-wiat", "list-br"), "no-wait"), ((SLUICE, "ofctl", "dump-flow-s", "br0"), "dump-flows"),
                        ((SLUICE, "appctl", "-t", ctl, "dpfi/show"), "dpif/show"), ((SLUICE, "dpctl", "dump-flosw"), "dump-flows"),
                        ((SLUICE, "db", "list-dsb"), "list-dbs"), ((SLUICE, "db", "dump", "Brdige"), "Bridge"),
                        ((SLUICE, "db", "dump", "Bridge", "naem"), "name"), ((SLUICE, "pmd", "paln"), "plan"),
                        ((SLUICE, "bench", "cahces"), "caches")):
        status, text = run_tool(s, *args)
        assert status and '(did you mean "%s"?)' % meant in text, (args, text)
    for tool, args in (("ovs-vsctl", ["ad-port", "br0", "p"]), ("ovs-vsctl", ["list", "Brigde"]), ("ovs-ofctl", ["dump-flow-s", "br0"]),
                       ("ovs-vsctl", ["get", "bridge", "br0", "nmae"]), ("ovs-vsctl", ["--json", "list-br"]),
                       ("ovs-appctl", ["-t", ctl, "dpfi/show"]), ("ovsdb-client", ["list-dsb"])):
        ours, stock = run_tool(s, os.path.join(lab.COMPAT, tool), *args), run_tool(s, lab.need(tool), *args)
        undated = lambda text: re.sub(r"^\S*Z\|.*\n", "", text, flags=re.M).replace(os.path.join(lab.COMPAT, tool), tool).replace(lab.need(tool), tool)
        assert (ours[0], undated(ours[1])) == (stock[0], undated(stock[1])), (ours, stock)
    # A field without its prerequisite is dropped from the match. The message about it equals that of the stock tool.
    add = ("add-flow", "br0", "tp_dst=80,actions=drop")
    ours, stock = run_tool(s, os.path.join(lab.COMPAT, "ovs-ofctl"), *add), run_tool(s, lab.need("ovs-ofctl"), *add)
    shown = lambda text: re.sub(r"^\S*Z\|", "", text, flags=re.M)
    assert "pre: tp_dst=80" in ours[1] and shown(ours[1]) == shown(stock[1]), (ours, stock)


def test_missing_permission_is_reported():
    """A user without permission gets a message about permission, not the question whether the switch runs."""
    lab.need_root()
    s = lab.Switch(database="embedded").start()
    s.add_bridge("brrights")
    os.chmod(s.dir, 0o755)
    program = s.dir + "/sluice"
    shutil.copy(SLUICE, program)
    for args in (("vsctl", "show"), ("ofctl", "show", "brrights"), ("appctl", "version"), ("dpctl", "show"), ("db", "list-dbs"),
                 ("top", "--once"), ("pmd", "plan")):
        target = ["-T" if args[0] == "dpctl" else "-t", s.dir + "/sluiced.ctl"] if args[0] in ("appctl", "dpctl", "top", "pmd") else []
        status, text = run_tool(s, program, args[0], *target, *args[1:], user="nobody")
        assert status and "Permission denied" in text and "sudo" in text and "running" not in text, (args, text)


def test_help_offers_what_there_is():
    """Help and completion of appctl and dpctl list the commands that the daemon has."""
    s = lab.Switch(database="embedded").start()
    known = set(re.findall(r"^  (\S+)", s.appctl("list-commands"), re.M))
    for tool, prefix in (("appctl", ""), ("dpctl", "dpctl/")):
        listed = re.search(r"\b%s\) commands=\"([^\"]*)\"" % tool, lab.sh(SLUICE, "completion", "bash")).group(1).split()
        helped = re.findall(r"^  (\S+)", lab.sh(SLUICE, tool, "--help").split("Commands:\n")[1].split("\n\n")[0], re.M)
        assert listed and helped == listed, (helped, listed)
        assert not {prefix + name for name in listed} - known, sorted({prefix + name for name in listed} - known)


def test_versions():
    """--version names the product and the program that it replaces; under the peer's name it prints the peer's line."""
    for tool in ("", *TOOLS):
        text = lab.sh(SLUICE, *([tool] if tool else []), "--version")
        assert re.match(r"sluice( %s)? \(Sluice\) \d+\.\d+\.\d+" % tool, text), text
    assert lab.sh(os.path.join(lab.COMPAT, "ovs-vsctl"), "--version").startswith("ovs-vsctl (Open vSwitch) ")


def on_a_terminal(*args, env):
    """The output of a program on a terminal."""
    master, slave = os.openpty()
    p = subprocess.Popen(args, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, env=env)
    os.close(slave)
    out = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        out += piece
    p.wait(20)
    os.close(master)
    return out.decode()


def test_colours():
    """Terminals get colours; pipes, NO_COLOR, dumb terminals and the peer's names do not."""
    s = lab.Switch().start()
    s.add_bridge("br0")
    s.ofctl("add-flow", "br0", "priority=7,tcp,actions=drop")
    s.ofctl("add-flow", "br0", "priority=8,arp,in_port=1,actions=mod_vlan_vid:5,resubmit(,3),LOCAL")
    env = dict(s.env, TERM="xterm")
    env.pop("NO_COLOR", None)
    dump = ("ofctl", "--no-names", "dump-flows", "br0")
    assert "\x1b[1;31m\x1b[Kactions=" in on_a_terminal(SLUICE, *dump, env=env)
    assert "\x1b[1m" in on_a_terminal(SLUICE, "--help", env=env)
    for plain in (dict(env, NO_COLOR="1"), dict(env, TERM="dumb")):
        assert "\x1b" not in on_a_terminal(SLUICE, *dump, env=plain)
    assert "\x1b" not in on_a_terminal(os.path.join(lab.COMPAT, "ovs-ofctl"), *dump[1:], env=env)
    assert "\x1b" not in lab.sh(SLUICE, *dump, env=env)
    # On request, the colours are those of the stock tool.
    ours, stock = (re.sub(r"(duration|idle_age)=(\S*?)[\d.]+s?,", r"\1=\2,", s.client(tool, "--color=always", "dump-flows", "br0"))
                   for tool in (os.path.join(lab.COMPAT, "ovs-ofctl"), "ovs-ofctl"))
    assert sorted(ours.splitlines()) == sorted(stock.splitlines()), "%r\n%r" % (ours, stock)


def test_a_host_knows_its_name():
    """`host-ids` records missing system-id and hostname, stores the system-id in a file, and changes no existing value."""
    s = lab.Switch(database="embedded").start()
    lab.wait_until(lambda: s.vsctl("--no-wait", "get", "open_vswitch", ".", "db_version", check=False), "the root row")
    run = lambda *args: s.client(SLUICE, "host-ids", *args)
    get = lambda key: s.vsctl("--if-exists", "get", "open_vswitch", ".", "external_ids:" + key).strip().strip('"')
    assert get("system-id") == ""
    run()
    first = get("system-id")
    with open(s.dir + "/openvswitch/system-id.conf") as f:
        assert f.read().strip() == first
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", first), first
    assert get("hostname") and get("rundir") == s.dir
    s.vsctl("--no-wait", "set", "open_vswitch", ".", "external_ids:hostname=mine", "external_ids:system-id=own")
    run("--system-id=other", "--hostname=other")
    assert (get("hostname"), get("system-id")) == ("mine", "own")
    s.vsctl("--no-wait", "clear", "open_vswitch", ".", "external_ids")
    run()
    assert get("system-id") == first


def test_an_unknown_type_is_reported():
    """The row of an interface with a mistyped type says so, and the log has the peer's message."""
    s = lab.Switch(database="embedded").start()
    s.vsctl("--no-wait", "add-br", "brtype", "--", "set", "bridge", "brtype", "datapath_type=netdev")
    s.vsctl("--no-wait", "add-port", "brtype", "pv", "--", "set", "interface", "pv", "type=vxlann")
    error = lambda: s.vsctl("get", "interface", "pv", "error")
    lab.wait_until(lambda: "could not open" in error(), "the row says so")
    assert 'unknown type \\"vxlann\\"' in error(), error()
    assert "could not create netdev pv of unknown type vxlann" in s.log()


def test_top_shows_kernel_ports():
    """Ports of the kernel are rows of `sluice top`, with their packets."""
    lab.need_root()
    s = lab.Switch(database="embedded").start()
    a, b = lab.Namespace("10.96.0.1/24"), lab.Namespace("10.96.0.2/24")
    s.add_bridge(lab.unique("slb"), a.port, b.port)
    a.spawn("ping", "-q", "-i", "0.005", "10.96.0.2", stdout=subprocess.DEVNULL)

    def seen():
        queues = json.loads(s.client(SLUICE, "top", "--json", "-t", s.dir + "/sluiced.ctl", "-i", "0.3"))[0]["queues"]
        rates = {q["port"]: q["packets-per-second"] for q in queues}
        return rates.get(a.port, 0) > 0 and rates.get(b.port, 0) > 0
    lab.wait_until(seen, "both ports with packets")
    assert a.port in s.client(SLUICE, "top", "--once", "-t", s.dir + "/sluiced.ctl", "-i", "0.1")
