"""Start of DPDK as the database configures it; it must not end the switch."""
import glob
import os
import re
import signal
import time

from lib import lab

MEMORY = "128"


def huge_pages_free():
    free = 0
    for size in glob.glob("/sys/kernel/mm/hugepages/hugepages-*"):
        with open(size + "/free_hugepages") as f:
            free += int(f.read()) * int(size.rsplit("-", 1)[1][:-2]) // 1024
    return free


class WithoutHugePages(lab.Switch):
    """A switch that sees no huge pages, whether or not there are any."""

    def binary(self):
        script = self.dir + "/hidden"
        with open(script, "w") as f:
            f.write("#!/bin/sh\nmount -t tmpfs tmpfs /sys/kernel/mm/hugepages && exec '%s' \"$@\"\n" % super().binary())
        os.chmod(script, 0o755)
        starter = self.dir + "/start"
        with open(starter, "w") as f:
            f.write("#!/bin/sh\nexec unshare --mount '%s' \"$@\"\n" % script)
        os.chmod(starter, 0o755)
        return starter


def started(switch=lab.Switch, **config):
    """A switch with these settings (`_` for `-`) from its start."""
    lab.need_root()
    s = switch()
    start_daemon, s.start_daemon = s.start_daemon, lambda: None
    s.start()
    s.vsctl("--no-wait", "set", "Open_vSwitch", ".",
            *['other_config:%s="%s"' % (k.replace("_", "-"), v) for k, v in config.items()])
    start_daemon()
    s.vsctl("set", "Open_vSwitch", ".", "external_ids:is=up")  # Waits for the first configuration.
    return s


def initialized(s):
    return s.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip()


def threads(s):
    """(name, allowed cores) of each thread; the first one is the main thread."""
    of = []
    for task in sorted(os.listdir("/proc/%d/task" % s.daemon.pid), key=int):
        with open("/proc/%d/task/%s/status" % (s.daemon.pid, task)) as f:
            lines = dict(line.rstrip("\n").split(":", 1) for line in f if ":" in line)
        of.append((lines["Name"].strip(), lines["Cpus_allowed_list"].strip()))
    return of


def refused(word, **config):
    """The start of DPDK fails: the switch works, and the log has the reason."""
    s = started(dpdk_init="true", **config)
    assert initialized(s) == "false"
    log = s.log()
    said = re.search(r"\|dpdk\|ERR\|Unable to initialize DPDK: (.*)", log)
    assert said and word in said.group(1), log
    s.add_bridge("br0")
    s.vsctl("add-port", "br0", "p1", "--", "set", "Interface", "p1", "type=dpdk", "options:dpdk-devargs=net_null0",
            check=False)
    error = s.vsctl("get", "Interface", "p1", "error")
    assert "could not open network device p1 (Address family not supported by protocol)" in error, error
    assert "p1: DPDK could not be initialized" in s.log()
    assert "br0" in s.appctl("ofproto/list")
    assert s.daemon.poll() is None


def test_a_bad_option_does_not_end_the_switch():
    """dpdk-extra with an option that DPDK does not know."""
    refused("--bogus", dpdk_extra="--no-pci --bogus")


def test_a_call_for_help_does_not_end_the_switch():
    """dpdk-extra with -h: DPDK prints its usage and exits the process."""
    refused("DPDK ends the process", dpdk_extra="--no-pci -h")


def test_more_memory_than_there_is():
    """dpdk-socket-mem beyond the machine's memory."""
    if not huge_pages_free():
        raise lab.Skip("needs free huge pages")
    refused("Not enough memory available", dpdk_extra="--no-pci", dpdk_socket_mem="99999999")


def test_a_secondary_process_is_refused_at_once():
    """--proc-type=secondary would wait for a primary process forever."""
    began = time.time()
    refused("secondary process", dpdk_extra="--no-pci --proc-type=secondary")
    assert time.time() - began < 20


