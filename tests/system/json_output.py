"""The JSON of tools and of the metrics server has the fields that docs/json.md describes, and no others."""
import json
import os
import re
import socket
import subprocess

from lib import lab
from lib.pair import switch_with_two_namespaces

ANY_LOAD = True
SLUICE = os.path.join(lab.ROOT, "target", "release", "sluice")
ROW = re.compile(r"^\| `(\S+)` \| (.*) \|$", re.M)


def described():
    """By heading: the fields as lists of segments, with their meanings."""
    with open(os.path.join(lab.ROOT, "docs", "json.md")) as f:
        sections = re.split(r"^## `(.*)`$", f.read(), flags=re.M)[1:]
    return {title: [(segments(path), meaning) for path, meaning in ROW.findall(text)] for title, text in zip(sections[::2], sections[1::2])}


def segments(path):
    return tuple(s for s in path.replace("[]", ".[]").split(".") if s)


def fields(value, at=()):
    """The places of all values that are not objects or lists, and of empty objects and lists."""
    if isinstance(value, dict) and value:
        return {p for key, one in value.items() for p in fields(one, at + (key,))}
    if isinstance(value, list) and value:
        return {p for one in value for p in fields(one, at + ("[]",))}
    return {at}


def fits(place, pattern):
    """Whether a description covers a place: segment by segment, where `*` is any name."""
    return len(place) <= len(pattern) and all(p == q or (q == "*" and p != "[]") for p, q in zip(place, pattern))


def compare(title, known, answers):
    """Every field is described, and what is described as always there was seen."""
    places = set().union(*(fields(answer) for answer in answers))
    # These have the fields of another description.
    open_ended = [pattern for pattern, _ in known if pattern[0] in ("tables-of-answers", "recent-drops") or pattern == ("tables",) or pattern[-2:] == ("rebalance", "[]")]

    def is_described(place):
        # A place that ends early is null or empty.
        exact = any(len(place) == len(pattern) and fits(place, pattern) for pattern, _ in known)
        empty = any(len(place) < len(pattern) and fits(place, pattern) for pattern, _ in known)
        return exact or empty or any(fits(place[:len(p)], p) for p in open_ended)

    unknown = [".".join(p) for p in places if not is_described(p)]
    assert not unknown, "%s: not in docs/json.md: %s" % (title, sorted(unknown))
    missing = [".".join(pattern) for pattern, meaning in known
               if not meaning.endswith("not always") and not any(len(p) == len(pattern) and fits(p, pattern) for p in places)
               and pattern not in open_ended]
    assert not missing, "%s: not seen: %s" % (title, missing)


def test_names_of_json():
    """Each tool with --json and each answer of the metrics server, against docs/json.md, in both directions."""
    s, a, b = switch_with_two_namespaces()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # A finding for `sluice doctor`. The first controller of a bridge clears its flows.
    s.vsctl("set-controller", "br0", "tcp:127.0.0.1:1")
    s.ofctl("del-flows", "br0")
    for flow in ("priority=9,icmp,nw_dst=10.1.1.9,actions=drop", "priority=5,icmp,ct_state=-trk,actions=ct(commit,zone=3,table=1)",
                 "table=1,actions=NORMAL", "priority=1,actions=NORMAL"):
        s.ofctl("add-flow", "br0", flow)
    s.vsctl("set", "interface", a.port, "external_ids:iface-id=sw0-p1", "other_config:rx-pool=spp")
    a.run("ip", "neigh", "add", "10.1.1.9", "lladdr", "02:00:00:00:00:09", "dev", "eth0")
    a.spawn("ping", "-i", "0.1", "10.1.1.2", **quiet)
    a.spawn("ping", "-i", "0.1", "10.1.1.9", **quiet)
    target, metrics = ["-t", "%s/%s.ctl" % (s.dir, s.name)], "%s/%s.metrics.sock" % (s.dir, s.name)

    def tool(*words):
        out = subprocess.run([SLUICE, *words], env=s.env, capture_output=True, text=True, timeout=60)
        assert out.stdout, out.stderr
        return json.loads(out.stdout)

    def http(path):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(metrics)
            connection.sendall(b"GET %s HTTP/1.1\r\n\r\n" % path.encode())
            return json.loads(connection.makefile("rb").read().split(b"\r\n\r\n", 1)[1])

    lab.wait_until(lambda: len(http("/api/drops")["recent"]) and http("/api/megaflows")["megaflows"], "packets are forwarded and dropped")
    lab.wait_until(lambda: tool("doctor", "--json")["findings"], "doctor has findings")
    top = ["top", *target, "--once", "--interval=0.3", "--json"]
    answers = {
        "/api/metrics": [http("/api/metrics"), tool("metrics", "--target", metrics, "--json")],
        "/api/drops": [http("/api/drops")],
        "/api/megaflows": [http("/api/megaflows")],
        "/api/trace": [http("/api/trace?bridge=br0&flow=in_port%3D1"), http("/api/trace?bridge=br0&flow=x"), http("/api/last-drop")],
        "/api/why": [http("/api/why?flow=icmp,nw_dst=10.1.1.9&port=" + a.port), http("/api/why?flow=x"), http("/api/why?flow=arp")],
        "sluice top --json": [tool(*top)],
        "sluice top --page=ports --json": [tool(*top, "--page=ports")],
        "sluice top --page=flows --json": [tool(*top, "--page=flows")],
        "sluice top --page=connections --json": [tool(*top, "--page=connections")],
        "sluice drops --json": [tool("drops", *target, "--json"), tool(*top, "--page=drops")],
        "sluice drops --list --json": [tool("drops", "--list", "--json")],
        "sluice why --json": [tool("why", *target, "--json", "--seconds=0.6", "icmp", "10.1.1.1", to) for to in ("10.1.1.2", "10.1.1.9")],
        "sluice pool --json": [tool("pool", *target, "--json")],
        "sluice pmd --json plan": [tool("pmd", *target, "--json", "plan")],
        "sluice settings --json": [tool("settings", "--json")],
        "sluice doctor --json": [tool("doctor", "--json")],
    }
    known = described()
    assert set(known) == set(answers), set(known) ^ set(answers)
    for title, of_title in answers.items():
        compare(title, known[title], of_title)
    ports, = tool(*top, "--page=ports")["datapaths"].values()
    assert {p["port"]: p["logical-port"] for p in ports}[a.port] == "sw0-p1", ports
    assert "  sw0-p1\n" in subprocess.run([SLUICE, "top", *target, "--once", "--page=ports", "--interval=0.1"], env=s.env, capture_output=True,
                                          text=True, timeout=60).stdout
    said = subprocess.run([SLUICE, "why", *target, "--seconds=0.6", "icmp", "10.1.1.1", "10.1.1.2"], env=s.env, capture_output=True, text=True, timeout=60)
    assert "OVN calls port %s sw0-p1." % a.port in said.stdout, said
