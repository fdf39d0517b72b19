"""Revalidation by dependencies: after any change, no megaflow differs from the tables."""
import os
import random
import re

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

PORTS = 4
HOSTS = 4
# Each is two changes.
STEPS = 40


class Dummy(lab.Switch):
    """A switch with dummy devices p1.. on br0 (and q1 on br1, behind patch ports), with a clock that only advances by
    command."""

    def __init__(self):
        super().__init__(args=["--enable-dummy=override", "-vunixctl:off"])

    def start(self):
        super().start()
        self.appctl("time/stop")
        for bridge, ports in (("br0", ["p%d" % n for n in range(1, PORTS + 1)]), ("br1", ["q1"])):
            self.vsctl("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=dummy", "fail_mode=secure")
            for n, port in enumerate(ports, 1):
                self.vsctl("add-port", bridge, port, "--", "set", "interface", port, "type=dummy", "ofport_request=%d" % n)
        self.vsctl("add-port", "br0", "x0", "--", "set", "interface", "x0", "type=patch", "options:peer=x1", "ofport_request=9",
                   "--", "add-port", "br1", "x1", "--", "set", "interface", "x1", "type=patch", "options:peer=x0", "ofport_request=9")
        return self

    def receive(self, port, flow):
        self.appctl("netdev-dummy/receive", port, flow)

    def ofctl14(self, *args, **kw):
        return self.ofctl("-O", "OpenFlow14", *args, **kw)


def icmp(src, dst, tos=0, kind=8):
    return ("in_port(%d),eth(src=02:00:00:00:00:%02x,dst=02:00:00:00:00:%02x),eth_type(0x0800),ipv4(src=10.0.0.%d,dst=10.0.0.%d,"
            "proto=1,tos=%d,ttl=64,frag=no),icmp(type=%d,code=0)" % (src, src, dst, src, dst, tos, kind))


def need_ours(s):
    if not s.ours:
        raise lab.Skip("the stock switch has no revalidator/verify")


def test_a_packet_that_came_back_keeps_its_megaflow():
    """After a change of the flow before ct(), the megaflow of the recirculated packet remains without the one that
    froze it; the megaflow of a packet that cannot be translated is checked like any other."""
    s = Dummy()
    need_ours(s)
    s.start()
    s.vsctl("set", "open_vswitch", ".", "other_config:max-idle=600000")
    s.ofctl("add-flows", "br0", "-", input="icmp,actions=ct(table=1)\ntable=1,actions=output:2\n"
            "priority=40000,icmp,nw_tos=32,actions=resubmit(,9)\ntable=9,actions=resubmit(,9)\n")
    s.receive("p1", icmp(1, 2))
    s.receive("p1", icmp(1, 2, tos=32))
    flows = s.appctl("dpctl/dump-flows")
    assert "recirc_id(0x1)" in flows and "tos=0x20/0xfc" in flows, flows
    assert s.verify_megaflows() == 3
    s.ofctl("add-flow", "br0", "icmp,actions=load:1->NXM_NX_REG0[],ct(table=1)")
    # Frozen state is removed two seconds after its last use.
    s.appctl("time/warp", "5000", "1000")
    assert "recirc_id(0x1)" in s.appctl("dpctl/dump-flows")
    assert s.verify_megaflows() == 3
    # A packet that a controller resumes is recirculated, too, without a megaflow that froze it.
    s.ofctl("packet-out", "br0", "in_port=3,packet=" + "020000000002020000000003" + "0800" + "4500001c00000000401166cf0a0000030a000002" +
            "0035003500080000" + ",actions=load:7->NXM_NX_REG3[],ct(table=1)")
    s.appctl("time/warp", "5000", "1000")
    assert s.verify_megaflows() == 4
    # The check finds a megaflow with wrong actions.
    ufid = re.search(r"(ufid:\S+), recirc_id\(0\)", s.appctl("dpctl/dump-flows", "-m"))[1]
    line = next(line for line in s.appctl("dpctl/dump-flows", "-m").splitlines() if ufid in line)
    s.appctl("dpctl/mod-flow", line.split(", packets:")[0], "99")
    assert re.search(r"3 megaflows correct, 1 wrong\n  %s: actions: 99, expected: " % ufid, s.appctl("revalidator/verify"))


