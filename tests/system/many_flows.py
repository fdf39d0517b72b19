"""Many flow mods on one connection, faster than the main loop takes them."""
import os

from lib import lab

ANY_LOAD = True

FLOWS = 100_000


def test_flow_mods_one_by_one():
    """All flows of a long file arrive, outside a bundle and in one."""
    s = lab.Switch().start()
    if not s.ours:
        raise lab.Skip("tests the queues of our switch")
    # The stock tool waits for an answer after each flow mod.
    tool = os.path.join(lab.COMPAT, "ovs-ofctl")
    s.add_bridge("br0")
    path = s.dir + "/flows"
    with open(path, "w") as f:
        f.writelines("priority=100,ip,nw_dst=20.%d.%d.%d,actions=drop\n" % (n >> 16, n >> 8 & 255, n & 255) for n in range(FLOWS))
    for options in ((), ("--bundle", "-OOpenFlow14")):
        s.ofctl("del-flows", "br0")
        lab.sh(tool, *options, "add-flows", "br0", path, env=s.env)
        assert "flow_count=%d" % FLOWS in s.ofctl("dump-aggregate", "br0")
