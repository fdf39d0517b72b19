//! The Port rows of a datapath that run LACP, with their links (the interfaces of a row).
//!
//! **Threads**: the threads that receive messages, the timer thread, and the main thread. A lock is held for one operation,
//! which neither sends nor logs.

use crate::protocol_state::{PortKey, ProtocolState};
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bond::lacp::{Aggregation, DESTINATION, ETHERTYPE, LinkReport, MemberSettings, Negotiation, Settings};
use flow::Mac;
use runtime::{Module, RateLimit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Millis, OfPort};
use xlate::BridgeId;

static LOG: Module = Module::new("lacp");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Length of an Ethernet header without tags, in bytes.
const ETHERNET_LEN: usize = 14;

/// A Port row: its bridge and its name.
pub type PortRowKey = (BridgeId, String);

/// The Port rows of a datapath that run LACP.
pub struct LacpPortRows {
    state: ProtocolState<Inner>,
}

#[derive(Default)]
struct Inner {
    all: BTreeMap<PortRowKey, LacpPortRow>,
    by_link: BTreeMap<PortKey, PortRowKey>,
    changed_reports: BTreeSet<PortRowKey>,
}

struct LacpPortRow {
    aggregation: Aggregation,
    /// MAC addresses of the links.
    macs: BTreeMap<OfPort, Mac>,
}

/// Configuration of a link.
pub struct LinkSetup {
    /// OpenFlow port number.
    pub port: OfPort,
    /// LACP parameters.
    pub settings: MemberSettings,
    /// MAC address.
    pub mac: Mac,
    /// Whether it has a carrier.
    pub carrier: bool,
}

/// The state that LACP reports about a Port row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether any link is attached.
    pub negotiation: Negotiation,
    /// For each link, whether packets may be sent to it, and whether there is information from the partner.
    pub links: BTreeMap<OfPort, (bool, bool)>,
}

