"""The cost of a packet in instructions, counted by callgrind: equal on a busy and on an idle machine."""
import os
import re
import subprocess

from lib import lab

# Nothing here depends on how busy the machine is.
ANY_LOAD = True

# Packets of the short and the long run; their difference is free of fixed costs.
FEW, MANY = 32_000, 160_000
# Maximum instructions per packet in the path, without those of the mock ports in bursts of the same size: the measured value plus a tenth.
BOUNDS = {"in": 28, "drop": 28, "src": 137, "src1000": 137, "normal1000": 99, "flows32": 272, "flows1000": 311, "single10000": 242,
          "table10000": 248, "six10000": 370, "tag10000": 271, "tagtable10000": 295, "vlan": 220, "mac": 178, "route": 219, "route10000": 322,
          "push10000": 367, "pop10000": 337, "nat10000": 425, "two10000": 436, "meter10000": 276, "ports10000": 340, "group10000": 469, "recirc": 169,
          "ct1000": 800, "est20": 506, "esttcp20": 658, "est1000": 915, "estsix1000": 1056, "snat1000": 1160, "esttcp1000": 1097,
          "encap1000": 268, "encapends1000": 464, "decap1000": 435, "decapsix1000": 568, "table10000by4": 475, "table10000by1": 1070}
# Functions that must not be called for each packet.
FORBIDDEN = re.compile(r"^(malloc|calloc|realloc|free|posix_memalign|memalign|aligned_alloc|clock_gettime|__?vdso_\w+|gettimeofday|pthread_\w+"
                       r"|syscall|write|writev|futex\w*)(@.*)?$")


def build():
    """Builds the program of the cases like the daemon; returns its path."""
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "datapath", "--example", "path"], cwd=lab.ROOT, check=True, timeout=600)
    folder = os.environ.get("CARGO_TARGET_DIR") or os.path.join(lab.ROOT, "target")
    return os.path.join(folder, "release", "examples", "path")


def calls(path):
    """The number of calls of each function."""
    names, count, callee = {}, {}, None
    with open(path) as f:
        for line in f:
            if line.startswith("cfn="):
                number, name = re.match(r"cfn=\((\d+)\)(?: (.*))?", line).groups()
                callee = names.setdefault(number, name)
            elif line.startswith("fn="):
                number, name = re.match(r"fn=\((\d+)\)(?: (.*))?", line).groups()
                names.setdefault(number, name)
            elif line.startswith("calls="):
                count[callee] = count.get(callee, 0) + int(line[6:].split()[0])
    return count


# Cases that are also run while another port is captured, and the share by which the cost may be higher then.
CAPTURED, MORE = ("in", "src1000"), 0.02


def run(program, case, packets, folder, **env):
    """Instructions and calls of a whole run."""
    out = os.path.join(folder, "%s-%d" % (case, packets))
    argv = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, program, case]
    r = subprocess.run(argv, env={**os.environ, "PACKETS": str(packets), **env}, capture_output=True, text=True, timeout=120 * lab.PATIENCE)
    assert r.returncode == 0, r.stderr[-2000:]
    return int(re.search(r"Collected : (\d+)", r.stderr)[1]), calls(out)


def cost(program, case, folder, **env):
    """Instructions per packet, and forbidden functions that are called per packet."""
    (few, before), (many, after) = (run(program, case, n, folder, **env) for n in (FEW, MANY))
    more = {name: n - before.get(name, 0) for name, n in after.items() if name and FORBIDDEN.match(name)}
    return (many - few) / (MANY - FEW), {name: n for name, n in more.items() if n > 0}


def test_a_packet_costs_what_it_did():
    """No case takes more instructions than before, and no packet causes an allocation, a lock, a clock reading or a system call."""
    lab.need("valgrind")
    with open("/proc/cpuinfo") as f:
        if "avx2" not in f.read():
            raise lab.Skip("needs a processor with AVX2: the bounds are of code that uses it")
    program, folder = build(), lab.scratch()
    ports = {burst: cost(program, "rx" + burst, folder)[0] for burst in ("", "by4", "by1")}
    wrong, whole = [], {}
    for case, bound in BOUNDS.items():
        instructions, forbidden = cost(program, case, folder)
        whole[case] = instructions
        took = instructions - ports[re.search(r"(by\d+)?$", case)[0]]
        print("    %-12s %4.0f of %d instructions a packet" % (case, took, bound))
        if took > bound or forbidden:
            wrong.append("%s: %.0f of %d instructions, %s" % (case, took, bound, forbidden))
    for case in CAPTURED:
        instructions, _ = cost(program, case, folder, CAPTURE="5")
        more = instructions / whole[case] - 1
        print("    %-12s %+.1f %% while another port is captured" % (case, more * 100))
        if more > MORE:
            wrong.append("%s: %.1f %% more while another port is captured" % (case, more * 100))
    assert not wrong, "\n".join(wrong)
