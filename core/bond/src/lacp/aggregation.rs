//! LACP on all links of a port: receives and sends messages, attaches and detaches links.

use super::info::{Info, State};
use super::member::{FAST, MISSED, Member, MemberSettings, SLOW, Status};
use super::negotiation::Negotiation;
use super::pdu::{PDU_LEN, Received, compose, parse};
use flow::Mac;
use std::collections::BTreeMap;
use units::{Millis, OfPort};

/// Settings of a port, as its row has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The port's name.
    pub name: String,
    /// This end's system.
    pub system: Mac,
    /// Its priority.
    pub priority: u16,
    /// Sends messages even if the other end has sent none.
    pub active: bool,
    /// Requests a message every second instead of every thirty seconds.
    pub fast: bool,
    /// Links without LACP messages from the other end may carry traffic, as in an active-backup bond.
    pub fallback: bool,
}

/// LACP on all links of a port.
#[derive(Debug, Default)]
pub struct Aggregation {
    pub(super) settings: Settings,
    pub(super) members: BTreeMap<OfPort, Member>,
    /// The link whose number is the key of all links.
    pub(super) key_member: Option<OfPort>,
    pub(super) negotiated: bool,
    /// The attached links must be determined again.
    stale: bool,
    /// The state that other components read has changed.
    news: bool,
    /// Lines for the log.
    pub(super) lines: Vec<String>,
}

impl Aggregation {
    /// Makes one without links.
    pub fn new(settings: Settings) -> Aggregation {
        Aggregation { settings, stale: true, ..Aggregation::default() }
    }

    /// Changes the settings.
    pub fn configure(&mut self, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        let new = &self.settings;
        let key = |s: &Settings| (s.system, s.priority, s.fallback);
        self.stale |= key(&old) != key(new);
    }

    /// Adds a link, or changes the settings of a link.
    pub fn register(&mut self, port: OfPort, settings: MemberSettings, now: Millis) {
        let sends = self.settings.active || self.negotiated;
        let member = self.members.entry(port).or_insert_with(|| Member::new(MemberSettings::default()));
        let key = |s: &MemberSettings| (s.port, s.priority, s.key);
        let differs = key(&member.settings) != key(&settings);
        member.settings = settings;
        if differs {
            self.stale = true;
            if sends {
                member.expire(now);
            }
        }
        self.key_member.get_or_insert(port);
    }

    /// Removes a link.
    pub fn remove(&mut self, port: OfPort) {
        self.stale |= self.members.remove(&port).is_some();
        if self.key_member == Some(port) {
            self.key_member = self.members.keys().next().copied();
        }
    }

