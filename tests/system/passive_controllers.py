"""Controllers that connect to the switch, unreachable controllers, and packets that a controller resumes."""
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True


def switch(*settings):
    """A dummy bridge with the ports p1 and p2, with a clock that only advances by command."""
    s = lab.Switch(args=["--enable-dummy=override", "-vunixctl:off"]).start()
    s.appctl("time/stop")
    s.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", *settings)
    for n in (1, 2):
        s.vsctl("add-port", "br0", "p%d" % n, "--", "set", "interface", "p%d" % n, "type=dummy", "ofport_request=%d" % n)
    return s


def traced(s):
    return s.appctl("ofproto/trace", "br0", "in_port=1").splitlines()[-1]


def test_a_bridge_with_passive_controllers_keeps_its_flows():
    """A passive target may never get a client, so the bridge does not wait for one."""
    s = switch()
    s.vsctl("set-controller", "br0", "punix:%s/br0.extra" % s.dir)
    s.ofctl("del-flows", "br0")
    s.ofctl("add-flow", "br0", "actions=drop")
    s.appctl("time/warp", "60000", "1000")
    assert traced(s) == "Datapath actions: drop", traced(s)


def test_a_bridge_without_its_controller_forwards_with_empty_tables():
    """The bridge waits three probe intervals. Then all flows and groups are removed, and NORMAL forwards."""
    s = switch()
    s.vsctl("set-controller", "br0", "unix:%s/no-listener" % s.dir)
    s.vsctl("set", "controller", "br0", "inactivity_probe=7000", "max_backoff=1000")
    s.ofctl("add-flow", "br0", "actions=drop")
    s.ofctl("-O", "OpenFlow13", "add-group", "br0", "group_id=1,type=all")
    # 18 s are less than three probe intervals of 7 s, 24 s are more.
    s.appctl("time/warp", "18000", "1000")
    assert traced(s) == "Datapath actions: drop", traced(s)
    s.appctl("time/warp", "6000", "1000")
    assert traced(s) != "Datapath actions: drop", traced(s)
    assert "drop" not in s.ofctl("dump-flows", "br0")
    assert "group_id" not in s.ofctl("-O", "OpenFlow13", "dump-groups", "br0")


def test_a_resumed_packet_keeps_its_mark():
    """A packet that the controller resumes after controller(pause) still has the pkt_mark that the flow set before."""
    s = switch("fail_mode=secure")
    s.ofctl("add-flows", "br0", "-", input="in_port=1,actions=set_field:0x64->pkt_mark,controller(pause),resubmit(,1)\n"
            "table=1,pkt_mark=0x64,actions=output:2\n")
    lab.spawn(["ovs-ofctl", "monitor", "br0", "65534", "resume", "-P", "nxt_packet_in2"], env=s.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def forwarded():
        s.appctl("netdev-dummy/receive", "p1", "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x88b5)")
        s.appctl("time/warp", "1000", "100")
        return "n_packets=0" not in s.ofctl("dump-flows", "br0", "table=1")
    lab.wait_until(forwarded, "a resumed packet matches its mark")
