//! A small database with every kind of column, a client's replica of it, and checks of both. Targets use them.

use ovsdb::{Changes, Database, Json, Message, Monitor, Replica, Row, Schema, Uuid, log, monitor, replica};
use serde_json::json;
use std::sync::{Arc, LazyLock};

/// Generates consecutive UUIDs, so that inputs can contain them.
pub fn counter(mut next: u128) -> impl FnMut() -> Uuid {
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

/// Returns a schema with tables `root`, `child` and `needy`, which have references of each kind, and `types`, which has a column
/// of each type.
pub fn schema() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let set = |kind: &str| json!({"type": {"key": kind, "min": 0, "max": "unlimited"}});
        let map = |k: &str, v: &str| json!({"type": {"key": k, "value": v, "min": 0, "max": 3}});
        let to = |table: &str, kind: &str, min: u32| json!({"type": {"key": {"type": "uuid", "refTable": table, "refType": kind}, "min": min, "max": "unlimited"}});
        let json = json!({"name": "d", "version": "1.0.0", "tables": {
            "root": {"isRoot": true, "maxRows": 3, "indexes": [["name"], ["number", "name"]], "columns": {
                "name": {"type": "string", "mutable": false},
                "number": {"type": {"key": {"type": "integer", "minInteger": -5, "maxInteger": 100}}},
                "children": to("child", "strong", 0), "friends": to("child", "weak", 0)}},
            "child": {"columns": {"name": {"type": "string"}, "child": to("child", "strong", 0)}},
            "needy": {"isRoot": true, "columns": {"friend": to("child", "weak", 1)}},
            "types": {"isRoot": true, "columns": {
                "i": set("integer"), "r": set("real"), "b": set("boolean"), "s": set("string"), "u": set("uuid"),
                "mi": map("integer", "real"), "ms": map("string", "string"),
                "e": {"type": {"key": {"type": "string", "enum": ["set", ["x", "y"]]}, "min": 0, "max": 1}},
                "gone": {"type": "integer", "ephemeral": true}}}}});
        Arc::new(Schema::from_json(&json).expect("a good schema"))
    });
    SCHEMA.clone()
}

/// Returns all rows as text, for comparison.
pub fn rows(db: &Database) -> Vec<String> {
    let of = |row: &Arc<Row>| format!("{} {:?}", row.uuid(), fields(db, row));
    db.tables().iter().flat_map(|t| t.rows().values().map(of)).collect()
}

fn fields(db: &Database, row: &Row) -> Vec<String> {
    let Some(table) =
        db.schema().tables.iter().zip(db.tables()).find(|(_, t)| t.rows().contains_key(&row.uuid()))
    else {
        return Vec::new();
    };
    let stored = |c: &&ovsdb::schema::Column| !c.name.starts_with('_') && c.persistent;
    let text = |c: &ovsdb::schema::Column| {
        table.0.column_index(&c.name).map(|n| row.field(n).to_json().to_string()).unwrap_or_default()
    };
    table.0.columns.iter().filter(stored).map(text).collect()
}

/// Parses text that the database generated.
pub fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Checks that the stored record of a change turns `before` into `after`.
pub fn assert_stored(before: &Database, after: &Database, changes: &Changes) {
    let mut stored = before.clone();
    if let Some(text) = log::transaction_text(before.schema(), changes, 1, "fuzz") {
        let record = parsed(&text);
        let commit =
            log::replay(before, &record, &mut counter(1 << 64)).unwrap_or_else(|e| panic!("{e}: {record}"));
        stored.apply(commit, Uuid::from_u128(1));
    }
    assert_eq!(rows(&stored), rows(after));
}

/// Checks that a snapshot of the database can be read back.
pub fn assert_in_snapshot(db: &Database) {
    let file = log::snapshot(db, 1);
    let records = log::read(&file).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(records.good_len, file.len());
    let mut again = Database::new(db.schema().clone(), Uuid::nil());
    for (_, record) in records.records.iter().skip(1) {
        let commit =
            log::replay(&again, record, &mut counter(1 << 64)).unwrap_or_else(|e| panic!("{e}: {record}"));
        again.apply(commit, Uuid::from_u128(2));
    }
    assert_eq!(rows(&again), rows(db));
}

/// A client's replica, updated by a monitor.
pub struct MonitoredReplica {
    replica: Replica,
    monitor: Monitor,
}

impl MonitoredReplica {
    /// Creates a replica of the current database.
    pub fn new(db: &Database) -> MonitoredReplica {
        let mut replica = Replica::new(replica::Config::whole(db.schema()));
        replica.connected();
        let answer = |replica: &mut Replica, result: &dyn Fn(&Json) -> Json| {
            let Some(Message::Request { params, id, .. }) = replica.poll_send() else { panic!("no request") };
            replica.receive(Message::Reply { result: result(&params), id }).expect("a good answer");
            params
        };
        answer(&mut replica, &|_| db.schema().to_json());
        let create = |params: &Json| {
            Monitor::create(db, monitor::MonitorMethod::Since, params, &monitor::MonitorLimits::default())
                .unwrap_or_else(|e| panic!("{e}: {params}"))
        };
        let params = answer(&mut replica, &|params| parsed(&create(params).1));
        MonitoredReplica { replica, monitor: create(&params).0 }
    }

    /// Passes the notification of a commit to the replica, and compares it with the database.
    pub fn update_and_compare(&mut self, db: &Database, changes: &Changes) {
        if let Some(part) = self.monitor.shared_part(db.schema(), changes) {
            let update = parsed(&self.monitor.notification(&part, db.last_transaction()));
            let message = Message::from_json(update).expect("a message");
            self.replica.receive(message).expect("a good update");
        }
        for table in &db.schema().tables {
            let ours = db.rows(&table.name).map(|rows| rows.size()).unwrap_or_default();
            assert_eq!(self.replica.rows(&table.name).count(), ours, "rows of {}", table.name);
            for row in self.replica.rows(&table.name) {
                let theirs = db
                    .rows(&table.name)
                    .and_then(|rows| rows.get(&row.uuid()))
                    .expect("a row of the database");
                for (n, column) in table.columns.iter().enumerate().filter(|(_, c)| !c.name.starts_with('_'))
                {
                    assert_eq!(row.datum(&column.name), Some(theirs.field(n)), "{}", column.name);
                }
            }
        }
    }
}
