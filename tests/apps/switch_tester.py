"""Runs os-ken's switch tester on the files of a directory: switch_tester.py PORT VERSION DIRECTORY.

VERSION is that of OpenFlow, such as openflow13. The bridge to be tested has datapath id 1, the one that tests it 2; ports 1
to 3 of one are linked to those of the other. What is passed and what is not is printed as it happens.
"""
import os
import signal
import sys

# Its native threads cannot wait for an answer with a limit.
os.environ["OSKEN_HUB_TYPE"] = "eventlet"

from os_ken import cfg, log  # noqa: E402
from os_ken.base import app_manager  # noqa: E402

if __name__ == "__main__":
    port, version, directory = sys.argv[1:]
    log.early_init_log()
    # The tester ends its own process this way.
    signal.signal(signal.SIGTERM, lambda *_: (sys.stdout.flush(), sys.stderr.flush(), os._exit(0)))
    cfg.CONF(project="os_ken", args=[
        "--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", port, "--test-switch-dir", directory,
        "--test-switch-target-version", version, "--test-switch-tester-version", version])
    log.init_log()
    app_manager.AppManager.run_apps(["os_ken.tests.switch.tester"])
