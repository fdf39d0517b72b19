//! A server for one replica, without sockets, for tests of this crate and of crates that use it.

use crate::monitor::{MonitorLimits, MonitorMethod};
use crate::schema::open_vswitch;
use crate::{Context, Database, Json, Message, Monitor, Outcome, Parameters, Replica, Uuid, transaction};
use serde_json::json;

/// A database with the schema of Open vSwitch, and the monitor of its only client.
pub struct TestServer {
    /// The database.
    pub db: Database,
    monitor: Option<Monitor>,
    newest: MonitorMethod,
    uuids: u64,
}

impl TestServer {
    /// An empty database. The server supports request methods for monitors up to this one.
    pub fn new(newest: MonitorMethod) -> TestServer {
        let db = Database::new(open_vswitch(), Uuid::from_u128(1 << 100));
        TestServer { db, monitor: None, newest, uuids: 0 }
    }

    /// Answers all requests of the replica; returns whether there were any.
    pub fn serve(&mut self, replica: &mut Replica) -> bool {
        let mut any = false;
        while let Some(message) = replica.poll_send() {
            let Message::Request { method, params, id } = message else { continue };
            any = true;
            let answer = match method.as_str() {
                "get_schema" => Ok(self.db.schema().to_json()),
                "lock" => Ok(json!({"locked": true})),
                "transact" => Ok(self.transact(replica, Parameters::Tree(params))),
                _ => self.monitor(&method, &params),
            };
            let answer = match answer {
                Ok(result) => Message::Reply { result, id },
                Err(error) => Message::Error { error, id },
            };
            replica.receive(answer).expect("the replica understands the answer");
        }
        any
    }

    /// Executes a monitor request, if the server supports the method.
    fn monitor(&mut self, name: &str, params: &Json) -> Result<Json, Json> {
        let supported = match self.newest {
            MonitorMethod::Plain => &[MonitorMethod::Plain][..],
            newest => &[MonitorMethod::Plain, MonitorMethod::Conditional, newest],
        };
        let method = MonitorMethod::from_name(name).filter(|method| supported.contains(method));
        let method = method.ok_or_else(|| json!("unknown method"))?;
        let (monitor, result) =
            Monitor::create(&self.db, method, params, &MonitorLimits::default()).expect("valid conditions");
        self.monitor = Some(monitor);
        Ok(serde_json::from_str(&result).expect("JSON"))
    }

    /// Executes a transaction. Sends its changes to the replica if the replica is connected and has a monitor. Returns the
    /// results. A transaction that fails changes nothing.
    pub fn transact(&mut self, replica: &mut Replica, parameters: Parameters) -> Json {
        let uuids = &mut self.uuids;
        let mut fresh = || {
            *uuids += 1;
            // UUIDs are not in order of creation.
            Uuid::from_u128(u128::from(uuids.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 40 | 1)
        };
        let context = Context { owns_lock: &|_| true, ..Context::default() };
        let prepared = match transaction::execute(&self.db, &parameters, &context, &mut fresh) {
            Outcome::Ready(prepared) => prepared,
            Outcome::Failed(results) => return Json::Array(results),
            Outcome::Blocked { .. } => return json!([{"error": "timed out"}]),
        };
        let (changes, id) = (prepared.commit.changes.clone(), fresh());
        self.db.apply(prepared.commit, id);
        let update = self.monitor.as_ref().filter(|_| replica.connected).and_then(|monitor| {
            let part = monitor.shared_part(self.db.schema(), &changes)?;
            Some(monitor.notification(&part, id))
        });
        if let Some(update) = update {
            let update = serde_json::from_str(&update).expect("JSON");
            let update = Message::from_json(update).expect("a message");
            replica.receive(update).expect("the replica understands the update");
        }
        Json::Array(prepared.results)
    }

    /// Like [`transact`](Self::transact), with a list of operations.
    pub fn run(&mut self, replica: &mut Replica, operations: &[Json]) -> Json {
        let all = [json!("Open_vSwitch")].into_iter().chain(operations.iter().cloned()).collect();
        self.transact(replica, Parameters::Tree(Json::Array(all)))
    }
}
