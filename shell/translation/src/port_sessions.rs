//! Sessions of a protocol on the ports of a datapath (BFD, CFM, LLDP), with a queue of their timers.
//!
//! **Threads**: the threads that receive messages, the timer thread, and the main thread. A lock is held for one operation,
//! which neither sends nor logs.

use crate::protocol_state::{PortKey, ProtocolState, log_level};
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::Level;
use runtime::{Module, RateLimit, log};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use units::Millis;

/// A protocol message to send from a port.
pub struct DueMessage {
    /// The port.
    pub at: PortKey,
    /// The frame.
    pub frame: Vec<u8>,
    /// Whether a tunnel must mark the message as OAM (operation and maintenance), if the tunnel protocol supports this.
    pub oam: bool,
}

/// A session of a protocol on a port.
pub trait PortSession {
    /// An event for the log.
    type Event: fmt::Display;

    /// When [`run_timers`](Self::run_timers) must be called next. A time in the past means now.
    fn deadline(&self, now: Millis) -> Option<Millis>;
    /// Handles expired timers and returns the frame to send now, if one is due.
    fn run_timers(&mut self, now: Millis) -> Option<Vec<u8>>;
    /// Whether the session's frames must be marked as OAM.
    fn is_oam(&self) -> bool {
        false
    }
    /// The events since the last call, with their levels.
    fn take_events(&mut self) -> Vec<(Level, Self::Event)>;
    /// Whether the reported state has changed since the last call.
    fn take_changed(&mut self) -> bool;
    /// The text of an event of the port with this name.
    fn log_line(port: &str, event: &Self::Event) -> String {
        format!("{port}: {event}")
    }
}

/// The sessions of a protocol on the ports of a datapath.
pub struct PortSessions<S> {
    state: ProtocolState<Inner<S>>,
    log: &'static Module,
    limit: &'static RateLimit,
}

struct Inner<S> {
    all: BTreeMap<PortKey, Entry<S>>,
    /// Sessions with a running timer, in order of time.
    queue: BTreeSet<(Millis, PortKey)>,
    /// Ports whose reported state has changed.
    changed_reports: BTreeSet<PortKey>,
}

struct Entry<S> {
    name: String,
    session: S,
    /// The session's time in the queue; `None` if the session is not in the queue.
    due: Option<Millis>,
}

impl<S: PortSession> Inner<S> {
    fn unqueue(&mut self, at: PortKey) {
        if let Some(due) = self.all.get_mut(&at).and_then(|e| e.due.take()) {
            self.queue.remove(&(due, at));
        }
    }

    /// Moves a session to the position of its timer in the queue. Returns whether its timer is due sooner than before.
    fn requeue(&mut self, at: PortKey, now: Millis) -> bool {
        let Some(entry) = self.all.get_mut(&at) else { return false };
        let (old, new) = (entry.due, entry.session.deadline(now));
        if old != new {
            entry.due = new;
            old.map(|due| self.queue.remove(&(due, at)));
            self.queue.extend(new.map(|due| (due, at)));
        }
        new.is_some_and(|new| old.is_none_or(|old| new < old))
    }
}

