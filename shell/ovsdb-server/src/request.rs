//! Executes requests (RFC 7047 section 4.1 and the extensions of Open vSwitch).

use crate::batch::ExecutedTransaction;
use crate::core::Core;
use crate::session::{Blocked, MAX_MONITORS, Session, SessionId, SharedUpdates, TransactRequest};
use ovsdb::json::{self, is_id};
use ovsdb::lock::{LockError, MAX_LOCKS};
use ovsdb::monitor::{MonitorLimits, MonitorMethod};
use ovsdb::rbac::Client;
use ovsdb::transaction::{self, Context, Outcome};
use ovsdb::{ClientMessage, Error, Json, Message, Monitor, Parameters};
use serde_json::json;
use std::cell::Cell;
use std::time::{Duration, Instant};
use transport::DisconnectReason;

/// Memory, in bytes, that the rows selected by a transaction may take beyond the memory of the complete database
/// ([`Context::max_selected_memory`]). A batch whose selected rows exceed this is stored and answered at once: replies as text
/// take less memory, and their length is limited per client. 256 MiB are about 80,000 rows of ten short columns. Small in
/// tests, so that they reach it.
const MAX_SELECTED: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Maximum memory of the copies of values that a transaction writes to more than one row, in bytes
/// ([`Context::max_copied_memory`]). A batch that exceeds it is stored at once.
const MAX_COPIED: usize = 256 << 20;

/// A transaction whose client has disconnected is cancelled after this time. So a client may send a request and
/// disconnect, but cannot keep the databases busy.
const HUNG_UP_LIMIT: Duration = Duration::from_millis(100);

/// Maximum length of the name of a lock, in bytes.
const MAX_LOCK_NAME_LEN: usize = 1024;

/// The reply to a request: its `result` or `error` member.
type Answer = Result<Json, Json>;

