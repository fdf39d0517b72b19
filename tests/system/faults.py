"""A fault affects only its own component: traffic between two other ports continues."""
import os
import random
import socket
import subprocess
import threading
import time

from lib import lab
from lib.traffic import Traffic


def test_port_churn():
    """200 cycles of adding and deleting ports of mixed types: no packet of other ports is lost."""
    s = lab.Switch().start()
    traffic = Traffic(s)
    for i in range(200):
        kind = ("internal", "tap", "patch", "nonexistent")[i % 4]
        name = "slc%d" % i
        s.vsctl("--no-wait" if kind == "nonexistent" else "--timeout=20",
                "add-port", "br0", name, "--", "set", "interface", name, "type=" + kind,
                *(["options:peer=nobody"] if kind == "patch" else []), check=False)
        s.vsctl("del-port", "br0", name)
    assert traffic.lost() == 0
    assert s.vsctl("list-ports", "br0").split() == sorted([traffic.a.port, traffic.b.port])


def test_database_restarts():
    """The database server is killed and restarted ten times under traffic: no packet is lost."""
    s = lab.Switch().start()
    traffic = Traffic(s)
    for _ in range(10):
        s.db.kill()
        s.db.wait()
        os.unlink(s.dir + "/db.sock")
        s.start_database()
        s.vsctl("--no-wait", "set", "bridge", "br0", "external_ids:turn=%f" % time.time())
    s.vsctl("set", "bridge", "br0", "external_ids:last=1")
    assert traffic.lost() == 0


def test_controller_that_sends_garbage():
    """Controllers and management clients that send noise are disconnected, without effect on others.

    The hostile controller has a bridge of its own: a bridge that gets a controller deletes its flows and forwards
    nothing until the controller is connected or has failed.
    """
    s = lab.Switch().start()
    traffic = Traffic(s)
    s.add_bridge("br1")
    seed = random.Random(7)
    for i in range(100):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(2)
        c.connect(s.dir + ("/br0.mgmt", "/br1.mgmt")[i % 2])
        hello = bytes([1, 0, 0, 8, 0, 0, 0, 1])
        noise = bytes(seed.randrange(256) for _ in range(seed.randrange(1, 400)))
        forged = bytes([1, seed.randrange(30)]) + (8 + len(noise)).to_bytes(2, "big") + b"\0\0\0\2" + noise
        try:
            c.sendall((hello if i % 4 < 2 else b"") + (forged if i % 3 else noise))
            c.recv(100)
        except OSError:
            pass
        c.close()
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(5)
    stop, answered = threading.Event(), []

    def hostile():
        server.settimeout(0.2)
        while not stop.is_set():
            try:
                peer, _ = server.accept()
                peer.sendall(bytes(seed.randrange(256) for _ in range(2000)))
                peer.close()
                answered.append(peer)
            except OSError:
                pass

    thread = threading.Thread(target=hostile)
    thread.start()
    try:
        s.vsctl("set-controller", "br1", "tcp:127.0.0.1:%d" % server.getsockname()[1], "--",
                "set-fail-mode", "br1", "standalone")
        # The switch reconnects after noise; its back-off starts with a second.
        lab.wait_until(lambda: len(answered) >= 3, "three connections got noise", seconds=20)
        s.ofctl("dump-flows", "br0")
        s.ofctl("dump-flows", "br1")
    finally:
        stop.set()
        thread.join()
    s.vsctl("del-controller", "br1")
    assert traffic.lost() == 0


def frames(seed, count):
    """Malformed Ethernet frames: truncated, with wrong lengths, with random fields."""
    starts = [bytes.fromhex(h) for h in (
        "0800" "45000054000040004001f7550a0101010a010102" "0800f7ff00010001",
        "0800" "4f000014000040004006f7550a0101010a010102",
        "86dd" "600000000040 3a ff fe80000000000000000000000000000001fe80000000000000000000000000000002" "8700".replace(" ", ""),
        "86dd" "6000000000100001" "fe80000000000000000000000000000001fe80000000000000000000000000000002" "00ff",
        "0806" "0001080006040001aabbccddeeff0a010101000000000000 0a010102".replace(" ", ""),
        "8100" "0fff" "8100" "0001" "88a8" "0002" "0800",
        "8847" "00000000" * 10,
        "05ff" "aaaa03000000" "0800",
        "88cc" "0207",
    )]
    for _ in range(count):
        body = bytearray(seed.choice(starts) + seed.randbytes(seed.randrange(0, 64)))
        for _ in range(seed.randrange(0, 6)):
            body[seed.randrange(len(body))] = seed.randrange(256)
        cut = seed.randrange(2, len(body) + 1)
        destination = seed.choice([b"\xff" * 6, seed.randbytes(6), b"\x01\x80\xc2\0\0\x00"])
        yield destination + b"\x02" + seed.randbytes(5) + bytes(body[:cut])


def test_malformed_frames():
    """10,000 malformed frames on a third port: the daemon survives, and two other ports lose no packets."""
    s = lab.Switch().start()
    traffic = Traffic(s)
    c = lab.Namespace()
    # In a VLAN of its own, so that floods from it do not fill the others' rings.
    s.vsctl("add-port", "br0", c.port, "tag=99")
    seed = random.Random(11)
    path = s.dir + "/frames"
    with open(path, "wb") as f:
        for frame in frames(seed, 10_000):
            f.write(len(frame).to_bytes(2, "big") + frame)
    sender = (
        "import socket,sys,time\n"
        "s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW);s.bind(('eth0',0));d=open(sys.argv[1],'rb').read();i=n=0\n"
        "while i<len(d):\n"
        " l=int.from_bytes(d[i:i+2],'big')\n"
        " try: s.send(d[i+2:i+2+l]); n+=1\n"
        " except OSError: pass\n"
        " i+=2+l\n"
        " if n%100==0: time.sleep(0.005)\n"
        "print(n)\n")
    sent = int(c.run("python3", "-c", sender, path).split()[-1])
    assert sent > 8_000, sent
    assert traffic.lost() == 0
    assert s.daemon.poll() is None


def test_kill_nine_loses_no_answered_transaction():
    """100 times kill -9 during ovs-vsctl transactions: all confirmed ones are in the database afterwards."""
    s = lab.Switch(database="embedded").start()
    s.vsctl("--no-wait", "init")
    answered, seed = [], random.Random(5)
    for turn in range(100):
        deadline = time.time() + seed.uniform(0.01, 0.08)
        n = 0
        while time.time() < deadline:
            key = "k%d-%d" % (turn, n)
            n += 1
            r = subprocess.Popen(["ovs-vsctl", "--no-wait", "--timeout=2", "--db=unix:%s/db.sock" % s.dir,
                                  "set", "open_vswitch", ".", "external_ids:%s=1" % key],
                                 env=s.env, stderr=subprocess.DEVNULL)
            if time.time() < deadline:
                if r.wait() == 0:
                    answered.append(key)
            else:
                s.kill_daemon()
                r.kill()
                r.wait()
        if s.daemon.poll() is None:
            s.kill_daemon()
        s.start_daemon()
    have = s.vsctl("get", "open_vswitch", ".", "external_ids")
    missing = [k for k in answered if '%s="1"' % k not in have]
    assert len(answered) > 50, len(answered)
    assert not missing, missing[:10]
