//! One client: its stream, what it is owed, and what it is waiting for.
//!
//! A client that reads slowly is not sent every update: while bytes wait for it, changes are merged row by row, and it gets
//! one update for all of them when it has read on. So what it can make the server keep is bounded by the database.

use crate::remotes::RemoteOptions;
use ovsdb::stream::StreamError;
use ovsdb::{Change, Changes, Json, Message, Monitor, Schema, Splitter, Uuid};
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::time::Instant;
use transport::{Action, Loss, Outbox, Reconnect, Stream};
use units::Millis;

static RECONNECT: Module = Module::new("reconnect");
static JSONRPC: Module = Module::new("jsonrpc");
static TLS: Module = Module::new("stream_ssl");
static LIMIT: RateLimit = RateLimit::new(5, 5);

/// The longest message that a client may send, in bytes.
const MAX_MESSAGE_LEN: usize = 64 << 20;
/// A client that leaves so many bytes unread is cut off.
const MAX_BACKLOG_LEN: usize = 256 << 20;
/// While so many bytes are unread, nothing more is taken from a client.
const BUSY_BACKLOG_LEN: usize = 1 << 20;
/// Most monitors of one session.
pub const MAX_MONITORS: usize = 1000;
/// Most transactions of one session that wait for a condition.
pub const MAX_BLOCKED: usize = 1000;
/// Bytes read from one client before the others have their turn.
pub const READ_LEN: usize = 64 << 10;

/// Tells sessions apart; never used twice.
pub type SessionId = u64;

/// A transaction that waits for its condition.
pub struct Blocked {
    /// ID of the request.
    pub id: Json,
    /// The whole request.
    pub params: Json,
    /// When it came in.
    pub since: Instant,
    /// When it gives up.
    pub deadline: Option<Instant>,
}

/// What a client that lags behind has not been told about one database.
struct Held {
    changes: BTreeMap<(usize, Uuid), Change>,
    last: Uuid,
}

/// What monitors of each kind are told of one transaction.
pub type Told = BTreeMap<u128, Option<String>>;

/// One client.
pub struct Session {
    pub stream: Stream,
    /// Probes, and what to say about the end.
    pub link: Reconnect,
    /// The remote that it came by, and how that treats its clients.
    pub remote: String,
    pub options: RemoteOptions,
    splitter: Splitter,
    outbox: Outbox,
    pub monitors: Vec<Monitor>,
    pub blocked: Vec<Blocked>,
    held: BTreeMap<String, Held>,
    /// Knows what to do when databases come, go or change their schema.
    pub change_aware: bool,
    /// More may be there to read than the socket tells.
    pub unread: bool,
    /// Set when the connection is over.
    pub closed: bool,
    loss: Option<Loss>,
}

impl Session {
    /// A session on a connection that is up.
    pub fn new(stream: Stream, link: Reconnect, remote: &str, options: RemoteOptions) -> Session {
        Session {
            stream,
            link,
            remote: remote.to_owned(),
            options,
            splitter: Splitter::new(MAX_MESSAGE_LEN),
            outbox: Outbox::new(),
            monitors: Vec::new(),
            blocked: Vec::new(),
            held: BTreeMap::new(),
            change_aware: false,
            unread: false,
            closed: false,
            loss: None,
        }
    }

    /// Whether bytes wait to be written.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// How many.
    pub fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// Whether the client may be heard: not while it does not read its answers.
    pub fn wants_input(&self) -> bool {
        self.outbox.len() < BUSY_BACKLOG_LEN
    }

    /// Queues a message.
    pub fn send(&mut self, message: &Message) {
        self.send_text(&message.to_string());
    }

    /// Queues a message that is text already.
    pub fn send_text(&mut self, message: &str) {
        self.outbox.push(message.as_bytes());
        if self.outbox.len() > MAX_BACKLOG_LEN {
            runtime::warn_rl!(JSONRPC, LIMIT, "{}: too much unread, disconnecting", self.stream.name());
            self.end(Loss::Dropped);
        }
    }

    /// Tells monitors of a transaction, now or when the client has read what there is. `told` is what other sessions were told
    /// of it.
    pub fn tell(&mut self, schema: &Schema, changes: &Changes, transaction: Uuid, told: &mut Told) {
        let concerned = self.monitors.iter().any(|m| m.database() == schema.name);
        if !concerned {
            return;
        }
        if !self.has_output() && self.held.is_empty() {
            return self.update(schema, changes, transaction, told);
        }
        let fresh = || Held { changes: BTreeMap::new(), last: transaction };
        let held = self.held.entry(schema.name.clone()).or_insert_with(fresh);
        held.last = transaction;
        for change in changes {
            held.changes
                .entry((change.table, change.uuid))
                .and_modify(|known| known.new = change.new.clone())
                .or_insert_with(|| change.clone());
        }
    }

