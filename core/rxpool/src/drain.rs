//! The share of its backlog that a queue's worker clears in one poll.
//!
//! A queue whose worker cannot keep up holds many buffers for long and gains nothing from more of them. With drain-rate
//! weighting its threshold shrinks, which leaves buffers to queues that are emptied at once (as in ABM, SIGCOMM 2022).

/// 1 in the units of this file.
const ONE: u32 = 1 << 16;
/// Each poll counts 1/64 of the average.
const SHIFT: u32 = 6;
/// Weight of a queue that is emptied by each poll: 2, of 256.
const WEIGHT_MAX: u32 = 512;
/// Weight of a queue that is hardly served: 1/8.
const WEIGHT_MIN: u32 = 32;

/// A moving average. One worker writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain(u32);

impl Default for Drain {
    fn default() -> Drain {
        Drain(ONE)
    }
}

impl Drain {
    /// Takes note of a poll that found `backlog` packets and took `taken` of them.
    pub fn polled(&mut self, backlog: u32, taken: u32) {
        if backlog == 0 {
            return;
        }
        let share = (u64::from(taken.min(backlog)) * u64::from(ONE) / u64::from(backlog)) as u32;
        self.0 = self.0 - (self.0 >> SHIFT) + (share >> SHIFT);
    }

    /// The factor for the threshold, of 256: between 1/8 and 2.
    pub fn weight(self) -> u32 {
        (self.0 / (ONE / WEIGHT_MAX)).clamp(WEIGHT_MIN, WEIGHT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_stays_behind_loses_weight() {
        let mut drain = Drain::default();
        (0..1000).for_each(|_| drain.polled(10, 10));
        assert!(drain.weight() > 500, "{drain:?}");
        (0..1000).for_each(|_| drain.polled(640, 64));
        assert!((WEIGHT_MIN..60).contains(&drain.weight()), "{drain:?}");
        let before = drain;
        drain.polled(0, 0);
        assert_eq!(drain, before);
        (0..1000).for_each(|_| drain.polled(u32::MAX, 0));
        assert_eq!(drain.weight(), WEIGHT_MIN);
    }
}
