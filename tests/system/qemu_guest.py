"""A Linux guest in QEMU on a `dpdkvhostuserclient` port: ping, TCP, and a switch that is killed and restarted."""
import os
import re
import signal

from lib import dpdk, lab, qemu
from lib.vhost_user import by_both

# The least rate of TCP. On two quiet cores both back-ends transfer 1.1 Gbit/s and more; at a load average of 10, 0.02.
GIGABITS_MIN = 0.005
# The largest part of the packets to the guest that may find no buffer. None is dropped, also at a load average of 10. With
# packets that were dropped although the guest offered buffers, it was a sixth, and TCP transferred 0.05 Gbit/s at most.
UNSENT_MAX = 0.05
# The least rate of TCP of a guest with an IOMMU: QEMU answers a message for each page that the guest maps, and each that it unmaps.
IOMMU_GIGABITS_MIN = 0.0005


def gigabits(text):
    found = re.findall(r"([\d.]+) ([KMG])bits/sec\s+receiver", text)
    assert found, text
    return float(found[-1][0]) * {"K": 1e-6, "M": 1e-3, "G": 1}[found[-1][1]]


def pings(guest, seconds=30):
    """Pings until the first reply, then three times without a loss."""
    lab.wait_until(lambda: guest.run("ping -c 1 -W 1 10.9.0.1")[0] == 0, "the guest's first answered ping", seconds)
    text = guest.do("ping -c 3 -i 0.2 -W 2 10.9.0.1")
    assert " 0% packet loss" in text, text


def carrier(guest):
    return guest.do("cat /sys/class/net/eth0/carrier").split()[-1]


def network(library, **other_config):
    """A switch with a host (10.9.0.1) and a port v0 for a guest."""
    lab.need_root()
    s = dpdk.Switch.for_guests(library)
    s.other_config.update(other_config)
    s.start()
    host = lab.Namespace("10.9.0.1/24")
    if not s.ours:
        # The stock switch forwards a device's incomplete checksums.
        host.run("ethtool", "-K", "eth0", "tx", "off")
    s.add_bridge("br0", host.port)
    s.add("br0", s.client("v0", 7))
    return s, host


@by_both
def test_a_linux_guest(library):
    """Linux pings and runs iperf3 in both directions through its port, and again after kill -9 and after a restart of the switch."""
    s, host = network(library)
    guest = qemu.Guest(s.socket("v0"), folder=s.dir)
    guest.set_address("eth0", "10.9.0.2/24")
    pings(guest)
    lab.iperf3_server(host)
    rates = []
    for way in ("", " -R"):
        before = s.counters("br0", "v0")
        rates.append(gigabits(guest.do("iperf3 -c 10.9.0.1 -t 2" + way, 40)))
    to_guest = s.counters_since("br0", "v0", before)
    print("    from the guest %.2f Gbit/s, to the guest %.2f Gbit/s" % tuple(rates))
    assert min(rates) > GIGABITS_MIN, "%s, %s" % (rates, to_guest)
    assert to_guest["ovs_tx_failure_drops"] <= UNSENT_MAX * to_guest["tx"], "%s, %s" % (rates, to_guest)
    for turn in range(10 if dpdk.LONG else 1):
        for how in (signal.SIGKILL, signal.SIGTERM) if library or dpdk.LONG else (signal.SIGKILL,):
            restart(s, guest, how)
    s.alive()


def restart(s, guest, how):
    """Ends the switch by this signal and starts it again; the guest goes on."""
    assert carrier(guest) == "1"
    s.kill_daemon(how)
    lab.wait_until(lambda: carrier(guest) == "0", "the guest's link is down")
    if os.path.exists(s.dir + "/ovs-vswitchd.pid"):
        os.unlink(s.dir + "/ovs-vswitchd.pid")
    s.start_daemon()
    lab.wait_until(lambda: carrier(guest) == "1", "the guest's link is up", 20)
    pings(guest)
    assert "10.9.0.1" in guest.do("iperf3 -c 10.9.0.1 -t 1", 40)


def test_a_linux_guest_with_an_iommu():
    """Linux maps each buffer for its device only: ping, iperf3, and a switch that is killed; invalidations are sent one by one, or in groups."""
    s, host = network(False, **{"vhost-iommu-support": "true"})
    lab.iperf3_server(host)
    for mode in "iommu.strict=1", "iommu.strict=0":
        guest = qemu.Guest(s.socket("v0"), folder=lab.scratch(), iommu="iommu.passthrough=0 " + mode)
        assert guest.do("cat /sys/class/net/eth0/device/features").split()[-1][33] == "1", "the driver uses the IOMMU"
        guest.set_address("eth0", "10.9.0.2/24")
        pings(guest)
        before = s.counters("br0", "v0")
        rates = [gigabits(guest.do("iperf3 -c 10.9.0.1 -t 2" + way, 60)) for way in ("", " -R")]
        print("    %s: from the guest %.3f Gbit/s, to the guest %.3f Gbit/s" % (mode, *rates), s.counters_since("br0", "v0", before))
        assert min(rates) > IOMMU_GIGABITS_MIN, rates
        restart(s, guest, signal.SIGKILL)
        guest.process.kill()
        guest.process.wait()
    s.alive()
