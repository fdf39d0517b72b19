"""Ports of type dpdk on devices that need no hardware."""

from lib import dpdk, lab

MISSING = "'p3' is missing 'options:dpdk-devargs'. The old 'dpdk<port_id>' names are not supported"


def add(s, name, devargs, *options):
    """Adds a port; returns column error."""
    words = ['options:dpdk-devargs="%s"' % devargs] if devargs else []
    s.vsctl("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdk", *words, *options, check=False)
    return get(s, name, "error").strip('[]"\n')


def detach(s, device):
    """The error text of the command, which must fail."""
    try:
        return s.appctl("netdev-dpdk/detach", device)
    except AssertionError as refusal:
        return str(refusal)


def get(s, name, column):
    return s.vsctl("get", "Interface", name, column).strip()


def received(s, name):
    """Packets that a port has received, from the datapath's counters, which are always current."""
    line = s.appctl("dpctl/show", "-s").split(": %s (" % name)[1].split("RX packets:")[1]
    return int(line.split()[0])


def test_refusals():
    """A port without a device, with an invalid device, with a device of another port: reported in its row."""
    s = dpdk.in_ordinary_memory()
    assert add(s, "p1", "net_null0") == ""
    assert add(s, "p2", "net_null0") == "'p2' is trying to use device 'net_null0' which is already in use by 'p1'"
    assert add(s, "p3", None) == MISSING
    assert add(s, "p4", "net_nothing0") == "Error attaching device 'net_nothing0' to DPDK"
    # The arguments go to DPDK as they are; only drivers of hardware know representors.
    for devargs in ("0000:ff:1f.7,representor=[0-3]", "net_null5,representor=[1]"):
        assert add(s, "p5", devargs) == "Error attaching device '%s' to DPDK" % devargs
        s.vsctl("del-port", "p5")
    for mode, why in (("basic", "driver net_null does not announce shared rx queues"), ("spp", "driver net_null keeps its rings full"),
                      ("none", "")):
        s.vsctl("set", "Interface", "p1", "other_config:rx-pool=" + mode)
        lab.wait_until(lambda: why in get(s, "p1", "error") if why else get(s, "p1", "error") == "[]", "the row says " + why)
    assert "being used by the following interfaces: p1." in detach(s, "net_null0")
    s.vsctl("del-port", "p1")
    # Once its owner releases the device, the other port gets it.
    lab.wait_until(lambda: add_again(s, "p2", "net_null0"), "p2 has the device")


def add_again(s, name, devargs):
    s.vsctl("--if-exists", "del-port", name)
    return add(s, name, devargs) == ""


def test_settings_of_a_port_that_carries_packets():
    """Queues, their length, the MTU and the device change under traffic."""
    s = dpdk.in_ordinary_memory()
    assert add(s, "p1", "net_null0", "options:n_rxq=1") == ""
    assert add(s, "p2", "net_ring1") == ""
    for settings in (["options:n_rxq=3"], ["options:n_rxq_desc=512"], ["mtu_request=9000"],
                     ['options:dpdk-devargs="net_null7,size=200"']):
        s.vsctl("set", "Interface", "p1", *settings)
        before = received(s, "p1")
        lab.wait_until(lambda: received(s, "p1") > before, "packets after " + settings[0])
        assert get(s, "p1", "error") == "[]"
    lab.wait_until(lambda: get(s, "p1", "mtu") == "9000" and 'n_rxq="3"' in get(s, "p1", "status"), "the row tells it")
    assert get(s, "p1", "status:driver_name") == "net_null"
    show = s.appctl("dpctl/show")
    assert "n_rxq_desc=512" in show and 'dpdk-devargs=net_null7,size=200' in show, show


def test_no_memory():
    """A pool that does not fit in memory: the port is refused with the reason in its row, and others keep working."""
    s = dpdk.in_ordinary_memory(megabytes=128)
    assert add(s, "p1", "net_null0") == ""
    error = add(s, "p2", "net_null1", "mtu_request=9000")
    assert "Failed to create memory pool for netdev p2, with MTU 9000 on socket 0: " in error, error
    before = received(s, "p1")
    lab.wait_until(lambda: received(s, "p1") > before, "packets of the port that works")


def test_ports_come_and_go():
    """Devices of several kinds, each added and deleted many times: none remains, and the switch survives."""
    s = dpdk.in_ordinary_memory()
    kinds = ["net_null%d", "net_ring%d", "net_null%d,size=1500,copy=1", "net_memif%d,role=server,id=%d,socket=@test%d"]
    s.vsctl("--may-exist", "add-port", "br0", "stays", "--", "set", "Interface", "stays", "type=dpdk",
            "options:dpdk-devargs=net_null99,no-rx=1")
    for i in range(60):
        kind = kinds[i % len(kinds)]
        devargs = kind % ((i,) * kind.count("%d"))
        assert add(s, "x", devargs) == "", devargs
        if i % 5 == 0:
            s.vsctl("set", "Interface", "x", "options:n_rxq=2")
        s.vsctl("del-port", "x")
        name = devargs.split(",")[0]
        assert "Device '%s' not found in DPDK" % name in detach(s, name)
    assert s.daemon.poll() is None
    assert get(s, "stays", "error") == "[]"
    assert "|EMER|" not in s.written_log()
