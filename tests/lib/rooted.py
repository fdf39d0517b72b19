"""A root file system to install packages in: this machine's under an overlay, or a new one from Debian's archive.

Programs in it share the network and the process IDs of the test. It has no service manager, so maintainer scripts call init
scripts. `lab.clean_up` unmounts it; the programs that were started in it are ended by `Root.end_programs`.
"""
import glob
import os
import shutil
import signal
import subprocess
import time

from lib import lab, own_network

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C",
       "HOME": "/root"}


LONG = bool(os.environ.get("TEST_LONG"))


def built(folder):
    """Builds the packages; returns their files by name."""
    lab.sh(os.path.join(lab.ROOT, "packaging/debian/build"), folder, env=dict(os.environ, DEB_COMPRESSION="xz" if LONG else "none"),
           timeout=180)
    return {os.path.basename(f).split("_")[0]: f for f in glob.glob(folder + "/*.deb")}


class Root:
    """A root file system, in which commands are run by chroot(8)."""

    def __init__(self, path):
        self.path = path
        # Services may start here, whatever the policy of the machine is.
        self.remove("usr/sbin/policy-rc.d")
        # The index of manual pages, and waiting for disks, only cost time.
        self.remove("var/lib/man-db/auto-update")
        with open(os.path.join(path, "etc/dpkg/dpkg.cfg.d/test"), "w") as f:
            f.write("force-unsafe-io\n")
        # Without an init program and a runlevel invoke-rc.d starts nothing.
        for name in ("init", "runlevel"):
            self.remove("usr/sbin/" + name)
            with open(os.path.join(path, "usr/sbin", name), "w") as f:
                f.write("#!/bin/sh\necho N 2\n")
            os.chmod(os.path.join(path, "usr/sbin", name), 0o755)
        # Images of containers have this file, which deletes downloaded packages.
        self.remove("etc/apt/apt.conf.d/docker-clean")
        for kind, where in (("proc", "proc"), ("sysfs", "sys"), ("tmpfs", "run"), ("tmpfs", "tmp")):
            self.mount("-t", kind, kind, where)
        self.mount("--bind", "/dev", "dev")
        self.mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", "dev/pts")

    def mount(self, *args):
        *options, where = args
        where = os.path.join(self.path, where)
        lab.sh("mount", *options, where)
        lab._mounts.insert(0, where)

    def remove(self, name):
        path = os.path.join(self.path, name)
        if os.path.lexists(path):
            os.remove(path)

    def run(self, *argv, env=(), timeout=120, merged=False, **kw):
        """A command in the root; `merged`: standard error belongs to its output."""
        if merged:
            argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", *argv)
        return lab.sh("chroot", self.path, *argv, env=dict(ENV, **dict(env)), timeout=timeout, **kw)

    def apt(self, *argv, online=False):
        """apt-get without questions; with `online` it downloads from the archive first. Services start in the test's network."""
        argv = ["apt-get", "-y", "-q", "--no-install-recommends", "--allow-downgrades", "-o", "Dpkg::Options::=--force-confold",
                "-o", "APT::Sandbox::User=root", *argv]
        if online:
            download = [*argv[:1], *(("-d",) if "update" not in argv else ()), *argv[1:]]
            out = lab.sh(*own_network.of_host("chroot", self.path, *download), env=ENV, timeout=600)
            if "update" in argv:
                return out
        return self.run(*argv)

    def install_tree(self):
        """What `make install PREFIX=/usr` installs."""
        lab.sh(os.path.join(lab.ROOT, "scripts/install"), "/usr", env=dict(os.environ, DESTDIR=self.path))

    def put(self, files):
        """Copies files into its /tmp; returns their paths there."""
        for file in files:
            shutil.copy(file, os.path.join(self.path, "tmp"))
        return ["/tmp/" + os.path.basename(file) for file in files]

    def has(self, name):
        return os.path.lexists(os.path.join(self.path, name))

    def text(self, name):
        with open(os.path.join(self.path, name)) as f:
            return f.read()

    def status(self, package):
        """The state of a package: installed, config-files, not-installed."""
        state = self.run("dpkg-query", "-W", "-f=${db:Status-Status}", package, check=False)
        return state or "not-installed"

    def programs(self):
        """The processes whose root this is."""
        found = []
        for root in glob.glob("/proc/[0-9]*/root"):
            try:
                if os.path.samefile(root, self.path):
                    found.append(int(root.split("/")[2]))
            except OSError:
                pass
        return found

    def end_programs(self):
        for pid in self.programs():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        deadline = time.time() + 5
        while self.programs() and time.time() < deadline:
            time.sleep(0.05)