impl Core {
    /// Handles one message of a session.
    pub(crate) fn handle(&mut self, session: SessionId, message: ClientMessage) {
        let message = match message {
            ClientMessage::Transact { id, operations } => {
                return self.begin_transaction(session, id, Parameters::Text(operations));
            }
            ClientMessage::Message(message) => message,
        };
        match message {
            Message::Request { method, params, id } if method == "transact" => {
                self.begin_transaction(session, id, Parameters::Tree(params));
            }
            Message::Request { method, params, id } => {
                // All other requests must only see stored data.
                self.store_and_reply();
                match MonitorMethod::from_name(&method) {
                    Some(monitor_method) => self.monitor(session, monitor_method, (&method, &params), id),
                    None => {
                        let answer = self.request(session, &method, &params);
                        self.reply(session, id, answer);
                    }
                }
            }
            Message::Notify { method, params } if method == "cancel" => {
                let id = params.get(0).cloned().unwrap_or_default();
                if self.sessions.get_mut(&session).is_some_and(|s| s.cancel(&id)) {
                    self.reply(session, id, Err("canceled".into()));
                }
            }
            // The reply to a probe of this server.
            Message::Reply { id, .. } if id == "echo" => {}
            // A reply without a request: the peer does not follow the protocol.
            Message::Reply { .. } | Message::Error { .. } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.end(DisconnectReason::Dropped);
                }
            }
            Message::Notify { .. } => {}
        }
    }

    /// Executes a new transaction if its database exists and the number of operations is within the limit.
    fn begin_transaction(&mut self, session: SessionId, id: Json, params: Parameters) {
        let checked = match &params {
            Parameters::Tree(params) => self.database("transact", params).map(drop),
            Parameters::Text(_) => {
                // An error about a long request quotes only the name of the database.
                let name = params.database().unwrap_or_default();
                self.database("transact", &json!([name])).map(drop)
            }
        };
        let (operations, most) = (params.len(), self.limits.operations);
        let checked = checked.and_then(|()| match operations > most {
            true => {
                let text = format!("transaction has {operations} operations, at most {most} are allowed");
                Err(Error::new("resources exhausted", text).to_json())
            }
            false => Ok(()),
        });
        match checked {
            Ok(()) => {
                let request = TransactRequest {
                    number: self.sessions.get_mut(&session).map_or(0, Session::next_transaction_number),
                    memory: json::memory(&id) + params.memory(),
                    id,
                    params,
                    since: Instant::now(),
                    spent: Duration::ZERO,
                    last_took: None,
                };
                self.transact(session, request);
            }
            Err(error) => self.reply(session, id, Err(error)),
        }
    }

    fn reply(&mut self, session: SessionId, id: Json, answer: Answer) {
        let message = match answer {
            Ok(result) => Message::Reply { result, id },
            Err(error) => Message::Error { error, id },
        };
        self.reply_text(session, message.to_string());
    }

    fn reply_text(&mut self, session: SessionId, message: String) {
        if let Some(session) = self.sessions.get_mut(&session) {
            let databases = &self.databases;
            // Held changes happened before the request was executed, so they must be sent before the reply.
            session.send_held_changes(|name| databases.get(name).map(|served| served.db.schema().as_ref()));
            session.send_text(message);
        }
    }

    /// The database of a request.
    fn database(&self, method: &str, params: &Json) -> Result<String, Json> {
        let Some(name) = params.get(0).and_then(Json::as_str) else {
            let text = format!("{method} request params must begin with <db-name>");
            return Err(Error::syntax(params, text).to_json());
        };
        if self.databases.contains_key(name) {
            return Ok(name.to_owned());
        }
        let text = format!("{method} request specifies unknown database {name}");
        Err(Error::quoting("unknown database", params, text).to_json())
    }

    /// Executes a transaction. The reply is sent after the batch is stored. A blocked transaction is kept, and executed
    /// again later.
    pub(crate) fn transact(&mut self, session: SessionId, mut request: TransactRequest) {
        let name = request.params.database().unwrap_or_default();
        let Some(served) = self.databases.get_mut(name) else { return };
        let locks = &self.locks;
        let owns_lock = |lock: &str| locks.owns(lock, session);
        let elapsed_ms = i64::try_from(request.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let client_session = self.sessions.get(&session);
        let client = client_session
            .map(|s| Client { role: &s.options.role, id: s.peer_common_name.as_deref() })
            .unwrap_or_default();
        let read_only = client_session.is_some_and(|s| s.options.read_only);
        let began = Instant::now();
        let is_abandoned = || is_abandoned(client_session, began);
        let context = Context {
            elapsed_ms,
            owns_lock: &owns_lock,
            read_only,
            client,
            is_abandoned: &is_abandoned,
            max_selected_memory: MAX_SELECTED,
            selected: Cell::new(0),
            max_copied_memory: MAX_COPIED,
            copied: Cell::new(0),
        };
        match transaction::execute(&served.db, &request.params, &context, &mut crate::identity::random_uuid) {
            Outcome::Ready(prepared) => served.add(session, request.id, *prepared),
            Outcome::Failed(results) => served.add_without_changes(session, request.id, results),
            Outcome::Blocked { timeout_ms, tables, results } => {
                let timeout = timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
                let deadline = timeout.and_then(|timeout| request.since.checked_add(timeout));
                let version = served.version();
                let took = began.elapsed();
                let is_new = request.last_took.replace(took).is_none();
                request.spent += if is_new { Duration::ZERO } else { took };
                return self.block(session, Blocked { request, deadline, tables, version }, is_new, results);
            }
        }
        served.selected += context.selected.get();
        served.copied += context.copied.get();
        if served.selected > MAX_SELECTED || served.copied > MAX_COPIED {
            self.store_and_reply();
        }
    }

    /// Stores all batches, updates monitors, and sends replies.
    pub(crate) fn store_and_reply(&mut self) {
        for served in self.databases.values_mut() {
            for ExecutedTransaction { request, results, changes } in served.store() {
                let schema = served.db.schema();
                if let Some((transaction, changes)) = changes {
                    let mut shared = SharedUpdates::new();
                    for session in self.sessions.values_mut() {
                        session.send_changes(schema, &changes, transaction, &mut shared);
                    }
                }
                let client_session =
                    request.and_then(|(session, id)| Some((self.sessions.get_mut(&session)?, id)));
                if let Some((session, id)) = client_session {
                    session.send_held_changes(|name| (name == schema.name).then_some(schema.as_ref()));
                    session.send(&Message::Reply { result: Json::Array(results), id });
                }
            }
        }
    }

    fn request(&mut self, session: SessionId, method: &str, params: &Json) -> Answer {
        match method {
            "echo" => Ok(params.clone()),
            "list_dbs" => Ok(self.databases.keys().map(|name| Json::from(name.as_str())).collect()),
            "get_schema" => {
                let name = self.database(method, params)?;
                Ok(self.databases.get(&name).map_or(Json::Null, |served| served.db.schema().to_json()))
            }
            "get_server_id" => Ok(self.id.to_string().into()),
            "monitor_cond_change" => self.monitor_change(session, params),
            "monitor_cancel" => self.monitor_cancel(session, params),
            "lock" | "steal" => self.lock(session, method, params),
            "unlock" => self.unlock(session, params),
            "set_db_change_aware" => {
                match params.as_array().map(Vec::as_slice) {
                    Some([Json::Bool(aware)]) => {
                        if let Some(session) = self.sessions.get_mut(&session) {
                            session.change_aware = *aware;
                        }
                        Ok(json!({}))
                    }
                    _ => Err(Error::syntax(params, format!("{method}: true or false parameter expected"))
                        .to_json()),
                }
            }
            "convert" => {
                let name = self.database(method, params)?;
                self.convert(session, &name, params).map_err(|error| error.to_json())
            }
            _ => Err("unknown method".into()),
        }
    }

    fn monitor(
        &mut self,
        session: SessionId,
        monitor_method: MonitorMethod,
        request: (&str, &Json),
        id: Json,
    ) {
        match self.add_monitor(session, monitor_method, request) {
            Ok(result) => self.reply_text(session, Message::reply_text(&result, &id)),
            Err(error) => self.reply(session, id, Err(error)),
        }
    }

    /// Adds a monitor. Returns the reply as text, which may be as long as the database.
    fn add_monitor(
        &mut self,
        session: SessionId,
        monitor_method: MonitorMethod,
        (method, params): (&str, &Json),
    ) -> Result<String, Json> {
        let name = self.database(method, params)?;
        let (Some(served), Some(session)) = (self.databases.get(&name), self.sessions.get_mut(&session))
        else {
            return Ok("null".to_owned());
        };
        let id = params.get(1).unwrap_or(&Json::Null);
        if session.monitors.iter().any(|m| m.id() == id) {
            return Err(Error::syntax(id, "duplicate monitor ID").to_json());
        }
        if session.monitors.len() >= MAX_MONITORS {
            return Err(Error::new("resources exhausted", "too many monitors in one session").to_json());
        }
        let began = Instant::now();
        let is_abandoned = || is_abandoned(Some(session), began);
        let limits = MonitorLimits { conditions: session.conditions_left(), is_abandoned: &is_abandoned };
        let created = Monitor::create(&served.db, monitor_method, params, &limits);
        let (monitor, result) = created.map_err(|e| e.to_json())?;
        session.monitors.push(monitor);
        Ok(result)
    }

    fn monitor_change(&mut self, session: SessionId, params: &Json) -> Answer {
        if params.as_array().is_none_or(|items| items.len() != 3) {
            return Err(Error::syntax(params, "invalid parameters").to_json());
        }
        let Some(session) = self.sessions.get_mut(&session) else { return Ok(Json::Null) };
        let id = params.get(0).cloned().unwrap_or_default();
        let Some(at) = session.monitors.iter().position(|m| *m.id() == id) else {
            return Err(Error::syntax(&id, "unknown monitor session").to_json());
        };
        let databases = &self.databases;
        // Held changes must be sent with the previous conditions.
        session.send_held_changes(|name| databases.get(name).map(|served| served.db.schema().as_ref()));
        let mut monitor = session.monitors.swap_remove(at);
        let others = &session.monitors;
        let taken = |id: &Json| others.iter().any(|m| m.id() == id);
        let began = Instant::now();
        let is_abandoned = || is_abandoned(Some(session), began);
        let limits = MonitorLimits { conditions: session.conditions_left(), is_abandoned: &is_abandoned };
        let changed = match self.databases.get(monitor.database()) {
            Some(served) => monitor.change_conditions(&served.db, params, taken, &limits),
            None => Ok(None),
        };
        session.monitors.push(monitor);
        // Rows that were added or removed must be sent before the reply.
        if let Some(update) = changed.map_err(|e| e.to_json())? {
            session.send_text(update);
        }
        Ok(json!({}))
    }

    fn monitor_cancel(&mut self, session: SessionId, params: &Json) -> Answer {
        let Some([id]) = params.as_array().map(Vec::as_slice) else {
            return Err("invalid parameters".into());
        };
        let Some(session) = self.sessions.get_mut(&session) else { return Ok(Json::Null) };
        let before = session.monitors.len();
        session.monitors.retain(|m| m.id() != id);
        if session.monitors.len() < before { Ok(json!({})) } else { Err("unknown monitor".into()) }
    }

    fn lock(&mut self, session: SessionId, method: &str, params: &Json) -> Answer {
        let name = lock_name(method, params)?;
        let taken = match method {
            "steal" => self.locks.steal(name, session).map(|old_owner| {
                if let Some(old_owner) = old_owner {
                    self.notify_lock(old_owner, "stolen", name);
                }
                true
            }),
            _ => self.locks.lock(name, session),
        };
        let refusal = |error| match error {
            LockError::TooMany => {
                let text = format!("the session has requested {MAX_LOCKS} locks");
                Error::new("resources exhausted", text).to_json()
            }
            LockError::AlreadyRequested | LockError::NotRequested => {
                Error::syntax(params, format!("must issue \"unlock\" before new \"{method}\"")).to_json()
            }
        };
        taken.map(|locked| json!({"locked": locked})).map_err(refusal)
    }

    fn unlock(&mut self, session: SessionId, params: &Json) -> Answer {
        let name = lock_name("unlock", params)?;
        match self.locks.unlock(name, session) {
            Ok(new_owner) => {
                if let Some(new_owner) = new_owner {
                    self.notify_lock(new_owner, "locked", name);
                }
                Ok(json!({}))
            }
            Err(LockError::NotRequested | LockError::AlreadyRequested | LockError::TooMany) => {
                Err(Error::syntax(params, "unlock: \"unlock\" without \"lock\" or \"steal\"").to_json())
            }
        }
    }

    /// Notifies a client that it has got or lost a lock.
    pub(crate) fn notify_lock(&mut self, session: SessionId, event: &str, lock: &str) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.send(&Message::notify(event, json!([lock])));
        }
    }
}

/// Returns whether to cancel a request that has been executed since `began`, because its client has disconnected.
fn is_abandoned(session: Option<&Session>, began: Instant) -> bool {
    session.is_none_or(Session::has_hung_up) && began.elapsed() > HUNG_UP_LIMIT
}

fn lock_name<'a>(method: &str, params: &'a Json) -> Result<&'a str, Json> {
    match params.as_array().map(Vec::as_slice) {
        Some([Json::String(name)]) if name.len() > MAX_LOCK_NAME_LEN => {
            let text = format!("{method}: the name of a lock may have at most {MAX_LOCK_NAME_LEN} bytes");
            Err(Error::new("resources exhausted", text).to_json())
        }
        Some([Json::String(name)]) if is_id(name) => Ok(name),
        _ => Err(Error::syntax(params, format!("{method} request params must be <id>")).to_json()),
    }
}
