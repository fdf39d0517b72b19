//! The connection to the database: keeps the replica current, and writes back what the switch found out.
//!
//! One transaction is in flight at a time. Its operations are made anew from the state of the switch whenever the last
//! one has been answered, so nothing needs to be remembered when the server goes away in the middle.

use config::{Desired, Follower, Touched};
use ovsdb::Change;
use ovsdb::operation::Operation;
use ovsdb::replica::{Config, TransactionId, TransactionResult};
use ovsdb::stream::Limits;
use ovsdb::{Message, Replica, Splitter};
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::io::Read;
use transport::{Action, Loss, Outbox, Reconnect, Stream, Target, Wording};
use units::Millis;

static LOG: Module = Module::new("reconnect");
static BRIDGE: Module = Module::new("bridge");
static LIMIT: RateLimit = RateLimit::new(5, 10);

/// The tables that the switch reads and writes.
const TABLES: [&str; 19] = [
    "Open_vSwitch",
    "Bridge",
    "Port",
    "Interface",
    "Controller",
    "Manager",
    "Flow_Table",
    "QoS",
    "Queue",
    "Mirror",
    "NetFlow",
    "sFlow",
    "IPFIX",
    "AutoAttach",
    "SSL",
    "Datapath",
    "CT_Zone",
    "CT_Timeout_Policy",
    "Flow_Sample_Collector_Set",
];

/// Only one daemon may act on a database at a time; this lock says who.
const DAEMON_LOCK: &str = "ovs_vswitchd";
/// The default port of a database server (RFC 7047 §6).
const PORT: u16 = 6640;
/// No server of ours sends a longer message.
const MESSAGE_MAX: usize = 1 << 30;
/// So much is read in one turn of the main loop.
const READ_MAX: usize = 1 << 20;

/// See the module.
pub struct DbClient {
    /// The copy.
    pub replica: Replica,
    /// What it describes.
    follower: Follower,
    /// Where the database is: one server, or those of a cluster.
    places: Vec<(String, Target)>,
    /// The next of them to try.
    next: usize,
    reconnect: Reconnect,
    connection: Option<Connection>,
    in_flight: Option<TransactionId>,
    /// The last transaction failed; its operations are not repeated before something changes.
    refused: Option<Vec<String>>,
    warned_lock: bool,
    /// Something that was sent may not be in the database.
    unsure: bool,
}

struct Connection {
    stream: Stream,
    splitter: Splitter,
    out: Outbox,
    up: bool,
}

impl DbClient {
    /// A client of `remote` (`unix:…`, `tcp:…`), or of the servers of a cluster with commas between.
    pub fn new(remote: &str, now: Millis) -> Result<DbClient, String> {
        let place = |text: &str| Target::parse(text, PORT).map(|target| (text.to_owned(), target));
        let names = remote.split(',').map(str::trim).filter(|name| !name.is_empty());
        let places: Vec<_> = names.map(place).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let (first, _) = places.first().ok_or_else(|| format!("{remote}: no server is named"))?;
        let several = places.len() > 1;
        let lock = Some(DAEMON_LOCK.to_owned());
        let config = Config { lock, leader_only: several, ..Config::open_vswitch(&TABLES) };
        let mut reconnect = Reconnect::new(first, Wording::Ovsdb, now);
        if places.iter().all(|(_, target)| matches!(target, Target::Unix(_))) {
            // The kernel tells when the other end is gone.
            reconnect.set_probe_interval(0);
        }
        if several {
            // That one server will not do says nothing about the next.
            reconnect.set_max_backoff(0);
        }
        Ok(DbClient {
            replica: Replica::new(config),
            follower: Follower::default(),
            places,
            next: 0,
            reconnect,
            connection: None,
            in_flight: None,
            refused: None,
            warned_lock: false,
            unsure: true,
        })
    }

    /// One turn: connects, reads, writes. True if the copy changed.
    pub fn run(&mut self, now: Millis) -> bool {
        let before = self.replica.seqno();
        match self.reconnect.run(now) {
            Some(Action::Connect) => self.connect(now),
            Some(Action::Disconnect) => self.drop_connection(),
            Some(Action::Probe) => self.replica.probe(),
            None => {}
        }
        if let Err(loss) = self.exchange(now) {
            self.reconnect.disconnected(now, loss);
            self.drop_connection();
        }
        self.take_results();
        self.reconnect.log_to(&LOG);
        self.watch_lock();
        self.replica.seqno() != before
    }

    /// What the copy describes now, where that may be something else than at the last call, and the rows that changed since.
    pub fn follow(&mut self) -> (Desired, Touched, Vec<Change>) {
        let changes = self.replica.take_changes();
        let touched = self.follower.follow(&self.replica, &changes);
        (self.follower.state().clone(), touched, changes)
    }

