//! A state machine that decides when to attempt, probe and drop a connection. It uses no sockets and reads no clock.
//!
//! The owner calls `run` in every turn of its loop, after it has read all input and called `activity`; otherwise, after
//! a delayed turn, a live peer would look dead. The owner performs the returned `Action` and reports its result.
//! Messages are collected as `LogLine`s, which the owner logs with `log_to`. Texts and timing are those of Open vSwitch 3.7;
//! its code for OVSDB and that for OpenFlow have different texts for some messages (`Wording`).

use runtime::log::Level;
use runtime::{Module, RateLimit};
use std::io;
use units::Millis;

/// Limits the lines about connections that peers open.
static LIMIT: RateLimit = RateLimit::new(60, 60);

const MIN_BACKOFF_MS: u64 = 1_000;
const MAX_BACKOFF_MS: u64 = 8_000;
const PROBE_INTERVAL_MS: u64 = 5_000;
const MIN_CONNECT_MS: u64 = 1_000;
/// Maximum number of stored lines; one turn produces fewer. It limits the memory if the owner never logs.
const MAX_LINES: usize = 32;

/// The part of Open vSwitch whose messages are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// Log module `reconnect`.
    Ovsdb,
    /// Log module `rconn`.
    OpenFlow,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No attempt follows: the connection is disabled, or the peer opened it and it has ended.
    Void,
    /// Waiting before the next attempt.
    Backoff,
    /// Attempting to connect.
    Connecting,
    /// Connected.
    Active,
    /// Connected; a probe has been sent and not answered yet.
    Idle,
}

impl State {
    /// The state's name, as in the `status` column of tables Controller and Manager.
    pub fn name(self) -> &'static str {
        match self {
            State::Void => "VOID",
            State::Backoff => "BACKOFF",
            State::Connecting => "CONNECTING",
            State::Active => "ACTIVE",
            State::Idle => "IDLE",
        }
    }
}

/// What the owner must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start to connect, and later call `connected` or `connect_failed`.
    Connect,
    /// Drop the connection or the attempt. The owner does not report a result.
    Disconnect,
    /// Send a request that the peer must answer.
    Probe,
}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// An error, with its text.
    Error(String),
    /// The peer closed it.
    Closed,
    /// This process dropped it.
    Dropped,
}

impl From<&io::Error> for DisconnectReason {
    fn from(error: &io::Error) -> DisconnectReason {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => DisconnectReason::Closed,
            _ => DisconnectReason::Error(runtime::error_text(error)),
        }
    }
}

/// A log message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: Level,
    /// The text, including the connection's name.
    pub text: String,
}

/// The state machine of one connection.
#[derive(Debug)]
pub struct Reconnect {
    name: String,
    wording: Wording,
    /// Whether to connect again after the connection ends; false if the peer opened it.
    retry: bool,
    state: State,
    entered_at: Millis,
    /// The current wait between attempts. This field and the next three are in ms.
    backoff: u64,
    min_backoff: u64,
    max_backoff: u64,
    probe_interval: u64,
    last_activity: Millis,
    last_connected: Option<Millis>,
    last_disconnected: Option<Millis>,
    last_error: Option<String>,
    reconnect_requested: bool,
    attempts: u64,
    successes: u64,
    lines: Vec<LogLine>,
}

impl Reconnect {
    /// Creates a connection whose first attempt is due at once.
    pub fn new(name: impl Into<String>, wording: Wording, now: Millis) -> Reconnect {
        Reconnect {
            name: name.into(),
            wording,
            retry: true,
            state: State::Backoff,
            entered_at: now,
            backoff: 0,
            min_backoff: MIN_BACKOFF_MS,
            max_backoff: MAX_BACKOFF_MS,
            probe_interval: PROBE_INTERVAL_MS,
            last_activity: now,
            last_connected: None,
            last_disconnected: None,
            last_error: None,
            reconnect_requested: false,
            attempts: 0,
            successes: 0,
            lines: Vec::new(),
        }
    }

