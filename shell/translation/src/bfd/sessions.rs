//! BFD sessions of a datapath, by port, with a queue of their timers.
//!
//! **Threads**: those that receive messages, the timers thread, and the main loop. A lock is held for one operation,
//! during which nothing is sent or logged.

use crate::protocol_state::ProtocolState;
use crate::published::Published;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::bfd::{Event, Identity, Level, Session, Settings};
use fastrand::Rng;
use flow::Mac;
use runtime::{Module, RateLimit, log};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Millis, OfPort};
use xlate::BridgeId;

static LOG: Module = Module::new("bfd");
static LIMIT: RateLimit = RateLimit::new(20, 20);

/// A port of a bridge.
pub type PortKey = (BridgeId, OfPort);

/// The BFD sessions of a datapath.
pub struct Sessions {
    state: ProtocolState<Inner>,
}

struct Inner {
    all: BTreeMap<PortKey, Entry>,
    /// Sessions with a running timer, in order of time.
    queue: BTreeSet<(Millis, PortKey)>,
    /// Ports whose reported state has changed.
    changed_reports: BTreeSet<PortKey>,
    /// Number of sessions created so far.
    made: u16,
    /// For discriminators and jitter.
    random: Rng,
}

struct Entry {
    name: String,
    session: Session,
    /// Its time in the queue.
    due: Option<Millis>,
}

/// A message to be sent from a port.
pub struct Due {
    /// The port.
    pub at: PortKey,
    /// The frame.
    pub frame: Vec<u8>,
    /// Mark it as OAM in tunnels that support this.
    pub oam: bool,
}

/// What a session reports about its port.
pub struct Report {
    /// Packets may be forwarded to the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}

impl Inner {
    fn new(seed: u64) -> Inner {
        let (all, queue, changed_reports) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Inner { all, queue, changed_reports, made: 0, random: Rng::with_seed(seed) }
    }

    fn identity(&mut self) -> Identity {
        let discriminator = loop {
            let n = self.random.u32(..);
            if n != 0 && self.all.values().all(|e| e.session.discriminator() != n) {
                break n;
            }
        };
        let number = self.made;
        self.made = self.made.wrapping_add(1);
        Identity { discriminator, number, seed: self.random.u64(..) }
    }

    fn unqueue(&mut self, at: PortKey) {
        if let Some(due) = self.all.get_mut(&at).and_then(|e| e.due.take()) {
            self.queue.remove(&(due, at));
        }
    }

    /// Moves a session to its timer's place in the queue. Returns whether that is earlier than before.
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

impl Sessions {
    /// No sessions. `seed`: the secret of the process. Discriminators, which other hosts see, are derived from another
    /// number.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>, seed: u64) -> Sessions {
        let inner = Inner::new(cpu::derive(seed, b"bfd-disc"));
        Sessions { state: ProtocolState::new(inner, shared, wakeup) }
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
        self.with(|inner| inner.queue.first().map(|(due, _)| *due))
    }

    /// Creates or reconfigures the session of a port.
    pub fn configure(
        &self,
        at: PortKey,
        name: &str,
        settings: Settings,
        (mac, rx_packets): (Mac, u64),
        now: Millis,
    ) {
        self.with(|inner| {
            if !inner.all.contains_key(&at) {
                let identity = inner.identity();
                let session = Session::new(identity, settings.clone(), mac, rx_packets, now);
                inner.all.insert(at, Entry { name: name.to_owned(), session, due: None });
                self.state.set_len(inner.all.len());
            }
        });
        self.change(at, now, |session| {
            session.set_mac(mac);
            session.count_traffic(rx_packets, now);
            session.configure(settings, now);
        });
    }

    /// Removes the session of a port.
    pub fn forget(&self, at: PortKey) {
        if self.is_empty() {
            return;
        }
        self.with(|inner| {
            inner.unqueue(at);
            inner.all.remove(&at);
            inner.changed_reports.remove(&at);
            self.state.set_len(inner.all.len());
        });
    }

    /// Handles a received frame with a message for a port.
    pub fn receive(&self, at: PortKey, frame: &[u8], ttl: u8, now: Millis) {
        self.change(at, now, |session| session.receive(frame, ttl, now));
    }

    /// Updates the number of packets that a port has received.
    pub fn count_traffic(&self, at: PortKey, rx_packets: u64, now: Millis) {
        self.change(at, now, |session| session.count_traffic(rx_packets, now));
    }

    /// Ports whose sessions need the number of received packets.
    pub fn counting(&self) -> Vec<PortKey> {
        self.with(|inner| {
            inner.all.iter().filter(|(_, e)| e.session.counts_traffic()).map(|(at, _)| *at).collect()
        })
    }

