"""Flows are saved before a restart and restored after it, as ovs-ctl(8) does."""
import os
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

SAVE = "/usr/share/openvswitch/scripts/ovs-save"
GROUPS = ["group_id=1,type=all,bucket=output:1,bucket=output:2",
          "group_id=2,type=select,bucket=weight:3,output:1,bucket=weight:1,watch_port:2,output:2"]
FLOWS = ["table=0,priority=100,cookie=0x5,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=group:2",
         "table=0,priority=90,icmp6,icmp_type=135,nd_target=fe80::1,actions=group:1,output:1",
         "table=0,priority=80,ip,nw_proto=2,actions=CONTROLLER:128",
         "table=0,priority=70,idle_timeout=3600,reg3=7/0xff,actions=load:0x5->NXM_NX_REG1[0..15],resubmit(,7)",
         "table=7,priority=5,in_port=1,actions=learn(table=8,idle_timeout=9,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],"
         "output:NXM_OF_IN_PORT[]),NORMAL"]


def dump(s):
    flows = s.ofctl("-O", "OpenFlow14", "dump-flows", "--no-names", "--no-stats", "br0")
    groups = s.ofctl("-O", "OpenFlow14", "dump-groups", "br0")
    return [sorted(line for line in text.splitlines() if "reply" not in line) for text in (flows, groups)]


def test_flows_are_saved_and_restored():
    """The output of ovs-save restores flows and groups; before that nothing is forwarded, afterwards everything."""
    lab.need_root()
    if not os.path.exists(SAVE):
        raise lab.Skip("needs ovs-save (openvswitch-common)")
    s = lab.Switch().start()
    a, b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
    s.add_bridge("br0", a.port, b.port)
    s.vsctl("set", "bridge", "br0", "fail_mode=standalone", "protocols=OpenFlow10,OpenFlow13,OpenFlow14")
    for group in GROUPS:
        s.ofctl("-O", "OpenFlow14", "add-group", "br0", group)
    for flow in FLOWS:
        s.ofctl("-O", "OpenFlow14", "add-flow", "br0", flow)
    before = dump(s)
    assert len(before[0]) == len(FLOWS) + 1 and len(before[1]) == len(GROUPS), before
    script = lab.sh("sh", SAVE, "save-flows", "br0", env=s.env)

    s.vsctl("set", "open_vswitch", ".", "other_config:flow-restore-wait=true")
    s.kill_daemon()
    s.start_daemon()
    lab.wait_until(lambda: "actions=NORMAL" in s.ofctl("dump-flows", "br0", check=False), "the bridge is back")
    ping = ["ping", "-c", "1", "-W", "1", "10.1.1.2"]
    assert "100% packet loss" in a.run(*ping, check=False), "it forwards before flows are restored"
    subprocess.run(["sh"], input=script, text=True, env=s.env, timeout=60, stderr=subprocess.DEVNULL)
    assert dump(s) == before
    s.vsctl("remove", "open_vswitch", ".", "other_config", "flow-restore-wait")
    lab.wait_until(lambda: " 0% packet loss" in a.run(*ping, check=False), "it forwards")
    # The restore mode cannot be entered again.
    s.vsctl("set", "open_vswitch", ".", "other_config:flow-restore-wait=true")
    assert " 0% packet loss" in a.run(*ping, check=False)


def everything(s, version):
    """What `flows script` saves of bridge br0, sorted."""
    commands = ["dump-flows"] + ["dump-groups"] * (version > "OpenFlow10") + ["dump-meters"] * (version > "OpenFlow12")
    texts = [s.ofctl("-O", version, *(["--no-names", "--no-stats"] if c == "dump-flows" else []), c, "br0") for c in commands]
    return [sorted(line.strip() for line in text.splitlines() if "reply" not in line) for text in texts]


def moved_to_the_stock_switch(version, protocols):
    """What our switch had, and what the stock switch has after the script has run once and twice."""
    s = lab.Switch().start()
    a, b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
    s.add_bridge("br0", a.port, b.port)
    s.vsctl("set", "bridge", "br0", "protocols=" + protocols)
    if version > "OpenFlow12":
        s.ofctl("-O", version, "add-meter", "br0", "meter=3,kbps,burst,band=type=drop,rate=1000,burst_size=100")
        s.ofctl("-O", version, "add-flow", "br0", "priority=20,udp,actions=meter:3,NORMAL")
        s.ofctl("-O", version, "add-tlv-map", "br0", "{class=0xffff,type=0,len=4}->tun_metadata0")
        s.ofctl("-O", version, "add-flow", "br0", "priority=21,tun_metadata0=0x7,actions=output:2")
    if version > "OpenFlow10":
        s.ofctl("-O", version, "add-group", "br0", GROUPS[0])
        s.ofctl("-O", version, "add-flow", "br0", "priority=19,tcp,actions=group:1")
    s.ofctl("-O", version, "add-flow", "br0", "priority=30,icmp,actions=drop")
    seen = [everything(s, version)]
    env = {**s.env, "PATH": os.path.join(lab.ROOT, "target", "release") + ":" + os.environ["PATH"]}
    script = lab.sh("sh", os.path.join(lab.ROOT, "packaging", "lib", "flows"), "script", "br0", env=env)
    s.stop()
    stock = lab.Switch(ours=False).start()
    stock.add_bridge("br0", a.port, b.port)
    stock.vsctl("set", "bridge", "br0", "protocols=" + protocols)
    for _ in range(2):
        done = subprocess.run(["sh"], input=script, text=True, env=stock.env, timeout=60, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr + script
        seen.append(everything(stock, version))
    # If one flow is refused, the others stay as they were.
    if version > "OpenFlow12":
        done = subprocess.run(["sh"], input=script.replace("actions=drop", "actions=group:99"), text=True, env=stock.env, timeout=60,
                              stderr=subprocess.PIPE)
        assert done.returncode == 1 and everything(stock, version) == seen[0], done.stderr
    lab.clean_up()
    return seen


def test_flows_move_to_the_stock_switch():
    """The script of `flows script`, which ovs-save prints, gives the stock switch flows, groups, meters and mappings, by each version of OpenFlow."""
    lab.need_root()
    lab.need("ovs-vswitchd")
    for version, protocols in (("OpenFlow14", "[]"), ("OpenFlow13", "OpenFlow10,OpenFlow13"), ("OpenFlow12", "OpenFlow12"),
                               ("OpenFlow10", "OpenFlow10")):
        ours, once, twice = moved_to_the_stock_switch(version, protocols)
        assert ours == once == twice, (version, ours, once, twice)


def test_the_log_is_reopened():
    """After vlog/reopen the log is written to a new file of its name, and the old file does not grow any more."""
    s = lab.Switch().start()
    path = s.dir + "/ovs-vswitchd.log"
    os.rename(path, path + ".1")
    s.vsctl("add-br", "br-before", "--", "set", "bridge", "br-before", "datapath_type=netdev")
    lab.wait_until(lambda: "br-before" in open(path + ".1").read(), "the old file gets the message")
    assert not os.path.exists(path)
    s.appctl("vlog/reopen")
    s.vsctl("add-br", "br-after", "--", "set", "bridge", "br-after", "datapath_type=netdev")
    lab.wait_until(lambda: "br-after" in s.log(), "the new file gets the message")
    assert "br-after" not in open(path + ".1").read()