    /// Creates a connection that the peer opened. It counts as connected only after the peer's hello message; the owner then
    /// calls `connected`. Until then the time limit of an attempt applies.
    pub fn accepted(name: impl Into<String>, wording: Wording, now: Millis) -> Reconnect {
        let mut r = Reconnect { retry: false, ..Reconnect::new(name, wording, now) };
        r.enter(State::Connecting, now);
        r
    }

    /// Sets the idle time before a probe, in ms. It is also the time limit for the answer. 0 disables probes.
    pub fn set_probe_interval(&mut self, ms: u64) {
        self.probe_interval = ms;
    }

    /// Sets the maximum wait between attempts, in ms. It is at least the minimum wait, which is one second.
    pub fn set_max_backoff(&mut self, ms: u64) {
        self.max_backoff = ms.max(self.min_backoff);
        if self.state == State::Backoff {
            self.backoff = self.backoff.min(self.max_backoff);
        }
    }

    /// Returns the action that is due now.
    pub fn run(&mut self, now: Millis) -> Option<Action> {
        if self.reconnect_requested {
            self.reconnect_requested = false;
            self.disconnect_by_force(now);
            return Some(Action::Disconnect);
        }
        if now < self.deadline(now)? {
            return None;
        }
        match self.state {
            State::Void => None,
            State::Backoff => {
                self.enter_connecting(now);
                Some(Action::Connect)
            }
            State::Connecting => {
                self.attempt_failed(now, None, Level::Info);
                Some(Action::Disconnect)
            }
            State::Active => {
                let idle = now.0.saturating_sub(self.last_activity.0.max(self.entered_at.0));
                let idle = match self.wording {
                    Wording::Ovsdb => format!("{idle} ms"),
                    Wording::OpenFlow => format!("{} seconds", idle / 1000),
                };
                self.log(Level::Dbg, &format!("idle {idle}, sending inactivity probe"));
                self.enter(State::Idle, now);
                Some(Action::Probe)
            }
            State::Idle => {
                let waited = self.seconds(now.0.saturating_sub(self.entered_at.0));
                let text = format!("no response to inactivity probe after {waited} seconds, disconnecting");
                self.log(Level::Err, &text);
                if self.wording == Wording::Ovsdb {
                    self.log(self.default_level(), "connection dropped");
                }
                self.last_error = Some("Connection timed out".into());
                self.end_connection(now);
                Some(Action::Disconnect)
            }
        }
    }

    /// The time at which `run` must be called next, unless something happens earlier.
    pub fn deadline(&self, now: Millis) -> Option<Millis> {
        if self.reconnect_requested {
            return Some(now);
        }
        let after = |from: Millis, ms: u64| Some(Millis(from.0.saturating_add(ms)));
        match self.state {
            State::Void => None,
            State::Backoff => after(self.entered_at, self.backoff),
            State::Connecting => after(self.entered_at, self.backoff.max(MIN_CONNECT_MS)),
            State::Active | State::Idle if self.probe_interval == 0 => None,
            State::Active => after(self.entered_at.max(self.last_activity), self.probe_interval),
            State::Idle => after(self.entered_at, self.probe_interval),
        }
    }

    /// Reports that the attempt succeeded.
    pub fn connected(&mut self, now: Millis) {
        if self.is_connected() {
            return;
        }
        if self.retry && self.state != State::Connecting {
            self.enter_connecting(now);
        }
        self.log(self.default_level(), "connected");
        self.enter(State::Active, now);
        self.last_connected = Some(now);
        self.last_activity = now;
        self.last_error = None;
        self.successes += 1;
    }

    /// Reports that the attempt failed.
    pub fn connect_failed(&mut self, now: Millis, error: &io::Error) {
        self.attempt_ended(now, error, Level::Info);
    }

