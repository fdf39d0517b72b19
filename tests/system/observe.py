"""Metrics, JSON and the web page: real Prometheus, and a headless browser."""
import contextlib
import json
import os
import re
import socket
import subprocess
import urllib.parse
import urllib.request

from lib import browser, lab
from lib.observed import Switch, answer
from lib.pair import SENDER

ANY_LOAD = True
PACKAGING = os.path.join(lab.ROOT, "packaging", "prometheus")
SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")
# Seconds that Prometheus scrapes. Four samples are enough for a rate; set TEST_LONG for a minute.
SCRAPE = 60 if os.environ.get("TEST_LONG") else 4
# Metrics of rx queues and stages of poll threads that have packets.
OF_POLL_THREADS = re.compile("latency_bound|stage_sampled")
# Sends a TCP packet that belongs to no connection, again and again.
UNASKED = """
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
while True:
    s.sendto(struct.pack("!HHIIBBHHH", 7, 8, 1, 1, 80, 18, 100, 0, 0), ("10.0.0.12", 0))
    time.sleep(0.1)
"""


def series(text):
    """The samples of Prometheus' text: name with labels to value."""
    return {m[1]: float(m[2]) for m in re.finditer(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.M)}


def test_socket_tcp_and_tool_agree():
    """The Unix socket, TCP, OpenMetrics, JSON and `sluice metrics` have the same series; the numbers are those of the commands."""
    s = Switch()
    s.ping()
    lab.wait_until(lambda: s.value("sluice_port_receive_packets_total", port=s.a.port) > 5, "packets are counted")
    by_tcp, by_tool = s.get("/metrics"), s.client(SLUICE, "metrics")
    opened = s.get("/metrics", "application/openmetrics-text")
    assert opened.endswith("# EOF\n") and "# UNIT process_cpu_seconds seconds" in opened
    # Counters of events appear with their first event.
    names = [{n for n in series(text) if not n.startswith(("sluice_events", "sluice_metrics_server"))} for text in (by_tcp, by_tool, opened)]
    assert names[0] == names[1] == names[2] and len(names[0]) > 100, names[0] ^ names[1] | names[0] ^ names[2]
    whole = s.json("/api/metrics")
    assert whole["schema"] == 1 and {n.split("{")[0] for n in names[0]} <= set(whole["metrics"])
    of_tool = json.loads(s.client(SLUICE, "metrics", "--json", "sluice_port_"))
    assert all(name.startswith("sluice_port_") for name in of_tool["metrics"]) and len(of_tool["metrics"]) > 8
    # Without flows the counters of a port stand still, so that they can be compared.
    s.ofctl("del-flows", "br0")
    rows = s.vsctl("--columns=name,ofport,mtu", "--format=csv", "--no-headings", "list", "interface", s.b.port).strip().split(",")
    assert s.value("sluice_port_mtu_bytes", port=s.b.port) == int(rows[2]), rows
    assert s.value("sluice_port_info", port=s.b.port, ofport=rows[1], type="system") == 1
    assert s.value("sluice_bridge_ports", bridge="br0") == 3

    def same():
        sent = re.search(r"tx pkts=(\d+)", s.ofctl("dump-ports", "br0", s.b.port))[1]
        return s.value("sluice_port_transmit_packets_total", port=s.b.port) == int(sent) > 5

    lab.wait_until(same, "both count the same packets")


