//! Estimates the period of a sender that sends at fixed intervals, and predicts when the next packet is due.
//!
//! The next packet is due one period after the previous one. The thread polls for it in a time window. The window opens
//! shortly before the packet is due (2 % of the packets arrive before the window opens). It closes a few wake-up delays
//! after the packet is due, because senders are sometimes delayed. A packet after the window still wakes the thread by
//! an event. If packets often arrive much earlier than expected, the sender has no fixed period and there is no window.
//!
//! The arrival time is exact if the thread was polling. Otherwise the packet arrived up to one wake-up delay earlier, and
//! the next window is wider by half of that delay on both sides.
//!
//! All times are cycles.

/// Each half of the window is at most 1/8 of a period. This bounds the CPU time that a window costs.
const HALF_WINDOW_PART: u64 = 8;
/// The window stays open for at most this many wake-up delays after the packet is due.
const DELAYS: u64 = 4;
/// The slack grows by 1/`GROW` of itself after a packet that arrived before the window.
const GROW: u64 = 2;
/// The slack shrinks by 1/`SHRINK` of itself after any other packet. The ratio of 49 makes the share of packets before
/// the window converge to 2 %.
const SHRINK: u64 = 49 * GROW;
/// Least slack, in µs.
const SLACK_MIN: u64 = 2;
/// The period changes by 1/`FOLLOW` of its difference from the measured gap: by 1/`FOLLOW.0` if both arrival times are
/// exact, otherwise by 1/`FOLLOW.1`.
const FOLLOW: (u64, u64) = (4, 32);
/// A step of the period is at most 1/`STEP.0` of the period down and 1/`STEP.1` up. Upward steps are smaller because a
/// pause of the sender must count as one long gap and not as a longer period.
const STEP: (u64, u64) = (256, 2048);
/// After this many consecutive gaps far from the period, the last gap becomes the period.
const OUTLIERS_MAX: u32 = 3;

/// The arrival estimate of one PMD thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrivalPeriod {
    /// The middle of the interval in which the last packet arrived.
    last: u64,
    /// Half of the length of that interval; 0 if the arrival time is exact.
    uncertainty: u64,
    /// The estimated period; 0 until it is known.
    period: u64,
    /// How long before the due time the window opens, without uncertainty and wake-up delay.
    slack: u64,
    /// Consecutive gaps that were far from the period.
    outliers: u32,
}

impl ArrivalPeriod {
    /// Called for the first packet after a silence, which was received at `now`. `late`: the thread's wake-up delay.
    /// `polling`: the thread was polling when the packet arrived.
    pub(super) fn add_arrival(&mut self, now: u64, polling: bool, late: u64, per_us: u64) {
        let uncertainty = if polling { 0 } else { late / 2 };
        let at = now.saturating_sub(uncertainty);
        let gap = at.saturating_sub(self.last);
        self.slack = match gap + self.slack + self.uncertainty + uncertainty < self.period {
            true => (self.slack + self.slack / GROW + per_us).min(self.period),
            false => (self.slack - self.slack / SHRINK).max(SLACK_MIN * per_us),
        };
        self.update_period(gap, if self.uncertainty + uncertainty == 0 { FOLLOW.0 } else { FOLLOW.1 });
        (self.last, self.uncertainty) = (at, uncertainty);
    }

    /// Updates the period with a measured gap. `part`: see [`FOLLOW`].
    fn update_period(&mut self, gap: u64, part: u64) {
        let off = gap.abs_diff(self.period);
        if off <= self.period / HALF_WINDOW_PART {
            self.outliers = 0;
            match gap < self.period {
                true => self.period -= (off / part).min(self.period / STEP.0),
                false => self.period += (off / part).min(self.period / STEP.1),
            }
            return;
        }
        self.outliers += 1;
        if self.outliers >= OUTLIERS_MAX {
            (self.outliers, self.period) = (0, gap);
        }
    }

    /// Time until the window opens for a thread with wake-up delay `late`; 0 while it is open. `None`: there is no window.
    pub(super) fn until_window(&self, now: u64, late: u64) -> Option<u64> {
        let most = self.period / HALF_WINDOW_PART;
        if late + self.slack > most {
            return None;
        }
        let (due, around) = (self.last + self.period, self.slack + self.uncertainty);
        let closes = due + around + most.min(DELAYS * late);
        (now <= closes).then(|| due.saturating_sub(around + late).saturating_sub(now))
    }
}