def rule(r):
    """A random flow with a few fields, so that it matches the packets."""
    table = r.randrange(4)
    ip = r.random() < 0.7
    fields = r.sample((["nw_src=10.0.0.%d" % r.randrange(1, HOSTS + 1), "nw_dst=10.0.0.%d/31" % r.randrange(1, HOSTS + 1), "nw_tos=32",
                        "icmp_type=8", "ct_state=+trk+new", "ct_mark=1"] if ip else []) +
                      ["in_port=%d" % r.randrange(1, PORTS + 1), "dl_dst=02:00:00:00:00:%02x" % r.randrange(1, HOSTS + 1), "reg0=%d" % r.randrange(3),
                       "metadata=%d" % r.randrange(2), "vlan_tci=0"], r.randrange(3))
    match = ["table=%d" % table, "priority=%d" % r.randrange(1, 6)] + (["icmp"] if ip else []) + fields
    return ",".join(match), table, ip


def actions(r, table, ip):
    more = "resubmit(,%d)" % r.randrange(table + 1, 5)
    pool = ["output:%d" % r.randrange(1, PORTS + 2), more, more, "NORMAL", "output:9", "drop", "group:%d" % r.randrange(1, 4),
            "load:%d->NXM_NX_REG0[],%s" % (r.randrange(3), more), "set_field:%d->metadata,%s" % (r.randrange(2), more),
            "clone(set_field:02:00:00:00:00:09->eth_dst,%s),%s" % (more, more), "FLOOD", "IN_PORT", "controller(max_len=20),output:1",
            "bundle(eth_src,0,active_backup,ofport,members:1,2,3)", "move:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15]," + more,
            "learn(table=3,hard_timeout=%d,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),%s" % (r.choice((0, 3)), more),
            "learn(table=3,limit=2,idle_timeout=2,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:1->NXM_NX_REG0[]),output:2"]
    if ip:
        pool += ["ct(table=%d)" % r.randrange(1, 4), "ct(commit,zone=%d,exec(load:1->NXM_NX_CT_MARK[])),%s" % (r.randrange(2), more),
                 "dec_ttl," + more, "set_field:10.0.0.%d->ip_dst,%s" % (r.randrange(1, HOSTS + 1), more), "ct_clear," + more,
                 "check_pkt_larger(100)->NXM_NX_REG0[0]," + more]
    return r.choice(pool)


def conjunction(r):
    """A clause, or the flow of the whole conjunction."""
    part = r.randrange(3)
    if part == 2:
        return "table=1,priority=4,conj_id=5,icmp", "output:%d" % r.randrange(1, PORTS + 1)
    field = ("nw_src", "nw_dst")[part]
    return "table=1,priority=4,icmp,%s=10.0.0.%d" % (field, r.randrange(1, HOSTS + 1)), "conjunction(5,%d/2)" % (part + 1)


def group(r):
    number = r.randrange(1, 4)
    kind = r.choice(("all", "select", "fast_failover", "select"))
    buckets = []
    for n in range(r.randrange(1, 4)):
        watch = {"fast_failover": ",watch_port:%d" % r.randrange(1, PORTS + 1), "select": r.choice((",watch_port:1", ",weight:%d" % r.randrange(3)))}
        if kind == "fast_failover" and number > 1 and r.random() < 0.4:
            watch[kind] = ",watch_group:%d" % (number - 1)
        buckets.append("bucket=bucket_id:%d%s,actions=output:%d" % (n, watch.get(kind, ""), r.randrange(1, PORTS + 1)))
    method = ",selection_method=hash,fields=ip_dst" if kind == "select" and r.random() < 0.3 else ""
    return "group_id=%d,type=%s%s,%s" % (number, kind, method, ",".join(buckets))


