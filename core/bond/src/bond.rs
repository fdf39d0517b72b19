//! A bond: its links, and how it distributes traffic among them.

use crate::buckets::{BUCKETS, Buckets};
use crate::lacp::Negotiation;
use crate::link::{Link, LinkFacts};
use crate::settings::{Mode, Settings};
use crate::view::{Tally, View};
use flow::Mac;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Millis, OfPort};

/// The rule for the packets of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRule {
    /// The low eight bits of the packets' hash.
    pub bucket: u8,
    /// The link through which the packets are sent.
    pub link: OfPort,
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes of these packets.
    pub bytes: u64,
    /// When all buckets were last assigned from scratch.
    pub created: Millis,
}

/// A bond; see the crate's documentation.
#[derive(Debug, Default)]
pub struct Bond {
    pub(crate) settings: Settings,
    pub(crate) links: BTreeMap<OfPort, Link>,
    pub(crate) negotiation: Negotiation,
    pub(crate) active: Option<OfPort>,
    /// The MAC address of the active link. The address is stored instead of the name, because names may change with a
    /// restart of the host.
    pub(crate) active_mac: Mac,
    /// The buckets, in modes that distribute traffic; `None` in other modes.
    pub(crate) buckets: Option<Buckets>,
    /// When all buckets were last assigned from scratch.
    pub(crate) assigned_since: Millis,
    /// Counts the sent traffic of each bucket. [`account`](Bond::account) adds the bytes to `buckets`.
    pub(crate) tally: Arc<Tally>,
    pub(crate) next_rebalance: Millis,
    /// Time of the last call of [`Bond::rebalance`], also if no rebalance was due.
    pub(crate) rebalanced_at: Millis,
    /// The bucket that was last reported because it carries more than a link's share.
    pub(crate) elephant: Option<usize>,
    /// Whether the stations of other ports must be announced on the active link.
    pub(crate) announce: bool,
    /// Whether translations must be made again.
    pub(crate) changed: bool,
    /// Whether buckets must be distributed again, because links were added, removed, enabled or disabled.
    pub(crate) must_distribute: bool,
    /// Lines for the log.
    pub(crate) lines: Vec<String>,
}

impl Bond {
    /// Creates a bond without links. `active_mac`: the address of the active link before a restart; all zeros if there
    /// was none.
    pub fn new(settings: Settings, active_mac: Mac, now: Millis) -> Bond {
        let mut bond = Bond { active_mac, changed: true, ..Bond::default() };
        bond.configure(settings, now);
        bond
    }

    /// The settings of the bond.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes the settings.
    pub fn configure(&mut self, settings: Settings, now: Millis) {
        let old = std::mem::replace(&mut self.settings, settings);
        let new = &self.settings;
        let sharing = |s: &Settings| (s.mode, s.basis, s.rebalance_interval.0 > 0, s.fallback);
        let shared_differently = sharing(&old) != sharing(new);
        if !shared_differently && old.rebalance_interval != new.rebalance_interval {
            let since = self.next_rebalance.since(old.rebalance_interval);
            self.next_rebalance = since + new.rebalance_interval;
        }
        self.changed |= old != *new;
        if shared_differently {
            self.reassign_all(now);
        }
    }

    /// Adds a link, or changes the facts of a link.
    pub fn set_link(&mut self, port: OfPort, facts: LinkFacts) {
        if let Some(link) = self.links.get_mut(&port) {
            link.facts = facts;
            return;
        }
        let carrier = facts.carrier;
        self.links.insert(port, Link { facts, ..Link::default() });
        self.changed = true;
        self.enable(port, carrier);
    }

    /// Removes a link.
    pub fn remove_link(&mut self, port: OfPort, now: Millis) {
        if !self.links.contains_key(&port) {
            return;
        }
        self.enable(port, false);
        self.links.remove(&port);
        (self.changed, self.must_distribute) = (true, true);
        if self.active == Some(port) {
            self.choose_active(now);
            self.announce = true;
        }
    }

    /// The links of the bond.
    pub fn links(&self) -> impl Iterator<Item = (OfPort, &Link)> {
        self.links.iter().map(|(port, link)| (*port, link))
    }

