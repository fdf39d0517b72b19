//! When an active connection is tried, probed and given up: a state machine that knows
//! nothing of sockets and is told the time.
//!
//! The owner calls `run` in every turn of its loop, after it has read what arrived (`activity`),
//! so that a late turn does not take a live peer for a dead one. It does what the returned
//! `Action` says and reports how that went. Messages are collected as `Line`s, to be logged
//! by the owner with `log_to`; they are, like the timing, those of Open vSwitch 3.7, whose
//! OVSDB and OpenFlow sides put some things differently (`Wording`).

use runtime::Module;
use runtime::log::Level;
use std::io;
use units::Millis;

const MIN_BACKOFF_MS: u64 = 1_000;
const MAX_BACKOFF_MS: u64 = 8_000;
const PROBE_INTERVAL_MS: u64 = 5_000;
const MIN_CONNECT_MS: u64 = 1_000;
/// More than one turn can say; an owner that never logs keeps no more than these.
const MAX_LINES: usize = 32;

/// Which half of Open vSwitch the messages follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// Log module `reconnect`.
    Ovsdb,
    /// Log module `rconn`.
    OpenFlow,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not wanted.
    Void,
    /// Waits before the next attempt.
    Backoff,
    /// An attempt is under way.
    Connecting,
    /// Connected.
    Active,
    /// Connected; a probe awaits its answer.
    Idle,
}

impl State {
    /// As in the `status` of the database's Controller and Manager rows.
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

/// What the owner is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start to connect; then tell `connected` or `connect_failed`.
    Connect,
    /// Drop the connection or the attempt. There is nothing to report back.
    Disconnect,
    /// Send something that the peer must answer.
    Probe,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// With an error; the system's text for it.
    Error(String),
    /// The peer closed it.
    Closed,
    /// For no reason that the system has a word for.
    Dropped,
}

impl From<&io::Error> for Loss {
    fn from(error: &io::Error) -> Loss {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Loss::Closed,
            _ => Loss::Error(runtime::error_text(error)),
        }
    }
}

/// A message for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How much it matters.
    pub level: Level,
    /// With the connection's name.
    pub text: String,
}

/// The state machine of one connection.
#[derive(Debug)]
pub struct Reconnect {
    name: String,
    wording: Wording,
    /// False for a connection that the peer made: it ends for good.
    retry: bool,
    state: State,
    entered: Millis,
    backoff: u64,
    min_backoff: u64,
    max_backoff: u64,
    probe_interval: u64,
    last_activity: Millis,
    last_connected: Option<Millis>,
    last_disconnected: Option<Millis>,
    last_error: Option<String>,
    force: bool,
    attempts: u64,
    successes: u64,
    lines: Vec<Line>,
}

impl Reconnect {
    /// A connection that is to be made at once.
    pub fn new(name: impl Into<String>, wording: Wording, now: Millis) -> Reconnect {
        Reconnect {
            name: name.into(),
            wording,
            retry: true,
            state: State::Backoff,
            entered: now,
            backoff: 0,
            min_backoff: MIN_BACKOFF_MS,
            max_backoff: MAX_BACKOFF_MS,
            probe_interval: PROBE_INTERVAL_MS,
            last_activity: now,
            last_connected: None,
            last_disconnected: None,
            last_error: None,
            force: false,
            attempts: 0,
            successes: 0,
            lines: Vec::new(),
        }
    }

    /// A connection that the peer made and that is not up before it has said hello: `connected` tells. It has as long
    /// for that as an attempt of ours.
    pub fn accepted(name: impl Into<String>, wording: Wording, now: Millis) -> Reconnect {
        let mut r = Reconnect { retry: false, ..Reconnect::new(name, wording, now) };
        r.enter(State::Connecting, now);
        r
    }

    /// Sets the idle time before a probe, and before its answer is overdue; 0 is never.
    pub fn set_probe_interval(&mut self, ms: u64) {
        self.probe_interval = ms;
    }

    /// Sets the longest wait between attempts (at least the shortest, one second).
    pub fn set_max_backoff(&mut self, ms: u64) {
        self.max_backoff = ms.max(self.min_backoff);
        if self.state == State::Backoff {
            self.backoff = self.backoff.min(self.max_backoff);
        }
    }

