"""OVN's services for guests, which the switch's packet-ins, continuations and rewritten packets carry."""
import socket
import struct

from lib import lab, ovn_net, raw

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

ALL_DHCP6, ROUTER_MAC = "33:33:00:01:00:02", "02:00:00:00:00:fe"

DNS_QUERY = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(3)
name = b"".join(bytes([len(part)]) + part for part in sys.argv[1].encode().split(b"."))
s.sendto(b"\\x12\\x34\\x01\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\0\\1\\0\\1", ("10.9.0.53", 53))
print(socket.inet_ntoa(s.recv(512)[-4:]))
"""


def cloud():
    """Two chassis, and a router with two logical switches."""
    c = ovn_net.Cloud(2)
    c.router("r", ("sw0", ROUTER_MAC, "10.0.0.254/24", "fd00::fe/64"), ("sw1", "02:00:00:00:01:fe", "10.0.1.254/24", "fd01::fe/64"))
    return c


def guests(c):
    near = c.member(1, 0, 1, "near")
    far = c.member(2, 0, 2, "far")
    return near, far


def dhcp6_message(kind, mac, *options):
    client_id = struct.pack("!HHHH", 1, 10, 3, 1) + raw.mac(mac)
    body = bytes([kind, 0, 0x12, 0x34]) + client_id + struct.pack("!HHIII", 3, 12, 1, 0, 0) + b"".join(options)
    return raw.mac(ALL_DHCP6) + raw.mac(mac) + b"\x86\xdd" + raw.udp6("fe80::ff:fe00:9", "ff02::1:2", 546, 547, body)


def test_dhcp_dns_and_router_advertisements():
    """A guest gets its IPv4 address by DHCP, an IPv6 address from a router advertisement and one by DHCPv6, and OVN
    answers its DNS queries."""
    c = cloud()
    nbctl = c.central.nbctl
    lab.need("busybox")
    mac = "02:00:00:00:00:09"
    guest = c.guest(1, "sw0", "guest", mac, security=False)
    guest.run("sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=2")
    v4 = nbctl("create", "dhcp_options", "cidr=10.0.0.0/24", "options:server_id=10.0.0.254", "options:lease_time=3600",
               "options:server_mac=\"%s\"" % ROUTER_MAC, "options:router=10.0.0.254", "options:mtu=1400").strip()
    v6 = nbctl("create", "dhcp_options", "cidr=\"fd00::/64\"", "options:server_id=\"%s\"" % ROUTER_MAC).strip()
    record = nbctl("create", "dns", "records={\"web.example\"=\"10.0.0.77\"}").strip()
    nbctl("lsp-set-addresses", "guest", mac + " 10.0.0.9 fd00::9", "--", "lsp-set-dhcpv4-options", "guest", v4,
          "--", "lsp-set-dhcpv6-options", "guest", v6, "--", "set", "logical_switch", "sw0", "dns_records=" + record,
          "--", "set", "logical_router_port", "r-sw0", "ipv6_ra_configs:address_mode=slaac", "ipv6_ra_configs:mtu=1400",
          "ipv6_ra_configs:send_periodic=true", "ipv6_ra_configs:max_interval=4", "ipv6_ra_configs:min_interval=3")
    c.central.sync()
    script = c.central.dir + "/lease"
    with open(script, "w") as f:
        f.write("#!/bin/sh\n[ $1 = bound ] && ip address add $ip/$mask dev $interface && ip link set $interface mtu $mtu\nexit 0\n")
    lab.sh("chmod", "+x", script)
    guest.run("busybox", "udhcpc", "-q", "-n", "-t", "5", "-T", "1", "-i", "eth0", "-s", script)
    device = guest.run("ip", "address", "show", "dev", "eth0")
    assert "10.0.0.9/24" in device and "mtu 1400" in device, device
    guest.run("ip", "route", "add", "default", "via", "10.0.0.254")
    assert guest.pings("10.0.1.254")
    assert guest.run("python3", "-c", DNS_QUERY, "web.example").strip() == "10.0.0.77"
    s = raw.socket_in(guest)
    server_id = b""
    for what, kind, wanted in (("solicit", 1, 2), ("request", 3, 7)):
        s.send(dhcp6_message(kind, mac, server_id))
        reply = raw.receive(s, lambda f: f[12:14] == b"\x86\xdd" and f[20] == 17 and f[54:58] == struct.pack("!HH", 547, 546))
        assert reply and reply[62] == wanted, "%s: %r" % (what, reply)
        assert socket.inet_pton(socket.AF_INET6, "fd00::9") in reply, reply
        at = reply.index(struct.pack("!HH", 2, 10))
        server_id = reply[at:at + 14]
    lab.wait_until(lambda: "fd00::ff:fe00:9/64" in guest.run("ip", "-6", "address", "show", "dev", "eth0"),
                   "an address from a router advertisement", 12)
    c.check()


def test_responders_and_port_security():
    """OVN answers ARP requests and neighbour solicitations itself; forged addresses of a guest are dropped."""
    c = cloud()
    near, far = guests(c)
    c.central.sync()
    assert near.pings("10.0.0.2") and near.pings("fd00::2") and near.pings("10.0.0.254") and near.pings("fd00::fe")
    far.run("ip", "link", "set", "eth0", "down")
    # The guest cannot answer any more.
    near.run("ip", "neighbour", "flush", "dev", "eth0")
    near.run("ping", "-c", "1", "-W", "0.2", "10.0.0.2", check=False)
    near.run("ping", "-c", "1", "-W", "0.2", "fd00::2", check=False)
    neighbours = near.run("ip", "neighbour", "show", "dev", "eth0")
    for ip in ("10.0.0.2", "fd00::2"):
        assert "%s lladdr 02:00:00:00:00:02" % ip in neighbours, neighbours
    far.run("ip", "link", "set", "eth0", "up")
    far.run("ip", "address", "replace", "fd00::2/64", "dev", "eth0", "nodad")
    lab.wait_until(lambda: near.pings("10.0.0.2", 1), "the guest is there again")
    near.run("ip", "address", "add", "10.0.0.66/24", "dev", "eth0")
    near.run("ip", "address", "add", "fd00::66/64", "dev", "eth0", "nodad")
    assert "0 received" in near.run("ping", "-I", "10.0.0.66", "-c", "2", "-i", "0.1", "-W", "0.3", "10.0.0.2", check=False)
    assert "0 received" in near.run("ping", "-I", "fd00::66", "-c", "2", "-i", "0.1", "-W", "0.3", "fd00::2", check=False)
    s, heard = raw.socket_in(near), raw.socket_in(far)
    payload = raw.ip4("10.0.0.1", "10.0.0.2", 253, b"mark me")
    s.send(raw.mac(far.mac) + raw.mac("02:00:00:00:66:66") + b"\x08\x00" + payload)
    s.send(raw.mac(far.mac) + raw.mac(near.mac) + b"\x08\x00" + payload)
    frame = raw.receive(heard, lambda f: b"mark me" in f)
    assert frame and frame[6:12] == raw.mac(near.mac), frame
    c.check()


def test_multicast_relay():
    """A group's packets reach only ports that joined, on both chassis and through the router."""
    lab.need_long_run()
    c = cloud()
    near, far = guests(c)
    other = c.guest(2, "sw1", "other", "02:00:00:00:01:01", "10.0.1.1/24", gateway="10.0.1.254")
    quiet = c.guest(1, "sw1", "quiet", "02:00:00:00:01:02", "10.0.1.2/24", gateway="10.0.1.254")
    nbctl = c.central.nbctl
    for switch, source in (("sw0", "10.0.0.254"), ("sw1", "10.0.1.254")):
        nbctl("set", "logical_switch", switch, "other_config:mcast_snoop=true", "other_config:mcast_querier=true",
              "other_config:mcast_eth_src=\"%s\"" % ROUTER_MAC, "other_config:mcast_ip4_src=" + source)
    nbctl("set", "logical_router", "r", "options:mcast_relay=true")
    c.central.sync()
    for guest in (far, other):
        guest.run("sysctl", "-qw", "net.ipv4.conf.eth0.force_igmp_version=2")
        guest.spawn("python3", "-c", "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt("
                    "socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + bytes(4)); time.sleep(60)")
    lab.wait_until(lambda: c.central.sbctl("--columns=address", "list", "igmp_group").count("239.1.2.3") == 2, "two groups")
    c.central.sync()
    s = raw.socket_in(near)
    heard = {guest: raw.socket_in(guest) for guest in (far, other, quiet)}
    datagram = struct.pack("!HHHH", 1, 2, 13, 0) + b"group"

    def send():
        s.send(bytes.fromhex("01005e010203") + raw.mac(near.mac) + b"\x08\x00" + raw.ip4("10.0.0.1", "239.1.2.3", 17, datagram, ttl=8))
    for guest in (far, other):
        def arrives():
            send()
            return raw.receive(heard[guest], lambda f: b"group" in f, 0.2)
        lab.wait_until(arrives, "the group's packets")
    assert raw.receive(heard[quiet], lambda f: b"group" in f, 0.2) is None
    c.check()
