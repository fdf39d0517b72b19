"""The differences from the stock switch that are meant, each with its reason. Everything else fails the test.

Debian ships Open vSwitch 3.1; Sluice speaks the text of 3.7. What changed between the two is a difference from the oracle, not
from the target.
"""
from lib.compare_run import Known

KNOWN = [
    Known(r"get interface p2 status|find interface type=dummy", r'^-(status +: )?\{\}$|^\+(status +: )?\{(tx_\w+="(true|false)"(, )?)+\}$',
          "since 3.3 the offloads of a device are shown in its status"),
    Known(r"^ovs-appctl ofproto/detrace", r"^-stderr: \"ofproto/detrace\" is not a valid command|^\+stderr: failed to parse ufid$",
          "since 3.4 there is such a command"),
    Known(r"^ovs-appctl version$", r"^-ovs-vswitchd \(Open vSwitch\) <version>$|^\+sluiced \(Sluice\) \S+, as ovs-vswitchd "
          r"\(Open vSwitch\) <version>$",
          "called by its own name, the program says it, and what it stands in for"),
    Known(r"^ovs-vsctl show$", r'^\+    ovs_version: "[0-9.]+"$',
          "with its own database the switch writes the versions that ovs-ctl writes beside ovs-vswitchd"),
    Known(r"^ovs-vsctl get interface bad4 error$", r'''^-\[\]$|^\+"No usable peer 'nobody' exists in 'dummy' datapath\."$''',
          "the stock switch says so when the state of any port next changes, ours at once"),
    Known(r"^ovs-vsctl get interface bad5 error ofport$",
          r'^-\[\]$|^-\d+$|^\+"bad5: vxlan type requires valid \'remote_ip\' argument"$|^\+-1$',
          "with all devices dummies the stock switch makes one of a tunnel as well; ours is a tunnel, and wants to know where to"),
]

# The same for our tools beside the stock ones, on stock switches.
TOOLS = [
    Known(r"^ovs-ofctl dump-tables br0$", r"^-    matching:$|^-      exact match or wildcard: in_port eth",
          "the wildcards that a table of OpenFlow 1.0 supports are not shown"),
    Known(r"^ovs-ofctl add-flow br0 table=7,", r"^-stderr: <time>\|ofp_(port|match)\|",
          "the log lines beside an answer are not repeated"),
]

# The rest is for the calls of compare_commands. What is not built yet answers that it is no command.
NOT_BUILT = r"^-|^\+exit status 2$|^\+stderr: .*(is not a valid command|server returned an error)"

BY_HAND = Known(r"^ovs-appctl dpctl/(dump-flows|mod-flow|del-flow|add-flow)", r".",
                "flows put by hand stay: the stock switch forgets them when its revalidator comes by, which may be at once")

COMMANDS = [
    Known(r"^ovs-appctl (mdb|tnl|bond|lacp|stp|rstp|cfm|qos|autoattach)/", NOT_BUILT,
          "link protocols, tunnels, QoS and multicast snooping are not built yet"),
    Known(r"^ovs-appctl (ovs/route/|ofproto/list-tunnels|ofproto/tnl-push-pop|dpif-netdev/pmd-perf)", NOT_BUILT, "not built yet"),
    Known(r"^ovs-appctl dpctl/(ipf-|dump-conntrack-exp|cache-)", NOT_BUILT,
          "connection tracking neither puts fragments together nor reads protocols yet"),
    Known(r"^ovs-appctl dpctl/ct-bkts", r"Total Buckets: ", "connections lie in 1024 shards; the stock switch says that all are in one"),
    Known(r"^ovs-appctl dpctl/ct-[gs]et-sweep-interval", r".", "since 3.2 the interval can be set"),
    Known(r"^ovs-appctl dpif/show-dp-features", r"^[-+](Tunnel push pop|Conntrack |Optimized Balance TCP|psample action|Max VLAN headers|CT )",
          "what the datapath has not built yet, and two VLAN tags that Debian's dummy has not"),
    Known(r"^ovs-appctl dpctl/show -s$", r"UPCALL packets", "since 3.3 ports show their upcalls"),
    BY_HAND,
    Known(r"^ovs-appctl dpif-netdev/subtable-lookup-info-get$", r"autovalidator|generic",
          "there is one implementation of the classifier, and it is in use"),
    Known(r"^ovs-appctl dpif/set-dp-features", r"takes at most [34] arguments", "since 3.3 it takes one argument more"),
    Known(r"dump-table-features", r"reg0\.\.\.reg(15|31)", "since 3.7 there are 32 registers, of which an older tool does not know"),
    Known(r"-meters?\b|meter-(stats|features)", r"dscp_remark|BAD_BAND|band_types|meter=3|meter:3|ADD meter|^[-+]exit|^\+(0: packet.*)?$",
          "our meters can also raise the drop precedence"),
    Known(r"OpenFlow11 mod-table", r"ofp_table\|WARN", "the stock tool does not know what the stock switch says of its tables' misses"),
    Known(r"OpenFlow11 dump-tables", r"^[-+] +(actions|exact match|config|active|max_entries|instructions|\(same|Write-Actions|tables|table 25|matching)"
          r"|^-$|^[-+]  tables?", "what OpenFlow 1.1 tables can do is told in the words of later versions"),
    Known(r"OpenFlow11 dump-group-features", r"actions: ", "actions of groups are told in the words of OpenFlow 1.2"),
]

COMMANDS_OF_TOOLS = [
    BY_HAND,
    Known(r"dump-tables br0$", r"^-|^\+  tables 1\.\.\.253: ditto$",
          "what tables can do, which OpenFlow 1.0 to 1.2 say beside the counters, is for dump-table-features"),
    Known(r".", r"^-stderr: <time>\|(ofp_table|ofp_port|ofp_match|pcap|fatal_signal)\|", "the log lines beside an answer are not repeated"),
    Known(r"OpenFlow1[1-4] (add-group|dump-group|dump-group-stats|insert-buckets)", r"group_id=[56]|none of the usable flow formats|^[-+]exit|insert-bucket needs",
          "since 3.2 selection methods need OpenFlow 1.0 with extensions, or 1.5"),
    Known(r"--color=always", r"^[-+]", "words within learn() and load are coloured by simpler rules"),
    Known(r"dump-flows tcp:127.0.0.1:1$", r"Connection refused", "a refusal is told in the words for a remote host"),
    Known(r"ct-flush br0 nonsense", r"Failed to parse", "since 3.3 more than a tuple can be given"),
    Known(r"add-br a/b", r"^[-+]exit status", "since 3.3 the tool fails when the switch could not add a port"),
    Known(r"(add|del)-zone-tp netdev zone=1", r"zone id 1", "since 3.4 zones have limits, too, and a policy is named as one"),
    Known(r"--dry-run del-br", r"exit status|fatal_signal", "a dry run does not wait for a change that will never come"),
]
