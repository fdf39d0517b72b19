"""The differences from the stock switch that are meant, each with its reason. Everything else fails the test.

Debian ships Open vSwitch 3.1; Sluice speaks the text of 3.7. What changed between the two is a difference from the oracle, not
from the target.
"""
from lib.compare_run import Known

KNOWN = [
    Known(r"get interface p2 status", r'^-\{\}$|^\+\{(tx_\w+="(true|false)"(, )?)+\}$',
          "since 3.3 the offloads of a device are shown in its status"),
]
