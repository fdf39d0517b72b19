"""A Linux guest in QEMU on vhost-user ports, controlled through a shell on its serial line, and by QMP.

Kernel and modules are those of Debian's cloud kernel, unpacked (not installed) below target/guest; the rest of its
file system is busybox, iperf3 and other programs of this machine. QEMU emulates the CPU (TCG), so KVM is not needed.

`vectors=0` turns MSI-X off. With MSI-X, QEMU 7.2 starts a vhost-user device by adding an interrupt route to KVM even
if KVM is not used, and crashes with a null pointer: vhost-user devices disable the mask by which QEMU would avoid
that. Without MSI-X QEMU drives an interrupt pin itself. The guest's memory must be shared. `no_timer_check` is
needed, because Linux would wait for a timer that is late under TCG.
"""
import copy
import functools
import glob
import os
import platform
import re
import subprocess
import threading

from lib import lab, own_network, qmp

FOLDER = os.path.join(lab.ROOT, "target", "guest")
MODULES = ("virtio/virtio_ring", "virtio/virtio", "virtio/virtio_pci_modern_dev", "virtio/virtio_pci_legacy_dev",
           "virtio/virtio_pci", "net/core/failover", "net/net_failover", "net/virtio_net")
INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ip link set lo up
for module in %s; do insmod /modules/$module.ko; done
sh < /dev/console > /dev/console 2>&1
"""
APPLETS = ("sh", "mount", "ip", "ping", "insmod", "cat", "echo", "sleep", "stty", "ifconfig")


def kernel():
    """The image of an unpacked Debian kernel, downloaded once, by one of the processes that run tests."""
    with lab.locked(FOLDER):
        if not os.path.exists(FOLDER + "/kernel"):
            unpack_kernel()
    return glob.glob(FOLDER + "/kernel/boot/vmlinuz-*")[0]


def unpack_kernel():
    """Makes FOLDER/kernel: completely, or not at all."""
    lab.need("apt-get")
    os.makedirs(FOLDER, exist_ok=True)
    new = FOLDER + "/kernel.new"
    lab.sh("rm", "-rf", new)
    try:
        depends = lab.sh("apt-cache", "depends", "linux-image-cloud-amd64")
        package = re.search(r"Depends: (linux-image-\S+)", depends)[1]
        subprocess.run(own_network.of_host("apt-get", "download", "-qq", package), cwd=FOLDER, check=True, capture_output=True, timeout=120)
        lab.sh("dpkg", "-x", glob.glob(FOLDER + "/linux-image-*.deb")[0], new)
    except (AssertionError, TypeError, IndexError, subprocess.SubprocessError) as e:
        raise lab.Skip("needs Debian's package linux-image-cloud-amd64 to take a kernel from: %s" % e) from None
    os.rename(new, FOLDER + "/kernel")


def file_system(image, folder, programs, more_modules):
    """Makes the guest's initial file system, with these programs and modules besides the usual ones; returns its path."""
    version = os.path.basename(image).removeprefix("vmlinuz-")
    modules = glob.glob(FOLDER + "/kernel/lib/modules/" + version + "/kernel")[0]
    root = folder + "/root"
    for d in ("bin", "modules", "proc", "sys", "dev", "tmp"):
        os.makedirs("%s/%s" % (root, d))
    for module in MODULES:
        path = "%s/%s%s.ko" % (modules, "" if module.startswith("net/core") else "drivers/", module)
        lab.sh("cp", path, root + "/modules/")
    for module in more_modules:
        lab.sh("cp", "%s/%s.ko" % (modules, module), root + "/modules/")
    lab.sh("cp", lab.need("busybox"), root + "/bin/busybox")
    for applet in APPLETS:
        os.symlink("busybox", "%s/bin/%s" % (root, applet))
    for program in map(lab.need, ("iperf3", *programs)):
        # In the place of busybox's own, if that has one of this name.
        lab.sh("cp", "-L", "--remove-destination", program, root + "/bin/")
        # The guest's memory holds the file system twice while it starts.
        lab.sh("strip", "--strip-debug", "%s/bin/%s" % (root, os.path.basename(program)))
        for library in re.findall(r"/\S+", lab.sh("ldd", program)):
            os.makedirs(root + os.path.dirname(library), exist_ok=True)
            lab.sh("cp", "-L", library, root + library)
    with open(root + "/init", "w") as f:
        f.write(INIT % " ".join(os.path.basename(m) for m in (*MODULES, *more_modules)))
    os.chmod(root + "/init", 0o755)
    path = folder + "/initrd"
    lab.sh("sh", "-c", "cd '%s' && find . | busybox cpio -o -H newc > '%s'" % (root, path))
    return path


