"""Faucet controls the switch: a real controller with a pipeline of many tables, VLANs and a router."""
import os

from lib import lab
from lib.faucet import Faucet, faucet

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SETTINGS = """
vlans:
  office: {vid: 100, faucet_mac: "0e:00:00:00:01:00", faucet_vips: ["10.100.0.254/24"]}
  guest: {vid: 200, faucet_mac: "0e:00:00:00:02:00", faucet_vips: ["10.200.0.254/24"]}
routers:
  both: {vlans: [office, guest]}
acls:
  no-telnet:
    - rule: {dl_type: 0x800, nw_proto: 6, tcp_dst: 23, actions: {allow: false}}
    - rule: {actions: {allow: true}}
dps:
  sw1:
    dp_id: 0x1
    hardware: Open vSwitch
    interfaces:
      1: {native_vlan: office, acls_in: [no-telnet]}
      2: {native_vlan: office}
      3: {native_vlan: guest}
      4: {native_vlan: guest}
"""


def ping(ns, address):
    return " 0% packet loss" in ns.run("ping", "-c", "1", "-W", "1", address, check=False)


def connects(ns, server, port):
    """A TCP connection of `ns` to a port of `server` transfers data."""
    listener = server.spawn("python3", "-c", "import socket; s = socket.create_server(('', %d)); s.settimeout(20); "
                            "c, _ = s.accept(); n = 0\nwhile n < 100000: n += len(c.recv(65536)) or exit(1)" % port)
    try:
        lab.wait_until(lambda: ":%d " % port in server.run("ss", "-ltn"), "the server listens")
        ns.run("python3", "-c", "import socket; s = socket.create_connection(('%s', %d), 3); s.sendall(bytes(100000)); s.recv(1)"
               % (server.address.split("/")[0], port), check=False)
        return listener.wait(5) == 0
    except Exception:
        return False
    finally:
        listener.kill()


def test_vlans_and_a_router():
    """Hosts of a VLAN reach each other; hosts of two VLANs only through Faucet's router; its ACL applies."""
    program = faucet()
    s = lab.Switch().start()
    hosts = [lab.Namespace("10.%d.0.%d/24" % (net, n)) for net, n in ((100, 1), (100, 2), (200, 1), (200, 2))]
    s.add_bridge("br0")
    s.vsctl("set", "bridge", "br0", "fail_mode=secure", "protocols=OpenFlow13", "other_config:datapath-id=%016x" % 1)
    for number, host in enumerate(hosts, 1):
        s.vsctl("add-port", "br0", host.port, "--", "set", "interface", host.port, "ofport_request=%d" % number)
    a, b, c, d = hosts
    # One host of each VLAN has a default route.
    a.run("ip", "route", "add", "default", "via", "10.100.0.254")
    c.run("ip", "route", "add", "default", "via", "10.200.0.254")
    controller = Faucet(program, s.dir, SETTINGS, 20000 + os.getpid() % 20000)
    s.vsctl("set-controller", "br0", "tcp:127.0.0.1:%d" % controller.port)
    lab.wait_until(lambda: "Configuring VLAN" in controller.log(), "Faucet configures the switch:\n" + controller.log(), 60)
    for here, there in ((a, "10.100.0.2"), (d, "10.200.0.1"), (a, "10.100.0.254"), (c, "10.200.0.254"), (a, "10.200.0.1")):
        lab.wait_until(lambda: ping(here, there), "%s reaches %s" % (here.address, there), 20)
    assert connects(a, b, 7000) and connects(a, c, 7000), s.ofctl("-OOpenFlow13", "dump-flows", "br0")
    assert not connects(a, b, 23), "the ACL does not hold"
    # Without a route the other VLAN cannot be reached, and its broadcasts are not received.
    for host in (b, d):
        host.run("ip", "route", "add", "10.0.0.0/8", "dev", "eth0")
    assert not ping(b, "10.200.0.2") and "lladdr" not in b.run("ip", "neigh", "show", "10.200.0.2")
    errors = [line for line in controller.log().splitlines() if "OFError" in line]
    assert not errors, errors
