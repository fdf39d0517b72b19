"""Shared parts of the experiments: TCP between two namespaces, CPU time and memory of a process, output of figures."""
import json
import os
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """CPU seconds of a process since its start."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mb(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


def iperf(a, b, address, seconds, *options):
    """Section `end` of what iperf3 in namespace `a` says about traffic to `b`; empty if nothing arrives."""
    server = b.spawn("iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
    time.sleep(0.4)
    try:
        out = a.run("iperf3", "-c", address, "-t", str(seconds), "-J", "--connect-timeout", "3000", *options,
                    check=False, timeout=seconds + 20)
        return json.loads(out).get("end", {})
    except (subprocess.TimeoutExpired, ValueError):
        return {}
    finally:
        server.kill()
        server.wait()


def tcp(a, b, address, seconds):
    """Received Gbit/s, and number of retransmitted segments; 0 Gbit/s if TCP does not pass."""
    end = iperf(a, b, address, seconds)
    if "bits_per_second" not in end.get("sum_received", {}):
        return 0.0, 0
    return end["sum_received"]["bits_per_second"] / 1e9, end["sum_sent"]["retransmits"]


def spread(values):
    return "%.4g (%.4g to %.4g)" % (statistics.median(values), min(values), max(values))
