"""Calls of the control socket for compare_commands: every command, with right and wrong arguments."""
import re

from lib import lab

CALLS = r"""
appctl version
appctl -T 5 ofproto/list
appctl -t $DIR/nobody.ctl version
appctl nonsense
appctl --nonsense version
appctl
appctl ofproto/list
appctl ofproto/list-tunnels
appctl ofproto/tnl-push-pop
appctl dpif/dump-dps
sorted appctl dpif/show
appctl dpif/show-dp-features br0
appctl dpif/show-dp-features nobr
appctl dpif/dump-flows br0
appctl dpif/dump-flows -m --names br0
appctl dpif/dump-flows nobr
appctl dpctl/dump-dps
~ appctl dpctl/show
~ appctl dpctl/show -s
appctl dpctl/show nope
appctl revalidator/pause
appctl dpctl/add-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no) 2
appctl dpctl/add-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no) 2
sorted appctl dpctl/dump-flows
sorted appctl dpctl/dump-flows --names
appctl dpctl/dump-flows filter=tcp
appctl dpctl/dump-flows type=nonsense
appctl dpctl/mod-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no) 3
appctl dpctl/mod-flow in_port(2),eth(),eth_type(0x800),ipv4(frag=no) 3
appctl dpctl/get-flow ufid:00000000-0000-0000-0000-000000000000
appctl dpctl/get-flow nonsense
appctl dpctl/del-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no)
appctl dpctl/del-flow nonsense
appctl dpctl/del-flows
appctl revalidator/resume
appctl dpctl/add-flow nonsense 1
appctl dpctl/parse-actions 1,2
appctl dpctl/dump-conntrack
appctl dpctl/flush-conntrack
appctl dpctl/flush-conntrack zone=5
appctl dpctl/ct-stats-show
appctl dpctl/ct-bkts
appctl dpctl/ct-get-maxconns
appctl dpctl/ct-set-maxconns 5000
appctl dpctl/ct-get-maxconns
appctl dpctl/ct-get-nconns
appctl dpctl/ct-enable-tcp-seq-chk
appctl dpctl/ct-get-tcp-seq-chk
appctl dpctl/ct-set-limits default=5
appctl dpctl/ct-get-limits
appctl dpctl/ct-del-limits zone=5
appctl dpctl/ct-set-sweep-interval 1000
appctl dpctl/ct-get-sweep-interval
appctl dpctl/ipf-get-status
appctl dpctl/ipf-set-min-frag v4 1000
appctl dpctl/cache-get-size
appctl dpctl/cache-get-size nope
appctl dpctl/cache-set-size dummy@ovs-dummy masks-cache 5
appctl dpctl/cache-set-size dummy@ovs-dummy masks-cache x
appctl dpctl/cache-set-size nope masks-cache 5
appctl dpctl/show nope dummy@ovs-dummy
/dpctl/(add-dp|parse-actions|show)\s appctl dpctl/list-commands
appctl fdb/show br0
appctl fdb/stats-show br0
appctl fdb/add br0 p1 0 02:00:00:00:00:01
appctl fdb/add br0 nope 0 02:00:00:00:00:01
appctl fdb/add br0 p1 5000 02:00:00:00:00:01
sorted appctl fdb/show br0
appctl fdb/del br0 0 02:00:00:00:00:01
appctl fdb/del br0 0 02:00:00:00:00:01
appctl fdb/stats-clear br0
appctl fdb/flush br0
appctl mdb/show br0
appctl mdb/flush br0
sorted appctl bridge/dump-flows br0
sorted appctl bridge/dump-flows --offload-stats br0
? appctl bridge/reconnect br0
appctl bridge/reconnect nobr
appctl ofproto/trace br0 in_port=1
appctl ofproto/trace br0 in_port=1 -generate
appctl ofproto/trace br0 in_port=1 0200000000020200000000010800
appctl ofproto/trace in_port=1
appctl ofproto/trace-packet-out br0 in_port=1 2
appctl ofproto/trace-packet-out br0 in_port=1 goto_table:1
appctl ofproto/trace-packet-out br0 in_port=1 2,clear_actions
appctl ofproto/trace-packet-out br0 in_port=1 meter:77,2
appctl ofproto/trace-packet-out br0 in_port=1 group:77
appctl ofproto/trace-packet-out br0 in_port=1 controller(pause),2
appctl ofproto/detrace br0 0
appctl tnl/ports/show
appctl tnl/arp/show
appctl ovs/route/show nonsense
appctl bond/list
appctl bond/show
appctl bond/show nope
appctl lacp/show
appctl lacp/show nope
appctl lacp/show-stats
appctl stp/show
appctl stp/show br0
appctl rstp/show
appctl bfd/show
appctl bfd/show nope
appctl cfm/show
appctl cfm/show nope
appctl qos/show p1
appctl qos/show nope
appctl qos/show-types p1
appctl autoattach/status
appctl upcall/set-flow-limit 1000
appctl upcall/set-flow-limit 0
appctl upcall/enable-ufid
appctl upcall/disable-megaflows
appctl upcall/enable-megaflows
appctl revalidator/wait
appctl revalidator/purge
appctl memory/show nonsense
appctl coverage/read-counter nonsense
appctl vlog/list-pattern
appctl vlog/set nonsense
appctl vlog/set bridge:nonsense
appctl vlog/set pattern:console:%m
appctl vlog/disable-rate-limit bridge
appctl vlog/enable-rate-limit bridge
appctl vlog/disable-rate-limit nonsense
appctl vlog/close
appctl vlog/reopen
appctl netdev-dummy/conn-state p1
appctl netdev-dummy/set-admin-state nope up
appctl netdev-dummy/set-admin-state p1 nonsense
appctl netdev-dummy/receive nope 00
appctl netdev-dummy/receive p1 zz
appctl dpif-netdev/subtable-lookup-info-get
? appctl dpif-netdev/pmd-rxq-show
? appctl dpif-netdev/pmd-perf-show
? appctl dpif-netdev/pmd-rxq-rebalance
appctl time/warp nonsense
"""

