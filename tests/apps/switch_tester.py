"""Runs os-ken's switch tester on the files of a directory: switch_tester.py PORT VERSION DIRECTORY.

VERSION is that of OpenFlow, such as openflow13. The bridge to be tested has datapath id 1, the one that tests it 2; ports 1
to 3 of one are linked to those of the other. Each result is printed when it is known.

The tester's own sender sleeps for a fixed time between its turns, even if a turn takes long. So its rate is lower than a test requests, by
more than the 10 % that the test allows. This program sends packets by the clock. All checks and their limits are the tester's.
"""
import os
import signal
import sys

# With native threads, os-ken cannot limit the time that it waits for a reply.
os.environ["OSKEN_HUB_TYPE"] = "eventlet"

import time  # noqa: E402

from os_ken import cfg, log  # noqa: E402
from os_ken.base import app_manager  # noqa: E402
from os_ken.lib import hub  # noqa: E402
from os_ken.tests.switch import tester  # noqa: E402

# Pause between two turns of the sender, in seconds.
TURN = 0.01


def send_by_the_clock(self, arg):
    """Replaces the tester's `_send_packet_thread`: sends the packets that are due since the start, until the tester signals the end."""
    rate = arg["packet_counter_inc"] / tester.CONTINUOUS_THREAD_INTVL
    start, sent = time.monotonic(), 0
    while self.ingress_event is not None and not self.ingress_event._cond:
        while sent < (time.monotonic() - start) * rate:
            data = arg["packet_binary"]
            if arg["randomize"]:
                message = eval("/".join(arg["packet_text"]), vars(tester))
                message.serialize()
                data = message.data
            try:
                self.tester_sw.send_packet_out(data)
            except Exception as e:
                self.thread_msg = e
                self.ingress_event.set()
                return
            sent += 1
        hub.sleep(TURN)


if __name__ == "__main__":
    port, version, directory = sys.argv[1:]
    log.early_init_log()
    # The tester ends its own process this way.
    signal.signal(signal.SIGTERM, lambda *_: (sys.stdout.flush(), sys.stderr.flush(), os._exit(0)))
    cfg.CONF(project="os_ken", args=[
        "--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", port, "--test-switch-dir", directory,
        "--test-switch-target-version", version, "--test-switch-tester-version", version])
    log.init_log()
    tester.OfTester._send_packet_thread = send_by_the_clock
    app_manager.AppManager.run_apps(["os_ken.tests.switch.tester"])
