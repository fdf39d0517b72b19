"""Tunnels between our switch and Linux: the tunnel devices of the kernel in a guest, because this machine's kernel may not have them."""
import types

from lib import dpdk, lab, overlay, qemu

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

MODULES = ("net/ipv4/udp_tunnel", "net/ipv6/ip6_udp_tunnel", "drivers/net/vxlan/vxlan", "drivers/net/geneve", "net/ipv4/gre",
           "net/ipv4/ip_tunnel", "net/ipv4/ip_gre", "net/ipv6/tunnel6", "net/ipv6/ip6_tunnel", "net/ipv6/ip6_gre")
# The type of our tunnel and of the kernel's device, whether IPv6 is outside, the options of our tunnel, and those of the device.
ENDS = (("vxlan", "vxlan", False, {"key": 7}, "id 7 dstport 4789"),
        ("vxlan", "vxlan", False, {"key": 7, "csum": "true"}, "id 7 dstport 4789 udpcsum"),
        ("vxlan", "vxlan", False, {"key": 7, "exts": "gbp"}, "id 7 dstport 4789 gbp"),
        ("vxlan", "vxlan", True, {"key": 7}, "id 7 dstport 4789"),
        ("geneve", "geneve", False, {"key": 7}, "id 7"),
        ("geneve", "geneve", True, {"key": 7}, "id 7"),
        ("gre", "gretap", False, {"key": 7}, "key 7"),
        ("gre", "gretap", False, {"key": 7, "csum": "true", "seq": "true"}, "key 7 csum seq"),
        ("gre", "ip6gretap", True, {"key": 7}, "key 7"),
        ("erspan", "erspan", False, {"key": 7, "erspan_ver": 1, "erspan_idx": 5}, "seq key 7 erspan_ver 1 erspan 5"),
        ("erspan", "erspan", False, {"key": 7, "erspan_ver": 2, "erspan_dir": 1, "erspan_hwid": 4},
         "seq key 7 erspan_ver 2 erspan_dir egress erspan_hwid 4"),
        ("erspan", "ip6erspan", True, {"key": 7, "erspan_ver": 1, "erspan_idx": 5}, "seq key 7 erspan_ver 1 erspan 5"))
LINUX = types.SimpleNamespace(v4="172.31.0.2", v6="fd31::2", guest_v4="10.31.0.2", guest_v6="fd00:31::2")


def joined():
    """A host with our switch, and a guest with Linux on its `br-ex`."""
    lab.need_root()
    host = overlay.Host(1)
    host.switch = s = dpdk.Switch.for_guests(False)
    if not s.ours:
        raise lab.Skip("guests without DPDK")
    s.network = host.net
    s.start().add_bridge("br-ex")
    s.vsctl("add-port", "br-ex", "v0", "--", "set", "interface", "v0", "type=dpdkvhostuserclient",
            "options:vhost-server-path=" + s.socket("v0"))
    host.add_guest()
    guest = qemu.Guest(s.socket("v0"), folder=s.dir, programs=("/usr/sbin/ip",), modules=MODULES)
    # busybox has its own `ip`, which has fewer features.
    guest.do("/bin/ip link set eth0 up && /bin/ip address add %s/24 dev eth0 && /bin/ip address add %s/64 dev eth0 nodad"
             % (LINUX.v4, LINUX.v6))
    return host, guest


def add_device(host, guest, kind, v6, options):
    """Makes the guest's end of a tunnel, in the place of an earlier one, whose MAC address it keeps. Geneve has no local address."""
    mac = "" if kind == "gre" else "address 02:00:00:00:00:02"
    local = "" if kind == "geneve" else "local " + (LINUX.v6 if v6 else LINUX.v4)
    guest.run("/bin/ip link delete tun")
    guest.do("/bin/ip link add tun %s type %s remote %s %s %s" % (mac, kind, host.v6 if v6 else host.v4, local, options))
    guest.do("/bin/ip link set tun mtu 1300 up && /bin/ip address add %s/24 dev tun && /bin/ip address add %s/64 dev tun nodad"
             % (LINUX.guest_v4, LINUX.guest_v6))


def reaches_host(guest, host):
    out = guest.run("ping -c 3 -i 0.2 -W 5 %s" % host.guest_v4)[1] + guest.run("ping -6 -c 3 -i 0.2 -W 5 -s 1200 %s" % host.guest_v6)[1]
    return out.count(" 0% packet loss") == 2


def test_each_kind_of_tunnel():
    """Echo requests in both directions, short and long, with IPv4 and IPv6 inside."""
    host, guest = joined()
    wrong = []
    for ours, kernels, v6, options, words in ENDS:
        add_device(host, guest, kernels, v6, words)
        host.tunnel(ours, LINUX, v6, **options)
        what = "%s, %s" % (kernels, words)
        try:
            lab.wait_until(lambda: host.pings(LINUX, count=1, wait=1), what, 15)
        except AssertionError:
            wrong.append(what)
            continue
        ok = (host.pings(LINUX), host.pings(LINUX, size=1200), host.pings(LINUX, v6=True), reaches_host(guest, host))
        if not all(ok):
            wrong.append("%s: %s" % (what, ok))
    assert not wrong, wrong


def test_packets_without_ethernet():
    """A GRE device of layer 3 and a port with `packet_type=legacy_l3`."""
    host, guest = joined()
    add_device(host, guest, "gre", False, "key 7")
    host.tunnel("gre", LINUX, key=7, packet_type="legacy_l3")
    mac = host.guest.run("cat", "/sys/class/net/eth0/address").strip()
    for address in (LINUX.guest_v4, LINUX.guest_v6):
        host.guest.run("ip", "neighbour", "replace", address, "lladdr", "02:00:00:00:00:01", "dev", "eth0")
    for flow in ("in_port=tun,actions=mod_dl_dst:%s,output:guest" % mac, "in_port=guest,ip,actions=output:tun",
                 "in_port=guest,ipv6,actions=output:tun"):
        host.switch.ofctl("add-flow", "br-int", "priority=9," + flow)
    lab.wait_until(lambda: host.pings(LINUX, count=1, wait=1), "the tunnel", 15)
    assert host.pings(LINUX, size=1200) and host.pings(LINUX, v6=True) and reaches_host(guest, host)
