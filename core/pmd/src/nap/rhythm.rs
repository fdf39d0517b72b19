//! When the next packet is due, where packets come as a clock ticks. A thread that would be woken too late for them is better
//! awake already.
//!
//! The next packet is due a period after the last one. The thread looks for it in a window that opens a little before that:
//! one packet in fifty comes sooner. It stays open for some wake-ups' time after that, for senders are kept from sending at
//! times; what comes later still wakes the thread. Where packets come much sooner than due they keep no time, and there is no
//! window.
//!
//! An arrival is known to the turn if the thread looked when it came. Otherwise it was up to a wake-up ago, and the next
//! window is wider by that on both sides.
//!
//! All times are cycles.

/// Either half of the window is at most this part of a period: what it may take of the processor.
const PART: u64 = 8;
/// The second is no longer than so many wake-ups.
const PATIENCE: u64 = 4;
/// Slack grows by this part of itself after a packet that came sooner, and shrinks by the other after any other.
const GROW: u64 = 2;
const SHRINK: u64 = 49 * GROW;
/// Slack is not less, in microseconds.
const SLACK_MIN: u64 = 2;
/// The period follows a gap by a part of their difference, the second if one of the arrivals is not known exactly, and by no
/// more than a part of itself, the second upwards: a sender's pauses are to count as few, not as long.
const FOLLOW: (u64, u64) = (4, 32);
const STEP: (u64, u64) = (256, 2048);
/// So many packets in a row that come at quite another time keep another time.
const OTHER_TIME: u32 = 3;

/// What one thread knows of when packets come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rhythm {
    /// The middle of the time in which the last packet came, and half of that time.
    came: u64,
    unsure: u64,
    /// 0: not known.
    period: u64,
    slack: u64,
    /// Packets in a row that were far from due.
    astray: u32,
}

impl Rhythm {
    /// The first packet after a silence was seen `now`, by a thread that wakes as late as `late`; `looked`: that polled when
    /// it came.
    pub(super) fn came(&mut self, now: u64, looked: bool, late: u64, per_us: u64) {
        let unsure = if looked { 0 } else { late / 2 };
        let came = now.saturating_sub(unsure);
        let gap = came.saturating_sub(self.came);
        self.slack = match gap + self.slack + self.unsure + unsure < self.period {
            true => (self.slack + self.slack / GROW + per_us).min(self.period),
            false => (self.slack - self.slack / SHRINK).max(SLACK_MIN * per_us),
        };
        self.learn(gap, if self.unsure + unsure == 0 { FOLLOW.0 } else { FOLLOW.1 });
        (self.came, self.unsure) = (came, unsure);
    }

    fn learn(&mut self, gap: u64, part: u64) {
        let off = gap.abs_diff(self.period);
        if off <= self.period / PART {
            self.astray = 0;
            match gap < self.period {
                true => self.period -= (off / part).min(self.period / STEP.0),
                false => self.period += (off / part).min(self.period / STEP.1),
            }
            return;
        }
        self.astray += 1;
        if self.astray >= OTHER_TIME {
            (self.astray, self.period) = (0, gap);
        }
    }

    /// How long until the window opens for a thread that wakes as late as `late`, 0 while it is open. None: no packet is
    /// expected at any time.
    pub(super) fn until_window(&self, now: u64, late: u64) -> Option<u64> {
        let most = self.period / PART;
        if late + self.slack > most {
            return None;
        }
        let (due, around) = (self.came + self.period, self.slack + self.unsure);
        let closes = due + around + most.min(PATIENCE * late);
        (now <= closes).then(|| due.saturating_sub(around + late).saturating_sub(now))
    }
}
