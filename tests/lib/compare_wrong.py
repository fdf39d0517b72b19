"""Invalid inputs for the stock clients and for the database's socket. Notation of calls: compare_run.

A row is (name, calls whose replies are compared, calls that undo the change and are not compared).
"""
import json
import socket

from lib.compare_run import normalise


def port(name, settings, ask="error"):
    """Calls that add a port with invalid settings and read column `ask` of its row; then calls that undo it."""
    return ["vsctl --no-wait add-port br0 %s -- set interface %s %s" % (name, name, settings), "vsctl set bridge br0 external-ids:x=1",
            "~ vsctl get interface %s %s" % (name, ask)], ["vsctl --if-exists del-port br0 " + name,
                                                          "vsctl remove bridge br0 external-ids x"]


def row(name, *calls, undo=()):
    return name, list(calls), list(undo)


# The flows that exist before every row. The stock switch removes them when the last controller is removed.
FLOWS_OF_BR0 = ["ofctl add-flow br0 priority=100,in_port=1,ip,actions=output:2",
                "ofctl add-flow br0 table=1,priority=50,arp,actions=NORMAL"]

# All devices are dummies.
CONFIGURATION = [
    ("port: unknown type", *port("bad1", "type=nonsense", "error ofport")),
    ("port: patch without options", *port("bad2", "type=patch", "error ofport")),
    ("port: patch to itself", *port("bad3", "type=patch options:peer=bad3", "error ofport")),
    ("port: patch to a peer that is not there", *port("bad4", "type=patch options:peer=nobody", "error")),
    ("port: tunnel without a remote", *port("bad5", "type=vxlan", "error ofport")),
    ("port: ofport taken", *port("bad6", "type=dummy ofport_request=1", "error")),
    ("port: MAC that is none", *port("bad7", "type=dummy mac=\\\"zz:00\\\"", "error")),
    ("port: MAC of a group", *port("bad8", "type=dummy mac=\\\"01:00:00:00:00:01\\\"", "error")),
    row("port: ofport out of range", "vsctl add-port br0 bad9 -- set interface bad9 type=dummy ofport_request=70000"),
    row("port: ofport 0", "vsctl add-port br0 bad9 -- set interface bad9 type=dummy ofport_request=0"),
    row("port: MTU too small", "vsctl set interface p2 mtu_request=10", "~ vsctl get interface p2 mtu error",
        undo=["vsctl clear interface p2 mtu_request"]),
    row("port: MTU negative", "vsctl set interface p2 mtu_request=-1"),
    row("port: MTU no number", "vsctl set interface p2 mtu_request=big"),
    row("port: tag out of range", "vsctl set port p2 tag=5000"),
    row("port: trunk out of range", "vsctl set port p2 trunks=1,4096"),
    row("port: unknown VLAN mode", "vsctl set port p2 vlan_mode=both"),
    row("port: on two bridges", "vsctl add-br br9 -- set bridge br9 datapath_type=dummy -- add-port br9 p1"),
    row("bridge: name with a slash", "vsctl add-br ../evil", undo=["vsctl del-br ../evil"]),
    row("bridge: datapath id that is none", "vsctl set bridge br0 other-config:datapath-id=xyz", "~ vsctl get bridge br0 datapath_id",
        undo=["vsctl remove bridge br0 other-config datapath-id"]),
    row("bridge: datapath id zero", "vsctl set bridge br0 other-config:datapath-id=0000000000000000",
        "~ vsctl get bridge br0 datapath_id", undo=["vsctl remove bridge br0 other-config datapath-id"]),
    row("bridge: unknown datapath type", "vsctl --no-wait add-br br9 -- set bridge br9 datapath_type=nonsense",
        "vsctl set bridge br0 external-ids:x=1", "vsctl get bridge br9 datapath_id", "vsctl get interface br9 ofport error",
        undo=["vsctl del-br br9", "vsctl remove bridge br0 external-ids x"]),
    row("bridge: unknown protocol", "vsctl set bridge br0 protocols=OpenFlow99"),
    row("bridge: unknown fail mode", "vsctl set bridge br0 fail_mode=open"),
    row("controller: unknown kind of target", "vsctl set-controller br0 smoke:1.2.3.4:5",
        "~ vsctl --columns=is_connected,target list controller", undo=["vsctl del-controller br0"]),
    row("controller: no address", "vsctl set-controller br0 tcp:", "~ vsctl --columns=is_connected,target list controller",
        undo=["vsctl del-controller br0", *FLOWS_OF_BR0]),
    row("controller: bad back-off", "vsctl -- --id=@c create controller 'target=\"tcp:127.0.0.1:1\"' max_backoff=5 "
        "-- set bridge br0 controller=@c"),
    row("flow table: number out of range", "vsctl -- --id=@t create flow_table flow_limit=1 -- set bridge br0 flow_tables:300=@t"),
    row("flow table: full", "vsctl -- --id=@t create flow_table flow_limit=1 -- set bridge br0 flow_tables:20=@t",
        "ofctl add-flow br0 table=20,in_port=1,actions=drop", "ofctl add-flow br0 table=20,in_port=2,actions=drop",
        undo=["ofctl del-flows br0 table=20", "vsctl clear bridge br0 flow_tables"]),
]

