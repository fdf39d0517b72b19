//! A bond: its links and how traffic is shared among them.

use crate::buckets::Buckets;
use crate::lacp::Negotiation;
use crate::link::{Link, LinkFacts};
use crate::settings::{Mode, Settings};
use crate::view::{Tally, View};
use flow::Mac;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Millis, OfPort};

/// See the module.
#[derive(Debug, Default)]
pub struct Bond {
    pub(crate) settings: Settings,
    pub(crate) links: BTreeMap<OfPort, Link>,
    pub(crate) negotiation: Negotiation,
    pub(crate) active: Option<OfPort>,
    /// The active link's address: names change with a restart of the host, addresses do not.
    pub(crate) active_mac: Mac,
    /// Of modes that share; `None`: there is nothing to share.
    pub(crate) buckets: Option<Buckets>,
    /// What has been sent by bucket and is not in `buckets` yet.
    pub(crate) tally: Arc<Tally>,
    pub(crate) next_rebalance: Millis,
    /// When loads were last looked at; once at a time is enough.
    pub(crate) looked: Millis,
    /// Other switches are to be told where stations are.
    pub(crate) announce: bool,
    /// Translations are to be made again.
    pub(crate) changed: bool,
    /// Links came or went: their buckets are to be shared again.
    pub(crate) spread: bool,
    /// For the log.
    pub(crate) lines: Vec<String>,
}

impl Bond {
    /// One without links. `active_mac`: the address of the link that was active before a restart, all zeros if none was.
    pub fn new(settings: Settings, active_mac: Mac, now: Millis) -> Bond {
        let mut bond = Bond { active_mac, changed: true, ..Bond::default() };
        bond.configure(settings, now);
        bond
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Other settings.
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

    /// A link, new or with other facts.
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

    /// A link is no longer of the bond.
    pub fn remove_link(&mut self, port: OfPort, now: Millis) {
        if !self.links.contains_key(&port) {
            return;
        }
        self.enable(port, false);
        self.links.remove(&port);
        (self.changed, self.spread) = (true, true);
        if self.active == Some(port) {
            self.choose_active(now);
            self.announce = true;
        }
    }

    /// Its links.
    pub fn links(&self) -> impl Iterator<Item = (OfPort, &Link)> {
        self.links.iter().map(|(port, link)| (*port, link))
    }

    /// Time has passed, or link states or what LACP says have changed. True: translations are to be made again.
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
        if std::mem::take(&mut self.spread) {
            self.spread_buckets();
        }
        std::mem::take(&mut self.changed)
    }

    /// When [`Bond::run`] or [`Bond::rebalance`] has something to do.
    pub fn deadline(&self) -> Option<Millis> {
        let delays = self.links.values().filter_map(|l| l.delay_until);
        let rebalance = self.is_balanced().then_some(self.next_rebalance);
        let now = (self.changed || self.spread).then_some(Millis(0));
        delays.chain(rebalance).chain(now).min()
    }

    /// What translations see.
    pub fn view(&self) -> View {
        let usable = |link: &&Link| link.enabled || link.facts.may_enable;
        View {
            mode: self.settings.mode,
            negotiation: self.negotiation,
            fallback: self.settings.fallback,
            all_active: self.settings.mode == Mode::BalanceSlb && self.settings.all_active,
            basis: self.settings.basis,
            active: self.active,
            usable: self.links().filter(|(_, l)| usable(l)).map(|(port, _)| port).collect(),
            owners: self.buckets.as_ref().map(|b| Arc::new(b.owners)),
            tally: Arc::clone(&self.tally),
        }
    }

    /// The active link's address, to be stored; all zeros: there is none.
    pub fn active_mac(&self) -> Mac {
        self.active_mac
    }

    /// Other switches are to be told where stations are: by which link, frames of the stations behind other ports.
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

    /// LACP is wanted and has not come about, and the settings say what then.
    pub(crate) fn falls_back(&self) -> bool {
        self.settings.fallback
            && self.settings.mode != Mode::ActiveBackup
            && self.negotiation == Negotiation::Configured
    }

    /// Loads are looked at.
    pub(crate) fn is_balanced(&self) -> bool {
        self.settings.rebalance_interval.0 > 0
            && self.settings.mode != Mode::ActiveBackup
            && !self.falls_back()
    }
}