    /// As [`connect_failed`](Self::connect_failed), for an attempt that fails when it is started. As in Open vSwitch, the log line of an
    /// OpenFlow connection is then a warning.
    pub fn start_failed(&mut self, now: Millis, error: &io::Error) {
        let level = if self.wording == Wording::OpenFlow { Level::Warn } else { Level::Info };
        self.attempt_ended(now, error, level);
    }

    fn attempt_ended(&mut self, now: Millis, error: &io::Error, level: Level) {
        if self.state == State::Backoff {
            self.enter_connecting(now);
        }
        if self.state == State::Connecting {
            self.attempt_failed(now, Some(runtime::error_text(error)), level);
        }
    }

    /// Reports that the connection or the attempt ended.
    pub fn disconnected(&mut self, now: Millis, disconnect_reason: impl Into<DisconnectReason>) {
        let disconnect_reason = disconnect_reason.into();
        self.reconnect_requested = false;
        match self.state {
            State::Void | State::Backoff => {}
            State::Connecting => {
                let error = match disconnect_reason {
                    DisconnectReason::Error(text) => Some(text),
                    DisconnectReason::Closed => Some("End of file".into()),
                    DisconnectReason::Dropped => None,
                };
                self.attempt_failed(now, error, Level::Info);
            }
            State::Active | State::Idle => {
                match &disconnect_reason {
                    DisconnectReason::Error(e) => self.log(Level::Warn, &format!("connection dropped ({e})")),
                    DisconnectReason::Closed => self.log(self.default_level(), "connection closed by peer"),
                    DisconnectReason::Dropped => self.log(self.default_level(), "connection dropped"),
                }
                self.last_error = match disconnect_reason {
                    DisconnectReason::Error(text) => Some(text),
                    DisconnectReason::Closed => Some("End of file".into()),
                    DisconnectReason::Dropped => None,
                };
                self.end_connection(now);
            }
        }
    }

    /// Reports that data arrived from the peer.
    pub fn activity(&mut self, now: Millis) {
        if self.state == State::Idle {
            self.enter(State::Active, now);
        }
        self.last_activity = now;
    }

    /// Makes the next `run` disconnect. The connection is then attempted again.
    pub fn force_reconnect(&mut self) {
        self.reconnect_requested = matches!(self.state, State::Connecting | State::Active | State::Idle);
    }

    /// Disables the connection. The owner must drop it.
    pub fn disable(&mut self, now: Millis) {
        if self.is_connected() {
            self.last_disconnected = Some(now);
        }
        self.reconnect_requested = false;
        self.enter(State::Void, now);
    }

    /// Enables a disabled connection.
    pub fn enable(&mut self, now: Millis) {
        if self.state == State::Void && self.retry {
            self.backoff = 0;
            self.enter(State::Backoff, now);
        }
    }

