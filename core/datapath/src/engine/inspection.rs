//! When batches are inspected after their look-up: at the sampling interval of the shadow check, and always while
//! packets are captured.

/// Counts packets down to the next batch that is inspected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InspectionCounter {
    /// Interval in packets after which a batch is inspected. 0: never; 1: while packets are captured.
    interval: u32,
    left: u32,
    /// The sampling interval of the shadow check in packets; 0: no shadow check.
    every: u32,
    /// Packets until the next sample of the shadow check.
    until_sample: u32,
}

impl InspectionCounter {
    /// Sets the sampling interval in packets (0: none), and whether every batch is inspected.
    pub(crate) fn set(&mut self, every: u32, captures: bool) {
        let interval = if captures { 1 } else { every };
        if (self.every, self.interval) != (every, interval) {
            *self = InspectionCounter { interval, left: interval, every, until_sample: every };
        }
    }

    /// Counts down by a batch of `n` packets. Returns whether this batch must be inspected.
    #[inline]
    pub(crate) fn is_due(&mut self, n: usize) -> bool {
        self.left = self.left.saturating_sub(n as u32);
        self.interval != 0 && self.left == 0
    }

    /// Called after a batch of `n` packets was inspected. Returns whether the shadow check must check one of the
    /// packets.
    pub(crate) fn is_check_due(&mut self, n: usize) -> bool {
        if self.interval == self.every {
            return self.every != 0;
        }
        self.until_sample = self.until_sample.saturating_sub(n as u32);
        self.every != 0 && self.until_sample == 0
    }

    /// Begins the next sampling interval. Called when a packet was checked.
    pub(crate) fn begin_interval(&mut self) {
        (self.left, self.until_sample) = (self.interval, self.every);
    }
}

#[cfg(test)]
mod tests {
    use super::InspectionCounter;

    fn inspected(counter: &mut InspectionCounter, captures: bool) -> (usize, usize) {
        let (mut inspected, mut sampled) = (0, 0);
        for _ in 0..1000 {
            if counter.is_due(50) {
                inspected += 1;
                if counter.is_check_due(50) {
                    sampled += 1;
                    counter.begin_interval();
                }
            }
            counter.set(100, captures);
        }
        (inspected, sampled)
    }

    #[test]
    fn one_packet_per_interval() {
        let mut counter = InspectionCounter::default();
        assert!((0..100).all(|_| !counter.is_due(64)));
        counter.set(100, false);
        assert_eq!(inspected(&mut counter, false), (500, 500));
        // While packets are captured every batch is inspected, and as many are checked as before.
        counter.set(100, true);
        assert_eq!(inspected(&mut counter, true), (1000, 500));
        counter.set(0, true);
        assert!((0..100).all(|_| counter.is_due(50) && !counter.is_check_due(50)));
    }
}
