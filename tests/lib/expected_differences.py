"""The expected differences from the stock switch, each with its reason. Any other difference fails the test.

Debian has Open vSwitch 3.1; Sluice implements 3.7. A difference between these versions is a difference from Debian's
switch, not from the specification.
"""
from lib.compare_run import NO_LINE, Expected

SWITCH = [
    Expected(r"get interface p2 status|find interface type=dummy", r'^-(status +: )?\{\}$|^\+(status +: )?\{(tx_\w+="(true|false)"(, )?)+\}$',
             "since 3.3 the offloads of a device are shown in its status"),
    Expected(r"^ovs-appctl list-commands$", r"^\+ +ofproto/list-tunnels *$",
             "the stock switch has this command once it has had a tunnel"),
    Expected(r"^ovs-appctl ofproto/detrace", r"^-stderr: \"ofproto/detrace\" is not a valid command|^\+stderr: failed to parse ufid$",
             "the command exists since 3.4"),
    Expected(r"^ovs-vsctl get interface bad4 error$", r'''^-\[\]$|^\+"No usable peer 'nobody' exists in 'dummy' datapath\."$''',
             "ours reports this at once, the stock switch when the state of any port next changes"),
    Expected(r"^ovs-vsctl get interface bad5 error ofport$",
             r'^-\[\]$|^-\d+$|^\+"bad5: vxlan type requires valid \'remote_ip\' argument"$|^\+-1$',
             "if all devices are dummies, the stock switch replaces a tunnel by a dummy, too; ours is a tunnel and needs remote_ip"),
]

# The same for the switch that serves its own database, under its own name.
OWN_DATABASE = [
    Expected(r"^ovs-appctl version$", r"^-ovs-vswitchd \(Open vSwitch\) <version>$|^\+sluiced \(Sluice\) \S+, as ovs-vswitchd "
             r"\(Open vSwitch\) <version>$",
             "under its own name the program prints that name and the program that it replaces"),
    Expected(r"^ovs-vsctl show$", r'^\+    ovs_version: "[0-9.]+"$',
             "with its own database the switch itself writes the versions that ovs-ctl writes for ovs-vswitchd"),
]

# The same for our tools compared with the stock tools, on stock switches.
TOOLS = [
    Expected(r"^ovs-ofctl dump-tables br0$", r"^-    matching:$|^-      exact match or wildcard: in_port eth",
             "the wildcards that a table of OpenFlow 1.0 supports are not shown"),
    Expected(r"^ovs-ofctl add-flow br0 table=7,", r"^-stderr: <time>\|ofp_(port|match)\|",
             "the stock tool also prints log lines; ours prints only the reply"),
]

# The rest is for the calls of compare_commands.
COMMANDS = [
    Expected(r"^ovs-vsctl list-dp-cap netdev$", r"^-$|^\+(\w+=(true|false|\d+) ?){28}$",
             "if all devices are dummies, ours has one datapath for all types, so this one is used", long=True),
    Expected(r"^ovs-appctl ovs/route/show nonsense$",
             r'''^-stderr: "ovs/route/show" command takes at most 0 arguments$|^\+stderr: Invalid table format$''',
             "since 3.6 the command takes a table"),
    Expected(r"^ovs-appctl ovs/route/(add|del|lookup|show)( x)+ $", r'^[-+]stderr: "ovs/route/\w+" command takes at most [0-6] arguments$',
             "since 3.6 routes have tables and source addresses", long=True),
    Expected(r"^ovs-appctl dpctl/ct-bkts", r"^[-+] *Total Buckets: ", "ours has 1024 shards of connections; the stock switch reports a single bucket"),
    Expected(r"^ovs-appctl dpctl/ct-[gs]et-sweep-interval", r'^-stderr: ("dpctl/ct-[gs]et-sweep-interval" is not a valid command|ovs-appctl: )'
             r"|^\+(setting sweep interval successful|1000)$", "since 3.2 the interval can be set", statuses=(2, 0)),
    Expected(r"^ovs-appctl dpif/show-dp-features", r"^[-+](Tunnel push pop|Conntrack |Optimized Balance TCP|psample action|Max VLAN headers|CT )",
             "features that our datapath does not implement yet, and two VLAN tags, which Debian's dummy lacks"),
    Expected(r"^ovs-appctl dpctl/show -s$", r"UPCALL packets", "since 3.3 ports show their upcalls"),
    Expected(r"^ovs-appctl dpif/set-dp-features", r"takes at most [34] arguments", "since 3.3 the command takes one more argument", long=True),
    Expected(r"-meters?\b|meter-(stats|features)", r"dscp_remark|BAD_BAND|band_types|^\+meter=3 |^\+meter:3 |ADD meter=3|^\+(0: packet_count:0 byte_count:0)?$",
             "our meters can also raise the drop precedence", statuses=(1, 0)),
    Expected(r"OpenFlow11 mod-table", r"ofp_table\|WARN", "the stock tool does not know the stock switch's setting for table misses",
             long=True),
]

COMMANDS_OF_TOOLS = [
    Expected(r"OpenFlow1[0-2] dump-tables br0$", r"^-    (config=controller|instructions \(table|  instructions: |  Write-Actions and|    actions: "
             r"|    supported on Set-Field: |matching:|  exact match or wildcard: |active=0, lookup=0|metadata: match=|max_entries=|\(same matching)"
             r"|^-      \(same actions\)$|^-  tables? [0-9.]+:|^-$|^\+  tables 1\.\.\.253: ditto$",
             "the table features that OpenFlow 1.0 to 1.2 send with the counters are only shown by dump-table-features"),
    Expected(r"OpenFlow11 mod-table", r"^-stderr: <time>\|ofp_table\|", "the stock tool also prints log lines; ours prints only the reply",
             long=True),
    Expected(r"OpenFlow1[1-4] (add-group|dump-group|dump-group-stats|insert-buckets)", r"group_id=[56]|none of the usable flow formats|insert-bucket needs",
             "since 3.2 selection methods need OpenFlow 1.0 with extensions, or 1.5", statuses=(0, 1), long=True),
    Expected(r"dump-flows tcp:127.0.0.1:1$", r"Connection refused", "ours prints the message of a refused connection to a remote host"),
    Expected(r"ct-flush br0 nonsense", r"Failed to parse", "since 3.3 more than a tuple can be matched"),
    Expected(r"add-br a/b$", NO_LINE, "since 3.3 the tool fails when the switch could not add a port", statuses=(0, 65)),
    Expected(r"(add|del)-zone-tp netdev zone=1", r"zone id 1", "since 3.4 zones have limits, too, so the message names the policy", long=True),
    Expected(r"--dry-run del-br", r"^-stderr: <time>\|fatal_signal\|", "our dry run does not wait for a change that never happens",
             statuses=(-14, 0), long=True),
]

# Our tools on our switch.
OURS_TOGETHER = [
    Expected(r"dump-table-features", r"reg0\.\.\.reg(15|31)", "since 3.7 there are 32 registers, which an older tool does not know"),
]
