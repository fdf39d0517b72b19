//! Checks that state that is updated by changes equals state made from scratch: snapshots, addresses, rows.

use crate::port_position::PortPosition;
use crate::snapshot_builder::SnapshotBuilder;
use crate::{Options, Switch, publish, spanning_tree};
use bridge::spanning_tree::PortState;
use netdev::open::DummyLevel;
use openflow_service::AllPortsState;
use ovsdb::monitor::MonitorMethod;
use ovsdb::operation::Operation;
use ovsdb::replica::test_server::TestServer;
use ovsdb::{Json, Uuid};
use runtime::{Clock, PollLoop};
use serde_json::json;
use units::Millis;
use xlate::Snapshot;

/// A switch with dummy ports and its database, without sockets.
struct TestSwitch {
    server: TestServer,
    switch: Switch,
    random: fastrand::Rng,
}

impl TestSwitch {
    fn new(seed: u64) -> TestSwitch {
        let clock = Clock::new();
        let poll = PollLoop::new(clock.clone()).unwrap();
        let options = Options {
            database: "unix:nobody".to_owned(),
            dummy: DummyLevel::OverrideAll,
            rundir: std::env::temp_dir(),
            ..Options::default()
        };
        let switch = Switch::new(options, clock, poll.waker()).unwrap();
        let server = TestServer::new(MonitorMethod::Since);
        let mut test = TestSwitch { server, switch, random: fastrand::Rng::with_seed(seed) };
        test.switch.db.replica.connected();
        test.serve();
        test.transact(&[json!({"op": "insert", "table": "Open_vSwitch", "row": {}})]);
        test
    }

    /// A random number below `n`.
    fn any(&mut self, n: u64) -> u64 {
        self.random.u64(..n)
    }

    /// Answers the requests of the switch to its database. Returns whether there were any.
    fn serve(&mut self) -> bool {
        self.server.serve(&mut self.switch.db.replica)
    }

    fn transact(&mut self, operations: &[Json]) -> Json {
        self.server.run(&mut self.switch.db.replica, operations)
    }

    /// Runs the switch and its database until the switch has no more changes to write.
    fn settle(&mut self) {
        loop {
            self.switch.reconfigure();
            self.switch.publish_changes();
            let now = self.switch.clock.now();
            self.switch.write_status(now);
            if !self.serve() {
                return;
            }
            self.switch.db.take_results();
        }
    }

    fn uuid(&self, table: &str, name: &str) -> Json {
        let row = self.switch.db.replica.table(table).and_then(|table| table.find("name", name));
        json!(["uuid", row.map_or(Uuid::nil(), |row| row.uuid()).to_string()])
    }

    /// Adds a bridge with dummy ports, including its own.
    fn add_bridge(&mut self, bridge: &str, ports: usize) {
        let list = json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations":
            [["bridges", "insert", ["named-uuid", "b"]]]});
        let name = |i| if i == 0 { bridge.to_owned() } else { format!("{bridge}p{i}") };
        let names: Vec<String> = (0..ports).map(name).collect();
        let of = |name: &String| {
            [
                json!({"op": "insert", "table": "Interface", "uuid-name": format!("i{name}"), "row": {"name": name, "type": "dummy"}}),
                json!({"op": "insert", "table": "Port", "uuid-name": format!("p{name}"), "row":
                    {"name": name, "interfaces": ["named-uuid", format!("i{name}")]}}),
            ]
        };
        let ports: Vec<Json> = names.iter().map(|name| json!(["named-uuid", format!("p{name}")])).collect();
        let row = json!({"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": bridge, "ports": ["set", ports]}});
        let all: Vec<Json> = names.iter().flat_map(of).chain([row, list]).collect();
        self.transact(&all);
        self.settle();
    }

    /// A random change of the database.
    fn change(&mut self) -> Vec<Json> {
        let (port, bridge) = (format!("p{}", self.any(8)), format!("br{}", self.any(2)));
        let (kind, value) = (self.any(13), self.any(4));
        let named = |name: &str| json!([["name", "==", name]]);
        let of_bridge = |how: &str, to: Json| json!({"op": "mutate", "table": "Bridge", "where": named(&bridge), "mutations": [["ports", how, to]]});
        let update = |table: &str, name: &str, row: Json| {
            vec![json!({"op": "update", "table": table, "where": named(name), "row": row})]
        };
        let new_port = |name: &str, row: Json| {
            vec![
                json!({"op": "insert", "table": "Interface", "uuid-name": "i", "row": row}),
                json!({"op": "insert", "table": "Port", "uuid-name": "p", "row":
                    {"name": name, "interfaces": ["named-uuid", "i"]}}),
            ]
        };
        let add = |row: Json| {
            [new_port(&port, row), vec![of_bridge("insert", json!(["named-uuid", "p"]))]].concat()
        };
        let peer = json!(["map", [["peer", format!("p{}", 7 - value)]]]);
        match kind {
            0 => add(json!({"name": port, "type": "dummy"})),
            1 => add(json!({"name": port, "type": "patch", "options": peer})),
            2 => add(json!({"name": port, "type": "internal", "ofport_request": 1 + value})),
            3 => add(
                json!({"name": port, "type": "vxlan", "options": ["map", [["remote_ip", format!("10.0.0.{value}")]]]}),
            ),
            4 => vec![of_bridge("delete", self.uuid("Port", &port))],
            5 => {
                let list = json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations":
                    [["bridges", "insert", ["named-uuid", "b"]]]});
                let row = json!({"op": "insert", "table": "Bridge", "uuid-name": "b", "row":
                    {"name": bridge, "datapath_type": "dummy", "ports": ["named-uuid", "p"]}});
                [new_port(&bridge, json!({"name": bridge, "type": "internal"})), vec![row, list]].concat()
            }
            6 if value == 0 => {
                vec![json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations":
                [["bridges", "delete", self.uuid("Bridge", &bridge)]]})]
            }
            6 => update("Interface", &port, json!({"type": "nonsense"})),
            7 => update("Port", &port, json!({"tag": value, "protected": value % 2 == 0})),
            8 => update("Interface", &port, json!({"ofport_request": 1 + value})),
            9 => update("Interface", &port, json!({"options": peer})),
            10 => update("Interface", &port, json!({"mtu_request": 1000 + value})),
            11 => update("Port", &port, json!({"mac": format!("00:0{value}:05:06:07:08")})),
            _ => update(
                "Interface",
                &port,
                json!({"error": "made up", "statistics": ["map", [["rx_packets", 99]]]}),
            ),
        }
    }
}

