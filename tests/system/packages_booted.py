"""The packages on a host with systemd: the service and its names, and the programs that configure the host's network by it.

TEST_LONG=1 only: each test makes a Debian of its own from the archive, and boots it in a container.
"""
import glob

from lib import booted, lab, rooted

# Cables for the host: the other end of p0 is in namespace g0.
CABLES = """[Unit]
DefaultDependencies=no
Before=network-pre.target
Wants=network-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -ec 'for i in 0 1 2; do ip link add p$$i type veth peer name q$$i; ip link set q$$i up; done; \\
    ip netns add g0; ip link set q0 netns g0; ip -n g0 address add 10.1.0.2/24 dev q0; ip -n g0 link set q0 up'
[Install]
WantedBy=sysinit.target
"""
NETPLAN = """network:
  version: 2
  renderer: networkd
  openvswitch:
    external-ids: {key: value}
    ports: [[patch0-1, patch1-0]]
  ethernets: {p0: {}, p1: {}, p2: {}}
  bonds:
    bond0:
      interfaces: [p1, p2]
      parameters: {mode: balance-slb}
      openvswitch: {lacp: passive}
  bridges:
    br9:
      interfaces: [p0, bond0, patch0-1]
      addresses: [10.1.0.1/24]
      openvswitch: {fail-mode: standalone, protocols: [OpenFlow10, OpenFlow13]}
    br8:
      interfaces: [patch1-0]
      openvswitch: {controller: {addresses: ["tcp:127.0.0.1:6653"], connection-mode: out-of-band}}
  vlans:
    vlan7: {id: 7, link: br9, addresses: [10.7.0.1/24], openvswitch: {}}
"""
NETPLAN_AND_NETWORKMANAGER = NETPLAN.replace("renderer: networkd", "renderer: NetworkManager").replace(
    "{p0: {}, p1: {}, p2: {}}", "{p0: {renderer: networkd}, p1: {renderer: networkd}, p2: {renderer: networkd}}")
# With a datapath that the stock switch has also without its kernel module.
IFUPDOWN = """auto lo
iface lo inet loopback
auto br9
allow-ovs br9
iface br9 inet static
    address 10.1.0.1/24
    ovs_type OVSBridge
    ovs_ports p0 vlan7 bond0
    ovs_extra set bridge br9 datapath_type=netdev
allow-br9 p0
iface p0 inet manual
    ovs_bridge br9
    ovs_type OVSPort
allow-br9 vlan7
iface vlan7 inet static
    address 10.7.0.1/24
    ovs_type OVSIntPort
    ovs_bridge br9
    ovs_options tag=7
allow-br9 bond0
iface bond0 inet manual
    ovs_bridge br9
    ovs_type OVSBond
    ovs_bonds p1 p2
    ovs_options bond_mode=balance-slb
"""
NMCLI = """
add() { nmcli -w 60 connection add "$@" >/dev/null; }
add type ovs-bridge con-name br9 conn.interface br9 ovs-bridge.datapath-type netdev
add type ovs-port con-name port0 conn.interface port0 controller br9
add type ovs-interface con-name if-mgmt0 conn.interface mgmt0 port-type ovs-port controller port0 ipv6.method disabled \\
    ipv4.method manual ipv4.addresses 10.1.0.1/24
add type ovs-port con-name port1 conn.interface port1 controller br9
add type ethernet con-name p0 conn.interface p0 port-type ovs-port controller port1
add type ovs-port con-name port7 conn.interface port7 controller br9 ovs-port.tag 7
add type ovs-interface con-name if-vlan7 conn.interface vlan7 port-type ovs-port controller port7 ipv6.method disabled \\
    ipv4.method manual ipv4.addresses 10.7.0.1/24
add type ovs-port con-name bond0 conn.interface bond0 controller br9 ovs-port.bond-mode balance-slb
add type ethernet con-name p1 conn.interface p1 port-type ovs-port controller bond0
add type ethernet con-name p2 conn.interface p2 port-type ovs-port controller bond0
for name in br9 port0 if-mgmt0 port1 p0 port7 if-vlan7 bond0 p1 p2; do nmcli -w 60 connection up $name >/dev/null; done
"""
SWITCH, COMPAT = "./sluice-switch_*.deb", "./sluice-ovs-compat_*.deb"
NAMES = ["sluiced", "openvswitch-switch", "ovsdb-server", "ovs-vswitchd", "ovs-record-hostname"]


def host(suite, programs):
    if not rooted.LONG:
        raise lab.Skip("TEST_LONG=1 runs it")
    debs = rooted.built(lab.scratch())
    return booted.Host(suite, programs, [debs["sluice-switch"], debs["sluice-ovs-compat"]])


def has_the_service(h):
    """Checks that Sluice runs, and that every name of Open vSwitch's units refers to it; returns its unit's state."""
    units = [h.unit(name) for name in NAMES]
    assert all(unit == units[0] for unit in units) and "active" in units[0] and "0" not in units[0], units
    assert "Sluice" in h.run("ovs-appctl", "version")
    return units[0]


def is_back(h):
    """Checks that the stock switch runs, with the database."""
    assert "inactive" in h.unit("sluiced") and "Sluice" not in h.run("ovs-appctl", "version")
    assert "br0" in h.vsctl("list-br")


