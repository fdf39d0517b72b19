//! The sessions of a datapath, by port, with a queue of their clocks.
//!
//! **Threads**: who receives a message, who sends those that are due, and the main loop. One lock is held for one operation,
//! and nothing is sent or logged meanwhile.

use crate::published::Published;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::bfd::{Event, Identity, Level, Session, Settings};
use flow::Mac;
use runtime::{Module, RateLimit, log};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Millis, OfPort};
use xlate::BridgeId;

static LOG: Module = Module::new("bfd");
static LIMIT: RateLimit = RateLimit::new(20, 20);

/// A port of a bridge.
pub type At = (BridgeId, OfPort);

/// See the module.
pub struct Sessions {
    inner: Mutex<Inner>,
    /// How many there are.
    len: AtomicUsize,
    any_news: AtomicBool,
    shared: Arc<SharedState>,
    wakeup: Arc<Wakeup>,
}

#[derive(Default)]
struct Inner {
    all: BTreeMap<At, Entry>,
    /// Those that have a clock, in order.
    queue: BTreeSet<(Millis, At)>,
    /// Those that say something else than before.
    news: BTreeSet<At>,
    /// So many have been made.
    made: u16,
    /// For discriminators and jitter.
    seed: u64,
}

struct Entry {
    name: String,
    session: Session,
    /// Its place in the queue.
    due: Option<Millis>,
}

/// What is to be sent from a port.
pub struct Due {
    /// The port.
    pub at: At,
    /// The frame.
    pub frame: Vec<u8>,
    /// It is marked in tunnels that have such a mark.
    pub oam: bool,
}

/// What a session says of its port.
pub struct Report {
    /// Packets may be sent by the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}

impl Inner {
    /// Another random number (splitmix64, Steele et al. 2014).
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn identity(&mut self) -> Identity {
        let discriminator = loop {
            let n = (self.random() >> 32) as u32;
            if n != 0 && self.all.values().all(|e| e.session.discriminator() != n) {
                break n;
            }
        };
        let number = self.made;
        self.made = self.made.wrapping_add(1);
        Identity { discriminator, number, seed: self.random() }
    }

    fn unqueue(&mut self, at: At) {
        if let Some(due) = self.all.get_mut(&at).and_then(|e| e.due.take()) {
            self.queue.remove(&(due, at));
        }
    }

