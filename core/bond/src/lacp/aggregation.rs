//! LACP on all links of a port: processes received messages, composes messages to send, attaches and detaches links.

use super::info::{Info, State};
use super::member::{FAST_INTERVAL, MISSED_INTERVALS, Member, MemberSettings, SLOW_INTERVAL, Status};
use super::negotiation::Negotiation;
use super::pdu::{PDU_LEN, Received, compose, parse};
use flow::Mac;
use std::collections::BTreeMap;
use units::{Millis, OfPort};

/// The LACP settings of a port, from its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The port's name.
    pub name: String,
    /// System id of this end.
    pub system: Mac,
    /// System priority of this end.
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
    /// The link whose settings determine the key of all links.
    pub(super) key_member: Option<OfPort>,
    /// Whether at least one link is attached to a system at the other end.
    pub(super) negotiated: bool,
    /// Whether the links to attach must be selected again.
    must_select: bool,
    /// Whether state that other components read has changed.
    state_changed: bool,
    /// Lines for the log.
    pub(super) lines: Vec<String>,
}

impl Aggregation {
    /// Creates an aggregation without links.
    pub fn new(settings: Settings) -> Aggregation {
        Aggregation { settings, must_select: true, ..Aggregation::default() }
    }

    /// Changes the settings.
    pub fn configure(&mut self, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        let new = &self.settings;
        let key = |s: &Settings| (s.system, s.priority, s.fallback);
        self.must_select |= key(&old) != key(new);
    }

    /// Adds a link, or changes the settings of a link.
    pub fn register(&mut self, port: OfPort, settings: MemberSettings, now: Millis) {
        let sends = self.settings.active || self.negotiated;
        let member = self.members.entry(port).or_insert_with(|| Member::new(MemberSettings::default()));
        let key = |s: &MemberSettings| (s.port, s.priority, s.key);
        let differs = key(&member.settings) != key(&settings);
        member.settings = settings;
        if differs {
            self.must_select = true;
            if sends {
                member.expire(now);
            }
        }
        self.key_member.get_or_insert(port);
    }

    /// Removes a link.
    pub fn remove(&mut self, port: OfPort) {
        self.must_select |= self.members.remove(&port).is_some();
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
        (self.must_select, self.state_changed) = (true, true);
    }

    /// Handles the payload of a received LACP frame. While the link has no carrier, the message is only counted.
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
        self.must_select |= member.status != Status::Current;
        member.status = Status::Current;
        member.expires_at =
            now + Millis(MISSED_INTERVALS * if fast { FAST_INTERVAL.0 } else { SLOW_INTERVAL.0 });
        member.announced = partner;
        if member.partner != actor {
            // A link whose other end has changed is detached until it is selected again.
            let same_end = (member.partner.system, member.partner.key) == (actor.system, actor.key);
            member.attached &= same_end;
            member.partner = actor;
            (self.must_select, self.state_changed) = (true, true);
        }
    }

    /// Handles expired timers and the consequences of received messages: selects the links to attach, and returns the
    /// messages that are due.
    pub fn run(&mut self, now: Millis) -> Vec<(OfPort, [u8; PDU_LEN])> {
        for member in self.members.values_mut() {
            let changed = member.run(now);
            self.must_select |= changed;
            self.state_changed |= changed;
        }
        if std::mem::take(&mut self.must_select) {
            self.select();
            self.state_changed = true;
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

    /// When [`Aggregation::run`] must be called next.
    pub fn deadline(&self) -> Option<Millis> {
        if self.must_select {
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
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.state_changed)
    }

    /// The lines for the log since the last call.
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

    /// Returns whether there is information from the other end of a link, current or expired.
    pub fn has_partner_info(&self, port: OfPort) -> bool {
        self.members.get(&port).is_some_and(|m| m.status != Status::Defaulted)
    }

    /// The key of all links: that of the key link, or its number if the key is 0. `None`: there is no link.
    pub(super) fn key(&self) -> Option<u16> {
        let first = &self.members.get(&self.key_member?)?.settings;
        Some(if first.key == 0 { first.port } else { first.key })
    }

    /// The information that this end announces on a link.
    pub(super) fn actor(&self, member: &Member) -> Info {
        let may_forward = member.attached || !self.negotiated;
        let state = [
            State::ACTIVITY.when(self.settings.active),
            State::TIMEOUT.when(self.settings.fast),
            State::SYNCHRONIZED.when(member.attached),
            State::DEFAULTED.when(member.status == Status::Defaulted),
            State::EXPIRED.when(member.status == Status::Expired),
            State::AGGREGATION.when(self.members.len() > 1),
            State::COLLECTING.union(State::DISTRIBUTING).when(may_forward),
        ];
        Info {
            system_priority: self.settings.priority,
            system: self.settings.system,
            key: self.key().unwrap_or_default(),
            port_priority: member.settings.priority,
            port: member.settings.port,
            state: state.into_iter().fold(State::default(), State::union),
        }
    }
}