def answers(h, after):
    """The other end of the host's cable answers to the address on the bridge."""
    lab.wait_until(lambda: "1 received" in h.run("ping", "-c", "1", "-W", "1", "10.1.0.2", check=False), "ping after: " + after, 20)


def carries(h):
    """The host's address on its bridge answers, before and after a restart and a crash."""
    for change in ("true", "systemctl restart openvswitch-switch", "kill -ABRT $(cat /run/openvswitch/ovs-vswitchd.pid)"):
        h.run("sh", "-c", change)
        answers(h, change)
        assert "10.7.0.1" in h.run("ip", "-br", "-4", "address"), change
    bond = h.vsctl("get", "port", "bond0", "bond_mode", "interfaces")
    assert bond.startswith("balance-slb") and bond.count("-") > 8, bond
    assert "\n7\n" in "\n" + h.vsctl("--columns=tag", "--bare", "list", "port"), "the VLAN's tag"
    assert not h.vsctl("--columns=name,error", "find", "interface", "error!=[]").strip()


def test_service_and_its_names():
    """With systemd: instead of the stock switch and back, with a start of the host after each; a crash; an address that stays."""
    h = host("bookworm", ["ifupdown", "netplan.io"])
    h.boot()
    # In the steps of the guide: beside the stock switch, then instead of it.
    h.apt(SWITCH)
    assert "inactive" in h.unit("sluiced") and "Sluice" not in h.run("ovs-appctl", "version")
    h.apt(SWITCH, COMPAT)
    has_the_service(h)
    h.reboot()
    before = has_the_service(h)
    h.vsctl("add-br", "br0")
    h.script("ip address add 10.2.0.1/24 dev br0; ip link set br0 up; kill -ABRT $(cat /run/openvswitch/ovs-vswitchd.pid)")
    lab.wait_until(lambda: h.unit("sluiced") != before and "active" in h.unit("sluiced"), "the switch is started again", 20)
    has_the_service(h)
    assert "10.2.0.1" in h.run("ip", "-br", "address", "show", "dev", "br0"), "the host's address stays"
    # netplan's units and ifupdown's hook, each at a start of the host.
    h.write("/etc/systemd/system/cables.service", CABLES)
    h.script("ovs-vsctl del-br br0; systemctl enable cables systemd-networkd")
    h.write("/etc/netplan/ovs.yaml", NETPLAN)
    h.reboot()
    assert not h.failed(), h.failed()
    carries(h)
    assert "patch1-0" in h.vsctl("get", "interface", "patch0-1", "options:peer")
    assert "out-of-band" in h.vsctl("get", "controller", "br8", "connection_mode")
    h.script("rm /etc/netplan/ovs.yaml; netplan generate; netplan apply --only-ovs-cleanup")
    assert not h.vsctl("list-br").strip()
    h.write("/etc/network/interfaces", IFUPDOWN)
    h.reboot()
    assert not h.failed(), h.failed()
    carries(h)
    h.script("ifdown br9")
    assert not h.vsctl("list-br").strip()
    # Back. A unit of the stock switch waits for the network to be online; networkd, which has no device any more, would wait in vain.
    h.script("systemctl disable --now systemd-networkd")
    h.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
    lab.sh("cp", *glob.glob(h.archives + "/openvswitch-switch_*.deb"), h.path + "/root")
    h.apt("./openvswitch-switch_*.deb")
    is_back(h)
    h.reboot()
    is_back(h)
    assert not h.failed(), h.failed()
    answers(h, "a start of the host with the stock switch")
    # Once more, and with packages that were removed but not purged.
    h.apt(COMPAT)
    has_the_service(h)
    h.script("apt-get -y -q remove sluice-switch sluice-ovs-compat")
    owned = h.script("find /etc/openvswitch /var/lib/openvswitch /var/log/openvswitch -user sluice")
    assert not owned.strip(), owned
    h.apt(SWITCH, COMPAT)
    has_the_service(h)
    h.reboot()
    has_the_service(h)
    answers(h, "a start of the host with the packages again")
    h.end()


def test_networkmanager():
    """NetworkManager of Debian unstable, with its Open vSwitch plugin: bridge, VLAN, bond, a restart of each side; netplan beside it."""
    h = host("sid", ["network-manager", "network-manager-ovs", "netplan.io"])
    h.boot()
    h.apt(SWITCH, COMPAT)
    h.write("/etc/systemd/system/cables.service", CABLES)
    h.script("systemctl enable --now cables")
    h.script(NMCLI)
    carries(h)
    # When NetworkManager restarts, it sometimes loses the internal interfaces of a userspace datapath, also with the stock switch.
    h.script("systemctl restart NetworkManager; nmcli -w 60 connection up if-mgmt0; nmcli -w 60 connection up if-vlan7")
    carries(h)
    h.script("nmcli -w 60 connection down if-vlan7; nmcli -w 60 connection up if-vlan7; nmcli connection delete port1 p0")
    assert "p0" not in h.vsctl("show")
    # netplan gives NetworkManager the other devices, and networkd those of the switch.
    h.script("nmcli connection delete br9 port0 if-mgmt0 port7 if-vlan7 bond0 p1 p2; systemctl enable systemd-networkd")
    assert not h.vsctl("list-br").strip()
    h.write("/etc/netplan/ovs.yaml", NETPLAN_AND_NETWORKMANAGER)
    h.reboot()
    carries(h)
    h.end()