# Real devices are allowed.
DEVICES = [
    ("port: no such device", *port("nosuchdev0", "type=system", "error ofport")),
    ("port: no such device, type left out", *port("nosuchdev1", "ofport_request=9", "error ofport")),
    ("port: name of 20 bytes", *port("a234567890123456789b", "type=system", "error ofport")),
    ("port: name of 16 bytes", *port("b23456789012345b", "type=system", "error ofport")),
    ("port: the loopback device", *port("lo", "type=system", "error ofport")),
]

FLOWS = [row("ofctl: " + text, "ofctl -O OpenFlow13 " + text) for text in [
    "add-flow br0 in_port=1,actions=output:nosuchport",
    "add-flow br0 nw_dst=10.0.0.0/33,ip,actions=drop",
    "add-flow br0 dl_dst=zz:zz,actions=drop",
    "add-flow br0 table=300,actions=drop",
    "add-flow br0 priority=70000,actions=drop",
    "add-flow br0 tcp,tp_dst=99999,actions=drop",
    "add-flow br0 table=254,actions=drop",
    "add-flow br0 actions=meter:9",
    "add-flow br0 actions=group:9",
    "add-group br0 group_id=1,type=nonsense",
    "packet-out br0 in_port=99,packet=00,actions=2",
    "mod-port br0 nosuchport down",
    "dump-flows br0 table=abc",
    "dump-ports br0 nosuchport",
    "del-flows br0 nonsense",
]]

COMMANDS = [row("appctl: " + text, "appctl " + text) for text in [
    "no/such-command",
    "fdb/show",
    "fdb/show a b c",
    "fdb/show nobr",
    "fdb/flush nobr",
    "fdb/stats-show nobr",
    "fdb/add br0 p1 0 zz",
    "fdb/add br0 nosuchport 0 02:00:00:00:00:01",
    "fdb/add nobr p1 0 02:00:00:00:00:01",
    "fdb/del br0 0 02:00:00:00:00:99",
    "fdb/del br0 0 zz",
    "mdb/show",
    "mdb/show nobr",
    "mdb/flush nobr",
    "mdb/flush a b",
    "bridge/dump-flows nobr",
    "dpif/dump-flows nobr",
    "dpif/dump-flows",
    "dpctl/show nosuchdp",
    "dpctl/dump-flows nosuchdp",
    "ofproto/trace",
    "ofproto/trace br0 nonsense",
    "ofproto/trace br0 in_port=1,dl_dst=zz",
    "ofproto/trace nobr in_port=1",
    "ofproto/trace br0 in_port=1 zz",
    "ofproto/trace br0 tp_dst=80",
    "ofproto/trace ovs-dummy in_port(1",
    "vlog/set nonsense:file:dbg",
    "vlog/set bridge:file:loud",
    "netdev-dummy/receive nodev 00",
    "netdev-dummy/receive p1 zz",
    "netdev-dummy/receive p1 in_port(1),eth(",
    "netdev-dummy/receive p1",
    "netdev-dummy/set-admin-state p1 sideways",
    "netdev-dummy/set-admin-state nodev up",
    "time/warp abc",
    "time/warp",
    "upcall/show extra",
]]


