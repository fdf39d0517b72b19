//! One link: the information about its other end, and its timers (IEEE 802.1AX-2014 §6.4.12, §6.4.13).

use super::info::{Info, State};
use units::Millis;

/// Message interval if the other end requests the fast rate.
pub(super) const FAST_INTERVAL: Millis = Millis(1000);
/// Message interval if the other end requests the slow rate.
pub(super) const SLOW_INTERVAL: Millis = Millis(30_000);
/// If this many messages were sent in a fast interval, changes are not announced before the interval ends.
const SENT_MAX: u64 = 3;
/// Number of intervals without a message after which the other end's information expires.
pub(super) const MISSED_INTERVALS: u64 = 3;

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
    /// The text in commands.
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
    /// The link's name.
    pub name: String,
    /// The link's number within the system.
    pub port: u16,
    /// The link's priority.
    pub priority: u16,
    /// The link's key; 0: the number of the first link is used.
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
    /// This end has attached the link.
    pub(super) attached: bool,
    pub(super) carrier: bool,
    /// Whether `carrier` was set since the link was added.
    pub(super) carrier_known: bool,
    /// The other end's information about itself.
    pub(super) partner: Info,
    /// What the other end knows about this end: from its last message, or from the last message sent to it.
    pub(super) announced: Info,
    /// Time of the next message.
    pub(super) send_at: Millis,
    /// The start of the current fast interval, and the number of messages sent in it.
    recent: (Millis, u64),
    /// When the status changes from current to expired, or from expired to defaulted, unless a message arrives before.
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
            (since, count) if now.since(*since) < FAST_INTERVAL => *count += 1,
            recent => *recent = (now, 1),
        }
    }

    /// When a change may be announced: at most three messages are sent per fast interval (§6.4.16).
    pub(super) fn may_announce_at(&self) -> Millis {
        let (since, count) = self.recent;
        if count < SENT_MAX { Millis(0) } else { since + FAST_INTERVAL }
    }

    /// Marks the information as expired: fast messages are sent, until the information is dropped after three fast intervals.
    pub(super) fn expire(&mut self, now: Millis) {
        self.status = Status::Expired;
        self.partner.state = self.partner.state.union(State::TIMEOUT).without(State::SYNCHRONIZED);
        self.expires_at = now + Millis(FAST_INTERVAL.0 * MISSED_INTERVALS);
    }

    pub(super) fn forget_partner(&mut self) {
        self.partner = Info::default();
        self.status = Status::Defaulted;
    }

    /// Handles an expired timer. Returns true if the status has changed.
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

    /// Returns whether the link may carry traffic.
    pub(super) fn may_enable(&self, fallback: bool) -> bool {
        let alone = fallback && self.status == Status::Defaulted;
        self.attached && (self.partner.state.has(State::SYNCHRONIZED) || alone)
    }

    /// Returns whether this end sends messages on the link. The link must have a carrier. A passive end
    /// (`active` is false) sends only while it has current or expired information about the other end.
    pub(super) fn sends(&self, active: bool) -> bool {
        self.carrier && (active || self.status != Status::Defaulted)
    }

    /// The interval until the next message. The other end requests the rate. Without information about the other end, this end's own setting (`fast`)
    /// is used, so that a passive end that returns is found within that time.
    pub(super) fn interval(&self, fast: bool) -> Millis {
        let fast = match self.status {
            Status::Defaulted => fast,
            Status::Current | Status::Expired => self.partner.state.has(State::TIMEOUT),
        };
        if fast { FAST_INTERVAL } else { SLOW_INTERVAL }
    }
}