/// The ports of a snapshot as text.
fn text(snapshot: &Snapshot) -> String {
    let mut bridges: Vec<_> = snapshot.bridges.values().collect();
    bridges.sort_by_key(|bridge| bridge.id);
    let of = |b: &std::sync::Arc<xlate::BridgeView>| format!("{} {:#?} {:#?}\n", b.name, b.ports, b.bundles);
    let bridges: String = bridges.into_iter().map(of).collect();
    format!("{bridges}{:?} {}", snapshot.ingress, snapshot.tunnels.is_empty())
}

fn published(switch: &mut Switch) -> Vec<String> {
    let Switch { datapaths, bridges, underlay, .. } = switch;
    datapaths
        .with_bridges_mut()
        .map(|backer| {
            publish(backer, bridges, underlay);
            text(&backer.shared.published().snapshot)
        })
        .collect()
}

/// The updates that would be written if all rows were compared.
fn missing(switch: &mut Switch) -> Vec<Json> {
    for bridge in switch.bridges.values_mut() {
        bridge.ports.touch_all_status();
        bridge.failed.keys().for_each(|name| bridge.ports.touch_status(name));
    }
    // Counters are excluded: they are written at their own interval.
    switch.last.statistics = switch.clock.now();
    let wanted = switch.wanted_rows(switch.clock.now());
    let operations = wanted.into_iter().filter_map(|row| row.operation(&switch.db.replica));
    operations.map(|operation: Operation| operation.to_json()).collect()
}

#[test]
fn an_updated_snapshot_equals_a_new_one() {
    for seed in 0..12 {
        let mut test = TestSwitch::new(seed);
        for _ in 0..60 {
            for _ in 0..=test.any(3) {
                let change = test.change();
                test.transact(&change);
            }
            test.settle();
            let followed = published(&mut test.switch);
            let of_bridges = |s: &Switch| -> Vec<_> {
                s.bridges.values().map(|b| (b.mac, b.datapath_id, b.all_ports.mtu)).collect()
            };
            let before = of_bridges(&test.switch);
            assert_eq!(missing(&mut test.switch), Vec::<Json>::new(), "seed {seed}");
            for bridge in test.switch.bridges.values_mut() {
                let renumber_candidates = std::mem::take(&mut bridge.all_ports.renumber_candidates);
                let AllPortsState { mtu, default_mac, .. } = bridge.all_ports;
                bridge.all_ports =
                    AllPortsState { mtu, default_mac, renumber_candidates, ..AllPortsState::default() };
                let all: Vec<_> = bridge.ports.keys().copied().collect();
                all.into_iter().for_each(|port| bridge.ports.touch(port));
                let rows: Vec<String> = bridge.config.ports.keys().cloned().collect();
                rows.iter().for_each(|row| bridge.ports.touch_row(row));
                crate::configure_bridge::derive_from_ports(bridge);
            }
            assert_eq!(of_bridges(&test.switch), before, "seed {seed}");
            for backer in test.switch.datapaths.with_bridges_mut() {
                backer.snapshot_builder = SnapshotBuilder {
                    tunnels_changed: true,
                    ..SnapshotBuilder::new(backer.snapshot_builder.snapshot.chain)
                };
            }
            assert_eq!(published(&mut test.switch), followed, "seed {seed}");
        }
    }
}