def test_without_huge_pages():
    """--no-huge works, even together with --in-memory; the main thread's affinity is unchanged."""
    s = started(dpdk_init="true", dpdk_extra="--no-pci --no-telemetry --in-memory --no-huge -m 64", dpdk_lcore_mask="1")
    assert initialized(s) == "true", s.log()
    assert "--in-memory is ignored" in s.log()
    s.add_bridge("br0")
    with open("/proc/self/status") as f:
        ours = next(line.split()[1] for line in f if line.startswith("Cpus_allowed_list"))
    of = threads(s)
    assert ("dpdk-main", "0") in of, of
    free = [t for t in of if not t[0].startswith(("dpdk-", "eal-", "rte_", "pmd-"))]
    assert of[0] in free and all(cores == ours for _, cores in free), of


def test_no_huge_pages_left():
    """Without huge pages and without a choice of the user, ordinary memory is used, and the log says so."""
    lab.need("unshare")
    s = started(WithoutHugePages, dpdk_init="true", dpdk_extra="--no-pci --no-telemetry", dpdk_socket_mem=MEMORY)
    assert initialized(s) == "true", s.log()
    assert "--no-huge -m %s" % MEMORY in s.log(), s.log()
    assert "|dpdk|WARN|there are no free huge pages: DPDK uses ordinary memory" in s.log()


def test_with_huge_pages():
    """DPDK is initialized according to database, log and commands; later changes apply at the next start."""
    if huge_pages_free() < 2 * int(MEMORY):
        raise lab.Skip("needs %d MB of free huge pages" % (2 * int(MEMORY)))
    s = started(dpdk_init="try", dpdk_extra="--no-pci --no-telemetry", dpdk_socket_mem=MEMORY)
    assert initialized(s) == "true", s.log()
    assert "DPDK" in s.vsctl("get", "Open_vSwitch", ".", "dpdk_version")
    types = s.vsctl("get", "Open_vSwitch", ".", "iface_types")
    assert all(t in types for t in ("dpdk", "dpdkvhostuser", "dpdkvhostuserclient")), types
    assert "--socket-mem " + MEMORY in s.log() and "DPDK Enabled - initialized" in s.log()
    assert "lcore 0, socket 0, role RTE" in s.appctl("dpdk/lcore-list")
    assert "global log level is" in s.appctl("dpdk/log-list")
    assert "Heap id:0" in s.appctl("dpdk/get-malloc-stats")
    s.appctl("dpdk/log-set", "lib.eal:debug")
    assert "id 0: lib.eal, level is debug" in s.appctl("dpdk/log-list")
    s.vsctl("set", "Open_vSwitch", ".", "other_config:dpdk-socket-mem=64")
    assert "other_config:dpdk-socket-mem changed: this takes effect when the daemon starts again" in s.log()


def test_enabled_later():
    """dpdk-init may be set after the start; ports that failed without DPDK then come up."""
    s = started(dpdk_extra="--no-pci --no-telemetry --no-huge -m 256")
    assert initialized(s) == "false" and "dpdk/" not in s.appctl("list-commands")
    s.add_bridge("br0")
    s.vsctl("add-port", "br0", "p1", "--", "set", "Interface", "p1", "type=dpdk", "options:dpdk-devargs=net_null0",
            check=False)
    assert "Address family" in s.vsctl("get", "Interface", "p1", "error")
    assert "p1: DPDK is not enabled" in s.log()
    s.vsctl("set", "Open_vSwitch", ".", "other_config:dpdk-init=true")
    assert initialized(s) == "true", s.log()
    assert "dpdk/lcore-list" in s.appctl("list-commands")
    lab.wait_until(lambda: s.vsctl("get", "Interface", "p1", "error").strip() == "[]", "the port is there: " + s.log())
    assert "count: avail" in s.appctl("netdev-dpdk/get-mempool-info", "p1")
    began = time.time()
    s.kill_daemon(signal.SIGTERM)
    assert s.daemon.returncode == 0 and time.time() - began < 2, "it ends at once"