class Guest:
    """A booted guest whose network devices (eth0, eth1 and so on) are the vhost-user servers at `sockets`.

    `programs`: of this machine, with their libraries; `modules`: of its kernel, loaded in this order. `slots`: how many memory modules can
    be plugged. `queues`: of each network device, whose rings are `packed` or split. Guests of one network differ by `number`. `iommu`: the
    devices are behind an Intel IOMMU, which the guest's kernel uses with these arguments.
    """

    def __init__(self, *sockets, folder, programs=(), modules=(), megabytes=192, slots=0, queues=1, packed=False, number=0, wait=True, iommu=None):
        if platform.machine() != "x86_64":
            raise lab.Skip("needs an x86_64 machine")
        qemu = lab.need("qemu-system-x86_64")
        lab.need("busybox")
        image = kernel()
        self.folder, self.queues, self.packed, self.number = folder, queues, packed, number
        memory = "%dM" % megabytes
        self.has_iommu = iommu is not None
        machine, append = "pc", "console=ttyS0 quiet panic=-1 no_timer_check"
        if self.has_iommu:
            machine, append = "q35,kernel-irqchip=split", append + " intel_iommu=on " + iommu
        self.hardware = [
            qemu, "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", memory + (",slots=%d,maxmem=2G" % slots if slots else ""),
            "-object", "memory-backend-memfd,id=memory,size=%s,share=on" % memory, "-machine", machine + ",memory-backend=memory",
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
            "-kernel", image, "-initrd", file_system(image, folder, programs, modules),
            "-append", append]
        if self.has_iommu:
            self.hardware += ["-device", "intel-iommu,intremap=on,device-iotlb=on"]
        self.start(sockets)
        if wait:
            self.wait_for_shell()

    def start(self, sockets, *options):
        """Starts QEMU, at first or after it has ended; the guest has not booted when this returns."""
        self.command_number, self.text = 0, ""
        self.__dict__.pop("qmp", None)
        self.control = "%s/%s" % (self.folder, lab.unique("qmp"))
        argv = [*self.hardware, "-qmp", "unix:%s,server=on,wait=off" % self.control, *options]
        for number, path in enumerate(sockets):
            place = ""
            if self.has_iommu:
                # The device has ATS only behind a root port. Without ATS, QEMU does not pass on all invalidations.
                argv += ["-device", "pcie-root-port,id=slot%d,chassis=%d" % (number, number)]
                place = ",bus=slot%d,iommu_platform=on,ats=on,disable-legacy=on" % number
            argv += ["-chardev", "socket,id=port%d,path=%s,server=on,wait=off" % (number, path),
                     "-netdev", "type=vhost-user,id=net%d,chardev=port%d,queues=%d" % (number, number, self.queues),
                     "-device", "virtio-net-pci,netdev=net%d,romfile=,vectors=0,mac=52:54:00:00:%02x:%02x%s%s%s" % (
                         number, self.number, number + 1, ",mq=on" if self.queues > 1 else "", ",packed=on" if self.packed else "", place)]
        self.process = lab.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self.read, args=[self.process.stdout], daemon=True).start()

    def another(self, *sockets):
        """A QEMU with the same hardware on these sockets. It waits until this guest is migrated to it."""
        other = copy.copy(self)
        other.start(sockets, "-incoming", "defer")
        return other

    @functools.cached_property
    def qmp(self):
        return qmp.Qmp(self.control)

    def wait_for_shell(self):
        """Waits until the guest has booted."""
        lab.wait_until(lambda: "# " in self.text or self.process.poll() is not None, "the guest's shell", 90)
        self.do("stty -echo")

    def set_address(self, device, address):
        self.do("ip address add %s dev %s && ip link set %s up" % (address, device, device))

    def read(self, output):
        while chunk := os.read(output.fileno(), 65536):
            self.text += chunk.decode(errors="replace")

    def run(self, command, seconds=60):
        """Runs a line in the guest's shell; returns status and output."""
        assert self.process.poll() is None, "QEMU ended (%s):\n%s" % (self.process.poll(), self.text[-2000:])
        self.command_number += 1
        start = len(self.text)
        # In two pieces, so that the echo of the line does not look like its output.
        self.process.stdin.write(("%s; echo do''ne-%d-$?-\n" % (command, self.command_number)).encode())
        self.process.stdin.flush()
        end = re.compile(r"done-%d-(\d+)-" % self.command_number)
        try:
            lab.wait_until(lambda: end.search(self.text, start) or self.process.poll() is not None, command, seconds)
            answer = end.search(self.text, start)
            return int(answer[1]), self.text[start:answer.start()]
        except (AssertionError, TypeError):
            raise AssertionError("the guest did not do '%s':\n%s" % (command, self.text[-2000:])) from None

    def begin(self, command):
        """Starts a command in the background, as a child of the first process: the shell would end when a child of its own ends."""
        self.do("( (%s) & )" % command)

    def do(self, command, seconds=60):
        status, text = self.run(command, seconds)
        assert status == 0, "in the guest, '%s': %d\n%s" % (command, status, text)
        return text
