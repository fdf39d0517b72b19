//! Drain rate: the share of a queue's backlog that its worker clears in one poll.
//!
//! A queue whose worker cannot keep up holds many buffers for a long time, and more buffers do not help it. With drain-rate weighting its
//! threshold shrinks, which leaves buffers to queues that are emptied at once (as in ABM, SIGCOMM 2022).

/// The drain rate 1 (all packets are taken), in the units of this file.
const ONE: u32 = 1 << 16;
/// Weight of a poll in the moving average: 1/2^6, so 1/64.
const SHIFT: u32 = 6;
/// Weight of a queue that is emptied by each poll: 2, in units of 1/256.
const WEIGHT_MAX: u32 = 512;
/// Weight of a queue that is hardly served: 1/8, in units of 1/256.
const WEIGHT_MIN: u32 = 32;

/// The moving average of a queue's drain rate. The worker of the queue updates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainRate(u32);

impl Default for DrainRate {
    fn default() -> DrainRate {
        DrainRate(ONE)
    }
}

impl DrainRate {
    /// Records a poll that found `backlog` packets and took `taken` of them.
    pub fn record_poll(&mut self, backlog: u32, taken: u32) {
        if backlog == 0 {
            return;
        }
        let share = (u64::from(taken.min(backlog)) * u64::from(ONE) / u64::from(backlog)) as u32;
        self.0 = self.0 - (self.0 >> SHIFT) + (share >> SHIFT);
    }

    /// The factor for the threshold, in units of 1/256: between 1/8 and 2.
    pub fn weight(self) -> u32 {
        (self.0 / (ONE / WEIGHT_MAX)).clamp(WEIGHT_MIN, WEIGHT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_stays_behind_loses_weight() {
        let mut drain = DrainRate::default();
        (0..1000).for_each(|_| drain.record_poll(10, 10));
        assert!(drain.weight() > 500, "{drain:?}");
        (0..1000).for_each(|_| drain.record_poll(640, 64));
        assert!((WEIGHT_MIN..60).contains(&drain.weight()), "{drain:?}");
        let before = drain;
        drain.record_poll(0, 0);
        assert_eq!(drain, before);
        (0..1000).for_each(|_| drain.record_poll(u32::MAX, 0));
        assert_eq!(drain.weight(), WEIGHT_MIN);
    }
}
