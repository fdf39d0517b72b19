use super::*;
use crate::Operation;
use crate::schema::open_vswitch;
use crate::transaction::apply_own;
use serde_json::json;

struct TestDatabase {
    db: Database,
    next: u128,
}

impl TestDatabase {
    fn new() -> TestDatabase {
        TestDatabase { db: Database::new(open_vswitch(), Uuid::from_u128(1 << 90)), next: 0 }
    }

    fn run(&mut self, operation: Operation) -> (Arc<Changes>, Uuid) {
        let next = &mut self.next;
        let mut fresh = || {
            *next += 1;
            Uuid::from_u128(*next)
        };
        let commit = apply_own(&self.db, &[operation], &mut fresh).unwrap();
        let (changes, id) = (commit.changes.clone(), fresh());
        self.db.apply(commit, id);
        (changes, id)
    }

    fn monitor(&self, method: MonitorMethod, params: Json) -> (Monitor, Json) {
        let (monitor, text) = Monitor::create(&self.db, method, &params, &MonitorLimits::default()).unwrap();
        (monitor, serde_json::from_str(&text).unwrap())
    }

    fn update(&self, monitor: &Monitor, (changes, id): (Arc<Changes>, Uuid)) -> Json {
        let part = monitor.shared_part(self.db.schema(), &changes);
        let text = part.map(|part| monitor.notification(&part, id));
        text.map_or(Json::Null, |text| serde_json::from_str::<Json>(&text).unwrap()["params"].clone())
    }
}

/// The only row of the only table of an update.
fn only_row(updates: &Json) -> &Json {
    let table = updates.as_object().and_then(|tables| tables.values().next()).unwrap();
    table.as_object().and_then(|rows| rows.values().next()).unwrap()
}

#[test]
fn plain_updates_show_old_and_new() {
    let mut database = TestDatabase::new();
    let request = json!(["Open_vSwitch", "m", {"QoS": {"columns": ["type", "other_config"]}}]);
    let (monitor, initial) = database.monitor(MonitorMethod::Plain, request);
    assert_eq!(initial, json!({}));
    let change = database.run(Operation::insert("QoS", "").set("type", "a"));
    assert_eq!(
        only_row(&database.update(&monitor, change)[1]),
        &json!({"new": {"type": "a", "other_config": ["map", []]}})
    );
    let change = database.run(Operation::update_where("QoS", json!([])).set("type", "b"));
    let update = database.update(&monitor, change);
    assert_eq!(
        only_row(&update[1]),
        &json!({"old": {"type": "a"}, "new": {"type": "b", "other_config": ["map", []]}})
    );
    let change = database
        .run(Operation::update_where("QoS", json!([])).set("external_ids", crate::Datum::map([("x", "y")])));
    assert!(database.update(&monitor, change).is_null());
}

#[test]
fn conditions_bring_rows_into_view() {
    let mut database = TestDatabase::new();
    let request =
        json!(["Open_vSwitch", "m", {"QoS": [{"columns": ["type"], "where": [["type", "==", "a"]]}]}]);
    let (mut monitor, _) = database.monitor(MonitorMethod::Conditional, request);
    let change = database.run(Operation::insert("QoS", "").set("type", "b"));
    assert!(database.update(&monitor, change).is_null());
    let change = database.run(Operation::update_where("QoS", json!([])).set("type", "a"));
    assert_eq!(only_row(&database.update(&monitor, change)[1]), &json!({"insert": {"type": "a"}}));
    let change = json!(["m", "n", {"QoS": [{"where": [false]}]}]);
    let update = monitor
        .change_conditions(&database.db, &change, |_| false, &MonitorLimits::default())
        .unwrap()
        .unwrap();
    let update: Json = serde_json::from_str(&update).unwrap();
    assert_eq!(update["method"], "update2");
    assert_eq!(only_row(&update["params"][1]), &json!({"delete": null}));
    assert_eq!(monitor.id(), &json!("n"));
}

#[test]
fn history_answers_a_known_transaction() {
    let mut database = TestDatabase::new();
    let (_, first) = database.run(Operation::insert("QoS", "").set("type", "a"));
    database.run(Operation::update_where("QoS", json!([])).set("type", "b"));
    let (_, last) = database
        .run(Operation::update_where("QoS", json!([])).set("other_config", crate::Datum::map([("k", "v")])));
    let request = |id: Uuid| json!(["Open_vSwitch", "m", {"QoS": [{"columns": ["type", "other_config"]}]}, id.to_string()]);
    let (_, result) = database.monitor(MonitorMethod::Since, request(first));
    assert_eq!((&result[0], &result[1]), (&json!(true), &json!(last.to_string())));
    assert_eq!(
        only_row(&result[2]),
        &json!({"modify": {"type": "b", "other_config": ["map", [["k", "v"]]]}})
    );
    let (_, result) = database.monitor(MonitorMethod::Since, request(Uuid::from_u128(12345)));
    assert_eq!(result[0], json!(false));
    assert_eq!(only_row(&result[2])["initial"]["type"], "b");
}

#[test]
fn faulty_requests() {
    let database = TestDatabase::new();
    let fault = |request: Json| {
        let params = json!(["Open_vSwitch", 1, request]);
        Monitor::create(&database.db, MonitorMethod::Plain, &params, &MonitorLimits::default())
            .err()
            .and_then(|e| e.details)
    };
    assert_eq!(fault(json!(3)).as_deref(), Some("monitor-requests must be object"));
    assert_eq!(fault(json!({"No": {}})).as_deref(), Some("no table named No"));
    assert_eq!(fault(json!({"QoS": {"columns": ["x"]}})).as_deref(), Some("x is not a valid column name"));
    assert_eq!(
        fault(json!({"QoS": [{"columns": ["type"]}, {"columns": ["type"]}]})).as_deref(),
        Some("column type mentioned more than once")
    );
}

#[test]
fn conditions_are_limited() {
    let mut database = TestDatabase::new();
    database.run(Operation::insert("QoS", "").set("type", "a"));
    let request =
        |clauses: Vec<Json>| json!(["Open_vSwitch", "m", {"QoS": {"columns": ["type"], "where": clauses}}]);
    let conditions = ConditionCost { memory: 10_000, compared: 10 };
    let limits = MonitorLimits { conditions, ..MonitorLimits::default() };
    let create = |request: &Json, limits: &MonitorLimits| {
        Monitor::create(&database.db, MonitorMethod::Conditional, request, limits)
    };
    let many = |function: &str, number| {
        request((0..number).map(|at| json!(["type", function, format!("t{at}")])).collect())
    };
    let (mut monitor, _) = create(&many("!=", 10), &limits).unwrap();
    assert_eq!(monitor.condition_cost().compared, 10);
    assert!(create(&many("==", 40), &limits).is_ok());
    for refused in [many("!=", 11), many("==", 100)] {
        assert_eq!(create(&refused, &limits).err().unwrap().tag, "resources exhausted");
        let change = json!(["m", "n", {"QoS": [{"where": refused[2]["QoS"]["where"]}]}]);
        let changed = monitor.change_conditions(&database.db, &change, |_| false, &limits);
        assert_eq!(changed.err().unwrap().tag, "resources exhausted");
        assert_eq!((monitor.id(), monitor.condition_cost().compared), (&json!("m"), 10));
    }
    // The initial update of a client that has disconnected is not composed.
    let limits = MonitorLimits { is_abandoned: &|| true, ..MonitorLimits::default() };
    assert_eq!(create(&many("==", 1), &limits).err().unwrap().tag, "canceled");
}