impl LacpPortRows {
    /// No Port rows.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>) -> LacpPortRows {
        LacpPortRows { state: ProtocolState::new(Inner::default(), shared, wakeup) }
    }

    /// Whether there are no Port rows.
    pub fn is_empty(&self) -> bool {
        self.state.is_empty()
    }

    /// Adds or reconfigures a Port row.
    pub fn configure(&self, key: &PortRowKey, settings: Settings, links: Vec<LinkSetup>, now: Millis) {
        self.with(|inner| {
            let new =
                || LacpPortRow { aggregation: Aggregation::new(Settings::default()), macs: BTreeMap::new() };
            let row = inner.all.entry(key.clone()).or_insert_with(new);
            row.aggregation.configure(settings);
            let gone: Vec<OfPort> =
                row.aggregation.members().filter(|p| links.iter().all(|l| l.port != *p)).collect();
            for port in gone {
                row.aggregation.remove(port);
                row.macs.remove(&port);
                inner.by_link.remove(&(key.0, port));
            }
            for link in links {
                row.aggregation.register(link.port, link.settings, now);
                row.aggregation.set_carrier(link.port, link.carrier, now);
                row.macs.insert(link.port, link.mac);
                inner.by_link.insert((key.0, link.port), key.clone());
            }
            inner.changed_reports.insert(key.clone());
            self.state.set_len(inner.all.len());
        });
        self.state.announce_reports();
        self.state.wake_timers();
    }

    /// The keys of all Port rows.
    pub fn keys(&self) -> Vec<PortRowKey> {
        if self.is_empty() {
            return Vec::new();
        }
        self.with(|inner| inner.all.keys().cloned().collect())
    }

    /// Removes a Port row.
    pub fn forget(&self, key: &PortRowKey) {
        self.with(|inner| {
            inner.all.remove(key);
            inner.by_link.retain(|_, k| k != key);
            inner.changed_reports.remove(key);
            self.state.set_len(inner.all.len());
        });
    }

    /// Sets MAC address and carrier of a link.
    pub fn set_link(&self, at: PortKey, mac: Mac, carrier: bool, now: Millis) {
        self.change(at, |row, port| {
            row.macs.insert(port, mac);
            row.aggregation.set_carrier(port, carrier, now);
        });
    }

    /// Handles a received frame with a message for a link.
    pub fn receive(&self, at: PortKey, frame: &[u8], now: Millis) {
        let payload = frame.get(ETHERNET_LEN..).unwrap_or_default();
        self.change(at, |row, port| row.aggregation.receive(port, payload, now));
    }

    /// When the next timer is due.
    pub fn deadline(&self) -> Option<Millis> {
        if self.is_empty() {
            return None;
        }
        self.with(|inner| inner.all.values().filter_map(|g| g.aggregation.deadline()).min())
    }

    /// Runs the timers; returns the frames to send and their links.
    pub fn take_due(&self, now: Millis) -> Vec<(PortKey, Vec<u8>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let (mut frames, mut lines, mut changed) = (Vec::new(), Vec::new(), false);
        self.with(|inner| {
            for ((bridge, name), row) in &mut inner.all {
                for (port, pdu) in row.aggregation.run(now) {
                    let mac = row.macs.get(&port).copied().unwrap_or_default();
                    let header = [&DESTINATION.0[..], &mac.0, &ETHERTYPE.to_be_bytes()].concat();
                    frames.push(((*bridge, port), [&header[..], &pdu].concat()));
                }
                lines.extend(row.aggregation.take_lines());
                if row.aggregation.take_changed() {
                    changed = true;
                    inner.changed_reports.insert((*bridge, name.clone()));
                }
            }
        });
        self.report_changes(changed, &lines);
        frames
    }

    /// Takes the reports that have changed.
    pub fn take_changed_reports(&self) -> Vec<(PortRowKey, Report)> {
        if !self.state.take_announced() {
            return Vec::new();
        }
        self.with(|inner| {
            let changed_reports = std::mem::take(&mut inner.changed_reports);
            let report = |key: PortRowKey| {
                let row = inner.all.get(&key)?;
                Some((key, row.report()))
            };
            changed_reports.into_iter().filter_map(report).collect()
        })
    }

    /// State and counters of a link; `None`: it does not run LACP.
    pub fn link_report(&self, at: PortKey) -> Option<LinkReport> {
        if self.is_empty() {
            return None;
        }
        self.with(|inner| inner.all.get(inner.by_link.get(&at)?)?.aggregation.link_report(at.1))
    }

    /// Text of `lacp/show` or, with `stats`, of `lacp/show-stats`, for the port with this name or for all ports. `None`: no port
    /// has the name.
    pub fn show(&self, name: Option<&str>, stats: bool) -> Option<String> {
        self.with(|inner| {
            let selected = inner.all.values().map(|g| &g.aggregation);
            let selected: Vec<&Aggregation> =
                selected.filter(|a| name.is_none_or(|n| a.name() == n)).collect();
            let text = |a: &&Aggregation| if stats { a.show_stats() } else { a.show() };
            (name.is_none() || !selected.is_empty()).then(|| selected.iter().map(text).collect())
        })
    }

    /// Applies `work` to the Port row of a link, reports changes, and wakes the timer thread.
    fn change(&self, at: PortKey, work: impl FnOnce(&mut LacpPortRow, OfPort)) {
        let changed_reports = self.with(|inner| {
            let key = inner.by_link.get(&at)?;
            let row = inner.all.get_mut(key)?;
            work(row, at.1);
            let changed_reports = row.aggregation.take_changed();
            if changed_reports {
                inner.changed_reports.insert(key.clone());
            }
            Some(changed_reports)
        });
        if let Some(changed_reports) = changed_reports {
            self.report_changes(changed_reports, &[]);
            self.state.wake_timers();
        }
    }

    fn report_changes(&self, changed_reports: bool, lines: &[String]) {
        if changed_reports {
            self.state.announce_reports();
        }
        for line in lines {
            LOG.log_limited(&LIMIT, runtime::log::Level::Warn, format_args!("{line}"));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        self.state.with(work)
    }
}

impl LacpPortRow {
    fn report(&self) -> Report {
        let a = &self.aggregation;
        let links = a.members().map(|port| (port, (a.may_enable(port), a.has_partner_info(port)))).collect();
        Report { negotiation: a.negotiation(), links }
    }
}