    /// Changes the connection's name, for example when its target changes.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_owned();
    }

    /// The connection's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns whether the connection is established.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Active | State::Idle)
    }

    /// The current wait between attempts, in ms.
    pub fn backoff_ms(&self) -> u64 {
        self.backoff
    }

    /// Number of attempts.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Number of successful attempts.
    pub fn successes(&self) -> u64 {
        self.successes
    }

    /// Whole seconds since the connection was last established.
    pub fn sec_since_connect(&self, now: Millis) -> Option<u64> {
        self.last_connected.map(|t| now.0.saturating_sub(t.0) / 1000)
    }

    /// Whole seconds since the connection last ended.
    pub fn sec_since_disconnect(&self, now: Millis) -> Option<u64> {
        self.last_disconnected.map(|t| now.0.saturating_sub(t.0) / 1000)
    }

    /// The error that ended the last connection or attempt. `None` while connected, and after a connection that this process
    /// dropped.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Takes the messages since the last call.
    pub fn take_lines(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.lines)
    }

    /// Logs the messages since the last call.
    pub fn log_to(&mut self, module: &Module) {
        for line in self.lines.drain(..) {
            // Peers can open connections at any rate, so the log lines about these are rate-limited.
            match self.retry {
                true => module.log(line.level, format_args!("{}", line.text)),
                false => module.log_limited(&LIMIT, line.level, format_args!("{}", line.text)),
            }
        }
    }

    fn log(&mut self, level: Level, text: &str) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(LogLine { level, text: format!("{}: {text}", self.name) });
        }
    }

    /// The level of ordinary events. It is lower for connections that peers open, because these change often.
    fn default_level(&self) -> Level {
        if self.retry { Level::Info } else { Level::Dbg }
    }

    fn enter(&mut self, state: State, now: Millis) {
        self.state = state;
        self.entered_at = now;
        self.log(Level::Dbg, &format!("entering {}", state.name()));
    }

    fn enter_connecting(&mut self, now: Millis) {
        if self.logs_attempts() {
            self.log(Level::Info, "connecting...");
        }
        self.attempts += 1;
        self.enter(State::Connecting, now);
    }

    /// Returns whether attempts are logged. At the maximum wait they are not, because each would repeat the same lines.
    fn logs_attempts(&self) -> bool {
        self.backoff < self.max_backoff
    }

    /// Ends an attempt. Without an error, it timed out.
    fn attempt_failed(&mut self, now: Millis, error: Option<String>, level: Level) {
        if self.logs_attempts() {
            let text = match (self.wording, &error) {
                (Wording::Ovsdb, Some(e)) => format!("connection attempt failed ({e})"),
                (Wording::Ovsdb, None) => "connection attempt timed out".into(),
                (Wording::OpenFlow, Some(e)) => format!("connection failed ({e})"),
                (Wording::OpenFlow, None) => "connection timed out".into(),
            };
            self.log(level, &text);
        }
        self.last_error = Some(error.unwrap_or_else(|| "Connection timed out".into()));
        self.back_off(now, false);
    }

    fn disconnect_by_force(&mut self, now: Millis) {
        let text = match self.wording {
            Wording::Ovsdb => "connection dropped",
            Wording::OpenFlow => "disconnecting",
        };
        self.log(self.default_level(), text);
        self.last_error = None;
        if self.is_connected() {
            self.end_connection(now);
        } else {
            self.back_off(now, false);
        }
    }

    fn end_connection(&mut self, now: Millis) {
        self.last_disconnected = Some(now);
        let since = self.last_connected.unwrap_or(now);
        let lasted = self.last_activity.0.saturating_sub(since.0) >= self.backoff;
        self.back_off(now, lasted);
    }

    /// Starts the wait before the next attempt. `reset`: the connection lasted long enough to start again at the minimum wait.
    fn back_off(&mut self, now: Millis, reset: bool) {
        if !self.retry {
            self.enter(State::Void, now);
            return;
        }
        if reset || self.backoff < self.min_backoff {
            self.backoff = self.min_backoff;
        } else if self.backoff < self.max_backoff / 2 {
            self.backoff *= 2;
            let text = format!("waiting {} seconds before reconnect", self.seconds(self.backoff));
            self.log(Level::Info, &text);
        } else {
            if self.logs_attempts() {
                let what = match self.wording {
                    Wording::Ovsdb => "reconnect",
                    Wording::OpenFlow => "retry connections",
                };
                let text = format!("continuing to {what} in the background but suppressing further logging");
                self.log(Level::Info, &text);
            }
            self.backoff = self.max_backoff;
        }
        self.enter(State::Backoff, now);
    }

    fn seconds(&self, ms: u64) -> String {
        match self.wording {
            Wording::OpenFlow => (ms / 1000).to_string(),
            Wording::Ovsdb => three_digits(ms),
        }
    }
}

/// Formats milliseconds as seconds with at most three significant digits, like `%.3g`.
fn three_digits(ms: u64) -> String {
    let decimals = match ms {
        0..1_000 => 3,
        1_000..10_000 => 2,
        10_000..100_000 => 1,
        _ => 0,
    };
    let text = format!("{:.decimals$}", ms as f64 / 1000.0);
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests;
