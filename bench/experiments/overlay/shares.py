"""Shares of a process's CPU time by kind of work, from samples of `perf`."""
import re
import subprocess

# What a symbol belongs to: the first that matches. Symbols of the kernel and of the switch that match none are the last two.
WORK = (("copies", r"mem(move|cpy|set)|copy_(user|to|from|page)|copyin|copyout|rep_movs|copy_mc|skb_copy"),
        ("checksums", r"csum|checksum"),
        ("segments", r"segment|gso|::merge|tso"),
        ("outer headers", r"tunnel|tnl|vxlan|geneve|encap"),
        ("look-up", r"miniflow|flow_?cache|dpcls|emc_|smc|classif|extract|dfc_|megaflow|fast_path|hash"),
        ("scheduling", r"schedul|futex|epoll|poll|wake|task_switch|syscall|entry_|ktime|timer|clock|sigmask|spin_unlock"),
        ("buffers", r"alloc|free|pool|dp_packet|mi_|kmem|slab|page_frag"))
KERNEL, SWITCH = "packet sockets and veth in the kernel", "the rest of the switch"
NAMES = [name for name, _ in WORK] + [KERNEL, SWITCH]


class Recorder:
    """Samples processes from its creation until `shares`."""

    def __init__(self, pids, folder):
        self.files = ["%s/%d.data" % (folder, pid) for pid in pids]
        self.recorders = [subprocess.Popen(["perf", "record", "-q", "-F", "1999", "-e", "cpu-clock", "-p", str(pid), "-o", file],
                                           stderr=subprocess.DEVNULL) for pid, file in zip(pids, self.files)]

    def shares(self):
        """For each process the percentage of each kind of work."""
        for recorder in self.recorders:
            recorder.terminate()
            recorder.wait()
        return [by_work(file) for file in self.files]


def by_work(file):
    text = subprocess.run(["perf", "report", "-i", file, "--stdio", "--no-children", "-g", "none", "--sort", "symbol"],
                          check=True, capture_output=True, text=True).stdout
    sums = dict.fromkeys(NAMES, 0.0)
    for percent, space, symbol in re.findall(r"^\s*([\d.]+)%\s+\[(.)\]\s+(.*)$", text, re.M):
        work = next((name for name, words in WORK if re.search(words, symbol)), KERNEL if space == "k" else SWITCH)
        sums[work] += float(percent)
    return sums
