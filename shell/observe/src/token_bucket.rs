//! A token bucket.

/// A token bucket: allows `rate` units per second, and up to `burst` units at once.
pub(crate) struct TokenBucket {
    rate: f64,
    burst: f64,
    /// Units that were used and are not refilled yet.
    used: f64,
    /// Time of the last update, in ns.
    at: u64,
}

impl TokenBucket {
    pub(crate) fn new(rate: f64, burst: f64) -> TokenBucket {
        TokenBucket { rate, burst, used: 0.0, at: 0 }
    }

    /// Refills the bucket for the time that has passed.
    fn refill(&mut self, now: u64) {
        let passed = now.saturating_sub(self.at) as f64 / 1e9;
        (self.used, self.at) = ((self.used - passed * self.rate).max(0.0), now);
    }

    /// Uses units if they are available, and returns whether they were. `now`: in ns.
    pub(crate) fn try_spend(&mut self, units: f64, now: u64) -> bool {
        self.refill(now);
        let allowed = self.used + units <= self.burst;
        self.used += if allowed { units } else { 0.0 };
        allowed
    }

    /// Uses units even if the bucket does not have them. Returns the time in ns until the bucket is no longer
    /// overdrawn.
    pub(crate) fn spend(&mut self, units: f64, now: u64) -> u64 {
        self.refill(now);
        self.used += units;
        ((self.used - self.burst).max(0.0) / self.rate * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    #[test]
    fn what_is_granted() {
        let mut budget = TokenBucket::new(20.0, 10.0);
        assert_eq!((0..50).filter(|_| budget.try_spend(1.0, NOW)).count(), 10);
        assert_eq!((0..50).filter(|_| budget.try_spend(1.0, NOW + 100_000_000)).count(), 2);
    }

    #[test]
    fn what_is_spent_is_waited_for() {
        let mut budget = TokenBucket::new(0.25, 0.5);
        assert_eq!(budget.spend(0.5, NOW), 0);
        assert_eq!(budget.spend(0.25, NOW), 1_000_000_000);
        assert_eq!(budget.spend(0.0, NOW + 1_000_000_000), 0);
        assert_eq!(budget.spend(0.25, NOW + 2_000_000_000), 0);
    }
}
