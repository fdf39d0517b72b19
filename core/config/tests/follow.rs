//! Checks that the state updated by changes equals the state read from the whole database, and that a plan limited to
//! `touched` equals the complete plan.

use config::{Desired, DesiredTracker, TouchedByDatabase, plan};
use ovsdb::monitor::MonitorMethod;
use ovsdb::replica::Config;
use ovsdb::replica::test_server::TestServer;
use ovsdb::schema::open_vswitch;
use ovsdb::{Json, Replica, Uuid};
use proptest::prelude::*;
use serde_json::json;

/// A database and its copy.
struct Server {
    server: TestServer,
    replica: Replica,
}

impl Server {
    fn new() -> Server {
        let (mut server, mut replica) =
            (TestServer::new(MonitorMethod::Since), Replica::new(Config::whole(&open_vswitch())));
        replica.connected();
        server.serve(&mut replica);
        assert!(replica.is_synced());
        Server { server, replica }
    }

    /// Executes a transaction and updates the replica. A transaction that the schema refuses changes nothing.
    fn transact(&mut self, operations: &[Json]) {
        self.server.run(&mut self.replica, operations);
    }
}

/// An operation on rows with few different names, so that several operations affect the same row.
fn operations(kind: u8, a: u8, b: u8, value: i64) -> Vec<Json> {
    let (port, bridge) = (format!("p{}", a % 6), format!("br{}", b % 3));
    let named = |name: &str| json!([["name", "==", name]]);
    let update = |table: &str, name: &str, row: Json| json!({"op": "update", "table": table, "where": named(name), "row": row});
    let change = |how: &str, to: Json| json!({"op": "mutate", "table": "Bridge", "where": named(&bridge), "mutations": [["ports", how, to]]});
    let new_port = |interfaces: &[&str]| {
        let references: Vec<Json> =
            interfaces.iter().map(|i| json!(["named-uuid", format!("i{i}")])).collect();
        let insert = |i: &&str| json!({"op": "insert", "table": "Interface", "uuid-name": format!("i{i}"), "row": {"name": i}});
        let port = json!({"op": "insert", "table": "Port", "uuid-name": "p", "row":
            {"name": interfaces[0], "interfaces": ["set", references]}});
        interfaces.iter().map(insert).chain([port]).collect::<Vec<_>>()
    };
    match kind {
        0 | 1 => {
            let second = format!("{port}x");
            let names: &[&str] = if kind == 0 { &[&port] } else { &[&port, &second] };
            new_port(names).into_iter().chain([change("insert", json!(["named-uuid", "p"]))]).collect()
        }
        2 => {
            let ports = json!({"op": "insert", "table": "Bridge", "uuid-name": "b", "row":
                {"name": bridge, "ports": ["named-uuid", "p"]}});
            let root = json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations":
                [["bridges", "insert", ["named-uuid", "b"]]]});
            new_port(&[&bridge]).into_iter().chain([ports, root]).collect()
        }
        3 => vec![update("Interface", &port, json!({"options": ["map", [["n", value.to_string()]]]}))],
        4 => vec![update("Interface", &port, json!({"ofport": value, "admin_state": "up"}))],
        5 => vec![update("Interface", &port, json!({"external_ids": ["map", [["n", value.to_string()]]]}))],
        6 => vec![update("Port", &port, json!({"tag": value.rem_euclid(4096)}))],
        7 => vec![update(
            "Bridge",
            &bridge,
            json!({"fail_mode": if value % 2 == 0 { "secure" } else { "standalone" }}),
        )],
        8 => vec![json!({"op": "update", "table": "Open_vSwitch", "where": [], "row": {"next_cfg": value}})],
        9 => vec![update("Bridge", &bridge, json!({"controller": ["set", []]}))],
        10 => vec![
            json!({"op": "insert", "table": "Controller", "uuid-name": "c", "row": {"target": "tcp:127.0.0.1"}}),
            update("Bridge", &bridge, json!({"controller": ["named-uuid", "c"]})),
        ],
        11 => vec![
            json!({"op": "update", "table": "Controller", "where": [], "row": {"is_connected": value % 2 == 0,
            "max_backoff": 1000 + value.rem_euclid(3)}}),
        ],
        12 => vec![
            json!({"op": "update", "table": "Interface", "where": named(&port), "row": {"type": "dummy"}}),
        ],
        13 => vec![
            json!({"op": "insert", "table": "Queue", "uuid-name": "k", "row": {"dscp": value.rem_euclid(64)}}),
            json!({"op": "insert", "table": "QoS", "uuid-name": "q", "row":
                {"type": "linux-htb", "queues": ["map", [[a, ["named-uuid", "k"]]]]}}),
            update("Port", &port, json!({"qos": ["named-uuid", "q"]})),
        ],
        14 => vec![
            json!({"op": "update", "table": "Queue", "where": [], "row": {"dscp": value.rem_euclid(64)}}),
        ],
        15 => vec![json!({"op": "update", "table": "QoS", "where": [], "row":
            {"other_config": ["map", [["max-rate", value.to_string()]]]}})],
        16 => vec![update("Port", &port, json!({"qos": ["set", []]}))],
        _ => vec![],
    }
}