def transact(*operations):
    return json.dumps({"id": 1, "method": "transact", "params": ["Open_vSwitch", *operations]}).encode()


def insert(table, **values):
    return {"op": "insert", "table": table, "row": values}


def where_all(op, table, **rest):
    return dict({"op": op, "table": table, "where": []}, **rest)


ABORT = {"op": "abort"}

# (name, bytes for the database's socket)
DATABASE = [
    ("no JSON", b"hello\n"),
    ("JSON, not a request", b"[1,2,3]"),
    ("JSON string", b'"abc"'),
    ("broken string escape", b'{"id":1,"method":"\\q"}'),
    ("deep nesting", b"[" * 200000),
    ("no method", b'{"id":1,"params":[]}'),
    ("unknown method", b'{"id":1,"method":"nonsense","params":[]}'),
    ("params that are no array", b'{"id":1,"method":"transact","params":{}}'),
    ("an extra member", b'{"id":1,"method":"echo","params":[],"more":1}'),
    ("a reply that nobody asked for", b'{"id":7,"result":[],"error":null}'),
    ("no database", b'{"id":1,"method":"get_schema","params":["Nonsense"]}'),
    ("schema without a name", b'{"id":1,"method":"get_schema","params":[]}'),
    ("transact without a database", b'{"id":1,"method":"transact","params":[]}'),
    ("transact an unknown database", b'{"id":1,"method":"transact","params":["Nope"]}'),
    ("monitor of an unknown table", b'{"id":1,"method":"monitor","params":["Open_vSwitch",null,{"Nonsense":{}}]}'),
    ("monitor of an unknown column", b'{"id":1,"method":"monitor","params":["Open_vSwitch",null,{"Bridge":{"columns":["x"]}}]}'),
    ("cancel of an unknown monitor", b'{"id":1,"method":"monitor_cancel","params":["nobody"]}'),
    ("unlock without lock", b'{"id":1,"method":"unlock","params":["nobody"]}'),
    ("lock with a bad name", b'{"id":1,"method":"lock","params":[7]}'),
    ("operation that is no object", transact(7)),
    ("operation without op", transact({"table": "Bridge"})),
    ("unknown operation", transact({"op": "explode"})),
    ("unknown table", transact(insert("Nonsense"))),
    ("unknown column", transact(insert("Bridge", nonsense=1))),
    ("wrong type", transact(insert("Bridge", name=7))),
    ("wrong type in a map", transact(insert("Bridge", name="b", external_ids=["map", [[1, 2]]]))),
    ("not in the enumeration", transact(insert("Bridge", name="b", fail_mode="open"))),
    ("out of range", transact(insert("Port", name="b", tag=5000))),
    ("too many values", transact(insert("Port", name="b", tag=["set", [1, 2]]))),
    ("too few values", transact(insert("Port", name="b", interfaces=["set", []]), ABORT)),
    ("reference to no row", transact(where_all(
        "update", "Open_vSwitch", row={"bridges": ["uuid", "00000000-0000-0000-0000-000000000001"]}))),
    ("a UUID that is none", transact(where_all("update", "Open_vSwitch", row={"bridges": ["uuid", "xyz"]}))),
    ("a named UUID that is not there", transact(insert("Port", name="b", interfaces=["named-uuid", "nobody"]))),
    ("the same index twice", transact(
        dict(insert("Bridge", name="br0"), **{"uuid-name": "twice"}),
        where_all("mutate", "Open_vSwitch", mutations=[["bridges", "insert", ["named-uuid", "twice"]]]))),
    ("a named UUID twice", transact(*[dict(insert("Queue"), **{"uuid-name": "twice"})] * 2)),
    ("a named UUID that is no identifier", transact(dict(insert("Queue"), **{"uuid-name": "a b"}))),
    ("condition on an unknown column", transact({"op": "select", "table": "Bridge", "where": [["x", "==", 1]]})),
    ("condition with an unknown function", transact({"op": "select", "table": "Bridge", "where": [["name", "=~", "x"]]})),
    ("condition with the wrong type", transact({"op": "select", "table": "Bridge", "where": [["name", "<", "x"]]})),
    ("condition that is no array", transact({"op": "select", "table": "Bridge", "where": 5})),
    ("mutation of a string", transact(where_all("mutate", "Bridge", mutations=[["name", "+=", 1]]))),
    ("mutation with an unknown operator", transact(where_all("mutate", "Bridge", mutations=[["flood_vlans", "^=", 1]]))),
    ("division by zero", transact(where_all("mutate", "Open_vSwitch", mutations=[["next_cfg", "/=", 0]]))),
    ("overflow", transact(where_all("mutate", "Open_vSwitch", mutations=[["next_cfg", "*=", 1 << 62], ["next_cfg", "*=", 1 << 62]]), ABORT)),
    ("a column that cannot be changed", transact(where_all("update", "Bridge", row={"name": "other"}))),
    ("a wait that fails", transact(where_all("wait", "Bridge", columns=["name"], until="==", rows=[], timeout=0))),
    ("abort", transact(insert("Queue", dscp=3), ABORT)),
    ("assertion of a lock that is not held", transact({"op": "assert", "lock": "mine"})),
    ("a string of 4 MB that is dropped", transact(insert("Bridge", name="x" * (4 << 20)), ABORT)),
    ("a string with a zero byte", transact(insert("Bridge", name="a\0b"), ABORT)),
    ("an integer beyond 64 bits", b'{"id":1,"method":"transact","params":["Open_vSwitch",{"op":"insert","table":"Port","row":'
     b'{"name":"b","tag":99999999999999999999}}]}'),
]

