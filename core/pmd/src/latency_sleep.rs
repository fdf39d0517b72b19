//! Latency-target sleep (`pmd-latency-target`): how long an idle PMD thread sleeps so that no packet waits longer than
//! the target.
//!
//! After an iteration with packets the thread polls again at once. After an empty iteration it sleeps until about
//! `RING_SHARE` packets are expected, estimated from the recent gaps between packets. The sleep is shortened by the
//! thread's wake-up delay (the 95th percentile of its sleeps), so that the thread polls again within the target. The CPU
//! time of a sleep is measured, too: if a sleep costs more CPU time than it saves, the thread waits in user space if the
//! CPU supports that, and polls otherwise.
//!
//! Gaps are measured from one empty iteration to the next empty iteration after packets, so that packets which queued up
//! during a sleep do not look like a burst. In a real burst no iteration is empty, so the thread does not sleep in it.
//!
//! If less than one packet is expected within the target, most timer sleeps would end without a packet. If every device
//! can raise an event, the thread then arms these events instead of a timer. If events arrive later than the target
//! allows and packets arrive at a fixed period, the thread wakes shortly before the next packet is due and polls for it
//! (`arrival_period.rs`).
//!
//! All times are cycles of the counter that the thread reads anyway. Nothing in this file blocks.

mod arrival_period;

use crate::sleep::SleepMax;
use arrival_period::ArrivalPeriod;
use units::Cycles;

/// `pmd-latency-target`; same syntax as `pmd-sleep-max`. 0 disables it.
pub type LatencyTarget = SleepMax;

/// Packets that may queue up during a sleep: a quarter of a guest's ring of 256, because sleeps end late.
const RING_SHARE: u64 = 64;
/// If no packet has arrived for longer than the usual gap, the silence is expected to last this many times as long again.
const SILENCE_FACTOR: u64 = 16;
/// Longest timer sleep in µs, whatever the target: a ring of 2048 fills in 137 µs at 14.88 Mpps.
const SLEEP_MAX: u64 = 100;
/// Shortest timer sleep in µs: the system call of a shorter one costs more than the sleep saves.
const TIMER_MIN: u64 = 5;
/// Longest wait in user space in µs: such a wait keeps the core busy and cannot be interrupted.
const PAUSE_MAX: u64 = 20;
/// Assumed wake-up delay in µs until it has been measured.
const WAKEUP_DELAY_DEFAULT: u64 = 10;
/// Assumed CPU time of a sleep in µs until it has been measured.
const SLEEP_COST_DEFAULT: u64 = 3;
/// When sleeps end too late or cost too much, the thread tries one sleep again after this many wake-up delays, because
/// the machine may be less busy now. So such a sleep delays at most about one in this many packets.
const PROBE: u64 = 200;
/// Longest sleep in µs with device events armed, in case a device loses an event.
const DEVICE_EVENT_SLEEP_MAX: u64 = 10_000;
/// Of every `MEASURED.0` arrivals, the thread polls for the first `MEASURED.1` when they are due, although an event would
/// arrive in time: these wake-ups measure the wake-up delay. The first `MEASURED.0` arrivals are all polled for.
const MEASURED: (u32, u32) = (64, 4);

/// What the thread does after an iteration. Times are cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleAction {
    /// Poll again at once.
    Poll,
    /// Wait in user space (`TPAUSE`).
    Pause(u64),
    /// Sleep on a timer.
    Timer(u64),
    /// Sleep until a device raises an event, at most this long.
    UntilDeviceEvent(u64),
}

/// The state of latency-target sleep of one PMD thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct LatencySleep {
    /// Cycles per microsecond; 0 if there is no target.
    per_us: u64,
    /// The latency target.
    target: u64,
    /// The CPU can wait in user space.
    can_pause: bool,
    /// Every device can raise events.
    can_arm: bool,
    /// Smoothed time between two packets.
    gap: u64,
    /// When packets were last received.
    last_packets: u64,
    /// When `gap` was last updated: at an empty iteration after packets.
    drained: u64,
    /// Number of packets received since `drained`.
    since_drained: u64,
    /// The previous iteration was empty and no sleep followed it.
    polling: bool,
    /// Number of silences that packets have ended.
    arrivals: u32,
    period: ArrivalPeriod,
    /// Wake-up delay: 95 % of the sleeps end less late than this.
    wakeup_delay: u64,
    /// Smoothed CPU time of a sleep.
    cost: u64,
    /// When a sleep last ended.
    last_sleep: u64,
    /// Regular sleeps would end too late or cost too much, so that a timer sleep now is a probe.
    probing: bool,
}

impl LatencySleep {
    /// Sets the target in µs (0: none) and the counter's cycles per µs. `can_pause`: the CPU can wait in user space.
    pub fn set_target(&mut self, micros: u64, per_us: u64, can_pause: bool) {
        let per_us = if micros == 0 { 0 } else { per_us.max(1) };
        *self = LatencySleep {
            per_us,
            target: micros * per_us,
            can_pause,
            can_arm: true,
            wakeup_delay: WAKEUP_DELAY_DEFAULT * per_us,
            cost: SLEEP_COST_DEFAULT * per_us,
            ..LatencySleep::default()
        };
    }