def change(s, r):
    """One random change of tables, groups, ports, MAC addresses or time."""
    def flow():
        if r.random() < 0.3:
            return conjunction(r)
        match, table, ip = rule(r)
        return match, actions(r, table, ip)

    def flow_mod():
        match, acts = flow()
        cookie = "cookie=%d," % r.randrange(4)
        loose = re.sub(r"priority=\d+,?", "", match)
        s.ofctl14(*r.choice((("add-flow", "br0", cookie + match + ",actions=" + acts),) * 4 +
                            (("mod-flows", "br0", loose + ",actions=" + acts), ("mod-flows", "--strict", "br0", match + ",actions=" + acts),
                             ("del-flows", "br0", loose), ("del-flows", "--strict", "br0", match),
                             ("del-flows", "br0", "cookie=%d/3" % r.randrange(4)),
                             ("add-flow", "br0", "hard_timeout=2," + match + ",actions=" + acts))), check=False)

    def bundle():
        lines = ["flow %s %s,actions=%s" % ((r.choice(("add", "modify")),) + flow()) for _ in range(3)] + ["group add_or_mod " + group(r)]
        s.ofctl14("bundle", "br0", "-", input="\n".join(lines) + "\n", check=False)

    def other_bridge():
        match = "in_port=%d,dl_dst=02:00:00:00:00:%02x" % (r.choice((1, 9)), r.randrange(1, HOSTS + 1))
        s.ofctl("add-flow", "br1", "%s,actions=%s" % (r.choice((match, "")), r.choice(("NORMAL", "drop", "output:1", "IN_PORT"))))

    port = "p%d" % r.randrange(1, PORTS + 1)
    # Changes that make all megaflows be translated again are rare: they would hide missing dependencies.
    of_everything = (lambda: s.ofctl("mod-port", "br0", port, r.choice(("no-flood", "flood", "no-forward", "forward", "no-receive", "receive", "up", "down"))),
                     lambda: s.appctl("netdev-dummy/set-admin-state", port, r.choice(("up", "down"))),
                     lambda: s.appctl("fdb/flush", "br0"),
                     lambda: s.appctl("fdb/add", "br0", port, "0", "02:00:00:00:00:%02x" % r.randrange(1, HOSTS + 1)),
                     lambda: s.vsctl("set", "port", port, "tag=%d" % r.randrange(1, 3)),
                     lambda: s.vsctl("clear", "port", port, "tag"),
                     lambda: s.ofctl("-OOpenFlow11", "mod-table", "br0", str(r.randrange(4)), r.choice(("continue", "drop", "controller"))))
    r.choice((flow_mod,) * 8 + (bundle, other_bridge, other_bridge, lambda: r.choice(of_everything)()) +
             (lambda: s.ofctl("-OOpenFlow15", "--may-create", "mod-group", "br0", group(r)),) * 5 +
             (lambda: s.appctl("time/warp", str(r.choice((1000, 3000, 20000))), "1000"),))()


def test_random_changes_leave_no_megaflow_behind():
    """The reference of revalidation: after each of many random changes all megaflows are translated again and compared."""
    s = Dummy()
    need_ours(s)
    s.start()
    s.vsctl("set", "open_vswitch", ".", "other_config:max-idle=15000")
    r = random.Random(int(os.environ.get("SEED", "21")))
    groups = "\n".join("group_id=%d,type=all,bucket=actions=output:%d" % (n, n) for n in range(1, 4))
    s.ofctl("-OOpenFlow15", "add-groups", "br0", "-", input=groups + "\n")
    s.ofctl14("add-flows", "br0", "-", input="priority=0,actions=resubmit(,1)\ntable=1,priority=0,actions=resubmit(,2)\n"
              "table=2,priority=0,actions=resubmit(,3)\ntable=3,priority=0,actions=resubmit(,4)\ntable=4,priority=0,actions=group:3\n"
              "table=4,priority=1,icmp,actions=group:2,NORMAL\n")
    s.ofctl("add-flow", "br1", "priority=0,actions=NORMAL")
    seen = steps = 0
    for _ in range(STEPS):
        for _ in range(4):
            s.receive("p%d" % r.randrange(1, PORTS + 1), icmp(r.randrange(1, HOSTS + 1), r.randrange(1, HOSTS + 1), r.choice((0, 32)), r.choice((0, 8))))
        for _ in range(2):
            seen += s.verify_megaflows()
            change(s, r)
            steps += 1
    seen += s.verify_megaflows()
    assert seen > steps, "hardly a megaflow was looked at"
    print("    %d changes of tables, %d megaflows compared, 0 wrong" % (steps, seen))
