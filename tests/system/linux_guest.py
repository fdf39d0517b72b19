"""Features of Linux in a guest that this machine's kernel may lack: bonds of the bonding driver, and queueing disciplines."""
import re

from lib import dpdk, lab, qemu

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

MODULES = ("net/tls/tls", "drivers/net/bonding/bonding")
DISCIPLINES = ("net/sched/sch_sfq", "net/sched/sch_codel", "net/sched/sch_netem", "net/sched/sch_htb", "net/sched/sch_hfsc",
               "drivers/net/veth", "drivers/net/tun")
BOND = """echo +bond0 > /sys/class/net/bonding_masters && cd /sys/class/net/bond0/bonding && echo %s > mode && echo 50 > miimon
for device in eth0 eth1; do ip link set $device down; echo +$device > slaves; done
cd / && ip address add 10.9.0.2/24 dev bond0 && ip link set bond0 up"""
# The type and settings of a row, and a pattern for what `tc` shows of the device.
ROWS = (("sfq", "perturb=7", r"qdisc sfq .* quantum \d+b .*perturb 7sec"),
        ("codel", "target=7000 interval=90000 limit=500", r"qdisc codel .*limit 500p target 7ms interval 90ms"),
        ("fq_codel", "flows=64 quantum=600 limit=700", r"qdisc fq_codel .*limit 700p flows 64 quantum 600 "),
        ("netem", "latency=20000 jitter=3000 loss=2", r"qdisc netem .*limit \d+ delay 20ms  3ms loss 2%"),
        ("htb", "max-rate=9000000", r"qdisc htb 1: root .*default 0x1"),
        ("hfsc", "max-rate=9000000", r"qdisc hfsc 1: root .*default 0?x?1"))


def bonded(guest, mode):
    """Makes a bond of this mode of the guest's two devices, in the place of an earlier one."""
    if guest.run("test -e /sys/class/net/bond0")[0] == 0:
        guest.do("echo -bond0 > /sys/class/net/bonding_masters")
    guest.do("; ".join((BOND % mode).splitlines()))


def test_bonds_of_linux():
    """A bond of the guest's kernel and ours, by 802.3ad (LACP) and as active backup: traffic passes, also when a link is not used any more."""
    lab.need_root()
    s = dpdk.Switch.for_guests(False).start()
    if not s.ours:
        raise lab.Skip("guests without DPDK")
    host = lab.Namespace("10.9.0.1/24")
    s.add_bridge("br0", host.port)
    words = [word for name in ("v0", "v1") for word in
             ("--", "set", "interface", name, "type=dpdkvhostuserclient", "options:vhost-server-path=" + s.socket(name))]
    s.vsctl("add-bond", "br0", "bond0", "v0", "v1", "bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast", *words)
    guest = qemu.Guest(s.socket("v0"), s.socket("v1"), folder=s.dir, programs=("ethtool",), modules=MODULES)
    # The kernel aggregates only links whose speed it knows, and those of a guest have none.
    guest.do("for d in eth0 eth1; do ethtool -s $d speed 1000 duplex full; done")
    shows = lambda command, *words: all(word in s.appctl(command, "bond0") for word in words)
    reaches = lambda: " 0% packet loss" in host.run("ping", "-c", "3", "-i", "0.2", "-W", "1", "10.9.0.2", check=False)
    bonded(guest, "802.3ad")
    lab.wait_until(lambda: shows("bond/show", "lacp_status: negotiated", "member v0: enabled", "member v1: enabled"), "LACP", 30)
    lab.wait_until(reaches, "the guest", 20)
    text = guest.do("cat /proc/net/bonding/bond0")
    aggregators = re.findall(r"Slave Interface.*?Aggregator ID: (\d+)", text, re.S)
    assert len(aggregators) == 2 and len(set(aggregators)) == 1, text
    system = re.search(r"sys_id: (\S+)", s.appctl("lacp/show", "bond0"))[1]
    assert text.count("system mac address: " + system) == 2, text
    # Both kernel and switch notice that a link is not used any more: the guest by itself, we by missing LACP packets.
    guest.do("ip link set eth1 down")
    lab.wait_until(lambda: shows("bond/show", "member v1: disabled"), "the link to fail", 20)
    lab.wait_until(reaches, "the guest by the other link")
    guest.do("ip link set eth1 up")
    lab.wait_until(lambda: shows("bond/show", "member v1: enabled"), "the link again", 20)
    # As active backup each end drops what arrives by a link that it does not use.
    s.vsctl("set", "port", "bond0", "lacp=off", "bond_mode=active-backup")
    bonded(guest, "active-backup")
    for device, member in (("eth1", "v1"), ("eth0", "v0")):
        guest.do("echo %s > /sys/class/net/bond0/bonding/active_slave" % device)
        s.appctl("bond/set-active-member", "bond0", member)
        lab.wait_until(reaches, "the guest by " + device, 20)


def test_disciplines_of_linux():
    """`tc` in a guest that runs our switch shows the queueing disciplines of its rows, and none when they are gone."""
    lab.need_root()
    guest = qemu.Guest(folder=lab.scratch(), modules=DISCIPLINES, megabytes=320,
                       programs=(lab.SLUICED, lab.SLUICED.removesuffix("d"), "tc", "/usr/sbin/ip"))
    guest.do("mkdir -p /tmp/run && export OVS_RUNDIR=/tmp/run OVS_DBDIR=/tmp/run OVS_LOGDIR=/tmp/run OVS_SYSCONFDIR=/tmp/run")
    # busybox has its own `ip` and `tc`, which have fewer features.
    guest.do("/bin/ip link add q0 type veth peer name q1 && ip link set q0 up && ip link set q1 up")
    guest.do("sluiced --detach --pidfile --log-file -vconsole:off", 60)
    guest.do("sluice vsctl add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 q0", 60)
    shown = lambda: guest.do("/bin/tc qdisc show dev q0")
    wrong = []
    for kind, settings, expected in ROWS:
        words = " ".join("other_config:" + setting for setting in settings.split())
        guest.do("sluice vsctl -- --all destroy qos -- set port q0 qos=@q -- --id=@q create qos type=linux-%s %s" % (kind, words), 60)
        if not re.search(expected, shown()):
            wrong.append(shown())
    assert not wrong, wrong
    guest.do("sluice vsctl clear port q0 qos", 60)
    assert not re.search("|".join(kind for kind, *_ in ROWS), shown()), shown()
    # With `linux-noop` the switch sets no discipline: that of the administrator stays.
    guest.do("/bin/tc qdisc replace dev q0 root pfifo limit 77")
    guest.do("sluice vsctl set port q0 qos=@q -- --id=@q create qos type=linux-noop", 60)
    assert "pfifo" in shown() and "limit 77p" in shown(), shown()
