"""Many flow mods on one connection, faster than the main loop takes them."""
import os
import re
import signal
import socket
import subprocess
import time

from lib import lab
from lib.compare_openflow import OF10, flow10, match10, message, output10

ANY_LOAD = True

FLOWS = 100_000


# The stock tool waits for an answer after each flow mod.
TOOL = os.path.join(lab.COMPAT, "ovs-ofctl")


def flows(number):
    return ("priority=100,ip,nw_dst=20.%d.%d.%d,actions=drop\n" % (n >> 16, n >> 8 & 255, n & 255) for n in range(number))


def test_flow_mods_one_by_one():
    """All flows of a long file arrive, outside a bundle and in one."""
    s = lab.Switch().start()
    if not s.ours:
        raise lab.Skip("tests the queues of our switch")
    s.add_bridge("br0")
    path = s.dir + "/flows"
    with open(path, "w") as f:
        f.writelines(flows(FLOWS))
    for options in ((), ("--bundle", "-OOpenFlow14")):
        s.ofctl("del-flows", "br0")
        lab.sh(TOOL, *options, "add-flows", "br0", path, env=s.env)
        assert "flow_count=%d" % FLOWS in s.ofctl("dump-aggregate", "br0")



def test_flows_of_a_load_are_used_while_it_lasts():
    """The first flow of a long load without any barrier forwards packets before the load has ended."""
    lab.need_root()
    s = lab.Switch().start()
    if not s.ours:
        raise lab.Skip("tests the queues of our switch")
    a, b = lab.Namespace("10.1.1.1/24", "02:00:00:00:00:01"), lab.Namespace("10.1.1.2/24", "02:00:00:00:00:02")
    s.add_bridge("br0", a.port, b.port)
    s.ofctl("del-flows", "br0")
    for here, there in ((a, b), (b, a)):
        here.run("ip", "neighbour", "add", there.address.split("/")[0], "lladdr", there.mac, "dev", "eth0")
    dl_type_and_nw_dst = 0x3fffff & ~(1 << 4) & ~(0x3f << 14)
    load = b"".join([flow10(output10(0xfffa), priority=1)]
                    + [flow10(match=match10(dl_type_and_nw_dst, dl_type=0x800, nw_dst=20 << 24 | n)) for n in range(4 * FLOWS)])
    pings = a.spawn("ping", "-n", "-D", "-i", "0.01", "10.1.1.2", stdout=subprocess.PIPE, text=True)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(s.dir + "/br0.mgmt")
        client.sendall(message(OF10, 0) + load)
        ended = time.time()
        time.sleep(0.2)
    pings.send_signal(signal.SIGINT)
    replies = [float(at) for at in re.findall(r"^\[([0-9.]+)\] .*bytes from", pings.communicate(timeout=10)[0], re.M)]
    assert replies and replies[0] < ended, "first reply %s, the load ended at %s" % (replies[:1], ended)
    print("    first reply %.2f s before the end of the load" % (ended - replies[0]))