def test_objects_appear_when_they_are_configured():
    """Controllers, BFD, LACP, meters, zones with limits, failed interfaces: their metrics follow the configuration."""
    s = Switch()
    s.vsctl("set-controller", "br0", "tcp:127.0.0.1:1", "--", "set", "interface", s.a.port, "bfd:enable=true", "--", "set", "port", s.b.port, "lacp=active",
            "--", "--may-exist", "add-port", "br0", "not-there")
    s.client("ovs-ofctl", "-O", "OpenFlow13", "add-meter", "br0", "meter=7,pktps,band=type=drop,rate=1")
    s.appctl("dpctl/ct-set-limits", "zone=5,limit=10")
    wanted = [("sluice_controller_connected", {"bridge": "br0", "controller": "tcp:127.0.0.1:1"}, 0), ("sluice_port_bfd_up", {"port": s.a.port}, 0),
              ("sluice_port_lacp_current", {"port": s.b.port}, 0), ("sluice_meter_packets_total", {"meter": "7"}, 0),
              ("sluice_conntrack_zone_connections_limit", {"zone": "5"}, 10), ("sluice_failed_interfaces", {}, 1)]

    def missing():
        samples = s.json("/api/metrics")["metrics"]

        def value(name, labels):
            family = samples.get(name, {"labels": [], "samples": []})
            found = [v for ls, v in family["samples"] if labels.items() <= dict(zip(family["labels"], ls)).items()]
            return found[0] if found else None

        return [w for w in wanted if value(w[0], w[1]) != w[2]]

    lab.wait_until(lambda: not missing(), "all objects have metrics")


