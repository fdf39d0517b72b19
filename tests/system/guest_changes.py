"""What operators do to a Linux guest while it has traffic: memory is plugged, queues are changed, the guest is reset, its QEMU is killed."""
import re
import signal

from lib import dpdk, lab, qemu, traffic
from lib.migration import Transfer
from lib.vhost_user import by_both

# The rates of TCP are not measured here; this one is reached on any machine.
GIGABITS_MIN = 0.0005
PLUGGED = 256 << 20
# The largest number of pings that may be lost, of more than a thousand. TCP fills the rings: at a load average of 10, 13 were lost.
LOST_MAX = 100
ONLINE = "for f in /sys/devices/system/memory/memory*/state; do case $(cat $f) in offline) echo %s > $f;; esac; done"


def started(library, *names):
    """A switch with these ports for guests, and a namespace with the address 10.9.0.1. Only long tests use the library's back-end."""
    lab.need_root()
    if library:
        lab.need_long_run()
    s, host = dpdk.Switch.for_guests(library).start(), lab.Namespace("10.9.0.1/24")
    if not s.ours:
        # The stock switch forwards a device's incomplete checksums.
        host.run("ethtool", "-K", "eth0", "tx", "off")
    s.add_bridge("br0", host.port)
    s.add("br0", *(s.client(name, number) for number, name in enumerate(names, 7)))
    return s, host


def wait_for_reply(host, address):
    lab.wait_until(lambda: " 0% packet loss" in host.run("ping", "-c", "1", "-W", "1", address, check=False), "a reply of " + address, 30)


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait(10 * lab.PATIENCE)


def rates(guest, host, options=""):
    """Gigabits per second of TCP from the guest, and to the guest."""
    server, found = lab.iperf3_server(host), []
    for way in "", " -R":
        text = guest.do("iperf3 -c 10.9.0.1 -t 1%s%s" % (way, options), 40)
        number, unit = re.findall(r"([\d.]+) ([MG])bits/sec\s+receiver", text)[-1]
        found.append(float(number) / (1 if unit == "G" else 1000))
    end(server)
    assert min(found) > GIGABITS_MIN, found
    return "%.2f and %.2f Gbit/s" % tuple(found)


def check(pings, what):
    """Ends the pings, and checks how many are lost."""
    lost, twice, longest = pings.end()
    print("    %s: %d pings lost, %d came twice, %.0f ms without a reply" % (what, lost, twice, 1000 * longest))
    assert lost <= LOST_MAX and twice == 0, (lost, twice)


def plug(guest, name, how):
    """Plugs a memory module, which the guest puts online in this way; returns its address."""
    guest.qmp.execute("object-add", qom_type="memory-backend-memfd", id=name, size=PLUGGED, share=True)
    guest.qmp.execute("device_add", driver="pc-dimm", id="dimm-" + name, memdev=name)
    lab.wait_until(lambda: "offline" in guest.do("cat /sys/devices/system/memory/memory*/state"), "the guest sees its new memory", 20)

    def online():
        guest.do(ONLINE % how)
        return "offline" not in guest.do("cat /sys/devices/system/memory/memory*/state")
    lab.wait_until(online, "the new memory is online", 20)
    return next(m["data"]["addr"] for m in modules(guest) if m["data"]["id"] == "dimm-" + name)


def modules(guest):
    return guest.qmp.execute("query-memory-devices")


def rx_buffers(guest):
    """Addresses of buffers in the ring to the guest."""
    path = next(device["path"] for device in guest.qmp.execute("x-query-virtio") if device["name"] == "virtio-net")
    for index in range(0, 256, 16):
        for part in guest.qmp.execute("x-query-virtio-queue-element", path=path, queue=0, index=index)["descs"]:
            yield part["addr"]


