//! `pmd-latency-target`: how long a poll thread that finds nothing may look away, so that no packet waits longer than the
//! target.
//!
//! A turn that brings packets is followed by another at once. After an empty turn the thread sleeps until about sixteen
//! packets are expected, by the gaps at which they came lately, but so short that it is back within the target even
//! when it wakes as late as the slowest twentieth of its sleeps did. What a sleep costs the processor is measured, too:
//! where it is not worth it, the thread waits in user space if the processor can, else it keeps polling.
//!
//! Where less than one packet is expected within the target, sleeping by the clock would wake the thread in vain time and
//! again. If all devices can tell, it asks them to wake it instead.
//!
//! All times here are cycles of the counter that the thread reads anyway. Nothing in this file waits.

use crate::sleep::SleepMax;
use units::Cycles;

/// `pmd-latency-target`, in the form of `pmd-sleep-max`; 0 is none.
pub type LatencyTarget = SleepMax;

/// A queue that brings so many packets at once has a burst: half of what one turn takes.
const BURST: u64 = 16;
/// Sleeps end when so many packets are expected.
const WORTH: u64 = 16;
/// A device that cannot wake us is looked at so often, whatever the target: a ring of 2048 holds what comes at
/// 14.88 million packets a second for 137 microseconds.
const RING: u64 = 100;
/// Shorter ones are not worth a call of the kernel.
const TIMER_MIN: u64 = 5;
/// A longer wait in user space holds the core as polling does, and hears nobody.
const PAUSE_MAX: u64 = 20;
/// How late a thread wakes, until that is measured.
const LATE: u64 = 10;
/// What a sleep costs, until that is measured.
const COST: u64 = 3;
/// When sleeps seem to end too late, one is tried again after so many: machines become quiet.
const PROBE: u64 = 20_000;
/// A thread that devices wake looks itself after so many, should one forget.
const ARMED: u64 = 10_000;

/// What to do after a turn. Times are cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nap {
    /// Poll on.
    None,
    /// Wait in user space.
    Pause(u64),
    /// Sleep by the clock.
    Timer(u64),
    /// Sleep until a device wakes the thread, or so long.
    Armed(u64),
}

/// Decides for one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Napper {
    /// Cycles of a microsecond; 0: there is no target.
    per_us: u64,
    target: u64,
    can_pause: bool,
    /// Devices can wake us.
    can_arm: bool,
    /// The usual time between two packets.
    gap: u64,
    /// When there were packets last.
    came: u64,
    /// All but a twentieth of sleeps ended less late.
    late: u64,
    /// What a sleep takes of the processor.
    cost: u64,
    /// When a sleep last ended.
    slept: u64,
}

impl Napper {
    /// The target in microseconds, 0 for none; how many cycles one has. `can_pause`: the processor can wait in user space.
    pub fn set_target(&mut self, micros: u64, per_us: u64, can_pause: bool) {
        let per_us = if micros == 0 { 0 } else { per_us.max(1) };
        *self = Napper {
            per_us,
            target: micros * per_us,
            can_pause,
            can_arm: true,
            late: LATE * per_us,
            cost: COST * per_us,
            ..Napper::default()
        };
    }

    /// There is a target.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.per_us != 0
    }

    /// Whether all devices can wake the thread: found out when it asks them, assumed again when its queues change.
    pub fn set_can_arm(&mut self, can: bool) {
        self.can_arm = can;
    }

    /// A turn ended: it brought so many packets, no queue more than `most`.
    #[inline]
    pub fn after_turn(&mut self, now: Cycles, packets: u64, most: u64) -> Nap {
        if packets == 0 {
            return self.idle(now.0);
        }
        let gap = now.0.saturating_sub(self.came) / packets;
        self.came = now.0;
        // Traffic that begins is believed sooner than traffic that ends.
        self.gap = match gap < self.gap {
            _ if most >= BURST => gap,
            true => (self.gap + gap) / 2,
            false => self.gap + (gap - self.gap) / 8,
        };
        Nap::None
    }

    fn idle(&mut self, now: u64) -> Nap {
        let us = self.per_us;
        // What has not come for longer than usual is slower than it was.
        let gap = self.gap.max(now.saturating_sub(self.came));
        let in_time = (self.target * 9 / 10).saturating_sub(self.late);
        if self.can_arm && gap > self.target.max(4 * self.cost) && in_time > 0 {
            return Nap::Armed(ARMED * us);
        }
        let wanted = gap.saturating_mul(WORTH).min(RING * us);
        let sleep = wanted.min(in_time);
        // It saves what it takes less what it costs; less than half is not worth the wait.
        if sleep >= TIMER_MIN * us && sleep + self.late / 2 > 2 * self.cost {
            return Nap::Timer(sleep);
        }
        if in_time < TIMER_MIN * us && wanted >= TIMER_MIN * us && now.saturating_sub(self.slept) > PROBE * us
        {
            return Nap::Timer(TIMER_MIN * us);
        }
        let pause = wanted.min(self.target * 9 / 10).min(PAUSE_MAX * us);
        if self.can_pause && pause > us { Nap::Pause(pause) } else { Nap::None }
    }

    /// A sleep by the clock was to take `asked` and took `took`.
    pub fn slept(&mut self, now: Cycles, asked: u64, took: u64) {
        self.slept = now.0;
        let late = took.saturating_sub(asked);
        // Steps up and down at 19 to 1 settle where one sleep in twenty is later.
        let step = self.late / 16 + self.per_us / 8;
        self.late = match late > self.late {
            true => self.late + step.min(late - self.late),
            false => self.late.saturating_sub(step / 19 + 1),
        };
    }

    /// A sleep took so many cycles of the processor.
    pub fn cost(&mut self, cycles: u64) {
        self.cost = (7 * self.cost + cycles) / 8;
    }
}

#[cfg(test)]
mod tests;