    fn connect(&mut self, now: Millis) {
        let Some((_, target)) = self.places.get(self.next) else { return };
        match Stream::connect(target) {
            Ok(stream) => {
                let splitter = Splitter::new(Limits::of_bytes(MESSAGE_MAX));
                self.connection = Some(Connection { stream, splitter, out: Outbox::new(), up: false });
            }
            Err(e) => {
                self.reconnect.connect_failed(now, &e);
                self.drop_connection();
            }
        }
    }

    /// The next attempt goes to the next place.
    fn drop_connection(&mut self) {
        self.connection = None;
        self.replica.disconnected();
        self.reconnect.log_to(&LOG);
        self.next = (self.next + 1) % self.places.len();
        if let Some((name, _)) = self.places.get(self.next).filter(|_| self.places.len() > 1) {
            self.reconnect.set_name(name);
        }
    }

    fn exchange(&mut self, now: Millis) -> Result<(), Loss> {
        let Some(c) = &mut self.connection else { return Ok(()) };
        if !c.up {
            match c.stream.connect_progress() {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    c.up = true;
                    self.reconnect.connected(now);
                    self.replica.connected();
                }
                Err(e) => {
                    self.reconnect.connect_failed(now, &e);
                    self.drop_connection();
                    return Ok(());
                }
            }
        }
        let mut buffer = [0; 64 * 1024];
        let mut total = 0;
        while total < READ_MAX {
            match c.stream.read(&mut buffer) {
                Ok(0) => return Err(Loss::Closed),
                Ok(n) => {
                    total += n;
                    c.splitter.push(&buffer[..n]);
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(Loss::from(&e)),
            }
        }
        if total > 0 {
            self.reconnect.activity(now);
        }
        while let Some(json) = c.splitter.next_value().map_err(|e| Loss::Error(e.to_string()))? {
            let message = Message::from_json(json).map_err(|e| Loss::Error(e.to_owned()))?;
            self.replica.receive(message).map_err(|e| Loss::Error(e.to_string()))?;
        }
        while let Some(message) = self.replica.poll_send() {
            c.out.push(message.to_json().to_string().as_bytes());
        }
        c.out.flush(&mut c.stream).map_err(|e| Loss::from(&e))
    }

    pub(crate) fn take_results(&mut self) {
        while let Some((id, result)) = self.replica.poll_result() {
            if self.in_flight != Some(id) {
                continue;
            }
            self.in_flight = None;
            self.unsure |= !matches!(result, TransactionResult::Success(_));
            match result {
                TransactionResult::Failed(error) => {
                    runtime::err!(BRIDGE, "the database refuses a status update: {error}");
                }
                // What is still to be written shows itself in the next comparison.
                _ => self.refused = None,
            }
        }
    }

    fn watch_lock(&mut self) {
        let denied = self.replica.is_synced() && !self.replica.has_lock();
        if denied && !self.warned_lock {
            runtime::log_rl!(
                BRIDGE,
                LIMIT,
                runtime::log::Level::Err,
                "another ovs-vswitchd process is running, disabling this process (pid {}) until it goes away",
                std::process::id()
            );
        }
        self.warned_lock = denied;
    }

    /// The copy is complete, and this process is the one that may act on it.
    pub fn is_ready(&self) -> bool {
        self.replica.has_ever_synced() && (self.replica.has_lock() || !self.replica.is_synced())
    }

    /// A transaction may be sent.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.replica.is_synced() && self.replica.has_lock()
    }

    /// Whether something that was sent since the last call may not be in the database: all is to be compared with it.
    pub fn take_unsure(&mut self) -> bool {
        std::mem::take(&mut self.unsure)
    }

    /// Sends a transaction, unless it is the one that was refused last.
    pub fn transact(&mut self, operations: &[Operation]) {
        let text: Vec<String> = operations.iter().map(|o| o.to_json().to_string()).collect();
        if operations.is_empty() {
            return;
        }
        if self.refused.as_ref() == Some(&text) {
            self.unsure = true;
            return;
        }
        self.in_flight = self.replica.transact(operations);
        self.refused = Some(text);
        if let Some(c) = &mut self.connection {
            while let Some(message) = self.replica.poll_send() {
                c.out.push(message.to_json().to_string().as_bytes());
            }
            // A failure shows itself in the next read.
            let _ = c.out.flush(&mut c.stream);
        }
    }

    /// What to wait for.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        if let Some(c) = &self.connection {
            let interest = match c.up {
                true if c.out.is_empty() => Interest::Read,
                true => Interest::Both,
                false if c.stream.connect_waits_for_write() => Interest::Write,
                false => Interest::Read,
            };
            set.fd(&c.stream, interest);
        }
        if let Some(deadline) = self.reconnect.deadline(now) {
            set.deadline(deadline);
        }
    }
}