#[test]
fn one_of_many_ports_concerns_few_rows() {
    let mut test = TestSwitch::new(0);
    test.add_bridge("br", 100);
    // The bridge's own port got the bridge's address last.
    test.switch.bridges.get_mut("br").unwrap().ports.take_for_bridge();
    test.transact(&[json!({"op": "update", "table": "Interface", "where": [["name", "==", "brp7"]],
        "row": {"external_ids": ["map", [["iface-id", "x"]]]}})]);
    test.switch.reconfigure();
    let bridge = test.switch.bridges.get_mut("br").unwrap();
    assert_eq!(bridge.ports.len(), 100);
    assert_eq!(bridge.ports.take_for_status().ports.len(), 1);
    assert!(bridge.ports.take_for_snapshot().is_empty() && bridge.ports.take_for_bridge().is_empty());
}

#[test]
fn statistics_of_all_ports_are_read_in_several_turns() {
    let mut test = TestSwitch::new(0);
    for (bridge, ports) in [("a", 200), ("b", 1), ("c", 250)] {
        test.add_bridge(bridge, ports);
    }
    let unwritten = |switch: &Switch| {
        let ports = switch.bridges.values().flat_map(|bridge| bridge.ports.values());
        ports.filter(|port| port.database_stats.is_none()).count()
    };
    for bridge in test.switch.bridges.values_mut() {
        bridge.ports.after_mut_unmarked(None).for_each(|port| port.database_stats = None);
    }
    test.switch.status.statistics = Some(PortPosition::default());
    let mut left = vec![];
    while test.switch.status.statistics.is_some() {
        test.switch.continue_statistics(Millis(0));
        while test.serve() {
            test.switch.db.take_results();
        }
        left.push(unwritten(&test.switch));
    }
    assert_eq!(left, [451 - 256, 0]);
}

