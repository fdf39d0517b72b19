"""The network namespace of a test run: the names of bridges and devices in tests may exist on the host, or in another
run."""
import ctypes
import os
import subprocess
import tempfile

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
# The host's network namespace, while tests run in another one.
_host = None


def enter():
    """Moves this process and its children to a new network namespace; no effect without root."""
    global _host
    if os.geteuid():
        return
    _host = os.open("/proc/self/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")

    def run(*argv):
        subprocess.run(argv, check=True)
    run("mount", "--make-rslave", "/")
    run("ip", "link", "set", "lo", "up")
    # Of /sys mount only what belongs to a network namespace; the rest (cgroups, bpf) is the host's.
    with tempfile.TemporaryDirectory() as sysfs:
        run("mount", "-t", "sysfs", "sysfs", sysfs)
        for devices in ("class/net", "devices/virtual/net"):
            run("mount", "--bind", "%s/%s" % (sysfs, devices), "/sys/" + devices)
        run("umount", sysfs)


def delete_taps():
    """Deletes the devices that switches left behind when they ended, in the test run's own network."""
    if _host is None:
        return
    shown = subprocess.run(["ip", "tuntap", "show"], stdout=subprocess.PIPE, text=True).stdout
    for line in shown.splitlines():
        subprocess.run(["ip", "link", "del", line.split(":")[0]], stderr=subprocess.DEVNULL)


def of_host(*argv):
    """The command line to run a command in the host's network, for downloads."""
    if _host is None:
        return list(argv)
    return ["nsenter", "--net=/proc/%d/fd/%d" % (os.getpid(), _host), "--", *argv]
