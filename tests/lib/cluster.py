"""A clustered database of three stock servers (Raft)."""
import os
import subprocess

from lib import lab


class Cluster:
    def __init__(self, schema=lab.STOCK_SCHEMA):
        for program in ("ovsdb-server", "ovsdb-tool", "ovs-appctl", "ovs-vsctl"):
            lab.need(program)
        self.dir = lab.scratch()
        ports = lab.free_ports(6)
        self.raft_addresses = ["tcp:127.0.0.1:%d" % p for p in ports[:3]]
        self.clients = ["tcp:127.0.0.1:%d" % p for p in ports[3:]]
        self.name = lab.sh("ovsdb-tool", "schema-name", schema).strip()
        lab.sh("ovsdb-tool", "create-cluster", self.file(0), schema, self.raft_addresses[0])
        for n in (1, 2):
            lab.sh("ovsdb-tool", "join-cluster", self.file(n), self.name, self.raft_addresses[n], self.raft_addresses[0])
        self.servers = [self.start(n) for n in range(3)]
        lab.wait_until(lambda: all(self.status(n).count("at tcp:") == 3 for n in range(3)), "three members", 30)

    def file(self, n):
        return "%s/member%d.db" % (self.dir, n)

    def start(self, n):
        env = dict(os.environ, OVS_RUNDIR=self.dir)
        return lab.spawn(["ovsdb-server", self.file(n), "--remote=p" + self.listening(n), "-vconsole:off",
                          "--unixctl=%s/member%d.ctl" % (self.dir, n), "--log-file=%s/member%d.log" % (self.dir, n)],
                         env=env)

    def listening(self, n):
        _, host, port = self.clients[n].split(":")
        return "tcp:%s:%s" % (port, host)

    def status(self, n):
        out = subprocess.run(["ovs-appctl", "-T", "5", "-t", "%s/member%d.ctl" % (self.dir, n), "cluster/status",
                              self.name], capture_output=True, text=True, timeout=10)
        return out.stdout

    def leader(self):
        """The leader, once the members have elected one."""
        def leading():
            alive = [n for n in range(3) if self.servers[n].poll() is None]
            return [n for n in alive if "Role: leader" in self.status(n)]
        lab.wait_until(leading, "the members choose a leader", 30)
        return leading()[0]

    def kill(self, n):
        self.servers[n].kill()
        self.servers[n].wait()

    def address(self):
        return ",".join(self.clients)