    /// Handles expired delays, and changes of link states and LACP. Returns true if translations must be made again.
    pub fn run(&mut self, negotiation: Negotiation, now: Millis) -> bool {
        if self.negotiation != negotiation {
            self.negotiation = negotiation;
            self.changed = true;
            if self.falls_back() || self.buckets.is_none() {
                self.reassign_all(now);
            }
        }
        let ports: Vec<OfPort> = self.links.keys().copied().collect();
        ports.into_iter().for_each(|port| self.follow_link(port, now));
        self.follow_active(now);
        if std::mem::take(&mut self.must_distribute) {
            self.spread_buckets();
        }
        std::mem::take(&mut self.changed)
    }

    /// When [`Bond::run`] or [`Bond::rebalance`] must be called next.
    pub fn deadline(&self) -> Option<Millis> {
        let delays = self.links.values().filter_map(|l| l.delay_until);
        let rebalance = self.is_rebalanced().then_some(self.next_rebalance);
        let now = (self.changed || self.must_distribute).then_some(Millis(0));
        delays.chain(rebalance).chain(now).min()
    }

    /// Whether the datapath itself selects the link of each bucket (`lb_output`).
    pub fn shares_in_datapath(&self) -> bool {
        self.settings.lb_output && self.settings.mode == Mode::BalanceTcp && !self.falls_back()
    }

    /// The link of each bucket; `OfPort::NONE`: no link. Before buckets are assigned, no bucket has a link.
    pub fn owners(&self) -> [OfPort; BUCKETS] {
        self.buckets.as_ref().map_or([OfPort::NONE; BUCKETS], |b| b.owners)
    }

    /// The rules for packets that are recirculated with their hash, one for each bucket. Empty if the bond does not
    /// recirculate packets.
    pub fn rules(&self) -> Vec<BucketRule> {
        let recirculates =
            self.settings.mode == Mode::BalanceTcp && !self.falls_back() && !self.shares_in_datapath();
        let rule = |(bucket, link)| {
            let (packets, bytes) = self.tally.sent(bucket);
            BucketRule { bucket, link, packets, bytes, created: self.assigned_since }
        };
        let all = (0..=u8::MAX).zip(self.owners()).filter(|(_, link)| *link != OfPort::NONE);
        if recirculates { all.map(rule).collect() } else { Vec::new() }
    }

    /// Adds the bytes that the datapath has counted, by bucket.
    pub fn credit(&mut self, bytes: &[u64; BUCKETS]) {
        for (bucket, bytes) in (0..=u8::MAX).zip(bytes).filter(|(_, bytes)| **bytes != 0) {
            self.tally.credit_bytes(bucket, *bytes);
        }
    }

    /// The bond in the form that translations read.
    pub fn view(&self) -> View {
        let usable = |link: &&Link| link.enabled || link.facts.may_enable;
        View {
            mode: self.settings.mode,
            negotiation: self.negotiation,
            fallback: self.settings.fallback,
            all_active: self.settings.mode == Mode::BalanceSlb && self.settings.all_active,
            in_datapath: self.shares_in_datapath(),
            basis: self.settings.basis,
            active: self.active,
            usable: self.links().filter(|(_, l)| usable(l)).map(|(port, _)| port).collect(),
            owners: self.buckets.as_ref().map(|b| Arc::new(b.owners)),
            tally: Arc::clone(&self.tally),
        }
    }

    /// The MAC address of the active link, which the caller stores; all zeros if there is none.
    pub fn active_mac(&self) -> Mac {
        self.active_mac
    }

    /// Returns true once if the caller must announce the stations of other ports, by frames on the active link.
    pub fn take_announcement(&mut self) -> bool {
        let without_lacp = self.negotiation == Negotiation::Off && self.settings.mode != Mode::BalanceTcp;
        let fallen_back = self.settings.fallback && self.negotiation == Negotiation::Configured;
        std::mem::take(&mut self.announce) && (without_lacp || fallen_back) && self.active.is_some()
    }

    /// The lines for the log since the last call.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    pub(crate) fn is_enabled(&self, port: OfPort) -> bool {
        self.links.get(&port).is_some_and(|l| l.enabled)
    }

    /// Returns whether the bond works as an active-backup bond, because LACP is configured but not negotiated and the
    /// settings allow the fallback.
    pub(crate) fn falls_back(&self) -> bool {
        self.settings.fallback
            && self.settings.mode != Mode::ActiveBackup
            && self.negotiation == Negotiation::Configured
    }

    /// Returns whether loads are rebalanced.
    pub(crate) fn is_rebalanced(&self) -> bool {
        self.settings.rebalance_interval.0 > 0
            && self.settings.mode != Mode::ActiveBackup
            && !self.falls_back()
    }
}