    /// What is due now.
    pub fn run(&mut self, now: Millis) -> Option<Action> {
        if self.force {
            self.force = false;
            self.lose_by_force(now);
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
                self.attempt_lost(now, None);
                Some(Action::Disconnect)
            }
            State::Active => {
                let idle = now.0.saturating_sub(self.last_activity.0.max(self.entered.0));
                let idle = match self.wording {
                    Wording::Ovsdb => format!("{idle} ms"),
                    Wording::OpenFlow => format!("{} seconds", idle / 1000),
                };
                self.say(Level::Dbg, &format!("idle {idle}, sending inactivity probe"));
                self.enter(State::Idle, now);
                Some(Action::Probe)
            }
            State::Idle => {
                let waited = self.seconds(now.0.saturating_sub(self.entered.0));
                let text = format!("no response to inactivity probe after {waited} seconds, disconnecting");
                self.say(Level::Err, &text);
                if self.wording == Wording::Ovsdb {
                    self.say(self.usual(), "connection dropped");
                }
                self.last_error = Some("Connection timed out".into());
                self.end_connection(now);
                Some(Action::Disconnect)
            }
        }
    }

    /// When to call `run` next, if nothing happens before.
    pub fn deadline(&self, now: Millis) -> Option<Millis> {
        if self.force {
            return Some(now);
        }
        let after = |from: Millis, ms: u64| Some(Millis(from.0.saturating_add(ms)));
        match self.state {
            State::Void => None,
            State::Backoff => after(self.entered, self.backoff),
            State::Connecting => after(self.entered, self.backoff.max(MIN_CONNECT_MS)),
            State::Active | State::Idle if self.probe_interval == 0 => None,
            State::Active => after(self.entered.max(self.last_activity), self.probe_interval),
            State::Idle => after(self.entered, self.probe_interval),
        }
    }

    /// The attempt succeeded.
    pub fn connected(&mut self, now: Millis) {
        if self.is_connected() {
            return;
        }
        if self.retry && self.state != State::Connecting {
            self.enter_connecting(now);
        }
        self.say(self.usual(), "connected");
        self.enter(State::Active, now);
        self.last_connected = Some(now);
        self.last_activity = now;
        self.last_error = None;
        self.successes += 1;
    }

    /// The attempt failed.
    pub fn connect_failed(&mut self, now: Millis, error: &io::Error) {
        if self.state == State::Backoff {
            self.enter_connecting(now);
        }
        if self.state == State::Connecting {
            self.attempt_lost(now, Some(runtime::error_text(error)));
        }
    }

    /// The connection, or the attempt, has ended.
    pub fn disconnected(&mut self, now: Millis, loss: impl Into<Loss>) {
        let loss = loss.into();
        self.force = false;
        match self.state {
            State::Void | State::Backoff => {}
            State::Connecting => {
                let error = match loss {
                    Loss::Error(text) => Some(text),
                    Loss::Closed => Some("End of file".into()),
                    Loss::Dropped => None,
                };
                self.attempt_lost(now, error);
            }
            State::Active | State::Idle => {
                match &loss {
                    Loss::Error(e) => self.say(Level::Warn, &format!("connection dropped ({e})")),
                    Loss::Closed => self.say(self.usual(), "connection closed by peer"),
                    Loss::Dropped => self.say(self.usual(), "connection dropped"),
                }
                self.last_error = match loss {
                    Loss::Error(text) => Some(text),
                    Loss::Closed => Some("End of file".into()),
                    Loss::Dropped => None,
                };
                self.end_connection(now);
            }
        }
    }

    /// Something arrived from the peer.
    pub fn activity(&mut self, now: Millis) {
        if self.state == State::Idle {
            self.enter(State::Active, now);
        }
        self.last_activity = now;
    }

    /// Makes the next `run` end the connection; it is then made again.
    pub fn force_reconnect(&mut self) {
        self.force = matches!(self.state, State::Connecting | State::Active | State::Idle);
    }

    /// Stops wanting the connection; the owner drops it.
    pub fn disable(&mut self, now: Millis) {
        if self.is_connected() {
            self.last_disconnected = Some(now);
        }
        self.force = false;
        self.enter(State::Void, now);
    }

    /// Wants the connection (again).
    pub fn enable(&mut self, now: Millis) {
        if self.state == State::Void && self.retry {
            self.backoff = 0;
            self.enter(State::Backoff, now);
        }
    }

    /// Calls the connection so from now on, as where it goes to another place next.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.to_owned();
    }

    /// The connection's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it is up.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Active | State::Idle)
    }

    /// The present wait between attempts.
    pub fn backoff_ms(&self) -> u64 {
        self.backoff
    }

    /// How often it was tried.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// How often it came up.
    pub fn successes(&self) -> u64 {
        self.successes
    }

    /// Whole seconds since it last came up.
    pub fn sec_since_connect(&self, now: Millis) -> Option<u64> {
        self.last_connected.map(|t| now.0.saturating_sub(t.0) / 1000)
    }

    /// Whole seconds since it last went down.
    pub fn sec_since_disconnect(&self, now: Millis) -> Option<u64> {
        self.last_disconnected.map(|t| now.0.saturating_sub(t.0) / 1000)
    }

    /// Whole seconds in the present state.
    pub fn sec_in_state(&self, now: Millis) -> u64 {
        now.0.saturating_sub(self.entered.0) / 1000
    }

    /// Why it last ended; none while it is up.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// The messages since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// Logs the messages since the last call.
    pub fn log_to(&mut self, module: &Module) {
        for line in self.lines.drain(..) {
            module.log(line.level, format_args!("{}", line.text));
        }
    }

    fn say(&mut self, level: Level, text: &str) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(Line { level, text: format!("{}: {text}", self.name) });
        }
    }

    /// The level of ordinary events: connections that others make come and go all the time.
    fn usual(&self) -> Level {
        if self.retry { Level::Info } else { Level::Dbg }
    }

    fn enter(&mut self, state: State, now: Millis) {
        self.state = state;
        self.entered = now;
        self.say(Level::Dbg, &format!("entering {}", state.name()));
    }

    fn enter_connecting(&mut self, now: Millis) {
        if self.is_talkative() {
            self.say(Level::Info, "connecting...");
        }
        self.attempts += 1;
        self.enter(State::Connecting, now);
    }

    /// At the longest wait each attempt would repeat the same lines for ever.
    fn is_talkative(&self) -> bool {
        self.backoff < self.max_backoff
    }

    /// `None` is "timed out".
    fn attempt_lost(&mut self, now: Millis, error: Option<String>) {
        if self.is_talkative() {
            let text = match (self.wording, &error) {
                (Wording::Ovsdb, Some(e)) => format!("connection attempt failed ({e})"),
                (Wording::Ovsdb, None) => "connection attempt timed out".into(),
                (Wording::OpenFlow, Some(e)) => format!("connection failed ({e})"),
                (Wording::OpenFlow, None) => "connection timed out".into(),
            };
            self.say(Level::Info, &text);
        }
        self.last_error = Some(error.unwrap_or_else(|| "Connection timed out".into()));
        self.back_off(now, false);
    }

    fn lose_by_force(&mut self, now: Millis) {
        let text = match self.wording {
            Wording::Ovsdb => "connection dropped",
            Wording::OpenFlow => "disconnecting",
        };
        self.say(self.usual(), text);
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

    /// `afresh` after a connection that was good for something.
    fn back_off(&mut self, now: Millis, afresh: bool) {
        if !self.retry {
            self.enter(State::Void, now);
            return;
        }
        if afresh || self.backoff < self.min_backoff {
            self.backoff = self.min_backoff;
        } else if self.backoff < self.max_backoff / 2 {
            self.backoff *= 2;
            let text = format!("waiting {} seconds before reconnect", self.seconds(self.backoff));
            self.say(Level::Info, &text);
        } else {
            if self.is_talkative() {
                let what = match self.wording {
                    Wording::Ovsdb => "reconnect",
                    Wording::OpenFlow => "retry connections",
                };
                let text = format!("continuing to {what} in the background but suppressing further logging");
                self.say(Level::Info, &text);
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

/// Seconds with at most three significant digits, as `%.3g` writes them.
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
