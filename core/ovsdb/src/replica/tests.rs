use super::test_server::TestServer;
use super::*;
use crate::Parameters;
use crate::operation::RowId;
use crate::schema::open_vswitch;
use proptest::prelude::*;

fn connect(newest: MonitorMethod) -> (TestServer, Replica) {
    let mut server = TestServer::new(newest);
    let mut replica = Replica::new(Config::whole(&open_vswitch()));
    replica.connected();
    server.serve(&mut replica);
    assert!(replica.is_synced());
    (server, replica)
}

fn same(server: &TestServer, replica: &Replica) {
    for (table, rows) in server.db.tables().iter().zip(&replica.tables) {
        assert_eq!(table.rows().size(), rows.len());
        for (uuid, row) in table.rows() {
            assert!(rows.get(uuid).is_some_and(|mine| mine.same_content(row)));
        }
    }
}

fn add_bridge(name: &str) -> Vec<Operation> {
    vec![
        Operation::insert("Open_vSwitch", "o").set("bridges", RowId::name("b")),
        Operation::insert("Bridge", "b").set("name", name).set("ports", RowId::name("p")),
        Operation::insert("Port", "p").set("name", name).set("tag", 7).set("interfaces", RowId::name("i")),
        Operation::insert("Interface", "i").set("name", name),
    ]
}

#[test]
fn rows_arrive_typed_with_every_kind_of_server() {
    for newest in [MonitorMethod::Plain, MonitorMethod::Conditional, MonitorMethod::Since] {
        let (mut server, mut replica) = connect(newest);
        let id = replica.transact(&add_bridge("br0")).unwrap();
        server.serve(&mut replica);
        let (done, result) = replica.poll_result().unwrap();
        assert_eq!(done, id);
        let bridge = replica.table("Bridge").unwrap().find("name", "br0").unwrap();
        assert_eq!(result.inserted(1), Some(bridge.uuid()));
        let port = replica.row("Port", bridge.uuids("ports").next().unwrap()).unwrap();
        assert_eq!((port.str("name"), port.opt_int("tag"), port.str("no such column")), ("br0", Some(7), ""));
        assert_eq!(replica.take_changes().len(), 4);
        same(&server, &replica);
    }
}

#[test]
fn a_reconnect_resumes_or_compares() {
    for newest in [MonitorMethod::Plain, MonitorMethod::Since] {
        let (mut server, mut replica) = connect(newest);
        replica.transact(&add_bridge("br0"));
        server.serve(&mut replica);
        replica.take_changes();
        replica.transact(&[Operation::comment("lost")]);
        replica.disconnected();
        assert_eq!(replica.results.pop_back().map(|r| r.1), Some(TransactionResult::Unknown));
        assert!(replica.transact(&[]).is_none());
        let params = json!(["Open_vSwitch",
            {"op": "update", "table": "Port", "where": [], "row": {"tag": 8}},
            {"op": "insert", "table": "QoS", "row": {}}]);
        server.transact(&mut replica, Parameters::Tree(params));
        replica.connected();
        server.serve(&mut replica);
        assert_eq!(replica.take_changes().len(), 2);
        same(&server, &replica);
    }
}

#[test]
fn lock_failures_and_tries() {
    let mut config = Config::open_vswitch(&["QoS", "Unknown"]);
    config.lock = Some("ovs_vswitchd".into());
    let mut replica = Replica::new(config);
    let mut server = TestServer::new(MonitorMethod::Since);
    replica.connected();
    server.serve(&mut replica);
    assert!(replica.has_lock());
    let missing = Operation::verify("QoS", Uuid::from_u128(5)).set("type", "x");
    replica.transact(&[missing]);
    replica.transact(&[Operation::insert("Bridge", "").set("flood_vlans", 5000)]);
    server.serve(&mut replica);
    assert_eq!(replica.poll_result().map(|r| r.1), Some(TransactionResult::TryAgain));
    assert!(
        matches!(replica.poll_result(), Some((_, TransactionResult::Failed(e))) if e.tag == "constraint violation")
    );
    replica.receive(Message::notify("stolen", json!(["ovs_vswitchd"]))).unwrap();
    assert!(!replica.has_lock());
}

#[test]
fn nonsense_is_an_error() {
    let (_, mut replica) = connect(MonitorMethod::Since);
    for params in [json!([]), json!(["replica", "", {"No": {}}]), json!(["replica", "", {"Port": {"x": {}}}])]
    {
        assert!(replica.receive(Message::notify("update3", params)).is_err());
    }
}

fn any_step() -> impl Strategy<Value = Vec<Operation>> {
    let name = "[ab]";
    prop_oneof![
        (name, 0..3i64).prop_map(|(n, c)| vec![
            Operation::insert("Queue", "q")
                .set("dscp", c)
                .set("external_ids", crate::Datum::map([("n", n.as_str())])),
            Operation::insert("QoS", "")
                .set("type", n.as_str())
                .set("queues", crate::operation::Value(json!(["map", [[c, ["named-uuid", "q"]]]]))),
        ]),
        (name, 0..3i64).prop_map(|(n, c)| vec![
            Operation::update_where("QoS", json!([["type", "==", n]]))
                .set("other_config", crate::Datum::map([(n.as_str(), c.to_string())]))
        ]),
        (0..3i64).prop_map(|c| vec![Operation::delete_where("Queue", json!([["dscp", "==", c]]))]),
        name.prop_map(|n| vec![Operation::delete_where("QoS", json!([["type", "==", n]]))]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_copy_equals_the_database(steps in proptest::collection::vec(any_step(), 1..12), old in any::<bool>()) {
        let (mut server, mut replica) = connect(if old { MonitorMethod::Plain } else { MonitorMethod::Since });
        for step in steps {
            replica.transact(&step);
            server.serve(&mut replica);
            same(&server, &replica);
        }
    }
}

#[test]
fn accepts_only_the_leader_of_a_cluster() {
    let row = |model: &str, connected: bool, leader: bool| {
        json!({"Database": {"4aa6d4bf-a9b5-4c1a-8b5a-1b2c3d4e5f60": {"new":
            {"name": "Open_vSwitch", "model": model, "connected": connected, "leader": leader}}}})
    };
    let mut replica = Replica::new(Config { leader_only: true, ..Config::whole(&open_vswitch()) });
    let mut ask = |answer: Result<Json, Json>| {
        replica.connected();
        let Some(Message::Request { method, params, id }) = replica.poll_send() else {
            panic!("asks nothing")
        };
        assert_eq!((method.as_str(), &params[0]), ("monitor", &json!("_Server")));
        let answer = match answer {
            Ok(result) => Message::Reply { result, id },
            Err(error) => Message::Error { error, id },
        };
        replica.receive(answer).map(|()| replica.poll_send().is_some())
    };
    assert!(ask(Ok(row("clustered", true, false))).is_err());
    assert!(ask(Ok(row("clustered", false, true))).is_err());
    assert_eq!(ask(Ok(row("standalone", true, true))), Ok(true));
    assert_eq!(ask(Err(json!("unknown database"))), Ok(true));
    assert_eq!(ask(Ok(row("clustered", true, true))), Ok(true));
    let told = Message::notify("update", json!(["role", row("clustered", true, false)]));
    assert!(replica.receive(told).is_err());
}