class Prometheus:
    """Debian's Prometheus, which scrapes a switch each second."""

    def __init__(self, switch):
        program, folder, self.address = lab.need("prometheus"), lab.scratch(), "127.0.0.1:%d" % lab.free_port()
        with open(PACKAGING + "/prometheus.yml") as f:
            config = f.read().replace("127.0.0.1:9310", switch).replace("15s", "1s").replace("sluice.rules", PACKAGING + "/sluice.rules")
        with open(folder + "/p.yml", "w") as f:
            f.write(config)
        lab.spawn([program, "--config.file=%s/p.yml" % folder, "--storage.tsdb.path=%s/data" % folder, "--web.listen-address=" + self.address,
                   "--log.level=error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def query(self, expression):
        url = "http://%s/api/v1/query?%s" % (self.address, urllib.parse.urlencode({"query": expression}))
        with urllib.request.urlopen(url, timeout=20 * lab.PATIENCE) as answer:
            return json.load(answer)["data"]["result"]

    def scrapes(self, number):
        """Waits until it has scraped, and checks that no scrape failed."""
        def scraped():
            try:
                found = self.query("count_over_time(up{job=\"sluice\"}[5m])")
            except OSError:
                return False
            return found and int(found[0]["value"][1]) >= number

        lab.wait_until(scraped, "Prometheus has scraped", 40 + number)
        assert self.query("min_over_time(up{job=\"sluice\"}[5m])")[0]["value"][1] == "1"


def dashboard():
    """The queries of the dashboard."""
    with open(PACKAGING + "/sluice-dashboard.json") as f:
        panels = json.load(f)["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [e.replace("$instance", ".*").replace("$__rate_interval", "1m") for e in asked]


def test_prometheus():
    """Debian's Prometheus scrapes; promtool accepts page, rules and example; every query of the dashboard returns data."""
    promtool = lab.need("promtool")
    s = Switch()
    s.ping()
    s.ping("10.0.0.9", 0.2)
    for text in (s.get("/metrics"), s.get("/metrics", "text/plain")):
        problems = lab.sh(promtool, "check", "metrics", input=text)
        assert not problems, problems
    lab.sh(promtool, "check", "rules", PACKAGING + "/sluice.rules.yml")
    lab.sh(promtool, "check", "config", PACKAGING + "/prometheus.yml")
    server = Prometheus(s.url[7:])
    server.scrapes(SCRAPE)
    asked = dashboard()
    assert len(asked) > 25
    # Rx queues of poll threads have histograms, and busy poll threads have stages. This switch has no poll threads;
    # `test_latency_and_stages` tests both.
    empty = [e for e in asked if not server.query(e) and not OF_POLL_THREADS.search(e)]
    assert not empty, empty
    dropped = server.query('sum(rate(sluice_drops_total{reason="drop_action_of_pipeline"}[1m]))')
    assert float(dropped[0]["value"][1]) > 0
    # Each rule can be evaluated; in this switch nothing but the start is worth an alert.
    with open(PACKAGING + "/sluice.rules.yml") as f:
        alerts = re.findall(r"- alert: (\w+)", f.read())
    with urllib.request.urlopen("http://%s/api/v1/rules" % server.address) as answer:
        rules = [r for g in json.load(answer)["data"]["groups"] for r in g["rules"]]
    assert sorted(alerts) == sorted(r["name"] for r in rules) and all(not r.get("lastError") for r in rules), rules


def switch_with_many_ports(n):
    s = lab.Switch(ours=True, args=["--enable-dummy=override", "--disable-system"], datapath_type="dummy", database="embedded")
    s.start()
    s.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", "fail_mode=secure")
    words = [w for i in range(n) for w in ("--", "add-port", "br0", "d%d" % i, "--", "set", "interface", "d%d" % i, "type=dummy")]
    s.vsctl(*words[1:])
    return s


def test_scrapes_of_many_ports():
    """A scrape of 1,000 ports takes little CPU time of the main thread and of the server; the number of series is what the guide says.
    Clients that do not read such a large answer do not keep others out."""
    n = 1000
    s = switch_with_many_ports(n)

    def scrape():
        found = series(s.client(SLUICE, "metrics"))
        return found, found["sluice_metrics_server_cpu_seconds_total"], found["sluice_publish_cpu_seconds_total"]

    lab.wait_until(lambda: "sluice_port_up{bridge=\"br0\",port=\"d%d\"}" % (n - 1) in scrape()[0], "all ports are shown")
    found, _, _ = scrape()
    # A port of this type has no counters of errors, and one rx queue of the main thread.
    of_port = [name for name in found if "port=\"d7\"" in name]
    assert (len(of_port), len([name for name in of_port if "queue=" in name])) == (15, 7), of_port
    assert len(found) < n * 15 + 400 and not any(name.startswith("sluice_metrics_omitted") and value for name, value in found.items())

    def cost():
        """CPU seconds of one view of the main thread and of one answer, which may come while the next view is not due yet."""
        _, server, main = scrape()
        taken = []

        def has_new_view():
            taken.append(scrape())
            return taken[-1][2] > main

        lab.wait_until(has_new_view, "the main thread publishes a view")
        return (taken[-1][1] - server) / len(taken) + taken[-1][2] - main

    # The least of four, because a busy machine makes each longer. 10,000 ports take 50 ms.
    least = min(cost() for _ in range(4))
    print("  a scrape of %d ports: %.1f ms of CPU time" % (n, least * 1000), flush=True)
    assert least < 0.02, least
    # More clients than the server serves at once, by the Unix socket and by TCP.
    address = ("127.0.0.1", lab.free_port())
    s.vsctl("set", "open_vswitch", ".", 'other_config:metrics-listen="%s:%d"' % address)
    lab.wait_until(lambda: "metrics and the web page are at" in s.log(), "the switch listens")

    def connect(at):
        c = socket.socket(socket.AF_UNIX if isinstance(at, str) else socket.AF_INET)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.settimeout(20 * lab.PATIENCE)
        c.connect(at)
        # The server closes the connection at once if it has too many.
        with contextlib.suppress(ConnectionError):
            c.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        return c

    for at, places in ((s.dir + "/sluiced.metrics.sock", 16), (address, 48)):
        # After this scrape, these answers need not wait for a new view.
        scrape()
        non_readers = [connect(at) for _ in range(places + 4)]

        def is_served():
            with connect(at) as c, contextlib.suppress(ConnectionError):
                return b"sluice_build_info" in answer(c)

        lab.wait_until(is_served, "a client that reads is served at %s" % (at,), 8)
        for c in non_readers:
            c.close()


def test_web_page():
    """The page in a browser: no other server is asked; threads, ports, reasons of drops and a trace; keyboard; both colour schemes."""
    b = browser.Browser()
    s = Switch()
    s.ping()
    s.ping("10.0.0.9", 0.1)
    b.set_view(1280, dark=False)
    b.open(s.url + "/")
    b.until("document.querySelectorAll('#cards article').length == 1 && !!document.querySelector('#port-rows tr')", "threads and ports are shown")
    b.until("document.getElementById('findings').innerText.includes('packets/s are dropped: drop action of pipeline')", "drops are named")
    b.until("/The OpenFlow tables send the packet nowhere/.test(document.getElementById('reason-rows').innerText)", "their meaning is explained")
    b.until("[...document.querySelectorAll('#port-rows tr')].some(r => r.innerText.includes('%s') && /up/.test(r.innerText))" % s.a.port, "the port is up")
    b.until("document.querySelectorAll('#megaflow-rows tr').length > 1", "megaflows are shown")
    s.vsctl("set", "interface", s.a.port, "external_ids:iface-id=sw0-p1")
    b.until("[...document.querySelectorAll('#port-rows tr')].some(r => r.innerText.includes('%s') && /sw0-p1/.test(r.innerText))" % s.a.port, "OVN's name")
    # By keyboard alone: the first tab stop skips the menu; a flow is typed and traced.
    b.evaluate("document.body.focus()")
    b.press("Tab")
    assert b.evaluate("document.activeElement.className") == "skip"
    b.evaluate("document.getElementById('trace-flow').focus(); document.getElementById('trace-flow').value = 'icmp,in_port=1,nw_dst=10.0.0.9'")
    b.press("Enter")
    b.until("/table 0/.test(document.getElementById('trace-result').innerText) && !!document.querySelector('.pipeline li.drop')", "the trace shows the drop")
    b.evaluate("document.getElementById('trace-flow').value = 'nonsense'; document.getElementById('trace-form').requestSubmit()")
    b.until("/nonsense/.test(document.getElementById('trace-result').innerText)", "a wrong flow is an error")
    b.evaluate("[...document.querySelectorAll('#recent-rows tr')].find(r => r.innerText.includes('10.0.0.9')).querySelector('button').click()")
    b.until("!!document.querySelector('.pipeline li.drop') && /10.0.0.9/.test(document.getElementById('trace-flow').value)", "a dropped packet is traced")
    b.until("/The rule that drops it, bridge br0: .*nw_dst=10.0.0.9/.test(document.querySelector('.sentences')?.innerText)", "the rule is named")
    # A port that comes: the page follows. No name is read as HTML, nor what is typed as a flow.
    evil = "<img src=x onerror=hacked=1>"
    s.vsctl("add-port", "br0", "<b>'\"x", "--", "set", "interface", "<b>'\"x", "type=internal", "external_ids:iface-id=\"%s\"" % evil)
    s.vsctl("add-br", "<i>&lt;", "--", "set", "bridge", "<i>&lt;", "datapath_type=netdev")
    b.until("['<b>', evil, '<i>&lt;'].every(t => document.getElementById('port-rows').innerText.includes(t))".replace("evil", json.dumps(evil)), "the new port is shown")
    b.evaluate("document.getElementById('trace-flow').value = %s; document.getElementById('trace-form').requestSubmit()" % json.dumps(evil))
    b.until("document.getElementById('trace-result').innerText.includes(%s)" % json.dumps(evil), "the flow is an error")
    assert b.evaluate("document.querySelectorAll('main b, main i:not(.bar i), main img').length") == 0
    # The browser itself refuses text as elements in this page.
    assert b.evaluate("(() => { try { document.body.innerHTML = '<b>'; } catch (e) { return e.name } })()") == "TypeError"
    controls = "[...document.querySelectorAll('input, select, button')].filter(e => !(e.innerText || e.closest('label')?.innerText || e.ariaLabel)).length"
    assert b.evaluate(controls) == 0, "a control has no name"
    for width in (1280, 390):
        for dark in (False, True):
            b.set_view(width, dark)
            assert b.evaluate("document.documentElement.scrollWidth") == width
            colours = b.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor].map(c => c.match(/\\d+/g)[0] * 1)")
            assert (colours[0] > colours[1]) == dark, colours
    # Two items with one key (threads that drop packets of the same flow): as many rows after each update.
    twice = "(() => { const t = document.createElement('tbody'); for (const n of [1, 2, 3]) rows(t, [n, 7], () => 'same', (x) => [{ text: x }]);"
    assert b.evaluate(twice + " return [...t.children].map(r => r.innerText).join() })()") == "3,7"
    # Browsers log answers with an error code, as those to the wrong flows, and what a page's policy forbids.
    assert all("/api/trace?" in e or "TrustedHTML" in e for e in b.errors), b.errors
    assert all(url.startswith((s.url, "data:", "about:")) for url in b.requests), b.requests
    s.stop()
    b.until("!document.getElementById('error').hidden", "the page says that the switch is gone")


def malformed_tunnel(s, a):
    """Packets with an invalid tunnel header: VXLAN without the flag that says that it has a network identifier."""
    s.vsctl("add-port", "br0", "vx0", "--", "set", "interface", "vx0", "type=vxlan", "options:remote_ip=10.0.0.1", "options:key=flow")
    lab.sh("ip", "address", "add", "10.0.0.100/24", "dev", "br0")
    lab.sh("ip", "link", "set", "br0", "up")
    a.spawn("python3", "-c", "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "while True: s.sendto(bytes(100), ('10.0.0.100', 4789)); time.sleep(0.05)")


def upcall_backlog(s, a):
    """More new flows than one handler thread can translate: each packet passes sixty tables."""
    s.vsctl("set", "open_vswitch", ".", "other_config:n-handler-threads=1")
    tables = "".join("table=%d,actions=resubmit(,%d)\n" % (n, n + 1) for n in range(100, 160))
    whole = "move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],move:NXM_OF_IP_DST[]->NXM_NX_REG1[],output:2"
    s.ofctl("add-flows", "br0", "-", input=tables + "table=160,ip,actions=%s\npriority=99,udp,tp_dst=9,actions=resubmit(,100)\n" % whole)
    for _ in range(2):
        a.spawn("python3", "-c", SENDER, "100000000", "lambda r: r.randbytes(8)", stdout=subprocess.DEVNULL)


def test_reasons_of_drops():
    """Ten causes of drops, made on purpose: each is in the JSON and on the page in a browser, with its reason and its port."""
    page = browser.Browser()
    s = Switch()
    a, b, slow = s.a, s.b, lab.Namespace("10.0.0.3/24")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    s.vsctl("add-port", "br0", slow.port)
    for last in (11, 12, 13, 14):
        a.run("ip", "neigh", "add", "10.0.0.%d" % last, "lladdr", "02:00:00:00:00:%02x" % last, "dev", "eth0")
    s.client("ovs-ofctl", "-O", "OpenFlow13", "add-meter", "br0", "meter=1,pktps,band=type=drop,rate=1")
    s.client("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0", "priority=20,icmp,nw_dst=10.0.0.11,actions=meter:1,NORMAL")
    # Replies whose requests connection tracking has not seen; a packet whose TTL a router has used up.
    for flow in ("priority=20,tcp,nw_dst=10.0.0.12,ct_state=-trk,actions=ct(table=1)", "table=1,tcp,ct_state=+inv+trk,actions=drop",
                 "priority=20,icmp,nw_dst=10.0.0.13,nw_ttl=1,actions=drop"):
        s.ofctl("add-flow", "br0", flow)
    a.run("ip", "link", "set", "eth0", "mtu", "4000")
    lab.sh("ip", "link", "set", a.port, "mtu", "4000")
    # The access list, and the meter.
    s.ping("10.0.0.9")
    s.ping("10.0.0.11")
    a.spawn("ping", "-q", "-i", "0.1", "-s", "3000", "-M", "do", "10.0.0.2", **quiet)
    a.spawn("ping", "-q", "-i", "0.1", "-t", "1", "10.0.0.13", **quiet)
    # A TCP acknowledgement without a connection.
    a.spawn("python3", "-c", UNASKED, **quiet)
    s.vsctl("set", "interface", b.port, "ingress_policing_rate=8", "ingress_policing_burst=8")
    b.spawn("ping", "-q", "-i", "0.05", "-s", "1000", "10.0.0.1", **quiet)
    # Packets for a device whose queue is full.
    lab.sh("tc", "qdisc", "replace", "dev", slow.port, "root", "tbf", "rate", "8kbit", "burst", "1600", "limit", "1600")
    a.spawn("ping", "-q", "-i", "0.02", "-s", "1400", "10.0.0.3", **quiet)
    malformed_tunnel(s, a)
    # An output to a port that the datapath does not have: a megaflow that is added by hand, and removed when it is revalidated.
    s.ping("10.0.0.14", 0.02)
    number = re.search(r"port (\d+): %s\b" % a.port, s.appctl("dpctl/show"))[1]
    mac = json.loads(a.run("ip", "-j", "link", "show", "eth0"))[0]["address"]
    nowhere = "in_port(%s),eth(src=%s,dst=02:00:00:00:00:0e),eth_type(0x0800),ipv4(dst=10.0.0.14,frag=no)" % (number, mac)

    def shown():
        drops = s.json("/api/drops")
        if not any(d["reason"] == "invalid_port" for d in drops["recent"]):
            # First remove the megaflow that the switch itself has made.
            s.appctl("dpctl/del-flows")
            s.appctl("dpctl/add-flow", nowhere, "99", check=False)
        counted = {r["reason"] for r in drops["reasons"] if sum(r["packets"].values())}
        assert {d["reason"] for d in drops["recent"]} <= counted
        return {(d["reason"], d["direction"], d["port"], d["hint"]) for d in drops["recent"] if d["flow"]}

    ttl = "its TTL is used up"
    wanted = {("drop_action_of_pipeline", "receive", a.port, None), ("meter", "receive", a.port, None), ("tx_mtu_exceeded", "transmit", b.port, None),
              ("rx_qos", "receive", b.port, None), ("tx_failed", "transmit", slow.port, None), ("invalid_port", "transmit", None, None),
              ("drop_action_of_pipeline", "receive", a.port, "invalid for connection tracking"),
              ("drop_action_of_pipeline", "receive", a.port, ttl), ("tunnel_pop_error", "receive", a.port, None)}

    def all_shown(of):
        try:
            lab.wait_until(lambda: of <= shown(), "all reasons are shown", 20)
        except AssertionError:
            raise AssertionError("missing: %s" % (of - shown())) from None

    all_shown(wanted)
    # A port that does not exist has no name.
    for reason, direction, port, _ in filter(lambda cause: cause[2], wanted):
        assert s.value("sluice_port_drops_total", port=port, direction=direction, reason=reason) > 0
    # The main thread's part of the metrics is up to a second old.
    lab.wait_until(lambda: s.value("sluice_meter_exceeding_packets_total", bridge="br0", meter="1") > 0, "the meter has counted")
    lab.wait_until(lambda: s.value("sluice_port_receive_dropped_packets_total", port=b.port) > 0, "the port has counted")
    page.set_view(1280, dark=False)
    page.open(s.url + "/")

    def on_page(reason, direction, port, hint):
        place = ("in by " if direction == "receive" else "out by ") + (port or "")
        words = [reason.replace("_", " "), *([place] if port else [])]
        rows = "[...document.querySelectorAll('#%s tr')].some(r => %s.every(w => r.innerText.includes(w)))"
        page.until(rows % ("reason-rows", json.dumps(words)), "the page names %s at %s" % (reason, port))
        if hint:
            page.until(rows % ("recent-rows", json.dumps([hint])), "the page says: " + hint)

    for cause in sorted(wanted, key=str):
        on_page(*cause)
    upcall_backlog(s, a)
    all_shown({("upcall_backlog", "receive", a.port, None)})
    on_page("upcall_backlog", "receive", a.port, None)


def test_queues_move_on_the_page():
    """A queue that moves to another poll thread moves on the page and in the metrics."""
    from lib import dpdk
    dpdk.need()
    b = browser.Browser()
    s = dpdk.Switch()
    s.other_config.update({"pmd-cpu-mask": "0x1", "pmd-sleep-max": "1000", "metrics-listen": "127.0.0.1:%d" % lab.free_port()})
    s.start()
    s.secure_bridge("br0")
    s.add("br0", ("quiet", 1, "dpdk", {"dpdk-devargs": "net_ring1"}))
    b.open("http://%s/" % s.other_config["metrics-listen"])
    shown = "[...document.querySelectorAll('#cards article')].find(c => c.innerText.includes('quiet · 0'))?.innerText.includes('%s')"
    b.until(shown % "pmd-c00", "the queue is shown with its thread")
    pools = json.loads(lab.sh(SLUICE, "metrics", "--target", "ovs-vswitchd", "--json", "sluice_memory_pool_", env=s.env))["metrics"]
    assert pools["sluice_memory_pool_buffers"]["samples"][0][1] > 0 and len(pools) == 2, pools
    s.vsctl("set", "open_vswitch", ".", "other_config:pmd-cpu-mask=0x2")
    b.until(shown % "pmd-c01", "the queue is shown with its new thread")


def test_latency_and_stages():
    """A poll thread under load: each stage has its cycles, and the histogram of its queue has all packets; the page shows both."""
    from lib import dpdk
    dpdk.need()
    b = browser.Browser()
    s = dpdk.Switch()
    address = "127.0.0.1:%d" % lab.free_port()
    s.other_config.update({"pmd-cpu-mask": "0x1", "metrics-listen": address})
    s.start()
    s.secure_bridge("br0")
    # Such a port has packets at any time.
    s.add("br0", ("source", 1, "dpdk", {"dpdk-devargs": "net_null0"}))
    s.ofctl("add-flow", "br0", "in_port=1,actions=in_port")

    def metrics():
        with urllib.request.urlopen("http://%s/api/metrics?name=sluice_thread_stage&name=sluice_rxq" % address, timeout=20 * lab.PATIENCE) as answer:
            found = json.load(answer)["metrics"]
        return {name: {tuple(ls): v for ls, v in family["samples"]} for name, family in found.items()}

    stages = "sluice_thread_stage_sampled_cycles_total"
    place = ("netdev@ovs-netdev", "pmd-c00")
    lab.wait_until(lambda: metrics()["sluice_thread_stage_sampled_packets_total"].get(place, 0) > 8, "iterations are sampled")
    found = metrics()
    assert all(found[stages][(*place, stage)] > 0 for stage in ("receive", "extract", "lookup", "execute", "transmit", "overhead")), found[stages]
    histogram = found["sluice_rxq_latency_bound_seconds"][(place[0], "source", "0")]
    counts = [n for _, n in histogram["buckets"]]
    assert counts == sorted(counts) and counts[-1] == histogram["count"] >= found["sluice_rxq_packets_total"][(place[0], "source", "0")] * 0.9
    assert 0 < histogram["sum"] / histogram["count"] < 0.1, histogram
    # The queries of the dashboard for which a switch needs poll threads with packets.
    server = Prometheus(address)
    server.scrapes(3)
    asked = [e for e in dashboard() if OF_POLL_THREADS.search(e)]
    assert asked and all(server.query(e) for e in asked), asked
    b.open("http://%s/" % address)
    card = "[...document.querySelectorAll('#cards article')].find(c => c.innerText.includes('source · 0'))?.innerText"
    b.until("/Cycles of a packet: receive \\d+.*, extract \\d+.*, overhead \\d+/.test(%s)" % card, "cycles by stage are shown")
    b.until("/≤ \\d+ [µm]s/.test(%s)" % card, "the latency is shown")
