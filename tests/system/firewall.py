"""A stateful firewall by connection tracking, with real TCP, UDP and ICMP through namespaces."""
import os
import re

from lib import lab, pair

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

INSIDE, OUTSIDE = "10.1.1.1", "10.1.1.2"
# The inside may begin connections. From the outside only packets of these connections may pass.
RULES = """table=0,priority=10,arp,actions=NORMAL
table=0,priority=5,ip,actions=ct(table=1,zone=9)
table=1,priority=10,in_port=1,ct_state=+trk+new,ip,actions=ct(commit,zone=9,exec(set_field:0x7->ct_mark)),2
table=1,priority=10,in_port=1,ct_state=+trk+est,ip,actions=2
table=1,priority=10,in_port=2,ct_state=+trk+est,ct_mark=0x7,ip,actions=1
table=1,priority=10,in_port=2,ct_state=+trk+rel,ip,actions=1
table=1,priority=1,actions=drop
"""
# Sends one line by UDP, and prints the reply or the error.
ASK = """import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.bind(("", int(sys.argv[3])))
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"hello")
try:
    print(s.recv(100).decode())
except OSError as e:
    print(type(e).__name__)
"""
ECHO = """import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", int(sys.argv[1])))
print("ready", flush=True)
while True:
    data, who = s.recvfrom(100)
    s.sendto(data, who)
"""


def firewall():
    """A switch with the rules, the namespace inside (port 1) and the one outside (port 2)."""
    s, inside, outside = pair.joined([INSIDE], [OUTSIDE])
    s.ofctl("add-flows", "br0", "-", input=RULES)
    return s, inside, outside


def connects(ns, address, port):
    code = "import socket; socket.create_connection((%r, %d), 2).close()" % (address, port)
    try:
        ns.run("python3", "-c", code)
        return True
    except AssertionError:
        return False


def serve(ns, port):
    ns.spawn("python3", "-m", "http.server", str(port), stdout=-3, stderr=-3)
    lab.wait_until(lambda: (":%d " % port) in ns.run("ss", "-Htln"), "the server listens")


def test_answers_pass_and_strangers_do_not():
    """TCP connections from the inside work, those from the outside do not; dpctl/dump-conntrack shows the former."""
    s, inside, outside = firewall()
    serve(inside, 8001)
    serve(outside, 8002)
    assert not connects(outside, INSIDE, 8001)
    page = inside.run("python3", "-c", "import urllib.request as u; print(u.urlopen('http://%s:8002/').status)" % OUTSIDE)
    assert page.strip() == "200", page
    assert not connects(outside, INSIDE, 8001)
    known = s.appctl("dpctl/dump-conntrack", "zone=9")
    assert re.search(r"^tcp,orig=\(src=10.1.1.1,dst=10.1.1.2,sport=\d+,dport=8002\),reply=\(src=10.1.1.2,dst=10.1.1.1,sport=8002,"
                     r"dport=\d+\),zone=9,mark=7,protoinfo=\(state=\w+\)$", known, re.M), known
    assert "dst=10.1.1.1,sport" not in known.split("reply=")[0], known


def test_a_connection_ends_when_it_is_forgotten():
    """A connection removed by dpctl/flush-conntrack is blocked, and zone limits apply."""
    s, inside, outside = firewall()
    serve(outside, 8002)
    ping = lambda: " 0% packet loss" in inside.run("ping", "-c", "2", "-i", "0.2", "-W", "1", OUTSIDE, check=False)
    assert ping() and connects(inside, OUTSIDE, 8002)
    assert "icmp,orig=(src=10.1.1.1,dst=10.1.1.2,id=" in s.appctl("dpctl/dump-conntrack")
    s.appctl("dpctl/flush-conntrack", "zone=9")
    assert s.appctl("dpctl/dump-conntrack") == "" and s.appctl("dpctl/ct-get-nconns").strip() == "0"
    s.appctl("dpctl/ct-set-limits", "zone=9,limit=1")
    assert ping()
    assert not connects(inside, OUTSIDE, 8002)
    assert "zone=9,limit=1,count=1" in s.appctl("dpctl/ct-get-limits", "zone=9")
    s.appctl("dpctl/ct-del-limits", "zone=9")
    assert connects(inside, OUTSIDE, 8002)


def test_errors_belong_to_what_caused_them():
    """UDP to a closed port: the error passes back through the firewall; from an open port the reply does."""
    s, inside, outside = firewall()
    server = outside.spawn("python3", "-c", ECHO, "9001", stdout=-1)
    assert server.stdout.readline() == b"ready\n"
    ask = lambda ns, address, port, own: ns.run("python3", "-c", ASK, address, str(port), str(own)).strip()
    assert ask(inside, OUTSIDE, 9001, 5001) == "hello"
    assert ask(inside, OUTSIDE, 9002, 5002) == "ConnectionRefusedError"
    # This packet belongs to no connection.
    assert ask(outside, INSIDE, 9002, 5003) == "TimeoutError"
    counts = s.ofctl("dump-flows", "br0", "table=1,in_port=2")
    assert re.search(r"n_packets=1, .*ct_state=\+rel\+trk", counts), counts


def test_the_database_limits_zones():
    """CT_Zone.limit applies and excludes limits by command, and the datapath's row lists its capabilities."""
    s = lab.Switch(database="embedded").start()
    s.add_bridge("br0")
    # Debian's tool does not know these columns.
    vsctl = lambda *words: lab.sh(os.path.join(lab.COMPAT, "ovs-vsctl"), "--timeout=20", "--db=unix:%s/db.sock" % s.dir, *words)
    vsctl("--", "--id=@dp", "create", "Datapath", "datapath_version=0", "--", "set", "Open_vSwitch", ".", "datapaths:netdev=@dp")
    vsctl("set-zone-limit", "netdev", "9", "3", "--", "set-zone-limit", "netdev", "default", "5")
    limits = lambda: s.appctl("dpctl/ct-get-limits").split("\n")[:2]
    lab.wait_until(lambda: limits() == ["default limit=5", "zone=9,limit=3,count=0"], "the limits hold")
    try:
        s.appctl("dpctl/ct-set-limits", "zone=9,limit=4")
        raise RuntimeError("a command changed a limit of the database")
    except AssertionError as e:
        assert "the zone limits are set via database, use 'ovs-vsctl set-zone-limit <...>' instead." in str(e), e
    able = vsctl("list-dp-cap", "netdev")
    for key, value in (("ct_state", "true"), ("ct_label", "true"), ("ct_zero_snat", "true"), ("ct_flush", "true")):
        assert "%s=%s" % (key, value) in able.replace('"', ""), able
    vsctl("clear", "Open_vSwitch", ".", "datapaths")
    lab.wait_until(lambda: limits() == ["default limit=0", ""], "the limits are gone")
