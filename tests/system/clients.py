"""Real clients through connection tracking and source NAT: HTTP/1.1, HTTP/2 and HTTP/3, large datagrams, path MTU discovery, SIP."""
import json
import os
import re

from lib import http3, lab
from lib.translation import PUBLIC, RULES, SERVER, gateway

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

FAR, SIZE = "10.3.0.2", 300_000
# Sends a request whose body names the client's address, and prints the address that the reply was sent to, or what differs.
SIP_CLIENT = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5060))
s.settimeout(3)
text = (b"INVITE sip:b@%(server)s SIP/2.0\\r\\nVia: SIP/2.0/UDP 10.1.1.1:5060\\r\\nContact: <sip:a@10.1.1.1:5060>\\r\\n"
        b"Content-Type: application/sdp\\r\\n\\r\\nc=IN IP4 10.1.1.1\\r\\nm=audio 49170 RTP/AVP 0\\r\\n")
s.sendto(text, ("%(server)s", 5060))
who, _, seen = s.recv(2000).partition(b" ")
print(who.decode() if seen == text else seen)
"""
SIP_SERVER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5060))
while True:
    data, who = s.recvfrom(2000)
    s.sendto(who[0].encode() + b" " + data, who)
"""
# Receives connections, and answers each with the number of bytes received.
SINK = """
import socket
s = socket.create_server(("", 9000))
while True:
    c, _ = s.accept()
    n = 0
    while part := c.recv(65536):
        n += len(part)
    c.send(str(n).encode())
    c.close()
"""
UPLOAD = """
import socket, sys
c = socket.create_connection((sys.argv[1], 9000), 5)
c.settimeout(10)
c.sendall(bytes(int(sys.argv[2])))
c.shutdown(socket.SHUT_WR)
print(c.recv(100).decode())
"""


def listens(ns, port, kind="-Htln"):
    lab.wait_until(lambda: (":%d " % port) in ns.run("ss", kind), "port %d" % port)


def curl(ns, options, *urls):
    """What curl fetches: a line for each URL with HTTP version, status and size."""
    form = "%{http_version} %{http_code} %{size_download}\\n"
    words = [word for url in urls for word in ("-o", "/dev/null", url)]
    return ns.run(lab.need("curl"), "-sS", "-m", "10", "-w", form, *options, *words).splitlines()


def test_http():
    """curl fetches 300 KB by HTTP/1.1, and by HTTP/2 (eight requests in one connection), and uploads as much."""
    nghttpd, pki = lab.need("nghttpd"), lab.Pki(lab.scratch())
    s, client, server = gateway(RULES.format(nat="src=%s" % PUBLIC))
    folder = lab.scratch()
    with open(os.path.join(folder, "file"), "wb") as f:
        f.write(os.urandom(SIZE))
    server.spawn("python3", "-m", "http.server", "-p", "HTTP/1.1", "-d", folder, "8001", stdout=-3, stderr=-3)
    server.spawn(nghttpd, "-d", folder, "8002", *pki.files("server")[:2], stdout=-3, stderr=-3)
    for port in (8001, 8002):
        listens(server, port)
    first, second = "http://%s:8001/file" % SERVER, "https://%s:8002/file" % SERVER
    assert curl(client, [], first) == ["1.1 200 %d" % SIZE]
    assert curl(client, ["-k"], *[second] * 8) == ["2 200 %d" % SIZE] * 8
    uploaded = curl(client, ["-k", "--data-binary", "@%s/file" % folder], second)
    assert uploaded == ["2 200 %d" % SIZE], uploaded
    known = s.appctl("dpctl/dump-conntrack", "zone=9")
    assert all("reply=(src=%s,dst=%s,sport=%d," % (SERVER, PUBLIC, port) in known for port in (8001, 8002)), known


def test_http3():
    """A client of HTTP/3 makes eight requests at once in one connection, each with 300 KB in both directions: QUIC, so UDP."""
    program, pki = http3.python(), lab.Pki(lab.scratch())
    s, client, server = gateway(RULES.format(nat="src=%s" % PUBLIC))
    server.spawn(program, "-c", http3.SERVER, "8003", str(SIZE), *pki.files("server")[:2])
    listens(server, 8003, "-Huln")
    fetched = client.run(program, "-c", http3.CLIENT, SERVER, "8003", *[str(SIZE + n) for n in range(8)], timeout=30)
    assert fetched.splitlines() == ["200 %d %d" % (SIZE, SIZE + n) for n in range(8)], fetched
    known = s.appctl("dpctl/dump-conntrack", "zone=9")
    assert "reply=(src=%s,dst=%s,sport=8003," % (SERVER, PUBLIC) in known, known


def test_large_datagrams():
    """Pings of 60,000 bytes and UDP in fragments pass the translation: all arrive, and no fragment stays waiting."""
    s, client, server = gateway(RULES.format(nat="src=%s" % PUBLIC))
    text = client.run("ping", "-q", "-s", "60000", "-c", "5", "-i", "0.2", "-W", "2", SERVER)
    assert "5 received" in text, text
    lab.iperf3_server(server, "-1")
    result = json.loads(client.run("iperf3", "-u", "-c", SERVER, "-l", "8000", "-b", "16M", "-t", "1", "-J"))["end"]["sum"]
    # On a busy machine the receiving socket may overflow.
    assert result["packets"] > 100 and result["lost_percent"] < 5, result
    status = s.appctl("dpctl/ipf-get-status")
    assert re.search(r"num frag: 0\n", status) and int(re.search(r"v4 frags completed: (\d+)", status)[1]) > 600, status
    assert "dst=%s,sport=5201" % PUBLIC in s.appctl("dpctl/dump-conntrack", "zone=9")


def test_path_mtu_discovery():
    """A router behind the translation says which size passes: its error reaches the client with the client's own address inside."""
    s, client, router = gateway(RULES.format(nat="src=%s" % PUBLIC))
    far = lab.Network()
    lab.sh("ip", "link", "add", "eth1", "mtu", "1200", "netns", router.name, "type", "veth", "peer", "name", "eth0", "mtu", "1500",
           "netns", far.name)
    router.run("ip", "address", "add", "10.3.0.1/24", "dev", "eth1")
    router.run("ip", "link", "set", "eth1", "up")
    router.run("sysctl", "-q", "net.ipv4.ip_forward=1")
    far.run("ip", "address", "add", FAR + "/24", "dev", "eth0")
    far.run("ip", "link", "set", "eth0", "up")
    far.run("ip", "route", "add", "default", "via", "10.3.0.1")
    client.run("ip", "route", "add", "10.3.0.0/24", "via", SERVER)
    far.spawn("python3", "-c", SINK)
    listens(far, 9000)
    assert client.run("python3", "-c", UPLOAD, FAR, str(SIZE), timeout=30).strip() == str(SIZE)
    assert "mtu 1200" in client.run("ip", "route", "get", FAR), client.run("ip", "route", "get", FAR)
    assert "dst=%s,sport=9000" % PUBLIC in s.appctl("dpctl/dump-conntrack", "zone=9")


def test_sip():
    """Nothing is changed in SIP, which has no helper: the addresses in its text stay, those of its packets are translated."""
    _, client, server = gateway(RULES.format(nat="src=%s" % PUBLIC))
    server.spawn("python3", "-c", SIP_SERVER)
    listens(server, 5060, "-Huln")
    assert client.run("python3", "-c", SIP_CLIENT % {"server": SERVER}).strip() == PUBLIC
