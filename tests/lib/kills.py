"""Kills a server repeatedly while several clients write; everything confirmed to them must be in the database each
time.

Each writer has its own rows and knows what they must contain: the state after its last reply, or that after the
request that was in progress when the server was killed. Half a transaction or a lost confirmed one is an error.
Meanwhile the file is compacted and its schema converted.
"""
import json
import random
import subprocess
import threading
import time

from lib import lab, ovsdb

WRITERS = 4
COLUMNS = {"name": {"type": "string"}, "owner": {"type": "integer"}, "text": {"type": "string"},
           "numbers": {"type": {"key": "integer", "min": 0, "max": "unlimited"}},
           "friend": {"type": {"key": {"type": "uuid", "refTable": "Row", "refType": "weak"}, "min": 0, "max": 1}}}


def schema(version):
    """The schema of this version. Odd versions have one more column."""
    columns = dict(COLUMNS, **({"extra": {"type": "string"}} if version % 2 else {}))
    return {"name": "Kills", "version": "1.%d.0" % version, "tables": {
        "Row": {"columns": columns, "isRoot": True, "indexes": [["name"]]}}}


class Writer:
    """The rows of one writer, as (text, numbers) by name."""

    def __init__(self, number, seed):
        self.number, self.random, self.count, self.answers = number, random.Random(seed), 0, 0
        self.rows, self.pending = {}, None

    def fresh(self):
        self.count += 1
        return "%d-%d" % (self.number, self.count)

    def insert(self, name, rows):
        text = "x" * self.random.choice((0, 10, 300, 20000))
        rows[name] = (text, ())
        return {"op": "insert", "table": "Row", "row": {"name": name, "owner": self.number, "text": text},
                "uuid-name": "r" + name.replace("-", "_")}

    def transaction(self):
        """Operations, and the rows after them."""
        rows, choice = dict(self.rows), self.random.random()
        known = list(rows)
        if choice < 0.3 or len(known) < 3:
            operations = [self.insert(self.fresh(), rows)]
        elif choice < 0.5:
            # Three operations: two new rows that refer to each other, and a deletion.
            a, b, gone = self.fresh(), self.fresh(), self.random.choice(known)
            operations = [self.insert(a, rows), self.insert(b, rows)]
            operations[0]["row"]["friend"] = ["named-uuid", operations[1]["uuid-name"]]
            operations.append({"op": "delete", "table": "Row", "where": [["name", "==", gone]]})
            del rows[gone]
        elif choice < 0.8:
            name, number = self.random.choice(known), self.random.randrange(1000)
            text, numbers = rows[name]
            rows[name] = (text, tuple(sorted(set(numbers) | {number})))
            operations = [{"op": "mutate", "table": "Row", "where": [["name", "==", name]],
                           "mutations": [["numbers", "insert", number]]}]
        else:
            gone = self.random.sample(known, min(len(known), 2 if len(known) < 60 else 20))
            operations = [{"op": "delete", "table": "Row", "where": [["name", "==", name]]} for name in gone]
            for name in gone:
                del rows[name]
        if self.random.random() < 0.3:
            operations.append({"op": "commit", "durable": True})
        return operations, rows

    def write(self, path):
        """Writes until the server is gone."""
        try:
            with ovsdb.Client(path) as client:
                # Conversions must not disconnect this client.
                client.call("set_db_change_aware", True)
                while True:
                    operations, after = self.transaction()
                    self.pending = after
                    client.transact("Kills", *operations)
                    self.rows, self.pending = after, None
                    self.answers += 1
        except ConnectionError:
            pass

    def check(self, found):
        """Checks that the database is in the state before or after the transaction in progress."""
        if found != self.rows:
            assert found == self.pending, "writer %d: neither before nor after: %s" % (
                self.number, sorted(set(found.items()) ^ set(self.rows.items()))[:4])
            self.rows = found
        self.pending = None


def by_owner(result):
    owners = {number: {} for number in range(WRITERS)}
    for row in result["rows"]:
        numbers = row["numbers"]
        numbers = numbers[1] if isinstance(numbers, list) else [numbers]
        owners[row["owner"]][row["name"]] = (row["text"], tuple(sorted(numbers)))
    return owners


SELECT = {"op": "select", "table": "Row", "where": [], "columns": ["name", "owner", "text", "numbers"]}


class Kills:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.dir = lab.scratch()
        self.file = self.dir + "/kills.db"
        with open(self.dir + "/schema", "w") as f:
            json.dump(schema(0), f)
        lab.sh("ovsdb-tool", "create", self.file, self.dir + "/schema")
        self.server = ovsdb.Server(self.dir, [self.file])
        self.writers = [Writer(n, seed * 1000 + n) for n in range(WRITERS)]
        self.version, self.compactions, self.conversions = 0, 0, 0

    def disturb(self, stop, chance):
        """Compacts and converts until the server is gone."""
        while not stop.is_set():
            try:
                if chance.random() < 0.7:
                    self.server.ask("ovsdb-server/compact")
                    self.compactions += 1
                else:
                    self.version += 1
                    with self.server.client() as client:
                        client.call("convert", "Kills", schema(self.version))
                    self.conversions += 1
            except (OSError, ConnectionError):
                return
            stop.wait(chance.random() * 0.05)

    def stock_reads(self):
        """The content of the file according to the stock tool. (The tool refuses a file that ends within a record, so
        a server must open the file before.)"""
        out = subprocess.run(["ovsdb-tool", "query", self.file, json.dumps(["Kills", SELECT])], capture_output=True,
                             text=True, timeout=20)
        assert out.returncode == 0, out.stderr
        return by_owner(json.loads(out.stdout)[0])

    def answers(self):
        return sum(writer.answers for writer in self.writers)

    def let_work(self, answers, and_seconds):
        enough, deadline = self.answers() + answers, time.time() + 3
        while self.answers() < enough and time.time() < deadline:
            time.sleep(0.001)
        time.sleep(and_seconds)

    def once(self):
        self.server.start()
        with self.server.client() as client:
            found = by_owner(client.transact("Kills", SELECT)[0])
            for writer in self.writers:
                writer.check(found[writer.number])
        assert self.stock_reads() == found, "the stock tool finds something else"
        stop = threading.Event()
        threads = [threading.Thread(target=w.write, args=(self.server.sock,)) for w in self.writers]
        threads.append(threading.Thread(target=self.disturb, args=(stop, random.Random(self.random.random()))))
        for thread in threads:
            thread.start()
        self.let_work(self.random.randrange(40), self.random.random() * 0.01)
        self.server.kill()
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), "a client did not notice the end"

    def run(self, times):
        for number in range(times + 1):
            try:
                self.once()
            except AssertionError as e:
                raise AssertionError("kill %d of %s: %s" % (number, self.file, e)) from e
        assert self.answers() > times, "fewer requests were completed than there were kills"
        return "    %d kills, %d answers, %d compactions, %d conversions" % (times, self.answers(), self.compactions,
                                                                            self.conversions)
