"""The server of metrics and the web page: clients that misbehave, pages of other sites, and addresses that cannot be used."""
import os
import re
import resource
import socket
import threading
import time

from lib import lab
from lib.observed import Switch, answer

ANY_LOAD = True
SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")


def foreign_pages(ask):
    """Requests that pages of other sites make, also of sites whose name resolves to this host, are refused; the user's own are not."""
    for path, headers, code in (("/api/drops", "Host: evil.example:9310", 421), ("/", "Host: 127.0.0.1.evil.example", 421), ("/", "Host: x\r\nHost: y", 400),
                                ("/api/drops", "Host: 127.0.0.1:1\r\nSec-Fetch-Site: cross-site", 403),
                                ("/api/why?flow=ip", "Host: localhost\r\nSec-Fetch-Site: same-site", 403),
                                ("/", "Host: localhost:1\r\nSec-Fetch-Site: cross-site", 200), ("/api/drops", "Host: [::1]:1\r\nSec-Fetch-Site: same-origin", 200),
                                ("/metrics", "Host: hypervisor1:9310", 200)):
        got = ask(("GET %s HTTP/1.1\r\n%s\r\n\r\n" % (path, headers)).encode())
        assert got.startswith("HTTP/1.1 %d " % code), (path, headers, got[:200])
        assert "Access-Control" not in got and "Cross-Origin-Resource-Policy: same-origin" in got


def cpu_time_is_limited(s, ask):
    """Clients that send requests without a pause wait: the server's thread uses a fifth of a core, and the time that it had not used before."""
    used, start = s.value("sluice_metrics_server_cpu_seconds_total"), time.monotonic()

    def loop():
        while time.monotonic() < start + 3:
            assert ask(b"GET /api/drops HTTP/1.1\r\n\r\n")

    clients = [threading.Thread(target=loop) for _ in range(3)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    used = s.value("sluice_metrics_server_cpu_seconds_total") - used
    assert used < 0.25 * (time.monotonic() - start) + 0.35, used


def test_clients_that_misbehave():
    """Slow readers and writers, 1,000 connections, huge requests, paths and methods: bounded, and others are served meanwhile."""
    s = Switch()
    address = ("127.0.0.1", int(s.url.rsplit(":", 1)[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def ask(request):
        with socket.create_connection(address, timeout=20 * lab.PATIENCE) as c:
            try:
                c.sendall(request)
                return answer(c).decode(errors="replace")
            except ConnectionError:
                return "reset"

    for path in ("/../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/metrics/", "/%00", "/api", "/api/trace/../metrics"):
        assert ask(b"GET %s HTTP/1.1\r\n\r\n" % path.encode()).startswith(("HTTP/1.1 404", "HTTP/1.1 400")), path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "CONNECT"):
        assert ask(b"%s / HTTP/1.1\r\n\r\n" % method.encode()).startswith("HTTP/1.1 405"), method
    for request in (b"\0" * 100 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01"):
        assert ask(request).startswith("HTTP/1.1 400"), request
    # The first request is answered, and the answer arrives, whatever follows it: other requests, a body, 10 MB.
    get, page, much = b"GET / HTTP/1.1\r\nHost: x\r\n", "HTTP/1.1 200", b"x" * 10_000_000
    for request, status in ((get + b"A: b\r\n" * 2_000_000, "HTTP/1.1 431"), (get + b"A: " + much, "HTTP/1.1 431"), ((get + b"\r\n") * 10_000, page),
                            (get + b"Content-Length: 10000000\r\n\r\n" + much, page), (b"POST" + get[3:] + b"\r\n" + much, "HTTP/1.1 405"),
                            (get + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + much, page),
                            (get + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n\x81\x85", page),
                            (get + b"Range: bytes=0-0\r\n\r\n", page), (b"GET http://x:1/ HTTP/1.1\r\n\r\n", page)):
        got = ask(request)
        assert got.startswith(status) and (status != page or got.endswith("</html>\n")), (request[:80], got[:200])
    # A trace accepts no options, so that a request cannot send packets (`-generate`).
    for query in ("bridge=br0&flow=-generate", "bridge=--generate&flow=in_port%3D1", "bridge=br0", "bridge=br0&flow=" + "x" * 5000):
        assert ask(b"GET /api/trace?%s HTTP/1.1\r\n\r\n" % query.encode()).startswith("HTTP/1.1 400"), query
    foreign_pages(ask)
    cpu_time_is_limited(s, ask)
    before = memory(s)
    # 1,000 clients that send half a request, and 30 that do not read their answer.
    idle = []
    for _ in range(1000):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(address)
        idle.append(c)
    non_readers = [socket.create_connection(address, timeout=20) for _ in range(30)]
    for c in non_readers:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    for c in idle[:200]:
        try:
            c.send(b"GET /met")
        except OSError:
            pass
    started = time.time()
    # The Unix socket has connections of its own; a whole request by TCP is served, too, since waiting clients make room.
    assert "sluice_build_info" in s.client(SLUICE, "metrics")
    assert "sluice_build_info" in s.get("/metrics")
    assert time.time() - started < 15 * lab.PATIENCE
    assert s.value("sluice_metrics_server_connections") <= 64
    # Samples may be a quarter of a second old.
    lab.wait_until(lambda: s.value("sluice_metrics_server_closed_connections_total") > 100, "connections are cut")
    assert s.appctl("version") and memory(s) - before < 100_000, "memory grew"
    for c in idle + non_readers:
        c.close()


def memory(s):
    """Resident memory of the daemon, in kB."""
    with open("/proc/%d/status" % s.daemon.pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def test_addresses_that_cannot_be_used():
    """metrics-listen: a wrong address and one in use are logged; the switch works on, and follows the next value."""
    s = Switch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for wrong, why in (("9310", "not an address and a port"), ("localhost:9310", "not an address and a port"), ("127.0.0.1:99999", "not an address"),
                           ("127.0.0.1:%d" % taken.getsockname()[1], "Address already in use"), ("192.0.2.1:9310", "Cannot assign requested address")):
            s.listen(wrong)
            lab.wait_until(lambda: "metrics-listen=%s: %s" % (wrong, why) in s.log(), "%s is refused" % wrong)
    assert "sluice_build_info" in s.client(SLUICE, "metrics")
    s.listen(s.url[7:])
    lab.wait_until(lambda: s.log().count("metrics and the web page are at") == 2, "the switch listens again")
    assert "sluice_build_info" in s.get("/metrics")
    s.vsctl("remove", "open_vswitch", ".", "other_config", "metrics-listen")

    def refused():
        try:
            s.get("/metrics")
        except OSError:
            return True

    lab.wait_until(refused, "the switch does not listen any more")
    assert not s.stop() and not os.path.exists(s.socket)
