"""FTP and TFTP through connection tracking, between namespaces, with and without address translation."""
import os
import re

from lib import lab, pair

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

CLIENT, SERVER, OUTER = "10.1.1.1", "10.1.1.2", "10.1.1.240"
CLIENT6, SERVER6, OUTER6 = "fc00::1", "fc00::2", "fc00::240"
# The client may begin control connections. Data connections pass because they are related.
RULES = """table=0,priority=10,arp,actions=NORMAL
table=0,priority=10,icmp6,icmp_type=135,actions=NORMAL
table=0,priority=10,icmp6,icmp_type=136,actions=NORMAL
table=0,priority=5,in_port=1,%(match)s,actions=ct(zone=1,table=1%(nat)s)
table=0,priority=5,in_port=2,%(match)s,actions=ct(zone=1,table=1%(nat)s)
table=1,priority=10,in_port=1,%(control)s,ct_state=+trk+new-rel,actions=ct(zone=1,commit,alg=%(alg)s%(source)s),2
table=1,priority=10,in_port=1,%(match)s,ct_state=+trk+new+rel,actions=ct(zone=1,commit%(nat)s),2
table=1,priority=10,in_port=1,%(match)s,ct_state=+trk+est,actions=2
table=1,priority=10,in_port=2,%(match)s,ct_state=+trk+new+rel,actions=ct(zone=1,commit%(nat)s),1
table=1,priority=10,in_port=2,%(match)s,ct_state=+trk+est,actions=1
"""
SERVE = """
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
import sys
class Handler(FTPHandler):
    authorizer = DummyAuthorizer()
    # It compares addresses of IPv6 as text.
    permit_foreign_addresses = True
Handler.authorizer.add_anonymous(sys.argv[1])
FTPServer((sys.argv[2], 21), Handler).serve_forever()
"""
# Prints the size of the received file of 100,000 bytes, twice: a changed length in an earlier command shifts later
# sequence numbers.
FETCH = """
import ftplib, sys
ftp = ftplib.FTP(sys.argv[1], timeout=5)
ftp.login()
ftp.set_pasv(sys.argv[2] == "passive")
for _ in range(2):
    parts = []
    ftp.retrbinary("RETR file", parts.append)
    print(len(b"".join(parts)))
ftp.quit()
"""
TFTP_SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 69))
while True:
    request, who = s.recvfrom(600)
    d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    d.bind((sys.argv[1], 0))
    d.sendto(b"\\0\\3\\0\\1" + b"content", who)
"""
TFTP_CLIENT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(b"\\0\\1file\\0octet\\0", (sys.argv[1], 69))
print(s.recv(600)[4:].decode())
"""


def switch(**rules):
    """A switch with the rules, the client (port 1) and the server (port 2)."""
    s, client, server = pair.joined([CLIENT, CLIENT6], [SERVER, SERVER6])
    # Replies to the translated addresses go back to the switch.
    mac = re.search(r"link/ether (\S+)", client.run("ip", "link", "show", "eth0")).group(1)
    for address in (OUTER, OUTER6):
        server.run("ip", "neighbour", "replace", address, "lladdr", mac, "dev", "eth0", "nud", "permanent")
    s.ofctl("add-flows", "br0", "-", input=RULES % rules)
    return s, client, server


def ftp_server(ns, address):
    directory = lab.scratch()
    with open(os.path.join(directory, "file"), "wb") as f:
        f.write(bytes(100_000))
    ns.spawn("/usr/bin/python3", "-c", SERVE, directory, address, stdout=-3, stderr=-3)
    lab.wait_until(lambda: ":21 " in ns.run("ss", "-Htln"), "the server listens")


def fetch(ns, address, mode):
    return ns.run("/usr/bin/python3", "-c", FETCH, address, mode, timeout=20).split()


def ftp_rules(v6, nat):
    match = "tcp6" if v6 else "tcp"
    source = ",nat(src=%s)" % (("[%s]" if v6 else "%s") % (OUTER6 if v6 else OUTER)) if nat else ""
    return {"match": match, "control": match + ",tp_dst=21", "alg": "ftp", "nat": ",nat" if nat else "", "source": source}


def need_ftpd():
    if lab.sh("/usr/bin/python3", "-c", "import pyftpdlib.servers; print(1)", check=False).strip() != "1":
        raise lab.Skip("needs python3-pyftpdlib")


def check(v6, nat):
    need_ftpd()
    s, client, server = switch(**ftp_rules(v6, nat))
    address = SERVER6 if v6 else SERVER
    ftp_server(server, address)
    for mode in ("active", "passive"):
        assert fetch(client, address, mode) == ["100000", "100000"], mode
    known = s.appctl("dpctl/dump-conntrack", "zone=1")
    assert re.search(r"^tcp,orig=\(src=%s,dst=%s,sport=\d+,dport=21\),.*,helper=ftp$"
                     % (CLIENT6 if v6 else CLIENT, address), known, re.M), known
    expected = s.appctl("dpctl/dump-conntrack-exp", "zone=1")
    assert re.search(r"sport=0,dport=\d+\),zone=1,parent=\(src=%s,dst=%s,sport=\d+,dport=21\)"
                     % (CLIENT6 if v6 else CLIENT, address), expected), expected
    assert s.appctl("dpctl/dump-conntrack-exp", "zone=2") in ("", "\n")
    # Without the helper no data connection passes.
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flows", "br0", "-", input=(RULES % ftp_rules(v6, nat)).replace(",alg=ftp", ""))
    s.appctl("dpctl/flush-conntrack")
    try:
        fetch(client, address, "passive")
    except AssertionError as e:
        assert "imeout" in str(e) or "timed out" in str(e), e
    else:
        raise AssertionError("a data connection that nothing announces passes")


def test_ftp():
    """Active and passive FTP through a firewall that only passes the control connection and related ones."""
    check(False, False)


def test_ftp_of_ipv6():
    """The same with EPRT and EPSV."""
    check(True, False)


def test_ftp_behind_another_address():
    """The client's address is translated to a longer one: addresses in commands and sequence numbers are adapted."""
    check(False, True)


def test_ftp_of_ipv6_behind_another_address():
    """The same with EPRT and EPSV."""
    check(True, True)


def tftp(nat):
    rules = {"match": "udp", "control": "udp,tp_dst=69", "alg": "tftp", "nat": ",nat" if nat else "",
             "source": ",nat(src=%s)" % OUTER if nat else ""}
    s, client, server = switch(**rules)
    server.spawn("python3", "-c", TFTP_SERVER, SERVER, stdout=-3, stderr=-3)
    lab.wait_until(lambda: ":69 " in server.run("ss", "-Huln"), "the server listens")
    assert client.run("python3", "-c", TFTP_CLIENT, SERVER) == "content\n"


def test_tftp():
    """The reply of a TFTP server comes from another port, and passes because it is related."""
    tftp(False)


def test_tftp_behind_another_address():
    """The same with translation of the client's address."""
    tftp(True)
