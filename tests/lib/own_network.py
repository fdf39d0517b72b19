"""The network namespace of a test run: the names of bridges and devices in tests may exist on the host, or in another
run."""
import ctypes
import os
import subprocess
import tempfile

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
# The host's network namespace, while tests run in another one.
_host = None
# Devices that were there before; `None`: no switch was started yet.
_before = None


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


def taps():
    """The names of all tun and tap devices; in the host's network also whether a process has each."""
    found, name = {}, None
    # Looking for processes takes some time, and prints errors about those of others.
    details = ["-d"] if _host is None else []
    shown = subprocess.run(["ip", *details, "tuntap", "show"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in shown.stdout.splitlines():
        if not line[:1].isspace():
            name = line.split(":")[0]
            found[name] = False
        elif "Attached to processes:" in line:
            found[name] = line.split("processes:")[1].strip() != ""
    return found


def note_taps():
    """Notes which devices are there before the first switch starts. In the host's network these are not ours."""
    global _before
    if _before is None:
        _before = set() if _host is not None else set(taps())


def delete_taps():
    """Deletes the devices that switches left behind when they ended: internal ports outlive the process."""
    for name, used in taps().items() if _before is not None else ():
        if not used and name not in _before:
            subprocess.run(["ip", "link", "del", name], stderr=subprocess.DEVNULL)


def of_host(*argv):
    """The command line to run a command in the host's network, for downloads."""
    if _host is None:
        return list(argv)
    return ["nsenter", "--net=/proc/%d/fd/%d" % (os.getpid(), _host), "--", *argv]