impl<S: PortSession> PortSessions<S> {
    /// No sessions. Events are logged by this log module, with this rate limit.
    pub(crate) fn new(
        shared: &Arc<SharedState>,
        wakeup: &Arc<Wakeup>,
        log: &'static Module,
        limit: &'static RateLimit,
    ) -> PortSessions<S> {
        let (all, queue, changed_reports) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        PortSessions {
            state: ProtocolState::new(Inner { all, queue, changed_reports }, shared, wakeup),
            log,
            limit,
        }
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// When the next timer is due.
    pub fn deadline(&self) -> Option<Millis> {
        if self.is_empty() {
            return None;
        }
        self.state.with(|inner| inner.queue.first().map(|(due, _)| *due))
    }

    /// Whether the port has a session.
    pub(crate) fn contains(&self, at: PortKey) -> bool {
        self.state.with(|inner| inner.all.contains_key(&at))
    }

    /// Adds the session of a port. Its timers do not run until [`change`](Self::change) or
    /// [`published`](Self::published) is called.
    pub(crate) fn add(&self, at: PortKey, name: &str, session: S) {
        self.state.with(|inner| {
            inner.all.insert(at, Entry { name: name.to_owned(), session, due: None });
            self.state.set_len(inner.all.len());
        });
    }

    /// Removes the session of a port.
    pub fn forget(&self, at: PortKey) {
        if self.is_empty() {
            return;
        }
        self.state.with(|inner| {
            inner.unqueue(at);
            inner.all.remove(&at);
            inner.changed_reports.remove(&at);
            self.state.set_len(inner.all.len());
        });
    }

    /// Ports with a session for which `which` is true.
    pub(crate) fn ports_where(&self, which: impl Fn(&S) -> bool) -> Vec<PortKey> {
        self.state
            .with(|inner| inner.all.iter().filter(|(_, e)| which(&e.session)).map(|(at, _)| *at).collect())
    }

    /// The ports with a session whose key and name `which` selects.
    pub(crate) fn ports_selected(&self, which: impl Fn(PortKey, &str) -> bool) -> Vec<PortKey> {
        self.state.with(|inner| {
            let selected = inner.all.iter().filter(|(at, e)| which(**at, &e.name));
            selected.map(|(at, _)| *at).collect()
        })
    }

    /// The port with this name, or all ports with a session.
    fn ports_named(&self, name: Option<&str>) -> Vec<PortKey> {
        self.ports_selected(|_, of_port| name.is_none_or(|name| name == of_port))
    }

    /// Applies `work` to the session of the port with this name, or to all sessions. Returns false if no port has the name.
    pub(crate) fn change_named(&self, name: Option<&str>, now: Millis, work: impl Fn(&mut S)) -> bool {
        let selected = self.ports_named(name);
        selected.iter().for_each(|at| {
            self.change(*at, now, &work);
        });
        name.is_none() || !selected.is_empty()
    }

    /// Name and text of the port with this name, or of all ports with a session.
    pub(crate) fn show(
        &self,
        name: Option<&str>,
        now: Millis,
        text: impl Fn(&mut S) -> String,
    ) -> Vec<(String, String)> {
        self.show_where(|_, of_port| name.is_none_or(|name| name == of_port), now, text)
    }

    /// Name and text of the ports with a session whose key and name `which` selects.
    pub(crate) fn show_where(
        &self,
        which: impl Fn(PortKey, &str) -> bool,
        now: Millis,
        text: impl Fn(&mut S) -> String,
    ) -> Vec<(String, String)> {
        let one = |at: &PortKey| {
            let text = self.change(*at, now, &text)?;
            let name = self.state.with(|inner| inner.all.get(at).map(|e| e.name.clone()))?;
            Some((name, text))
        };
        self.ports_selected(which).iter().filter_map(one).collect()
    }

    /// Takes the ports whose reported state has changed, with the reports that `report` makes of their sessions.
    pub(crate) fn take_changed_reports<R>(
        &self,
        now: Millis,
        report: impl Fn(&mut S) -> R,
    ) -> Vec<(PortKey, R)> {
        if !self.state.take_announced() {
            return Vec::new();
        }
        let changed = self.state.with(|inner| std::mem::take(&mut inner.changed_reports));
        changed.into_iter().filter_map(|at| Some((at, self.change(at, now, &report)?))).collect()
    }

    /// Runs the timers that are due and returns the messages to send. `is_known`: whether the port is in the published
    /// snapshot. Timers of other ports stop until [`published`](Self::published) is called.
    pub(crate) fn take_due(&self, is_known: impl Fn(PortKey) -> bool, now: Millis) -> Vec<DueMessage> {
        if self.is_empty() {
            return Vec::new();
        }
        let due: Vec<PortKey> = self
            .state
            .with(|inner| inner.queue.iter().take_while(|(due, _)| *due <= now).map(|(_, at)| *at).collect());
        let mut frames = Vec::new();
        for at in due {
            if !is_known(at) {
                self.state.with(|inner| inner.unqueue(at));
                continue;
            }
            if let Some((Some(frame), oam)) =
                self.change(at, now, |session| (session.run_timers(now), session.is_oam()))
            {
                frames.push(DueMessage { at, frame, oam });
            }
        }
        frames
    }

    /// To be called after a publication: restarts the timers of sessions that waited until their port was published.
    pub fn published(&self, now: Millis) {
        if self.is_empty() {
            return;
        }
        let any = self.state.with(|inner| {
            let waiting: Vec<PortKey> =
                inner.all.iter().filter(|(_, e)| e.due.is_none()).map(|(at, _)| *at).collect();
            waiting.into_iter().fold(false, |any, at| any | inner.requeue(at, now))
        });
        if any {
            self.state.wake_timers();
        }
    }

    /// Applies `work` to a session, then updates its position in the queue, records state changes and writes log lines.
    pub(crate) fn change<T>(&self, at: PortKey, now: Millis, work: impl FnOnce(&mut S) -> T) -> Option<T> {
        let (result, is_earlier, changed_reports, lines) = self.state.with(|inner| {
            let entry = inner.all.get_mut(&at)?;
            let result = work(&mut entry.session);
            let changed_reports = entry.session.take_changed();
            let lines = self.lines(&entry.name, entry.session.take_events());
            if changed_reports {
                inner.changed_reports.insert(at);
            }
            Some((result, inner.requeue(at, now), changed_reports, lines))
        })?;
        if is_earlier {
            self.state.wake_timers();
        }
        if changed_reports {
            self.state.announce_reports();
        }
        for (level, line) in lines {
            self.log.log_limited(self.limit, level, format_args!("{line}"));
        }
        Some(result)
    }

    /// Events as log lines, except for events whose level is not logged.
    fn lines(&self, name: &str, events: Vec<(Level, S::Event)>) -> Vec<(log::Level, String)> {
        let enabled = events.into_iter().map(|(level, event)| (log_level(level), event));
        let enabled = enabled.filter(|(level, _)| self.log.enabled(*level));
        enabled.map(|(level, event)| (level, S::log_line(name, &event))).collect()
    }
}
