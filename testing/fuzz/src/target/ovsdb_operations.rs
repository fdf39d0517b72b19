//! Transactions and monitors that clients request: committed changes are stored and reported correctly.

use super::ovsdb_sample::{MonitoredReplica, assert_in_snapshot, assert_stored, counter, parsed, schema};
use ovsdb::transaction::execute;
use ovsdb::{Changes, Commit, Context, Database, Json, Monitor, Outcome, Uuid, monitor};
use std::str::from_utf8;
use std::sync::Arc;

const LEN_MAX: usize = 4096;
/// Maximum number of requests in an input.
const LINES_MAX: usize = 16;

/// Each line is the `params` of a `transact` (an array) or of a monitor (an object with `monitor`).
pub fn run(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    let mut db = Database::new(schema(), Uuid::nil());
    let mut replica = MonitoredReplica::new(&db);
    let mut new_uuid = counter(0);
    let mut history = Vec::new();
    for (number, line) in text.lines().take(LINES_MAX).enumerate() {
        match serde_json::from_str(line) {
            Ok(Json::Object(request)) => {
                monitors(&db, &history, request.get("monitor").unwrap_or(&Json::Null))
            }
            Ok(params) => {
                let Some(commit) = transact(&db, &params, &mut new_uuid) else { continue };
                let (before, changes) = (db.clone(), commit.changes.clone());
                db.apply(commit, Uuid::from_u128(1000 + number as u128));
                assert_stored(&before, &db, &changes);
                replica.update_and_compare(&db, &changes);
                history.push(changes);
            }
            Err(_) => {}
        }
    }
    assert_in_snapshot(&db);
}

fn transact(db: &Database, params: &Json, new_uuid: &mut dyn FnMut() -> Uuid) -> Option<Commit> {
    let context = Context { owns_lock: &|name| name == "mine", ..Context::default() };
    let operations = params.as_array().map_or(0, Vec::len).saturating_sub(1);
    match execute(db, &ovsdb::Parameters::Tree(params.clone()), &context, new_uuid) {
        Outcome::Ready(prepared) => {
            assert_eq!(prepared.results.len(), operations);
            Some(prepared.commit)
        }
        Outcome::Failed(results) => {
            assert!(!results.is_empty());
            None
        }
        Outcome::Blocked { .. } => None,
    }
}

fn monitors(db: &Database, history: &[Arc<Changes>], params: &Json) {
    for method in
        [monitor::MonitorMethod::Plain, monitor::MonitorMethod::Conditional, monitor::MonitorMethod::Since]
    {
        let limits = monitor::MonitorLimits::default();
        let Ok((mut monitor, first)) = Monitor::create(db, method, params, &limits) else { continue };
        parsed(&first);
        for changes in history {
            if let Some(part) = monitor.shared_part(db.schema(), changes) {
                parsed(&monitor.notification(&part, Uuid::nil()));
            }
        }
        // The conditions are not those of this monitor, so only parsing is checked.
        let _ = monitor.change_conditions(db, params, |_| false, &limits);
    }
}