# Files of datapath flows, each with good and bad lines.
FLOWS = "# a remark\nin_port(1),eth(),eth_type(0x1234) 2, 3\nbogus 1\nin_port(2)\n\nadd in_port(3),eth(),eth_type(0x1234) 1\n"
FILES = [
    ("appctl revalidator/pause", None),
    ("appctl dpctl/add-flows $FILE", FLOWS),
    ("sorted appctl dpctl/dump-flows", None),
    ("appctl dpctl/mod-flows $FILE", "in_port(1),eth(),eth_type(0x1234) drop\ndelete in_port(3),eth(),eth_type(0x1234)\n"),
    ("sorted appctl dpctl/dump-flows", None),
    ("appctl dpctl/del-flows dummy@ovs-dummy $FILE", "in_port(1),eth(),eth_type(0x1234)\nin_port(1),eth(),eth_type(0x1234) 3\n"),
    ("sorted appctl dpctl/dump-flows", None),
    ("appctl dpctl/add-flows /nonexistent/file", None),
    ("appctl dpctl/del-flows dummy@ovs-dummy /nonexistent/file", None),
    ("appctl dpctl/del-flows", None),
    ("appctl revalidator/resume", None),
]

# Commands that end or block the daemon, or affect the whole machine, are not called with wrong arguments.
NOT_CALLED = re.compile(r"^(exit|list-commands|help)$|^dpctl/|^(dpif-netdev|odp-execute)/.*-(set|impl)|time/")


def wrong_counts(switch):
    """Each command that the control sockets of both switches have, with more arguments than any command takes."""
    listed = [lab.sh("ovs-appctl", "-t", "%s/%s.ctl" % (s.dir, s.name), "list-commands") for s in switch]
    names = [set(re.findall(r"^ {2}(\S+)", text, re.M)) for text in listed]
    both = sorted(n for n in set.intersection(*names) if not NOT_CALLED.search(n))
    return ["appctl %s %s" % (name, "x " * 9) for name in both]
