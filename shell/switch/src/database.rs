//! The connection to the database: keeps the replica current, and writes the state of the switch to the database.
//!
//! At most one transaction is in progress. After its reply, the next operations are computed from the state of the
//! switch, so nothing is lost if the server disappears before it replies.

use config::{Desired, DesiredTracker, TouchedByDatabase};
use ovsdb::RowChange;
use ovsdb::operation::Operation;
use ovsdb::replica::{Config, TransactionId, TransactionResult};
use ovsdb::stream::Limits;
use ovsdb::{Message, Replica, Splitter};
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::io::Read;
use transport::{Action, DisconnectReason, Outbox, Reconnect, Stream, Target, Wording};
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

/// Name of the database lock. Only one daemon may act on a database at a time: the daemon that holds this lock.
const DAEMON_LOCK: &str = "ovs_vswitchd";
/// The default port of a database server (RFC 7047 §6).
pub(crate) const OVSDB_PORT: u16 = 6640;
/// The longest message that is accepted, in bytes (1 GiB).
const MESSAGE_MAX: usize = 1 << 30;
/// The most bytes that are read in one turn of the main loop (1 MiB).
const READ_MAX: usize = 1 << 20;

/// The database client.
pub struct DbClient {
    /// The local copy of the database.
    pub replica: Replica,
    /// Derives the desired configuration from the replica.
    tracker: DesiredTracker,
    /// The addresses of the database: one server, or those of a cluster.
    servers: Vec<(String, Target)>,
    /// Index of the next address to try.
    next: usize,
    reconnect: Reconnect,
    connection: Option<Connection>,
    in_flight: Option<TransactionId>,
    /// Operations of the last transaction if it failed or has no reply yet. They are not sent again after a failure,
    /// because the server would refuse them again.
    last_operations: Option<Vec<String>>,
    warned_lock: bool,
    /// Whether a transaction may not have been applied: then all rows have to be compared.
    outcome_unknown: bool,
}

struct Connection {
    stream: Stream,
    splitter: Splitter,
    out: Outbox,
    up: bool,
}

impl DbClient {
    /// Creates a client of the server at `remote` (`unix:…`, `tcp:…`), or of a cluster whose servers are separated by
    /// commas.
    pub fn new(remote: &str, now: Millis) -> Result<DbClient, String> {
        let server = |text: &str| Target::parse(text, OVSDB_PORT).map(|target| (text.to_owned(), target));
        let names = remote.split(',').map(str::trim).filter(|name| !name.is_empty());
        let servers: Vec<_> = names.map(server).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let (first, _) = servers.first().ok_or_else(|| format!("{remote}: no server is named"))?;
        let is_cluster = servers.len() > 1;
        let lock = Some(DAEMON_LOCK.to_owned());
        let config = Config { lock, leader_only: is_cluster, ..Config::open_vswitch(&TABLES) };
        let mut reconnect = Reconnect::new(first, Wording::Ovsdb, now);
        if servers.iter().all(|(_, target)| matches!(target, Target::Unix(_))) {
            // Over a local socket the kernel reports when the server is gone, so no probes are needed.
            reconnect.set_probe_interval(0);
        }
        if is_cluster {
            // In a cluster, the next server is tried immediately after one server failed.
            reconnect.set_max_backoff(0);
        }
        Ok(DbClient {
            replica: Replica::new(config),
            tracker: DesiredTracker::default(),
            servers,
            next: 0,
            reconnect,
            connection: None,
            in_flight: None,
            last_operations: None,
            warned_lock: false,
            outcome_unknown: true,
        })
    }

    /// One turn: connects, reads, writes. Returns whether the replica changed.
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

    /// The desired configuration, what may have changed in it since the last call, and the rows that changed.
    pub fn follow(&mut self) -> (Desired, TouchedByDatabase, Vec<RowChange>) {
        let changes = self.replica.take_changes();
        let touched = self.tracker.follow(&self.replica, &changes);
        (self.tracker.state().clone(), touched, changes)
    }

    fn connect(&mut self, now: Millis) {
        let Some((_, target)) = self.servers.get(self.next) else { return };
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

    /// Closes the connection; the next attempt uses the next address.
    fn drop_connection(&mut self) {
        self.connection = None;
        self.replica.disconnected();
        self.reconnect.log_to(&LOG);
        self.next = (self.next + 1) % self.servers.len();
        if let Some((name, _)) = self.servers.get(self.next).filter(|_| self.servers.len() > 1) {
            self.reconnect.set_name(name);
        }
    }

    /// Completes a connection attempt, reads and applies messages, and writes queued messages.
    fn exchange(&mut self, now: Millis) -> Result<(), DisconnectReason> {
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
                Ok(0) => return Err(DisconnectReason::Closed),
                Ok(n) => {
                    total += n;
                    c.splitter.push(&buffer[..n]);
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(DisconnectReason::from(&e)),
            }
        }
        if total > 0 {
            self.reconnect.activity(now);
        }
        while let Some(json) = c.splitter.next_value().map_err(|e| DisconnectReason::Error(e.to_string()))? {
            let message = Message::from_json(json).map_err(|e| DisconnectReason::Error(e.to_owned()))?;
            self.replica.receive(message).map_err(|e| DisconnectReason::Error(e.to_string()))?;
        }
        while let Some(message) = self.replica.poll_send() {
            c.out.push(message.to_json().to_string().as_bytes());
        }
        c.out.flush(&mut c.stream).map_err(|e| DisconnectReason::from(&e))
    }

    pub(crate) fn take_results(&mut self) {
        while let Some((id, result)) = self.replica.poll_result() {
            if self.in_flight != Some(id) {
                continue;
            }
            self.in_flight = None;
            self.outcome_unknown |= !matches!(result, TransactionResult::Success(_));
            match result {
                TransactionResult::Failed(error) => {
                    runtime::err!(BRIDGE, "the database refuses a status update: {error}");
                }
                // The next comparison finds the columns that are still to be written.
                _ => self.last_operations = None,
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

    /// Whether the replica was complete at least once, and this process has the lock or is not connected at the moment.
    pub fn is_ready(&self) -> bool {
        self.replica.has_ever_synced() && (self.replica.has_lock() || !self.replica.is_synced())
    }

    /// Whether a transaction may be sent.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.replica.is_synced() && self.replica.has_lock()
    }

    /// Whether a transaction since the last call may not have been applied. If so, the caller compares all rows.
    pub fn take_outcome_unknown(&mut self) -> bool {
        std::mem::take(&mut self.outcome_unknown)
    }

    /// Sends a transaction, unless the same operations failed last.
    pub fn transact(&mut self, operations: &[Operation]) {
        let text: Vec<String> = operations.iter().map(|o| o.to_json().to_string()).collect();
        if operations.is_empty() {
            return;
        }
        if self.last_operations.as_ref() == Some(&text) {
            self.outcome_unknown = true;
            return;
        }
        self.in_flight = self.replica.transact(operations);
        self.last_operations = Some(text);
        if let Some(c) = &mut self.connection {
            while let Some(message) = self.replica.poll_send() {
                c.out.push(message.to_json().to_string().as_bytes());
            }
            // If the write fails, the next read fails, too, and closes the connection.
            let _ = c.out.flush(&mut c.stream);
        }
    }

    /// Adds the socket and the deadline that end the main loop's sleep.
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