    /// Whether a target is set.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.per_us != 0
    }

    /// Sets whether every device of the thread can raise events. The thread sets false if arming the events fails, and
    /// true again when its queues change.
    pub fn set_can_arm(&mut self, can: bool) {
        self.can_arm = can;
    }

    /// Called after every iteration with the number of packets it received.
    #[inline]
    pub fn after_iteration(&mut self, now: Cycles, packets: u64) -> IdleAction {
        if packets == 0 {
            let action = if self.is_on() { self.after_empty_iteration(now.0) } else { IdleAction::Poll };
            self.polling = action == IdleAction::Poll;
            return action;
        }
        if self.since_drained == 0 {
            self.arrivals = self.arrivals.wrapping_add(1);
            self.period.add_arrival(now.0, self.polling, self.wakeup_delay, self.per_us);
        }
        self.last_packets = now.0;
        self.since_drained += packets;
        IdleAction::Poll
    }

    /// Updates the gap between packets; called when the rx queues are empty after packets.
    fn update_gap(&mut self, now: u64) {
        let gap = now.saturating_sub(self.drained) / self.since_drained;
        // Follow rising traffic faster than falling traffic.
        self.gap = match gap < self.gap {
            true => (self.gap + gap) / 2,
            false => self.gap + (gap - self.gap) / 8,
        };
        (self.drained, self.since_drained) = (now, 0);
    }

    /// Decides what the thread does after an empty iteration.
    fn after_empty_iteration(&mut self, now: u64) -> IdleAction {
        if self.since_drained != 0 {
            self.update_gap(now);
        }
        let us = self.per_us;
        let silence = now.saturating_sub(self.last_packets);
        // A silence longer than the usual gap is a longer gap that has not ended yet.
        let gap = self.gap.max(silence);
        if self.can_arm && gap > self.target.max(4 * self.cost) {
            self.probing = false;
            return self.device_event_action(now);
        }
        let in_time = (self.target * 9 / 10).saturating_sub(self.wakeup_delay);
        let quiet = self.gap.saturating_mul(RING_SHARE).max(silence.saturating_mul(SILENCE_FACTOR));
        let wanted = quiet.min(SLEEP_MAX * us);
        let sleep = wanted.min(in_time);
        // Regular sleeps must save at least a third of the time, counted with the average delay `wakeup_delay / 2`.
        self.probing = sleep < TIMER_MIN * us || 2 * sleep + self.wakeup_delay <= 3 * self.cost;
        if !self.probing {
            return IdleAction::Timer(sleep);
        }
        let probe_due =
            now.saturating_sub(self.last_sleep) > PROBE * self.wakeup_delay.max(WAKEUP_DELAY_DEFAULT * us);
        if probe_due && wanted >= TIMER_MIN * us {
            return IdleAction::Timer(TIMER_MIN * us);
        }
        let pause = wanted.min(self.target * 9 / 10).min(PAUSE_MAX * us);
        if self.can_pause && pause > us { IdleAction::Pause(pause) } else { IdleAction::Poll }
    }

    /// Decides for a thread that can arm device events: sleep with events armed, or poll if the next packet is due soon.
    fn device_event_action(&self, now: u64) -> IdleAction {
        // An event costs an interrupt and then the wake-up of another core.
        let too_late = 3 * self.wakeup_delay > self.target * 9 / 10;
        let measures = self.arrivals < MEASURED.0 || self.arrivals % MEASURED.0 < MEASURED.1;
        let window =
            if too_late || measures { self.period.until_window(now, self.wakeup_delay) } else { None };
        let most = DEVICE_EVENT_SLEEP_MAX * self.per_us;
        match window {
            None => IdleAction::UntilDeviceEvent(most),
            Some(wait) if wait < TIMER_MIN * self.per_us => IdleAction::Poll,
            Some(wait) => IdleAction::UntilDeviceEvent(wait.min(most)),
        }
    }

    /// Called after a sleep that the timer ended. `requested`: the requested length; `took`: the real length. Long sleeps are
    /// ignored: the core enters a deep idle state in them, so their delay says nothing about short sleeps.
    pub fn slept(&mut self, now: Cycles, requested: u64, took: u64) {
        if requested >= DEVICE_EVENT_SLEEP_MAX * self.per_us {
            return;
        }
        self.last_sleep = now.0;
        let delay = took.saturating_sub(requested);
        // Steps up and down in the ratio 19:1 converge to the 95th percentile. Probes are too rare for that: about twenty
        // probes that end early enough halve the estimate, and regular sleeps then correct it.
        let step = self.wakeup_delay / 16 + self.per_us / 8;
        let down = if self.probing { self.wakeup_delay / 32 } else { step / 19 + 1 };
        self.wakeup_delay = match delay > self.wakeup_delay {
            true => self.wakeup_delay + step.min(delay - self.wakeup_delay),
            false => self.wakeup_delay.saturating_sub(down),
        };
    }

    /// Called with the CPU time of a sleep, in cycles. Outliers are clipped: a hypervisor that preempts the core during a
    /// sleep would also have preempted a polling thread.
    pub fn add_cost(&mut self, cycles: u64) {
        self.cost = (7 * self.cost + cycles.min(2 * self.cost + self.per_us)) / 8;
    }
}

#[cfg(test)]
mod tests;
