//! Estimates the period of a sender that sends at fixed intervals, and predicts when the next packet is due.
//!
//! The next packet is due one period after the previous one. The thread polls for it in a time window. The window opens shortly before the
//! packet is due, by a time called the *slack* (which is adapted so that 2 % of the packets arrive before the window opens). It closes a few
//! wake-up delays after the packet is due, because senders are sometimes delayed. A packet after the window still wakes the thread by an event.
//! If packets often arrive much earlier than expected, the sender has no fixed period and there is no window.
//!
//! The arrival time is exact if the thread was polling. Otherwise the packet arrived up to one wake-up delay before it was
//! received, and the next window is wider by half of that delay on both sides.
//!
//! Times are cycles unless a unit is named.

/// Divisor of the period for three limits. There is no window if slack and wake-up delay together exceed 1/8
/// of the period. After the due time, the window stays open for at most 1/8 of the period more than slack and
/// uncertainty. These two limits bound the CPU time that a window costs. A gap that differs from the period
/// by more than 1/8 of the period is an outlier.
const HALF_WINDOW_PART: u64 = 8;
/// After the packet is due, the window stays open for slack and uncertainty, and for at most this many wake-up delays more.
const DELAYS: u64 = 4;
/// The slack grows by 1/`GROW` of itself and 1 µs, up to the period, after a packet that arrived before the window.
const GROW: u64 = 2;
/// The slack shrinks by 1/`SHRINK` of itself after any other packet. The ratio of `SHRINK` and `GROW`, 49, makes the share of packets before
/// the window converge to 2 %.
const SHRINK: u64 = 49 * GROW;
/// Least slack, in µs.
const SLACK_MIN: u64 = 2;
/// The period changes by 1/`FOLLOW_EXACT` of its difference from the measured gap if both arrival times are exact.
const FOLLOW_EXACT: u64 = 4;
/// The same if an arrival time is uncertain.
const FOLLOW_UNCERTAIN: u64 = 32;
/// The period decreases by at most 1/`STEP_DOWN` of itself in one step.
const STEP_DOWN: u64 = 256;
/// The period increases by at most 1/`STEP_UP` of itself in one step. Such steps are smaller, because a pause of the sender must
/// count as one long gap and not as a longer period.
const STEP_UP: u64 = 2048;
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
    /// Called for the first packet after a silence, which was received at `now`. `wakeup_delay`: the thread's wake-up delay.
    /// `polling`: the thread was polling when the packet arrived.
    pub(super) fn add_arrival(&mut self, now: u64, polling: bool, wakeup_delay: u64, cycles_per_us: u64) {
        let uncertainty = if polling { 0 } else { wakeup_delay / 2 };
        let at = now.saturating_sub(uncertainty);
        let gap = at.saturating_sub(self.last);
        self.slack = match gap + self.slack + self.uncertainty + uncertainty < self.period {
            true => (self.slack + self.slack / GROW + cycles_per_us).min(self.period),
            false => (self.slack - self.slack / SHRINK).max(SLACK_MIN * cycles_per_us),
        };
        self.update_period(
            gap,
            if self.uncertainty + uncertainty == 0 { FOLLOW_EXACT } else { FOLLOW_UNCERTAIN },
        );
        (self.last, self.uncertainty) = (at, uncertainty);
    }

    /// Updates the period with a measured gap. `part`: [`FOLLOW_EXACT`] or [`FOLLOW_UNCERTAIN`].
    fn update_period(&mut self, gap: u64, part: u64) {
        let off = gap.abs_diff(self.period);
        if off <= self.period / HALF_WINDOW_PART {
            self.outliers = 0;
            match gap < self.period {
                true => self.period -= (off / part).min(self.period / STEP_DOWN),
                false => self.period += (off / part).min(self.period / STEP_UP),
            }
            return;
        }
        self.outliers += 1;
        if self.outliers >= OUTLIERS_MAX {
            (self.outliers, self.period) = (0, gap);
        }
    }

    /// Time until the window opens for a thread with this wake-up delay; 0 while it is open. `None`: there is no window, or it has
    /// closed.
    pub(super) fn until_window(&self, now: u64, wakeup_delay: u64) -> Option<u64> {
        let half_max = self.period / HALF_WINDOW_PART;
        if wakeup_delay + self.slack > half_max {
            return None;
        }
        let (due, around) = (self.last + self.period, self.slack + self.uncertainty);
        let closes = due + around + half_max.min(DELAYS * wakeup_delay);
        (now <= closes).then(|| due.saturating_sub(around + wakeup_delay).saturating_sub(now))
    }
}