    /// The links.
    pub fn members(&self) -> impl Iterator<Item = OfPort> + '_ {
        self.members.keys().copied()
    }

    /// Sets the carrier of a link. The first state of a link is not counted as a change.
    pub fn set_carrier(&mut self, port: OfPort, up: bool, now: Millis) {
        let active = self.settings.active;
        let Some(member) = self.members.get_mut(&port) else { return };
        let is_first = !std::mem::replace(&mut member.carrier_known, true);
        if member.carrier == up {
            return;
        }
        if member.status == Status::Current || active {
            member.expire(now);
        }
        member.carrier = up;
        member.counters.carrier_changed += u64::from(!is_first);
        (self.stale, self.news) = (true, true);
    }

    /// Handles a frame without its Ethernet header. While the link has no carrier, a message only causes the
    /// carrier to be checked again.
    pub fn receive(&mut self, port: OfPort, payload: &[u8], now: Millis) {
        let fast = self.settings.fast;
        let Some(member) = self.members.get_mut(&port) else { return };
        member.counters.received += 1;
        let (actor, partner) = match parse(payload) {
            Received::Message { actor, partner } => (actor, partner),
            Received::Marker => {
                member.counters.markers += 1;
                return;
            }
            Received::Bad => {
                member.counters.bad += 1;
                self.lines.push(format!("{}: received an unparsable LACP PDU.", self.settings.name));
                return;
            }
        };
        if !member.carrier {
            return;
        }
        self.stale |= member.status != Status::Current;
        member.status = Status::Current;
        member.expires_at = now + Millis(MISSED * if fast { FAST.0 } else { SLOW.0 });
        member.announced = partner;
        if member.partner != actor {
            // A link whose other end has changed has no influence until it is selected again.
            let same_end = (member.partner.system, member.partner.key) == (actor.system, actor.key);
            member.attached &= same_end;
            member.partner = actor;
            (self.stale, self.news) = (true, true);
        }
    }

    /// Handles the passing of time and received messages: attaches links and returns the messages that are
    /// due.
    pub fn run(&mut self, now: Millis) -> Vec<(OfPort, [u8; PDU_LEN])> {
        for member in self.members.values_mut() {
            let changed = member.run(now);
            self.stale |= changed;
            self.news |= changed;
        }
        if std::mem::take(&mut self.stale) {
            self.select();
            self.news = true;
        }
        let ports: Vec<OfPort> = self.members.keys().copied().collect();
        ports.into_iter().filter_map(|port| Some((port, self.message(port, now)?))).collect()
    }

    /// The message of a link, if one is due.
    fn message(&mut self, port: OfPort, now: Millis) -> Option<[u8; PDU_LEN]> {
        let actor = self.actor(self.members.get(&port)?);
        let Settings { active, fast, .. } = self.settings;
        let member = self.members.get_mut(&port).filter(|m| m.sends(active))?;
        if now < member.send_at && (actor.agrees_with(&member.announced) || now < member.may_announce_at()) {
            return None;
        }
        member.announced = actor;
        member.count_sent(now);
        member.send_at = now + member.interval(fast);
        member.counters.sent += 1;
        Some(compose(&actor, &member.partner))
    }

    /// The time of the next call of [`Aggregation::run`].
    pub fn deadline(&self) -> Option<Millis> {
        if self.stale {
            return Some(Millis(0));
        }
        let active = self.settings.active;
        let send = self.members.values().filter(|m| m.sends(active)).map(|m| m.send_at);
        let expire = self.members.values().filter(|m| m.status != Status::Defaulted).map(|m| m.expires_at);
        let announce =
            self.members.values().filter(|m| m.sends(active) && !self.actor(m).agrees_with(&m.announced));
        send.chain(expire).chain(announce.map(Member::may_announce_at)).min()
    }

    /// Returns true if the state that other components read has changed since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Lines for the log.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// The state of negotiation of the port.
    pub fn negotiation(&self) -> Negotiation {
        if self.negotiated { Negotiation::Negotiated } else { Negotiation::Configured }
    }

    /// Returns whether a link may carry traffic.
    pub fn may_enable(&self, port: OfPort) -> bool {
        self.members.get(&port).is_some_and(|m| m.may_enable(self.settings.fallback))
    }

    /// Returns whether the other end's information on a link is current.
    pub fn is_current(&self, port: OfPort) -> bool {
        self.members.get(&port).is_some_and(|m| m.status != Status::Defaulted)
    }

    /// The key of all links; `None`: there is no link.
    pub(super) fn key(&self) -> Option<u16> {
        let first = &self.members.get(&self.key_member?)?.settings;
        Some(if first.key == 0 { first.port } else { first.key })
    }

    /// This end's information on a link.
    pub(super) fn actor(&self, member: &Member) -> Info {
        let open = member.attached || !self.negotiated;
        let state = [
            State::ACTIVITY.when(self.settings.active),
            State::TIMEOUT.when(self.settings.fast),
            State::SYNCHRONIZED.when(member.attached),
            State::DEFAULTED.when(member.status == Status::Defaulted),
            State::EXPIRED.when(member.status == Status::Expired),
            State::AGGREGATION.when(self.members.len() > 1),
            State::COLLECTING.and(State::DISTRIBUTING).when(open),
        ];
        Info {
            system_priority: self.settings.priority,
            system: self.settings.system,
            key: self.key().unwrap_or_default(),
            port_priority: member.settings.priority,
            port: member.settings.port,
            state: state.into_iter().fold(State::default(), State::and),
        }
    }
}