# Our replies that differ from those of the stock server, with the reason; a row whose replies are equal fails the test.
ANSWERED_OTHERWISE = [
    # JSON is UTF-8 (RFC 8259 section 8.1), and so are OVSDB's strings. Other bytes are no valid JSON; the stock
    # server accepts them as text.
    ("broken UTF-8", b'{"id":1,"method":"\xff\xfe","params":[]}', ["closed"]),
    # The last row, because it ends the stock server (3.1) by an assertion; ours sends an error and continues.
    ("monitor without requests", b'{"id":1,"method":"monitor","params":["Open_vSwitch"]}', ["syntax error", "open"]),
]


def errors_of(value):
    """The `error` members of a reply, and the rest of the reply."""
    if isinstance(value, dict) and "error" in value and value["error"] is not None:
        error = value["error"]
        return errors_of(error) if isinstance(error, dict) else [str(error)]
    if isinstance(value, dict) and "result" in value:
        return errors_of(value["result"]) or ["done"]
    if isinstance(value, list):
        return [e for v in value for e in errors_of(v)]
    return []


def database_answer(switch, data, seconds=10):
    """The errors in the database's reply to `data`, and whether the connection stays open."""
    # The last request is not an echo: our server answers echo before a long transaction, other requests after it.
    found, text, decoder = [], "", json.JSONDecoder()
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(seconds)
        s.connect(switch.dir + "/db.sock")
        try:
            s.sendall(data + b'{"id":"last","method":"get_schema","params":["Open_vSwitch"]}')
        except OSError:
            pass
        while True:
            try:
                chunk = s.recv(1 << 16)
            except socket.timeout:
                return found + ["no answer"]
            except ConnectionError:
                chunk = b""
            if not chunk:
                return found + ["closed"]
            text += chunk.decode(errors="replace")
            while text.strip():
                try:
                    value, end = decoder.raw_decode(text.lstrip())
                except ValueError:
                    break
                text = text.lstrip()[end:]
                if value.get("id") == "last":
                    return found + ["open"]
                if "method" not in value:
                    found += [normalise(e, switch) for e in errors_of(value)]
