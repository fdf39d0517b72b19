//! One link: what is known of its other end, and its timers (IEEE 802.1AX-2014 §6.4.12, §6.4.13).

use super::info::{Info, State};
use units::Millis;

/// Interval of messages to an end that wants them fast, and to one that does not.
pub(super) const FAST: Millis = Millis(1000);
pub(super) const SLOW: Millis = Millis(30_000);
/// Messages in a fast interval, beside those that are due anyway.
const TOLD_MAX: u64 = 3;
/// So many intervals without a message are too many.
pub(super) const MISSED: u64 = 3;

/// What is known of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has been heard within its time.
    Current,
    /// It has been silent for too long.
    Expired,
    /// Nothing.
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

/// How a link presents itself.
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

/// See the module.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) settings: MemberSettings,
    pub(super) status: Status,
    /// Traffic may flow, as far as this end is concerned.
    pub(super) attached: bool,
    pub(super) carrier: bool,
    /// What the other end has said of itself.
    pub(super) partner: Info,
    /// What the other end knows of this one.
    pub(super) told: Info,
    /// The next message goes out.
    pub(super) send_at: Millis,
    /// When the first of the last messages went out, and how many since.
    recent: (Millis, u64),
    /// Without a message until then the status gets worse.
    pub(super) hear_by: Millis,
    pub(super) counters: Counters,
}

impl Member {
    pub(super) fn new(settings: MemberSettings) -> Member {
        Member {
            settings,
            status: Status::Defaulted,
            attached: false,
            carrier: false,
            partner: Info::default(),
            told: Info::default(),
            send_at: Millis(0),
            recent: (Millis(0), 0),
            hear_by: Millis(0),
            counters: Counters::default(),
        }
    }

    /// A message has been sent.
    pub(super) fn note_sent(&mut self, now: Millis) {
        match &mut self.recent {
            (since, count) if now.since(*since) < FAST => *count += 1,
            recent => *recent = (now, 1),
        }
    }

    /// From when on a change may be told: three messages in a fast interval are enough (§6.4.16).
    pub(super) fn may_tell_at(&self) -> Millis {
        let (since, count) = self.recent;
        if count < TOLD_MAX { Millis(0) } else { since + FAST }
    }

    /// The other end is to speak soon, or is forgotten.
    pub(super) fn expire(&mut self, now: Millis) {
        self.status = Status::Expired;
        self.partner.state = self.partner.state.and(State::TIMEOUT).without(State::SYNCHRONIZED);
        self.hear_by = now + Millis(FAST.0 * MISSED);
    }

    pub(super) fn forget_partner(&mut self) {
        self.partner = Info::default();
        self.status = Status::Defaulted;
    }

    /// Time has passed; true if the status is another.
    pub(super) fn run(&mut self, now: Millis) -> bool {
        if now < self.hear_by {
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

    /// Traffic may flow.
    pub(super) fn may_enable(&self, fallback: bool) -> bool {
        let alone = fallback && self.status == Status::Defaulted;
        self.attached && (self.partner.state.has(State::SYNCHRONIZED) || alone)
    }

    /// This end sends messages: always where it is active, else only to an end that has been heard.
    pub(super) fn speaks(&self, active: bool) -> bool {
        self.carrier && (active || self.status != Status::Defaulted)
    }

    /// How long until the next message. The other end says what it wants; while nothing is known of it, this end sends as
    /// often as it wants to hear itself (`fast`): a passive end that comes back is found within that time.
    pub(super) fn interval(&self, fast: bool) -> Millis {
        let fast = match self.status {
            Status::Defaulted => fast,
            Status::Current | Status::Expired => self.partner.state.has(State::TIMEOUT),
        };
        if fast { FAST } else { SLOW }
    }
}
