"""The differences from the stock switch that are meant, each with its reason. Everything else fails the test.

Debian ships Open vSwitch 3.1; Sluice speaks the text of 3.7. What changed between the two is a difference from the oracle, not
from the target.
"""
from lib.compare_run import Known

KNOWN = [
    Known(r"get interface p2 status", r'^-\{\}$|^\+\{(tx_\w+="(true|false)"(, )?)+\}$',
          "since 3.3 the offloads of a device are shown in its status"),
    Known(r"^ovs-appctl version$", r"^-ovs-vswitchd \(Open vSwitch\) <version>$|^\+sluiced \(Sluice\) \S+, as ovs-vswitchd "
          r"\(Open vSwitch\) <version>$",
          "called by its own name, the program says it, and what it stands in for"),
    Known(r"^ovs-vsctl show$", r'^\+    ovs_version: "[0-9.]+"$',
          "with its own database the switch writes the versions that ovs-ctl writes beside ovs-vswitchd"),
    Known(r"^ovs-vsctl get interface bad4 error$", r'''^-\[\]$|^\+"No usable peer 'nobody' exists in 'dummy' datapath\."$''',
          "the stock switch says so when the state of any port next changes, ours at once"),
    Known(r"^ovs-vsctl get interface bad5 error ofport$", r'^-\[\]$|^-\d+$|^\+"could not open network device bad5 \(type not '
          r'built yet in this version of Sluice\)"$|^\+-1$',
          "tunnels are not built yet, and the row says so"),
]

# The same for our tools beside the stock ones, on stock switches.
TOOLS = [
    Known(r"^ovs-ofctl dump-tables br0$", r"^-    matching:$|^-      exact match or wildcard: in_port eth",
          "the wildcards that a table of OpenFlow 1.0 supports are not shown"),
    Known(r"^ovs-ofctl add-flow br0 table=7,", r"^-stderr: <time>\|ofp_(port|match)\|",
          "the log lines beside an answer are not repeated"),
]
