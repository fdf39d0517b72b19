//! `pmd-latency-target`: how long a poll thread that finds nothing may look away, so that no packet waits longer than the
//! target.
//!
//! A turn that brings packets is followed by another at once. After an empty turn the thread sleeps until so many packets
//! are expected as any ring holds, by the gaps at which they came lately, but so short that it is back within the target
//! even when it wakes as late as the slowest twentieth of its sleeps did. What a sleep costs the processor is measured,
//! too: where it is not worth it, the thread waits in user space if the processor can, else it keeps polling.
//!
//! Gaps are reckoned from one empty turn to the next that follows packets, so that what gathered during a sleep does not
//! look like a burst. A burst brings no empty turn, so no sleep; right after one the thread polls for a while.
//!
//! Where less than one packet is expected within the target, sleeping by the clock would wake the thread in vain time and
//! again. If all devices can tell, it asks them to wake it instead. Where the machine wakes it later than the target allows,
//! and packets keep time, it sleeps until shortly before the next one is due, and looks for it.
//!
//! All times here are cycles of the counter that the thread reads anyway. Nothing in this file waits.

mod rhythm;

use crate::sleep::SleepMax;
use rhythm::Rhythm;
use units::Cycles;

/// `pmd-latency-target`, in the form of `pmd-sleep-max`; 0 is none.
pub type LatencyTarget = SleepMax;

/// Sleeps end when so many packets are expected. Guests have rings of 256, and sleeps end late.
const ROOM: u64 = 64;
/// A silence is believed to last so many times as long as it lasted, if it is longer than the usual gap.
const SILENCE: u64 = 16;
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
/// When sleeps seem to end too late or to cost too much, one is tried again after so many times that, for machines become
/// quiet: one packet of so many meets it.
const PROBE: u64 = 200;
/// A thread that devices wake looks itself after so many, should one forget.
const ARMED: u64 = 10_000;
/// Of so many packets, so many are looked for when they are due although a device would wake the thread in time: which tells
/// how late it wakes. The first are all looked for.
const TRIED: (u32, u32) = (64, 4);

/// What to do after a turn. Times are cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nap {
    /// Poll on.
    None,
    /// Wait in user space.
    Pause(u64),
    /// Sleep by the clock.
    Timer(u64),
    /// Sleep until a device wakes the thread, but no longer than this.
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
    /// When the thread last had nothing left to do, and the packets since.
    drained: u64,
    brought: u64,
    /// The turn before found nothing, and no sleep followed.
    looking: bool,
    /// Silences that ended.
    arrivals: u32,
    rhythm: Rhythm,
    /// All but a twentieth of sleeps ended less late.
    late: u64,
    /// What a sleep takes of the processor.
    cost: u64,
    /// When a sleep last ended.
    slept: u64,
    /// Sleeps are not worth it; one is only tried.
    probing: bool,
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

    /// A turn ended: it brought so many packets.
    #[inline]
    pub fn after_turn(&mut self, now: Cycles, packets: u64) -> Nap {
        if packets == 0 {
            let nap = if self.is_on() { self.idle(now.0) } else { Nap::None };
            self.looking = nap == Nap::None;
            return nap;
        }
        if self.brought == 0 {
            self.arrivals = self.arrivals.wrapping_add(1);
            self.rhythm.came(now.0, self.looking, self.late, self.per_us);
        }
        self.came = now.0;
        self.brought += packets;
        Nap::None
    }

    /// There is nothing left to do: how far apart the packets since last time came.
    fn learn(&mut self, now: u64) {
        let gap = now.saturating_sub(self.drained) / self.brought;
        // Traffic that begins is believed sooner than traffic that ends.
        self.gap = match gap < self.gap {
            true => (self.gap + gap) / 2,
            false => self.gap + (gap - self.gap) / 8,
        };
        (self.drained, self.brought) = (now, 0);
    }

    fn idle(&mut self, now: u64) -> Nap {
        if self.brought != 0 {
            self.learn(now);
        }
        let us = self.per_us;
        let silence = now.saturating_sub(self.came);
        // What has not come for longer than usual is slower than it was.
        let gap = self.gap.max(silence);
        if self.can_arm && gap > self.target.max(4 * self.cost) {
            self.probing = false;
            return self.armed(now);
        }
        let in_time = (self.target * 9 / 10).saturating_sub(self.late);
        let quiet = self.gap.saturating_mul(ROOM).max(silence.saturating_mul(SILENCE));
        let wanted = quiet.min(RING * us);
        let sleep = wanted.min(in_time);
        // It saves what it takes less what it costs; less than a third is not worth the wait.
        self.probing = sleep < TIMER_MIN * us || 2 * sleep + self.late <= 3 * self.cost;
        if !self.probing {
            return Nap::Timer(sleep);
        }
        let rested = now.saturating_sub(self.slept) > PROBE * self.late.max(LATE * us);
        if rested && wanted >= TIMER_MIN * us {
            return Nap::Timer(TIMER_MIN * us);
        }
        let pause = wanted.min(self.target * 9 / 10).min(PAUSE_MAX * us);
        if self.can_pause && pause > us { Nap::Pause(pause) } else { Nap::None }
    }

    /// Devices wake the thread, if it is not awake when packets are due.
    fn armed(&self, now: u64) -> Nap {
        // A device's word takes the way of an interrupt, and then wakes another processor.
        let too_late = 3 * self.late > self.target * 9 / 10;
        let tried = self.arrivals < TRIED.0 || self.arrivals % TRIED.0 < TRIED.1;
        let window = if too_late || tried { self.rhythm.until_window(now, self.late) } else { None };
        let most = ARMED * self.per_us;
        match window {
            None => Nap::Armed(most),
            Some(wait) if wait < TIMER_MIN * self.per_us => Nap::None,
            Some(wait) => Nap::Armed(wait.min(most)),
        }
    }

    /// A sleep that the clock ended was to take `asked` and took `took`. Long ones, after which the processor slept, too, tell
    /// nothing of others.
    pub fn slept(&mut self, now: Cycles, asked: u64, took: u64) {
        if asked >= ARMED * self.per_us {
            return;
        }
        self.slept = now.0;
        let late = took.saturating_sub(asked);
        // Steps up and down at 19 to 1 settle where one sleep in twenty is later. Those that are only tried are too few for
        // that: some twenty good ones bring it to half, and what follows them sets it right.
        let step = self.late / 16 + self.per_us / 8;
        let down = if self.probing { self.late / 32 } else { step / 19 + 1 };
        self.late = match late > self.late {
            true => self.late + step.min(late - self.late),
            false => self.late.saturating_sub(down),
        };
    }

    /// A sleep took so many cycles of the processor. One that took much more than others is not the sleep's: where the thread
    /// was kept from running unnoticed (by a hypervisor), polling would have been, too.
    pub fn cost(&mut self, cycles: u64) {
        self.cost = (7 * self.cost + cycles.min(2 * self.cost + self.per_us)) / 8;
    }
}

#[cfg(test)]
mod tests;