/// Operations on rows by name: remove a port from one bridge or from all, add a port to a bridge, remove a bridge, move an
/// interface from one port to another.
fn reference_changes(server: &Server, kind: u8, a: u8, b: u8) -> Vec<Json> {
    let uuid = |table: &str, name: String| {
        let row = server.replica.table(table).and_then(|table| table.find("name", &name));
        json!(["uuid", row.map_or(Uuid::nil(), |row| row.uuid()).to_string()])
    };
    let (port, bridge) = (uuid("Port", format!("p{}", a % 6)), format!("br{}", b % 3));
    let mutate = |table: &str, wanted: Json, mutation: Json| json!({"op": "mutate", "table": table, "where": wanted, "mutations": [mutation]});
    match kind {
        0 => vec![mutate("Bridge", json!([["name", "==", bridge]]), json!(["ports", "delete", port]))],
        1 => vec![mutate("Bridge", json!([]), json!(["ports", "delete", port]))],
        2 => vec![mutate("Open_vSwitch", json!([]), json!(["bridges", "delete", uuid("Bridge", bridge)]))],
        3 => vec![mutate("Bridge", json!([["name", "==", bridge]]), json!(["ports", "insert", port]))],
        _ => {
            let interface = uuid("Interface", format!("p{}x", a % 6));
            let other = json!([["name", "==", format!("p{}", b % 6)]]);
            vec![
                mutate("Port", json!([]), json!(["interfaces", "delete", interface.clone()])),
                mutate("Port", other, json!(["interfaces", "insert", interface])),
            ]
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Change(u8, u8, u8, i64),
    ChangeReferences(u8, u8, u8),
    /// Run the tracker and compare its state.
    Follow,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..17u8, any::<u8>(), any::<u8>(), 1..5i64).prop_map(|(k, a, b, v)| Step::Change(k, a, b, v)),
        2 => (0..5u8, any::<u8>(), any::<u8>()).prop_map(|(k, a, b)| Step::ChangeReferences(k, a, b)),
        2 => Just(Step::Follow),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn the_followed_state_equals_the_read_state(steps in steps()) {
        let mut server = Server::new();
        let mut tracker = DesiredTracker::default();
        server.transact(&[json!({"op": "insert", "table": "Open_vSwitch", "row": {}})]);
        for step in steps.into_iter().chain([Step::Follow]) {
            match step {
                Step::Change(kind, a, b, value) => server.transact(&operations(kind, a, b, value)),
                Step::ChangeReferences(kind, a, b) => server.transact(&reference_changes(&server, kind, a, b)),
                Step::Follow => {
                    let before = tracker.state().clone();
                    let changes = server.replica.take_changes();
                    let touched = tracker.follow(&server.replica, &changes);
                    let now = Desired::read(&server.replica);
                    prop_assert_eq!(tracker.state(), &now);
                    let whole = plan(&before, &now, &TouchedByDatabase::all(&before, &now));
                    prop_assert_eq!(plan(&before, &now, &touched), whole);
                }
            }
        }
    }
}

#[test]
fn a_note_on_one_of_many_ports_touches_nothing() {
    let mut server = Server::new();
    let mut tracker = DesiredTracker::default();
    server.transact(&[json!({"op": "insert", "table": "Open_vSwitch", "row": {}})]);
    (0..6).for_each(|i| server.transact(&operations(if i == 0 { 2 } else { 0 }, i, 0, 0)));
    let changes = server.replica.take_changes();
    assert_eq!(tracker.follow(&server.replica, &changes).bridges["br0"].len(), 6);
    for kind in [4, 5, 8] {
        server.transact(&operations(kind, 1, 0, 3));
        let changes = server.replica.take_changes();
        assert_eq!(
            (changes.len(), tracker.follow(&server.replica, &changes)),
            (1, TouchedByDatabase::default())
        );
    }
    server.transact(&operations(6, 1, 0, 3));
    let changes = server.replica.take_changes();
    let touched = tracker.follow(&server.replica, &changes);
    assert_eq!(touched.bridges["br0"].iter().collect::<Vec<_>>(), ["p1"]);
}
