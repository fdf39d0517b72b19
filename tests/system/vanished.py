"""Devices that disappear under their ports (deleted, renamed, moved to another namespace), and return."""
import json
import os
import re

from lib import lab


def row(s, port):
    """The columns of an interface that show its state."""
    columns = ["ofport", "error", "link_state", "admin_state", "mac_in_use", "statistics", "status"]
    table = json.loads(s.vsctl("--columns=" + ",".join(columns), "--format=json", "list", "Interface", port))
    # An empty set or map is printed as nothing.
    return {column: None if value in (["set", []], ["map", []]) else value
            for column, value in zip(table["headings"], table["data"][0])}


def is_gone(s, bridge, port):
    """Checks that everything shows the port as one without a device."""
    columns_by_name = row(s, port)
    error = "could not open network device %s (No such device)" % port
    return (columns_by_name.pop("ofport") == -1 and columns_by_name.pop("error") == error and not any(columns_by_name.values())
            and "(%s)" % port not in s.ofctl("show", bridge))


def works(s, bridge, port, number):
    columns_by_name = row(s, port)
    return columns_by_name["error"] is None and columns_by_name["ofport"] == number and columns_by_name["link_state"] == "up" and \
        re.search(r" %d\(%s\)" % (number, port), s.ofctl("show", bridge))


def test_devices_that_vanish():
    """A port whose device is deleted, renamed or moved shows it in its row, the log and OpenFlow, and forwards
    nothing. When the device returns, the port forwards under its old number. Other ports are not affected."""
    lab.need_root()
    s = lab.Switch().start()
    br = lab.unique("slb")
    a, b, c = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24"), lab.Namespace("10.1.1.3/24")
    s.add_bridge(br, a.port, b.port, c.port)
    # The flow names the port by number, which must mean the same device again.
    s.ofctl("add-flow", br, "priority=9,in_port=2,actions=NORMAL")
    ping = ["ping", "-c", "1", "-W", "1"]

    def reaches(source, target):
        return " 0% packet loss" in source.run(*ping, target, check=False)

    def check_gone(how):
        lab.wait_until(lambda: is_gone(s, br, b.port), "%s: %s is reported" % (how, b.port))
        assert not reaches(b, "10.1.1.1"), how + ": it forwards on"
        assert reaches(a, "10.1.1.3"), how + ": neighbours"

    def check_back(how):
        lab.wait_until(lambda: works(s, br, b.port, 2), "%s: %s is back" % (how, b.port))
        lab.wait_until(lambda: reaches(b, "10.1.1.1"), how + ": it forwards")

    assert reaches(b, "10.1.1.1")
    lab.sh("ip", "link", "del", b.port)
    check_gone("deleted")
    # An unrelated change neither repairs nor removes the port.
    s.vsctl("set", "bridge", br, "external_ids:x=1")
    assert is_gone(s, br, b.port)
    b.make_devices()
    check_back("made anew")
    for command in ("down", "name"), ("up",):
        lab.sh("ip", "link", "set", b.port if "down" in command else b.port + "x", command[0])
        if "name" in command:
            lab.sh("ip", "link", "set", b.port, "name", b.port + "x")
    check_gone("renamed")
    lab.sh("ip", "link", "set", b.port + "x", "down")
    lab.sh("ip", "link", "set", b.port + "x", "name", b.port)
    lab.sh("ip", "link", "set", b.port, "up")
    check_back("named as before")
    lab.sh("ip", "link", "set", b.port, "netns", b.name)
    check_gone("moved away")
    b.run("ip", "link", "set", b.port, "netns", str(os.getpid()))
    lab.sh("ip", "link", "set", b.port, "up")
    check_back("moved back")
    # Logged once each time, and not again while the device is missing.
    assert s.log().count("could not open network device %s (No such device)" % b.port) == 3, s.log()


def test_devices_of_the_switch_that_vanish():
    """An internal port that somebody deletes is created again at once; one moved to another namespace and renamed keeps working."""
    lab.need_root()
    s = lab.Switch().start()
    br, port = lab.unique("slb"), lab.unique("sli")
    s.add_bridge(br)
    s.vsctl("add-port", br, port, "--", "set", "Interface", port, "type=internal")
    old = s.vsctl("get", "Interface", port, "ifindex")
    lab.sh("ip", "link", "del", port)
    lab.wait_until(lambda: s.vsctl("get", "Interface", port, "ifindex") not in (old, "[]\n"), "another device")
    lab.sh("ip", "link", "show", port)
    assert row(s, port)["ofport"] == 1
    n, peer = lab.Network(), lab.Namespace("10.1.1.2/24")
    s.vsctl("add-port", br, peer.port)
    lab.sh("ip", "link", "set", port, "netns", n.name)
    n.run("ip", "link", "set", port, "name", "eth0")
    n.run("ip", "address", "add", "10.1.1.1/24", "dev", "eth0")
    n.run("ip", "link", "set", "eth0", "up")
    lab.wait_until(lambda: " 0% packet loss" in n.run("ping", "-c", "1", "-W", "1", "10.1.1.2", check=False), "it forwards")
    assert row(s, port)["ofport"] == 1 and row(s, port)["error"] is None
