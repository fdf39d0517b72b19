//! A bond: its links and how it shares traffic among them.

use crate::buckets::{BUCKETS, Buckets};
use crate::lacp::Negotiation;
use crate::link::{Link, LinkFacts};
use crate::settings::{Mode, Settings};
use crate::view::{Tally, View};
use flow::Mac;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Millis, OfPort};

/// What is done with the packets of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRule {
    /// The low eight bits of their hash.
    pub bucket: u8,
    /// They leave by this link.
    pub link: OfPort,
    /// How many there were.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Since when buckets are shared.
    pub created: Millis,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Bond {
    pub(crate) settings: Settings,
    pub(crate) links: BTreeMap<OfPort, Link>,
    pub(crate) negotiation: Negotiation,
    pub(crate) active: Option<OfPort>,
    /// The active link's address. It is stored instead of the name, because names may change with a restart
    /// of the host.
    pub(crate) active_mac: Mac,
    /// For modes that share traffic; `None` in other modes.
    pub(crate) buckets: Option<Buckets>,
    /// Since when there are buckets.
    pub(crate) shared_since: Millis,
    /// What has been sent by bucket and is not in `buckets` yet.
    pub(crate) tally: Arc<Tally>,
    pub(crate) next_rebalance: Millis,
    /// Time of the last rebalance.
    pub(crate) rebalanced_at: Millis,
    /// The bucket that was reported to carry more than a link's part.
    pub(crate) elephant: Option<usize>,
    /// The stations of other ports must be announced on the active link.
    pub(crate) announce: bool,
    /// Translations must be made again.
    pub(crate) changed: bool,
    /// Links were added or removed: their buckets must be shared again.
    pub(crate) must_share: bool,
    /// Lines for the log.
    pub(crate) lines: Vec<String>,
}

impl Bond {
    /// Makes a bond without links. `active_mac`: the address of the active link before a restart, all zeros
    /// if there was none.
    pub fn new(settings: Settings, active_mac: Mac, now: Millis) -> Bond {
        let mut bond = Bond { active_mac, changed: true, ..Bond::default() };
        bond.configure(settings, now);
        bond
    }

    /// Its settings.
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
            self.share_from_start(now);
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
        (self.changed, self.must_share) = (true, true);
        if self.active == Some(port) {
            self.choose_active(now);
            self.announce = true;
        }
    }

    /// Its links.
    pub fn links(&self) -> impl Iterator<Item = (OfPort, &Link)> {
        self.links.iter().map(|(port, link)| (*port, link))
    }

    /// Handles the passing of time and changes of link states and LACP. Returns true if translations must be
    /// made again.
    pub fn run(&mut self, negotiation: Negotiation, now: Millis) -> bool {
        if self.negotiation != negotiation {
            self.negotiation = negotiation;
            self.changed = true;
            if self.falls_back() || self.buckets.is_none() {
                self.share_from_start(now);
            }
        }
        let ports: Vec<OfPort> = self.links.keys().copied().collect();
        ports.into_iter().for_each(|port| self.follow_link(port, now));
        self.follow_active(now);
        if std::mem::take(&mut self.must_share) {
            self.spread_buckets();
        }
        std::mem::take(&mut self.changed)
    }

    /// The time of the next call of [`Bond::run`] or [`Bond::rebalance`].
    pub fn deadline(&self) -> Option<Millis> {
        let delays = self.links.values().filter_map(|l| l.delay_until);
        let rebalance = self.is_balanced().then_some(self.next_rebalance);
        let now = (self.changed || self.must_share).then_some(Millis(0));
        delays.chain(rebalance).chain(now).min()
    }

    /// The datapath is to know which link has which bucket.
    pub fn shares_in_datapath(&self) -> bool {
        self.settings.lb_output && self.settings.mode == Mode::BalanceTcp && !self.falls_back()
    }

    /// The link of each bucket; `OfPort::NONE`: no link. Before buckets are shared: none at all.
    pub fn owners(&self) -> [OfPort; BUCKETS] {
        self.buckets.as_ref().map_or([OfPort::NONE; BUCKETS], |b| b.owners)
    }

    /// The buckets by which packets leave that come back with their hash, if they do.
    pub fn rules(&self) -> Vec<BucketRule> {
        let come_back =
            self.settings.mode == Mode::BalanceTcp && !self.falls_back() && !self.shares_in_datapath();
        let rule = |(bucket, link)| {
            let (packets, bytes) = self.tally.sent(bucket);
            BucketRule { bucket, link, packets, bytes, created: self.shared_since }
        };
        let all = (0..=u8::MAX).zip(self.owners()).filter(|(_, link)| *link != OfPort::NONE);
        if come_back { all.map(rule).collect() } else { Vec::new() }
    }

    /// Takes in what the datapath has counted.
    pub fn credit(&mut self, bytes: &[u64; BUCKETS]) {
        for (bucket, bytes) in (0..=u8::MAX).zip(bytes).filter(|(_, bytes)| **bytes != 0) {
            self.tally.credit_bytes(bucket, *bytes);
        }
    }

    /// What translations see.
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

    /// The active link's address, to be stored; all zeros if there is none.
    pub fn active_mac(&self) -> Mac {
        self.active_mac
    }

    /// Returns true once if the caller must announce the stations of other ports by frames on the active
    /// link.
    pub fn take_announcement(&mut self) -> bool {
        let unspoken = self.negotiation == Negotiation::Off && self.settings.mode != Mode::BalanceTcp;
        let alone = self.settings.fallback && self.negotiation == Negotiation::Configured;
        std::mem::take(&mut self.announce) && (unspoken || alone) && self.active.is_some()
    }

    /// Lines for the log.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    pub(crate) fn is_enabled(&self, port: OfPort) -> bool {
        self.links.get(&port).is_some_and(|l| l.enabled)
    }

    /// Returns whether LACP is configured but not negotiated, and the settings say to fall back to
    /// active-backup.
    pub(crate) fn falls_back(&self) -> bool {
        self.settings.fallback
            && self.settings.mode != Mode::ActiveBackup
            && self.negotiation == Negotiation::Configured
    }

    /// Returns whether loads are rebalanced.
    pub(crate) fn is_balanced(&self) -> bool {
        self.settings.rebalance_interval.0 > 0
            && self.settings.mode != Mode::ActiveBackup
            && !self.falls_back()
    }
}
