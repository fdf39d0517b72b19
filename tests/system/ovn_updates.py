"""OVN replaces all flows of a chassis at once, and the switch continues to forward."""
import re
import signal

from lib import lab, of_echo, ovn_net

PORTS = ", ".join(str(port) for port in range(1000, 2000))
LISTS = 5


def count_flows(chassis):
    return chassis.flows().count("\n")


def youngest(chassis):
    """Seconds since the last flow was added."""
    return min(float(age) for age in re.findall(r"duration=([0-9.]+)s", chassis.flows()))


def test_all_flows_are_replaced_under_traffic():
    """With 10,000 flows, ovn-controller computes everything again, and a new ovn-controller replaces every flow in one
    bundle: no packet is lost, and another OpenFlow connection gets its echo replies."""
    # A new ovn-controller replaces the flows of the previous one when it has all of its own.
    c = ovn_net.Cloud(2, ovn_ofctrl_wait_before_clear=800)
    nbctl = c.central.nbctl
    nbctl("ls-add", "sw0")
    one = c.guest(1, "sw0", "one", "02:00:00:00:00:01", "10.0.0.1/24")
    c.guest(2, "sw0", "two", "02:00:00:00:00:02", "10.0.0.2/24")
    words = ["acl-add", "sw0", "to-lport", "2000", "icmp4", "allow-related"]
    for n in range(LISTS):
        words += ["--", "acl-add", "sw0", "to-lport", str(100 + n), "ip4.src == 10.9.9.%d && tcp.dst == {%s}" % (n, PORTS), "drop"]
    nbctl(*words)
    c.central.sync()
    assert one.pings("10.0.0.2")
    home, count = c.chassis[0], count_flows(c.chassis[0])
    assert count > 1000 * LISTS, count
    ping = one.spawn("ping", "-q", "-i", "0.005", "10.0.0.2", stdout=-1, text=True)
    echoes = of_echo.Echoes(home.switch.dir + "/br-int.mgmt")
    home.control("inc-engine/recompute")
    c.central.sync()
    age = youngest(home)
    home.restart_controller()
    lab.wait_until(lambda: youngest(home) < age, "new flows", 20)
    c.central.sync()
    longest = echoes.longest()
    ping.send_signal(signal.SIGINT)
    sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", ping.communicate(timeout=10)[0]).groups())
    print("%d flows, longest echo %.0f ms, %d pings" % (count, longest * 1000, sent), end=" ", flush=True)
    assert sent - received <= 1, (sent, received)
    assert longest < 2 * lab.PATIENCE, longest
    assert count_flows(home) == count, (count, count_flows(home))
    c.check()