    /// Puts a session where its clock says; true if that is before where it was.
    fn requeue(&mut self, at: At, now: Millis) -> bool {
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
    /// None yet. `seed`: the secret of the process. Discriminators, which other hosts see, are made of another.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>, seed: u64) -> Sessions {
        Sessions {
            inner: Mutex::new(Inner { seed: cpu::derive(seed, b"bfd-disc"), ..Inner::default() }),
            len: AtomicUsize::new(0),
            any_news: AtomicBool::new(false),
            shared: Arc::clone(shared),
            wakeup: Arc::clone(wakeup),
        }
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// When a clock is due next.
    pub fn deadline(&self) -> Option<Millis> {
        if self.is_empty() {
            return None;
        }
        self.with(|inner| inner.queue.first().map(|(due, _)| *due))
    }

    /// A port has a session with these settings from now on.
    pub fn configure(
        &self,
        at: At,
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
                self.len.store(inner.all.len(), Ordering::Release);
            }
        });
        self.change(at, now, |session| {
            session.set_mac(mac);
            session.count_traffic(rx_packets, now);
            session.configure(settings, now);
        });
    }

    /// A port has no session any more.
    pub fn forget(&self, at: At) {
        if self.is_empty() {
            return;
        }
        self.with(|inner| {
            inner.unqueue(at);
            inner.all.remove(&at);
            inner.news.remove(&at);
            self.len.store(inner.all.len(), Ordering::Release);
        });
    }

    /// A frame with a message came for a port.
    pub fn receive(&self, at: At, frame: &[u8], ttl: u8, now: Millis) {
        self.change(at, now, |session| session.receive(frame, ttl, now));
    }

    /// So many packets a port has received.
    pub fn count_traffic(&self, at: At, rx_packets: u64, now: Millis) {
        self.change(at, now, |session| session.count_traffic(rx_packets, now));
    }

    /// Those that want to know how many packets their ports have received.
    pub fn counting(&self) -> Vec<At> {
        self.with(|inner| {
            inner.all.iter().filter(|(_, e)| e.session.counts_traffic()).map(|(at, _)| *at).collect()
        })
    }

    /// Another address of a port.
    pub fn set_mac(&self, at: At, mac: Mac, now: Millis) {
        self.change(at, now, |session| session.set_mac(mac));
    }

    /// A command says whether packets may be sent: by the port of that name, or by all. `false`: there is no such port.
    pub fn force_forwarding(&self, name: Option<&str>, answer: Option<bool>, now: Millis) -> bool {
        let meant = self.named(name);
        meant.iter().for_each(|at| {
            self.change(*at, now, |session| session.force_forwarding(answer));
        });
        name.is_none() || !meant.is_empty()
    }

    /// The port of that name, or all, with what `bfd/show` says of it.
    pub fn show(&self, name: Option<&str>, now: Millis) -> Vec<(String, String)> {
        let one = |at: &At| {
            let text = self.change(*at, now, |session| session.show(now))?;
            let name = self.with(|inner| inner.all.get(at).map(|e| e.name.clone()))?;
            Some((name, text))
        };
        self.named(name).iter().filter_map(one).collect()
    }

    fn named(&self, name: Option<&str>) -> Vec<At> {
        self.with(|inner| {
            let meant = inner.all.iter().filter(|(_, e)| name.is_none_or(|n| e.name == n));
            meant.map(|(at, _)| *at).collect()
        })
    }

    /// Those that say something else than they did before.
    pub fn take_news(&self, now: Millis) -> Vec<(At, Report)> {
        if !self.any_news.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let news = self.with(|inner| std::mem::take(&mut inner.news));
        let report = |at: At| {
            let (forwarding, status) =
                self.change(at, now, |session| (session.is_forwarding(now), session.status(now)))?;
            let status = status.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            Some((at, Report { forwarding, status }))
        };
        news.into_iter().filter_map(report).collect()
    }

    /// Looks at the clocks that are due. A port that nobody who translates knows yet has nothing to send: it is looked
    /// at when it is published.
    pub fn take_due(&self, published: &Published, now: Millis) -> Vec<Due> {
        let due: Vec<At> = self
            .with(|inner| inner.queue.iter().take_while(|(due, _)| *due <= now).map(|(_, at)| *at).collect());
        let is_known = |at: &At| {
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

    /// Ports may have become known to who translates.
    pub fn published(&self, now: Millis) {
        if self.is_empty() {
            return;
        }
        let any = self.with(|inner| {
            let waiting: Vec<At> =
                inner.all.iter().filter(|(_, e)| e.due.is_none()).map(|(at, _)| *at).collect();
            waiting.into_iter().fold(false, |any, at| any | inner.requeue(at, now))
        });
        if any {
            self.wakeup.wake();
        }
    }

    /// Does something to a session, and what follows from it: its place in the queue, news, lines of the log.
    fn change<T>(&self, at: At, now: Millis, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let (result, sooner, news, lines) = self.with(|inner| {
            let entry = inner.all.get_mut(&at)?;
            let result = work(&mut entry.session);
            let news = entry.session.take_news();
            let lines = lines(&entry.name, entry.session.take_events());
            if news {
                inner.news.insert(at);
            }
            Some((result, inner.requeue(at, now), news, lines))
        })?;
        if sooner {
            self.wakeup.wake();
        }
        if news && !self.any_news.swap(true, Ordering::AcqRel) {
            self.shared.wake();
        }
        for (level, line) in lines {
            LOG.log_limited(&LIMIT, level, format_args!("{line}"));
        }
        Some(result)
    }

    /// A panic of another holder leaves sessions usable.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Events as the log shows them, those that it wants.
fn lines(name: &str, events: Vec<Event>) -> Vec<(log::Level, String)> {
    let level = |event: &Event| match event.level() {
        Level::Warn => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Dbg,
    };
    let wanted = events.iter().map(|event| (level(event), event)).filter(|(level, _)| LOG.enabled(*level));
    wanted.map(|(level, event)| (level, format!("{name}: {event}"))).collect()
}