def overlay():
    """This machine's root, with its packages; changes stay in memory."""
    lab.need_root()
    base = lab.tmpfs("2g")
    for name in ("up", "work", "root"):
        os.mkdir(os.path.join(base, name))
    path = os.path.join(base, "root")
    try:
        lab.sh("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir=%s/up,workdir=%s/work" % (base, base), path)
    except AssertionError as e:
        raise lab.Skip("needs an overlay of the root file system: " + str(e).splitlines()[-1])
    lab._mounts.insert(0, path)
    return Root(path)


def from_archive(packages):
    """A minimal Debian 12 from the archive, by mmdebstrap or debootstrap."""
    lab.need_root()
    path = os.path.join(lab.tmpfs("4g"), "root")

    def run(*command):
        lab.sh(*own_network.of_host(*command), timeout=900)
    if shutil.which("mmdebstrap"):
        run("mmdebstrap", "--variant=minbase", "--include=" + ",".join(packages), "bookworm", path)
        return Root(path)
    run(lab.need("debootstrap", "long"), "--variant=minbase", "bookworm", path)
    # apt adds the packages: debootstrap itself knows no alternatives and no order, and fails for some of them.
    policy = path + "/usr/sbin/policy-rc.d"
    with open(policy, "w") as f:
        f.write("#!/bin/sh\nexit 101\n")
    os.chmod(policy, 0o755)
    apt = ("chroot", path, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q")
    run(*apt, "update")
    run(*apt, "install", "-y", "--no-install-recommends", *packages)
    os.remove(policy)
    return Root(path)


def repacked(package, folder):
    """The .deb of a package that is installed on this machine, made from its files: it needs no archive."""
    tree = os.path.join(folder, package)
    os.makedirs(tree + "/DEBIAN")
    for file in lab.sh("dpkg-query", "-L", package).splitlines():
        to = tree + file
        # A directory, or /lib, which is a link to one.
        if os.path.isdir(file):
            os.makedirs(to, exist_ok=True)
        elif os.path.lexists(file):
            shutil.copy2(file, to, follow_symlinks=False)
    for script in ("preinst", "postinst", "prerm", "postrm", "conffiles"):
        source = "/var/lib/dpkg/info/%s.%s" % (package, script)
        if os.path.exists(source):
            shutil.copy(source, tree + "/DEBIAN/" + script)
    shown = lab.sh("dpkg-query", "-s", package).splitlines()
    kept, skips = [], False
    for line in shown:
        skips = line.startswith("Status:") or line.startswith("Conffiles:") or (skips and line.startswith(" "))
        if not skips:
            kept.append(line)
    with open(tree + "/DEBIAN/control", "w") as f:
        f.write("\n".join(kept) + "\n")
    deb = os.path.join(folder, package + ".deb")
    lab.sh("dpkg-deb", "-Znone", "--build", tree, deb)
    return deb


def rebuilt(deb, version, folder):
    """The same package with another version."""
    tree = os.path.join(folder, "rebuilt-" + os.path.basename(deb))
    lab.sh("dpkg-deb", "-R", deb, tree)
    control = tree + "/DEBIAN/control"
    with open(control) as f:
        text = f.read()
    old = next(line.split()[1] for line in text.splitlines() if line.startswith("Version:"))
    with open(control, "w") as f:
        f.write(text.replace(old, version))
    made = os.path.join(folder, "new-" + os.path.basename(deb))
    lab.sh("dpkg-deb", "-Znone", "--build", tree, made)
    shutil.rmtree(tree)
    return made


def pinging(namespace, address):
    """Starts a ping of 100 packets a second; the function that is returned ends it, and returns (sent, lost)."""
    ping = namespace.spawn("ping", "-n", "-i", "0.01", "-W", "1", address, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def end():
        ping.send_signal(signal.SIGINT)
        out = ping.communicate(timeout=20)[0]
        line = next(line for line in out.splitlines() if "packets transmitted" in line)
        words = line.split()
        return int(words[0]), int(words[0]) - int(words[3])
    return end