    /// Changes the MAC address of a port.
    pub fn set_mac(&self, at: PortKey, mac: Mac, now: Millis) {
        self.change(at, now, |session| session.set_mac(mac));
    }

    /// Forces the forwarding state of the port of that name, or of all (`bfd/set-forwarding`). Returns false if there
    /// is no such port.
    pub fn force_forwarding(&self, name: Option<&str>, answer: Option<bool>, now: Millis) -> bool {
        let meant = self.named(name);
        meant.iter().for_each(|at| {
            self.change(*at, now, |session| session.force_forwarding(answer));
        });
        name.is_none() || !meant.is_empty()
    }

    /// The port of that name, or all, with their text for `bfd/show`.
    pub fn show(&self, name: Option<&str>, now: Millis) -> Vec<(String, String)> {
        let one = |at: &PortKey| {
            let text = self.change(*at, now, |session| session.show(now))?;
            let name = self.with(|inner| inner.all.get(at).map(|e| e.name.clone()))?;
            Some((name, text))
        };
        self.named(name).iter().filter_map(one).collect()
    }

    fn named(&self, name: Option<&str>) -> Vec<PortKey> {
        self.with(|inner| {
            let meant = inner.all.iter().filter(|(_, e)| name.is_none_or(|n| e.name == n));
            meant.map(|(at, _)| *at).collect()
        })
    }

    /// Takes the sessions whose reported state has changed.
    pub fn take_changed_reports(&self, now: Millis) -> Vec<(PortKey, Report)> {
        if !self.state.take_announced() {
            return Vec::new();
        }
        let changed_reports = self.with(|inner| std::mem::take(&mut inner.changed_reports));
        let report = |at: PortKey| {
            let (forwarding, status) =
                self.change(at, now, |session| (session.is_forwarding(now), session.status(now)))?;
            let status = status.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            Some((at, Report { forwarding, status }))
        };
        changed_reports.into_iter().filter_map(report).collect()
    }

    /// Runs the timers that are due and returns the messages to send. A port that is not in the published snapshot yet
    /// sends nothing; its session is checked when it is published.
    pub fn take_due(&self, published: &Published, now: Millis) -> Vec<Due> {
        let due: Vec<PortKey> = self
            .with(|inner| inner.queue.iter().take_while(|(due, _)| *due <= now).map(|(_, at)| *at).collect());
        let is_known = |at: &PortKey| {
            let bridge = published.snapshot.bridge(at.0);
            bridge.and_then(|b| b.port(at.1)).is_some_and(|p| p.bfd.is_some())
        };
        let mut frames = Vec::new();
        for at in due {
            if !is_known(&at) {
                self.with(|inner| inner.unqueue(at));
                continue;
            }
            let sent = self.change(at, now, |session| {
                session.run(now);
                (session.transmit(now), session.settings().oam)
            });
            if let Some((Some(frame), oam)) = sent {
                frames.push(Due { at, frame, oam });
            }
        }
        frames
    }

    /// To be called after a publication: ports may have become known to the translation.
    pub fn published(&self, now: Millis) {
        if self.is_empty() {
            return;
        }
        let any = self.with(|inner| {
            let waiting: Vec<PortKey> =
                inner.all.iter().filter(|(_, e)| e.due.is_none()).map(|(at, _)| *at).collect();
            waiting.into_iter().fold(false, |any, at| any | inner.requeue(at, now))
        });
        if any {
            self.state.wake_timers();
        }
    }

    /// Applies `work` to a session, then updates its place in the queue, records state changes and writes log lines.
    fn change<T>(&self, at: PortKey, now: Millis, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let (result, sooner, changed_reports, lines) = self.with(|inner| {
            let entry = inner.all.get_mut(&at)?;
            let result = work(&mut entry.session);
            let changed_reports = entry.session.take_news();
            let lines = lines(&entry.name, entry.session.take_events());
            if changed_reports {
                inner.changed_reports.insert(at);
            }
            Some((result, inner.requeue(at, now), changed_reports, lines))
        })?;
        if sooner {
            self.state.wake_timers();
        }
        if changed_reports {
            self.state.announce_reports();
        }
        for (level, line) in lines {
            LOG.log_limited(&LIMIT, level, format_args!("{line}"));
        }
        Some(result)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        self.state.with(work)
    }
}

/// Events as log lines, without those that are not logged.
fn lines(name: &str, events: Vec<Event>) -> Vec<(log::Level, String)> {
    let level = |event: &Event| match event.level() {
        Level::Warn => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Dbg,
    };
    let wanted = events.iter().map(|event| (level(event), event)).filter(|(level, _)| LOG.enabled(*level));
    wanted.map(|(level, event)| (level, format!("{name}: {event}"))).collect()
}