@by_both
def test_memory_is_plugged(library):
    """Memory is plugged and unplugged under a ping every 10 ms; the guest receives into the new memory, and data are intact."""
    s, host = started(library, "v0")
    guest = qemu.Guest(s.socket("v0"), folder=s.dir, slots=4)
    guest.set_address("eth0", "10.9.0.2/24")
    guest.do("echo offline > /sys/devices/system/memory/auto_online_blocks; echo '4096 4194304 8388608' > /proc/sys/net/ipv4/tcp_rmem")
    wait_for_reply(host, "10.9.0.2")
    pings = traffic.Pings(host, "10.9.0.2", s.dir)
    pings.wait_for(50)
    # Linux has receive buffers only in memory of the first kind (online_kernel); memory of the second kind can be unplugged.
    begin = plug(guest, "kept", "online_kernel")
    plug(guest, "lent", "online_movable")

    def receives_there():
        rates(guest, host)
        return any(begin <= address < begin + PLUGGED for address in rx_buffers(guest))
    lab.wait_until(receives_there, "the guest receives into new memory", 30)
    transfer = Transfer(host, guest, "10.9.0.2", 7001, kept=True)
    transfer.send(b"data" * (1 << 18))
    transfer.end()
    guest.qmp.execute("device_del", id="dimm-lent")
    lab.wait_until(lambda: len(modules(guest)) == 1, "the guest gives the memory back: %s" % guest.qmp.events, 30)
    guest.qmp.execute("object-del", id="lent")
    transfer.check(guest)
    print("    after it: " + rates(guest, host))
    check(pings, "memory")
    s.alive()


@by_both
def test_queues_change(library):
    """The guest changes its number of queues (`ethtool -L`) under a ping every 10 ms: the switch polls the queues in use, and TCP uses them."""
    s, host = started(library, "v0")
    guest = qemu.Guest(s.socket("v0"), folder=s.dir, programs=("ethtool",), queues=4)
    guest.set_address("eth0", "10.9.0.2/24")
    wait_for_reply(host, "10.9.0.2")
    polled = lambda: re.findall(r"port: v0 +queue-id: +(\d) \(enabled\)", s.appctl("dpif-netdev/pmd-rxq-show"))
    used = lambda: {int(queue) for queue, packets in re.findall(r"rx_q(\d)_good_packets=(\d+)", s.vsctl("get", "interface", "v0", "statistics"))
                    if int(packets)}
    pings = traffic.Pings(host, "10.9.0.2", s.dir)
    for count in (1, 2, 4, 1, 4) if dpdk.LONG else (2, 4, 1):
        guest.do("ethtool -L eth0 combined %d" % count)
        lab.wait_until(lambda: polled() == [str(n) for n in range(count)], "%d queues are polled" % count)
        print("    %d queues: %s" % (count, rates(guest, host, " -P 8")))
        assert 'num_of_vrings="8"' in s.vsctl("get", "interface", "v0", "status")
    lab.wait_until(lambda: used() == {0, 1, 2, 3}, "all queues were used", 15)
    check(pings, "queues")
    s.alive()


def wait_for_guest(guest, host, what):
    """Waits until a guest that boots again has its address and transfers packets."""
    guest.wait_for_shell()
    guest.set_address("eth0", "10.9.0.2/24")
    wait_for_reply(host, "10.9.0.2")
    print("    after %s: %s" % (what, rates(guest, host)))


@by_both
def test_reset_and_kill(library):
    """A guest is reset, and its QEMU killed and started again, under TCP: another guest answers all pings, and the port works again each time."""
    s, host = started(library, "v0", "v1")
    guest = qemu.Guest(s.socket("v0"), folder=s.dir, wait=False)
    other = qemu.Guest(s.socket("v1"), folder=s.dir + "/other", number=1, wait=False)
    other.wait_for_shell()
    other.set_address("eth0", "10.9.0.3/24")
    wait_for_guest(guest, host, "its start")
    wait_for_reply(host, "10.9.0.3")
    pings = traffic.Pings(host, "10.9.0.3", s.dir)
    status = lambda: s.vsctl("get", "interface", "v0", "status:status").strip().strip('"')
    for how in ("reset", "kill") if dpdk.LONG else ("kill",):
        server = lab.iperf3_server(host)
        guest.begin("iperf3 -c 10.9.0.1 -t 60 > /tmp/iperf3")
        before = s.counters("br0", "v0")
        s.wait(lambda: s.counters_since("br0", "v0", before)["rx"] > 1000, "TCP from the guest")
        if how == "reset":
            guest.text = ""
            guest.qmp.execute("set-action", reboot="reset")
            guest.qmp.execute("system_reset")
        else:
            end(guest.process)
            lab.wait_until(lambda: status() == "disconnected", "the port has no guest")
            guest.start([s.socket("v0")])
        # The server of iperf3 would accept no other client until it notices that this one has gone.
        end(server)
        wait_for_guest(guest, host, "a " + how)
        assert status() == "connected"
    check(pings, "the other guest")
    s.alive()
