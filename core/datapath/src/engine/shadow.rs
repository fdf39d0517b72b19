//! The inspection of batches after their look-up: at the sampling interval of the shadow check, and always while packets are captured.

/// Counts packets down to the next batch that is inspected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shadow {
    /// The interval in packets after which a batch is inspected; 0: never. 1 while packets are captured.
    interval: u32,
    left: u32,
    /// The sampling interval of the shadow check in packets; 0: none.
    every: u32,
    /// Packets until the next sample of the shadow check.
    until_sample: u32,
}

impl Shadow {
    /// Sets the sampling interval in packets (0: none), and whether every batch is inspected.
    pub(crate) fn set(&mut self, every: u32, captures: bool) {
        let interval = if captures { 1 } else { every };
        if (self.every, self.interval) != (every, interval) {
            *self = Shadow { interval, left: interval, every, until_sample: every };
        }
    }

    /// Returns whether a batch of these `n` packets is to be inspected.
    #[inline]
    pub(crate) fn due(&mut self, n: usize) -> bool {
        self.left = self.left.saturating_sub(n as u32);
        self.interval != 0 && self.left == 0
    }

    /// Begins the next interval, after a batch of `n` packets was inspected. Returns whether one of them is to be checked.
    pub(crate) fn samples(&mut self, n: usize) -> bool {
        if self.interval == self.every {
            return self.every != 0;
        }
        self.until_sample = self.until_sample.saturating_sub(n as u32);
        self.every != 0 && self.until_sample == 0
    }

    /// A packet was checked: begins the next sampling interval.
    pub(crate) fn sampled(&mut self) {
        (self.left, self.until_sample) = (self.interval, self.every);
    }
}

#[cfg(test)]
mod tests {
    use super::Shadow;

    fn inspected(shadow: &mut Shadow, captures: bool) -> (usize, usize) {
        let (mut inspected, mut sampled) = (0, 0);
        for _ in 0..1000 {
            if shadow.due(50) {
                inspected += 1;
                if shadow.samples(50) {
                    sampled += 1;
                    shadow.sampled();
                }
            }
            shadow.set(100, captures);
        }
        (inspected, sampled)
    }

    #[test]
    fn one_packet_per_interval() {
        let mut shadow = Shadow::default();
        assert!((0..100).all(|_| !shadow.due(64)));
        shadow.set(100, false);
        assert_eq!(inspected(&mut shadow, false), (500, 500));
        // While packets are captured every batch is inspected, and as many are checked as before.
        shadow.set(100, true);
        assert_eq!(inspected(&mut shadow, true), (1000, 500));
        shadow.set(0, true);
        assert!((0..100).all(|_| shadow.due(50) && !shadow.samples(50)));
    }
}