#[test]
fn a_dummy_in_the_place_of_system_follows_the_row_of_system() {
    let mut test = TestSwitch::new(0);
    let list = json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations":
        [["bridges", "insert", ["named-uuid", "b"]], ["datapaths", "insert", ["map", [["system", ["named-uuid", "d"]]]]]]});
    test.transact(&[
        json!({"op": "insert", "table": "Interface", "uuid-name": "i", "row": {"name": "br", "type": "internal"}}),
        json!({"op": "insert", "table": "Port", "uuid-name": "p", "row": {"name": "br", "interfaces": ["named-uuid", "i"]}}),
        json!({"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "br", "ports": ["named-uuid", "p"]}}),
        json!({"op": "insert", "table": "CT_Zone", "uuid-name": "z", "row": {"limit": 7}}),
        json!({"op": "insert", "table": "Datapath", "uuid-name": "d", "row": {"ct_zones": ["map", [[5, ["named-uuid", "z"]]]]}}),
        list,
    ]);
    test.settle();
    let backer = test.switch.datapaths.of("dummy").unwrap();
    assert_eq!(backer.datapath.conntrack().limit(Some(5)).limit, 7);
    let select = json!({"op": "select", "table": "Datapath", "where": [], "columns": ["capabilities"]});
    let rows = test.transact(&[select]).to_string();
    assert!(rows.contains(r#"["ct_flush","true"]"#), "{rows}");
}

#[test]
fn names_that_no_interface_can_have_are_errors_of_their_rows() {
    let mut test = TestSwitch::new(0);
    let interface = |id: &str, name: &str, kind: &str| {
        let remote = json!(["map", [["remote_ip", "192.0.2.1"]]]);
        json!({"op": "insert", "table": "Interface", "uuid-name": id, "row": {"name": name, "type": kind, "options": remote}})
    };
    let port = |id: &str, name: &str| {
        let interface = json!(["named-uuid", id]);
        json!({"op": "insert", "table": "Port", "uuid-name": format!("p{id}"), "row": {"name": name, "interfaces": interface}})
    };
    let ports = json!(["set", [["named-uuid", "pa"], ["named-uuid", "pb"]]]);
    test.transact(&[
        interface("a", "", "vxlan"),
        port("a", "a"),
        interface("b", "ovs-netdev", "internal"),
        port("b", "b"),
        json!({"op": "insert", "table": "Bridge", "uuid-name": "br", "row": {"name": "br", "ports": ports}}),
        json!({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["bridges", "insert", ["named-uuid", "br"]]]}),
    ]);
    test.settle();
    let mut error = |name: &str| {
        let of = json!({"op": "select", "table": "Interface", "where": [["name", "==", name]], "columns": ["error", "ofport"]});
        test.transact(&[of])[0]["rows"][0].clone()
    };
    assert_eq!(
        error(""),
        json!({"error": "could not open network device  (Invalid argument)", "ofport": -1})
    );
    let reserved = json!({"error": "could not create interface ovs-netdev, name is reserved", "ofport": -1});
    assert_eq!(error("ovs-netdev"), reserved);
}

/// As in Open vSwitch, a tunnel with the same configuration as another one is an error until the other one is deleted or changed.
#[test]
fn an_interface_that_failed_is_tried_again_when_another_leaves() {
    let mut test = TestSwitch::new(0);
    let rows = |name: &str| {
        let options = json!(["map", [["remote_ip", "192.0.2.1"]]]);
        let interfaces = json!(["named-uuid", format!("i{name}")]);
        [
            json!({"op": "insert", "table": "Interface", "uuid-name": format!("i{name}"),
                "row": {"name": name, "type": "vxlan", "options": options}}),
            json!({"op": "insert", "table": "Port", "uuid-name": format!("p{name}"),
                "row": {"name": name, "interfaces": interfaces}}),
        ]
    };
    let ports = json!(["set", [["named-uuid", "pa"], ["named-uuid", "pb"]]]);
    let bridge = [
        json!({"op": "insert", "table": "Bridge", "uuid-name": "br", "row": {"name": "br", "ports": ports}}),
        json!({"op": "mutate", "table": "Open_vSwitch", "where": [],
            "mutations": [["bridges", "insert", ["named-uuid", "br"]]]}),
    ];
    test.transact(&[&rows("a")[..], &rows("b"), &bridge].concat());
    test.settle();
    let error = |test: &mut TestSwitch, name: &str| {
        let of = json!({"op": "select", "table": "Interface", "where": [["name", "==", name]], "columns": ["error"]});
        test.transact(&[of])[0]["rows"][0]["error"].clone()
    };
    let fine = json!(["set", []]);
    assert_eq!(error(&mut test, "a"), fine);
    assert_eq!(error(&mut test, "b"), json!("could not add network device b to ofproto (File exists)"));
    let other = json!(["map", [["remote_ip", "192.0.2.2"]]]);
    let change = json!({"op": "update", "table": "Interface", "where": [["name", "==", "a"]], "row": {"options": other}});
    test.transact(&[change]);
    test.settle();
    assert_eq!(error(&mut test, "b"), fine);
}

/// A port of a spanning tree counts as stopped only when no megaflow forwards its packets, and does not start before. This also holds if the port
/// learned only between two turns of the main loop.
#[test]
fn a_port_that_learned_unseen_learns_again() {
    let mut test = TestSwitch::new(0);
    let rows = |name: &str| {
        let interfaces = json!(["named-uuid", format!("i{name}")]);
        [
            json!({"op": "insert", "table": "Interface", "uuid-name": format!("i{name}"), "row": {"name": name, "type": "dummy"}}),
            json!({"op": "insert", "table": "Port", "uuid-name": format!("p{name}"), "row": {"name": name, "interfaces": interfaces,
                "other_config": ["map", [["rstp-port-admin-edge", "true"]]]}}),
        ]
    };
    let ports = json!(["set", [["named-uuid", "pbr"], ["named-uuid", "pa"]]]);
    let bridge = [
        json!({"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "br", "ports": ports, "rstp_enable": true}}),
        json!({"op": "mutate", "table": "Open_vSwitch", "where": [],
            "mutations": [["bridges", "insert", ["named-uuid", "b"]]]}),
    ];
    test.transact(&[&rows("br")[..], &rows("a"), &bridge].concat());
    test.settle();
    let bridge = &test.switch.bridges["br"];
    let at = (bridge.id, bridge.ports.values().find(|port| port.name == "a").unwrap().ofport);
    let look = |test: &mut TestSwitch| {
        while test.switch.run_trees() {
            test.switch.publish_changes();
        }
        test.switch.bridges["br"].ports[&at.1].tree.unwrap().state
    };
    let enable = |test: &TestSwitch, enabled| {
        let (bridge, backer) = (&test.switch.bridges["br"], test.switch.datapaths.of("dummy").unwrap());
        let settings = spanning_tree::settings::of_bridge(bridge).unwrap();
        let mut ports = spanning_tree::settings::of_ports(bridge, settings.protocol());
        ports.iter_mut().for_each(|port| port.rapid.enabled = enabled);
        backer.upcall_translator.trees.configure(bridge.id, "br", &settings, &ports, test.switch.clock.now());
    };
    assert_eq!(look(&mut test), PortState::Forwarding);
    enable(&test, false);
    assert_eq!(look(&mut test), PortState::Discarding);
    enable(&test, true);
    enable(&test, false);
    assert_eq!(look(&mut test), PortState::Discarding);
    enable(&test, true);
    assert_eq!(look(&mut test), PortState::Forwarding);
}