    fn update(&mut self, schema: &Schema, changes: &Changes, transaction: Uuid, told: &mut Told) {
        let mut updates = Vec::new();
        for monitor in self.monitors.iter().filter(|m| m.database() == schema.name) {
            let compose = || monitor.shared_part(schema, changes);
            let own;
            let part = match monitor.kind() {
                Some(kind) => told.entry(kind).or_insert_with(compose),
                None => {
                    own = compose();
                    &own
                }
            };
            updates.extend(part.as_ref().map(|part| monitor.notification(part, transaction)));
        }
        updates.iter().for_each(|update| self.send_text(update));
    }

    /// Whether changes were held back.
    pub fn holds_changes(&self) -> bool {
        !self.held.is_empty()
    }

    /// Sends what was held back about the databases that `schema_of` finds.
    pub fn release<'s>(&mut self, schema_of: impl Fn(&str) -> Option<&'s Schema>) {
        for (database, Held { changes, last }) in std::mem::take(&mut self.held) {
            let Some(schema) = schema_of(&database) else {
                self.held.insert(database, Held { changes, last });
                continue;
            };
            let changes = changes.into_values().filter(|c| c.old.is_some() || c.new.is_some()).collect();
            self.update(schema, &changes, last, &mut Told::new());
        }
    }

    /// Forgets all about a database; the answer lists its monitors.
    pub fn leave(&mut self, database: &str) -> Vec<Json> {
        self.held.remove(database);
        let (gone, rest) =
            std::mem::take(&mut self.monitors).into_iter().partition(|m: &Monitor| m.database() == database);
        self.monitors = rest;
        gone.iter().map(|m| m.id().clone()).collect()
    }

    /// Reads what is there and returns the whole messages.
    pub fn receive(&mut self, now: Millis, buffer: &mut [u8]) -> Vec<Message> {
        self.unread = false;
        match self.stream.read(buffer) {
            Ok(0) => self.end(Loss::Closed),
            Ok(len) => {
                self.link.activity(now);
                // A socket with more to read says so; what TLS has decrypted already does not show there.
                self.unread = len == buffer.len();
                self.splitter.push(buffer.get(..len).unwrap_or_default());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => self.unread = true,
            Err(error) => self.fail(&error),
        }
        let mut messages = Vec::new();
        loop {
            match self.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => return messages,
                Err(error) => {
                    let name = self.stream.name();
                    runtime::warn_rl!(JSONRPC, LIMIT, "{name}: error parsing stream: {error}");
                    self.end(Loss::Error("Protocol error".to_owned()));
                    return messages;
                }
            }
        }
    }

    fn next_message(&mut self) -> Result<Option<Message>, StreamError> {
        let Some(json) = self.splitter.next_value()? else { return Ok(None) };
        Message::from_json(json).map(Some).map_err(|fault| StreamError::Syntax(fault.to_owned()))
    }

    /// Writes as much as the socket takes.
    pub fn flush(&mut self) {
        if self.has_output()
            && !self.closed
            && let Err(error) = self.outbox.flush(&mut self.stream)
        {
            self.fail(&error);
        }
    }

    /// Probes a client that has been silent, and gives up one that stays so.
    pub fn probe(&mut self, now: Millis) {
        match self.link.run(now) {
            Some(Action::Probe) => self.send(&Message::request("echo", Json::Array(Vec::new()), "echo")),
            Some(Action::Disconnect | Action::Connect) => self.closed = true,
            None => {}
        }
        self.link.log_to(&RECONNECT);
    }

    fn fail(&mut self, error: &io::Error) {
        if error.kind() == ErrorKind::InvalidData {
            runtime::warn_rl!(TLS, LIMIT, "{}: {error}", self.stream.name());
            return self.end(Loss::Error("Protocol error".to_owned()));
        }
        self.end(Loss::from(error));
    }

    /// Ends the connection with this turn.
    pub fn end(&mut self, loss: Loss) {
        if !self.closed {
            self.closed = true;
            self.loss = Some(loss);
        }
    }

    /// The connection's state machine, told of the end.
    pub fn into_link(mut self, now: Millis) -> Reconnect {
        if let Some(loss) = self.loss.take() {
            self.link.disconnected(now, loss);
        }
        self.link.log_to(&RECONNECT);
        self.link
    }

    /// Forgets a waiting transaction; true if there was one.
    pub fn cancel(&mut self, id: &Json) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|blocked| blocked.id != *id);
        self.blocked.len() < before
    }
}
