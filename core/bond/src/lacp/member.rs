//! One link: the information about its other end, and its timers (IEEE 802.1AX-2014 §6.4.12, §6.4.13).

use super::info::{Info, State};
use units::Millis;

/// Interval of messages if the other end requests fast ones.
pub(super) const FAST: Millis = Millis(1000);
pub(super) const SLOW: Millis = Millis(30_000);
/// Maximum number of messages per fast interval in addition to periodic ones.
const SENT_MAX: u64 = 3;
/// Intervals without a message after which the information expires.
pub(super) const MISSED: u64 = 3;

/// Status of the information about the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A message arrived in time.
    Current,
    /// No message arrived in time.
    Expired,
    /// There is no information.
    Defaulted,
}

impl Status {
    /// As commands show it.
    pub fn text(self) -> &'static str {
        match self {
            Status::Current => "current",
            Status::Expired => "expired",
            Status::Defaulted => "defaulted",
        }
    }
}

/// Settings of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSettings {
    /// Its name.
    pub name: String,
    /// Its number within the system.
    pub port: u16,
    /// Its priority.
    pub priority: u16,
    /// Its key; 0: the number of the first link.
    pub key: u16,
}

/// Counters of a link, as `lacp/show-stats` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) bad: u64,
    pub(super) markers: u64,
    pub(super) expired: u64,
    pub(super) defaulted: u64,
    pub(super) carrier_changed: u64,
}

/// One link.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) settings: MemberSettings,
    pub(super) status: Status,
    /// This end has attached the link, so traffic may flow.
    pub(super) attached: bool,
    pub(super) carrier: bool,
    /// Whether `carrier` was set since the link was added.
    pub(super) carrier_known: bool,
    /// The other end's information about itself.
    pub(super) partner: Info,
    /// This end's information as the other end has it.
    pub(super) announced: Info,
    /// Time of the next message.
    pub(super) send_at: Millis,
    /// Time of the first of the recent messages, and their number.
    recent: (Millis, u64),
    /// Time at which the status is downgraded unless a message arrives.
    pub(super) expires_at: Millis,
    pub(super) counters: Counters,
}

impl Member {
    pub(super) fn new(settings: MemberSettings) -> Member {
        Member {
            settings,
            status: Status::Defaulted,
            attached: false,
            carrier: false,
            carrier_known: false,
            partner: Info::default(),
            announced: Info::default(),
            send_at: Millis(0),
            recent: (Millis(0), 0),
            expires_at: Millis(0),
            counters: Counters::default(),
        }
    }

    /// Records that a message was sent.
    pub(super) fn count_sent(&mut self, now: Millis) {
        match &mut self.recent {
            (since, count) if now.since(*since) < FAST => *count += 1,
            recent => *recent = (now, 1),
        }
    }

    /// Time from which a change may be announced: at most three messages per fast interval (§6.4.16).
    pub(super) fn may_announce_at(&self) -> Millis {
        let (since, count) = self.recent;
        if count < SENT_MAX { Millis(0) } else { since + FAST }
    }

    /// Expires the information: requests fast messages, or falls back to defaults.
    pub(super) fn expire(&mut self, now: Millis) {
        self.status = Status::Expired;
        self.partner.state = self.partner.state.and(State::TIMEOUT).without(State::SYNCHRONIZED);
        self.expires_at = now + Millis(FAST.0 * MISSED);
    }

    pub(super) fn forget_partner(&mut self) {
        self.partner = Info::default();
        self.status = Status::Defaulted;
    }

    /// Handles the passing of time; returns true if the status has changed.
    pub(super) fn run(&mut self, now: Millis) -> bool {
        if now < self.expires_at {
            return false;
        }
        match self.status {
            Status::Current => {
                self.expire(now);
                self.counters.expired += 1;
            }
            Status::Expired => {
                self.forget_partner();
                self.counters.defaulted += 1;
            }
            Status::Defaulted => return false,
        }
        true
    }

    /// Returns whether traffic may flow.
    pub(super) fn may_enable(&self, fallback: bool) -> bool {
        let alone = fallback && self.status == Status::Defaulted;
        self.attached && (self.partner.state.has(State::SYNCHRONIZED) || alone)
    }

    /// Returns whether this end sends messages: always if active, otherwise only after the other end has sent
    /// one.
    pub(super) fn sends(&self, active: bool) -> bool {
        self.carrier && (active || self.status != Status::Defaulted)
    }

    /// The interval until the next message. The other end announces which it wants. Without information about the other end, this
    /// end's own setting (`fast`) is used, so that a passive end that returns is found within that time.
    pub(super) fn interval(&self, fast: bool) -> Millis {
        let fast = match self.status {
            Status::Defaulted => fast,
            Status::Current | Status::Expired => self.partner.state.has(State::TIMEOUT),
        };
        if fast { FAST } else { SLOW }
    }
}
