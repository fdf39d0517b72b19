//! The ports of a datapath that speak LACP, with the links of each.
//!
//! **Threads**: who receives a message, who sends those that are due, and the main loop. One lock is held for one operation,
//! and nothing is sent or logged meanwhile.

use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bond::lacp::{Aggregation, DESTINATION, ETHERTYPE, MemberSettings, Negotiation, Settings};
use flow::Mac;
use runtime::{Module, RateLimit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Millis, OfPort};
use xlate::BridgeId;

static LOG: Module = Module::new("lacp");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Length of an Ethernet header without tags.
const ETHERNET: usize = 14;

/// A row of table Port of a bridge, by name.
pub type Key = (BridgeId, String);

/// A port of a bridge.
type At = (BridgeId, OfPort);

/// See the module.
pub struct Groups {
    inner: Mutex<Inner>,
    /// How many there are.
    len: AtomicUsize,
    any_news: AtomicBool,
    shared: Arc<SharedState>,
    wakeup: Arc<Wakeup>,
}

#[derive(Default)]
struct Inner {
    all: BTreeMap<Key, Group>,
    by_link: BTreeMap<At, Key>,
    news: BTreeSet<Key>,
}

struct Group {
    aggregation: Aggregation,
    /// Addresses of the links.
    macs: BTreeMap<OfPort, Mac>,
}

/// A link as the main loop knows it.
pub struct LinkSetup {
    /// Its OpenFlow number.
    pub port: OfPort,
    /// How it presents itself.
    pub settings: MemberSettings,
    /// Its address.
    pub mac: Mac,
    /// It has a carrier.
    pub carrier: bool,
}

/// What LACP says of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether any link is attached.
    pub negotiation: Negotiation,
    /// Of each link: traffic may flow, and something is known of the other end.
    pub links: BTreeMap<OfPort, (bool, bool)>,
}

impl Groups {
    /// None yet.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>) -> Groups {
        Groups {
            inner: Mutex::default(),
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

    /// A port speaks with these settings by these links from now on.
    pub fn configure(&self, key: &Key, settings: Settings, links: Vec<LinkSetup>, now: Millis) {
        self.with(|inner| {
            let new = || Group { aggregation: Aggregation::new(Settings::default()), macs: BTreeMap::new() };
            let group = inner.all.entry(key.clone()).or_insert_with(new);
            group.aggregation.configure(settings);
            let gone: Vec<OfPort> =
                group.aggregation.members().filter(|p| links.iter().all(|l| l.port != *p)).collect();
            for port in gone {
                group.aggregation.remove(port);
                group.macs.remove(&port);
                inner.by_link.remove(&(key.0, port));
            }
            for link in links {
                group.aggregation.register(link.port, link.settings, now);
                group.aggregation.set_carrier(link.port, link.carrier, now);
                group.macs.insert(link.port, link.mac);
                inner.by_link.insert((key.0, link.port), key.clone());
            }
            inner.news.insert(key.clone());
            self.len.store(inner.all.len(), Ordering::Release);
        });
        self.any_news.store(true, Ordering::Release);
        self.wakeup.wake();
    }

    /// The keys of all.
    pub fn keys(&self) -> Vec<Key> {
        if self.is_empty() {
            return Vec::new();
        }
        self.with(|inner| inner.all.keys().cloned().collect())
    }

    /// A port does not speak any more.
    pub fn forget(&self, key: &Key) {
        self.with(|inner| {
            inner.all.remove(key);
            inner.by_link.retain(|_, k| k != key);
            inner.news.remove(key);
            self.len.store(inner.all.len(), Ordering::Release);
        });
    }

    /// The state of a link.
    pub fn set_link(&self, at: At, mac: Mac, carrier: bool, now: Millis) {
        self.change(at, |group, port| {
            group.macs.insert(port, mac);
            group.aggregation.set_carrier(port, carrier, now);
        });
    }

    /// A frame with a message came by a link.
    pub fn receive(&self, at: At, frame: &[u8], now: Millis) {
        let payload = frame.get(ETHERNET..).unwrap_or_default();
        self.change(at, |group, port| group.aggregation.receive(port, payload, now));
    }

    /// When a clock is due next.
    pub fn deadline(&self) -> Option<Millis> {
        if self.is_empty() {
            return None;
        }
        self.with(|inner| inner.all.values().filter_map(|g| g.aggregation.deadline()).min())
    }

    /// Looks at the clocks; the frames that are due, and by which ports.
    pub fn take_due(&self, now: Millis) -> Vec<(At, Vec<u8>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let (mut frames, mut lines, mut any) = (Vec::new(), Vec::new(), false);
        self.with(|inner| {
            for ((bridge, name), group) in &mut inner.all {
                for (port, pdu) in group.aggregation.run(now) {
                    let mac = group.macs.get(&port).copied().unwrap_or_default();
                    let header = [&DESTINATION.0[..], &mac.0, &ETHERTYPE.to_be_bytes()].concat();
                    frames.push(((*bridge, port), [&header[..], &pdu].concat()));
                }
                lines.extend(group.aggregation.take_lines());
                if group.aggregation.take_news() {
                    any = true;
                    inner.news.insert((*bridge, name.clone()));
                }
            }
        });
        self.tell(any, &lines);
        frames
    }

    /// What those say now that say something else than before.
    pub fn take_news(&self) -> Vec<(Key, Report)> {
        if !self.any_news.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        self.with(|inner| {
            let news = std::mem::take(&mut inner.news);
            let report = |key: Key| {
                let group = inner.all.get(&key)?;
                Some((key, group.report()))
            };
            news.into_iter().filter_map(report).collect()
        })
    }

    /// The port of that name, or all, as `lacp/show` (or `lacp/show-stats`) has them. `None`: there is no such port.
    pub fn show(&self, name: Option<&str>, stats: bool) -> Option<String> {
        self.with(|inner| {
            let meant = inner.all.values().map(|g| &g.aggregation);
            let meant: Vec<&Aggregation> = meant.filter(|a| name.is_none_or(|n| a.name() == n)).collect();
            let text = |a: &&Aggregation| if stats { a.show_stats() } else { a.show() };
            (name.is_none() || !meant.is_empty()).then(|| meant.iter().map(text).collect())
        })
    }

    /// Does something to a port by one of its links; the thread that has the clocks looks at what follows.
    fn change(&self, at: At, work: impl FnOnce(&mut Group, OfPort)) {
        let news = self.with(|inner| {
            let key = inner.by_link.get(&at)?;
            let group = inner.all.get_mut(key)?;
            work(group, at.1);
            let news = group.aggregation.take_news();
            if news {
                inner.news.insert(key.clone());
            }
            Some(news)
        });
        if let Some(news) = news {
            self.tell(news, &[]);
            self.wakeup.wake();
        }
    }

    fn tell(&self, news: bool, lines: &[String]) {
        if news && !self.any_news.swap(true, Ordering::AcqRel) {
            self.shared.wake();
        }
        for line in lines {
            LOG.log_limited(&LIMIT, runtime::log::Level::Warn, format_args!("{line}"));
        }
    }

    /// A panic of another holder leaves groups usable.
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Group {
    fn report(&self) -> Report {
        let a = &self.aggregation;
        let links = a.members().map(|port| (port, (a.may_enable(port), a.is_current(port)))).collect();
        Report { negotiation: a.negotiation(), links }
    }
}
