"""The guide: its links, and the commands in it, each chapter from top to bottom on a switch in a network of its own.

A block "sh tested" is run; a block "text output" after it is what it prints. In that block a line "..." stands for any lines, and
"..." within a line for any text. A command that begins with "! " must fail. "needs=TYPE": the kernel must have devices of this type;
"program=NAME": this program must be installed.
"""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

GUIDE = os.path.join(lab.ROOT, "docs/guide")
BLOCK = re.compile(r"^```(sh tested[^\n]*|text output)\n(.*?)^```$", re.M | re.S)
MARK = "@@ block %d"
# Each chapter has its own network and its own names of namespaces; the switch starts before its first command.
PRELUDE = r"""
set -eu
mount -t tmpfs tmpfs /run/netns
ip link set lo up
sluiced --pidfile --detach -vconsole:off
trap 'kill $(cat "$OVS_RUNDIR/sluiced.pid")' EXIT
cd "$OVS_RUNDIR"
"""


def has_device(kind):
    """Whether the kernel has this type of device; its parameters may be missing."""
    argv = ["unshare", "--net", "ip", "link", "add", "x", "type", kind]
    return "Unknown device type" not in subprocess.run(argv, capture_output=True, text=True).stderr


def chapters():
    """The chapters with commands: name, and pairs of a block and what it prints (or None)."""
    for path in sorted(glob.glob(GUIDE + "/**/*.md", recursive=True)):
        with open(path) as f:
            found = BLOCK.findall(f.read())
        blocks = []
        missing = [need for kind, _ in found for need in re.findall(r"needs=(\w+)", kind) if not has_device(need)]
        missing = ["this kernel has no %s devices" % kind for kind in missing]
        needed = [name for kind, _ in found for name in re.findall(r"program=(\S+)", kind)]
        missing += ["there is no program %s" % name for name in needed if not shutil.which(name)]
        if missing:
            print("  %s is left out: %s" % (os.path.relpath(path, GUIDE), missing[0]), flush=True)
            continue
        for kind, text in found:
            if kind.startswith("sh tested"):
                blocks.append([text, None])
            else:
                assert blocks and blocks[-1][1] is None, path + ": output without commands"
                blocks[-1][1] = text
        if blocks:
            yield os.path.relpath(path, GUIDE), blocks


def helper():
    """The function that the recipes share, as their first page defines it."""
    with open(GUIDE + "/recipes/README.md") as f:
        return re.search(r"^```sh\n(machine\(\).*?)^```$", f.read(), re.M | re.S).group(1)


def script(blocks):
    """The chapter as one script. A shell ignores `set -e` after "!", so that is written out."""
    lines = [PRELUDE, helper()]
    for number, (text, _) in enumerate(blocks):
        lines.append("echo '%s'" % (MARK % number))
        lines.append(re.sub(r"^! (.*)$", r"if \1; then echo 'this should have failed: \1'; exit 1; fi", text, flags=re.M))
    return "\n".join(lines)


def fits(expected, printed):
    """Whether a text is as expected, apart from blanks at the ends of lines."""
    pattern = ""
    for line in expected.splitlines():
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else r".*?".join(re.escape(p) for p in line.rstrip().split("...")) + r"\s*\n"
    text = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, text) is not None


def play(name, blocks, programs):
    """Runs a chapter; returns what is wrong, or None."""
    folder = lab.scratch()
    env = dict(os.environ, PATH=programs + ":" + os.environ["PATH"] + ":/usr/sbin:/sbin", LC_ALL="C",
               **{"OVS_%sDIR" % kind: folder for kind in ("RUN", "LOG", "DB", "SYSCONF")})
    run = subprocess.run(["unshare", "--net", "--mount", "bash", "-c", script(blocks)], stdin=subprocess.DEVNULL, env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * lab.PATIENCE)
    if run.returncode:
        return "%s: exit %d\n%s" % (name, run.returncode, run.stdout)
    parts = re.split(r"^%s\n" % (MARK.replace("%d", r"\d+")), run.stdout, flags=re.M)[1:]
    for (text, expected), printed in zip(blocks, parts):
        if expected is not None and not fits(expected, printed):
            return "%s: after\n%s\nthis was printed:\n%s\nand not:\n%s" % (name, text, printed, expected)
    return None


def test_links():
    """Links, headings and spelling of all pages; the check of the pages, and that of the built book, find errors that are put in."""
    scripts = "/scripts/guide/"
    lab.sh(lab.ROOT + scripts + "check")
    folder = lab.scratch()
    os.mkdir(folder + "/scripts")
    lab.sh("cp", "-a", lab.ROOT + "/docs", lab.ROOT + "/README.md", folder)
    lab.sh("cp", "-a", lab.ROOT + scripts, folder + scripts)
    with open(folder + "/docs/guide/tuning.md", "a") as f:
        f.write("\n#### Deep\n\n[a](nowhere.md) [b](security.md#nothing) recieve `recieve`\n")
    found = lab.sh(folder + scripts + "check", check=False)
    for error in ("a heading skips a level", "no such file: nowhere.md", "no such heading: security.md#nothing", "misspelt: recieve"):
        assert found.count("tuning.md") == 4 and found.count(error) == 1, found
    book = folder + "/book"
    os.mkdir(book)
    with open(book + "/a.html", "w") as f:
        f.write('<p id="x"><a href="#x"></a><a href="a.html#y"></a><a href="https://nowhere/"></a><img src="b.png">')
    found = lab.sh(folder + scripts + "check-book", book, check=False)
    assert "a.html:1: no such heading: a.html#y" in found and "no such file: b.png" in found and "#x" not in found, found


def test_commands():
    """Every tested command of the guide does what the guide says."""
    lab.need_root()
    assert fits("a\n...\nb ... c\n", "a\nx\ny\nb 7 c\n") and not fits("a\n", "b\n") and not fits("a\n", "a\nb\n")
    os.makedirs("/run/netns", exist_ok=True)
    programs = lab.scratch()
    for name in (*os.listdir(lab.COMPAT), "sluice", "sluiced"):
        os.symlink(os.path.realpath(os.path.join(lab.COMPAT if name.startswith("ovs") else os.path.dirname(lab.SLUICED), name)),
                   os.path.join(programs, name))
    found = list(chapters())
    assert len(found) >= 8, [name for name, _ in found]
    # They mostly wait for pings.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        wrong = [w for w in pool.map(lambda chapter: play(*chapter, programs), found) if w]
    assert not wrong, "\n\n".join(wrong)
