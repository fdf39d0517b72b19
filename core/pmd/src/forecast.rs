//! How much a queue will want of a core in the next second (`pmd-auto-lb-policy=predictive`).
//!
//! What a poll thread measures is what it *served*. A queue of a thread that is never idle may want more, and its
//! measured share falls when a neighbour's grows. So the demand is reckoned: from packets that its device dropped where
//! that is known, else from bursts that came full, which only a queue with a backlog brings.
//!
//! The forecast is the level of the last seconds, half of it the newest, plus the trend. How far forecasts were off is
//! told beside it: queues swing each for itself, so it is for a core's queues together that room is left.

/// How much of the newest reading goes into the level.
const LEVEL: f64 = 0.5;
/// How much of a correction of the level goes into the trend.
const TREND: f64 = 0.2;
/// How much of the newest error goes into the deviation.
const DEVIATION: f64 = 0.1;
/// A queue with a backlog of unknown size wants so much more than it gets; the next seconds tell.
const BACKLOG: f64 = 1.25;
/// Nothing is believed to want more cores than this: figures of devices may lie.
const DEMAND_MAX: f64 = 4.0;

/// What was ever counted of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Cycles that its packets took.
    pub cycles: u64,
    /// Turns in which it brought packets.
    pub bursts: u64,
    /// Those of them in which it brought as many as one may: more were waiting.
    pub full: u64,
    /// Packets that it brought.
    pub packets: u64,
    /// Packets that its device dropped since nobody took them in time.
    pub dropped: u64,
}

impl Counted {
    /// What was counted since.
    pub fn since(&self, before: &Counted) -> Counted {
        Counted {
            cycles: self.cycles.saturating_sub(before.cycles),
            bursts: self.bursts.saturating_sub(before.bursts),
            full: self.full.saturating_sub(before.full),
            packets: self.packets.saturating_sub(before.packets),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }

    /// What it wanted, in cores, while so many cycles passed. `saturated`: its thread was never idle meanwhile.
    pub fn demand(&self, elapsed: u64, saturated: bool) -> f64 {
        if elapsed == 0 {
            return 0.0;
        }
        let served = self.cycles as f64 / elapsed as f64;
        let more = if self.dropped != 0 && self.packets != 0 {
            1.0 + self.dropped as f64 / self.packets as f64
        } else if saturated && self.full > self.bursts / 2 {
            BACKLOG
        } else {
            1.0
        };
        (served * more).min(DEMAND_MAX)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    level: f64,
    trend: f64,
    deviation: f64,
    seconds: u32,
    /// What the last reading stood on.
    before: Option<Counted>,
}

impl Forecast {
    /// A second ended in which the queue wanted so much of a core.
    pub fn second(&mut self, demand: f64) {
        if self.seconds == 0 {
            self.level = demand;
        }
        let off = demand - self.level;
        self.level += LEVEL * off;
        self.trend += TREND * (LEVEL * off - self.trend);
        self.deviation += DEVIATION * (off.abs() - self.deviation);
        self.seconds = self.seconds.saturating_add(1);
    }

    /// The same, from what was ever counted. The first call only begins to count.
    pub fn read(&mut self, now: Counted, elapsed: u64, saturated: bool) {
        if let Some(before) = self.before.replace(now) {
            self.second(now.since(&before).demand(elapsed, saturated));
        }
    }

    /// What is counted began anew: the next reading only begins to count.
    pub fn go_on(&mut self) {
        self.before = None;
    }

    /// What the queue will want of a core in the next second.
    pub fn next(&self) -> f64 {
        (self.level + self.trend).max(0.0)
    }

    /// How far off such forecasts usually were.
    pub fn doubt(&self) -> f64 {
        self.deviation
    }

    /// What it wanted lately.
    pub fn level(&self) -> f64 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_queue_is_forecast_as_it_is() {
        let mut forecast = Forecast::default();
        assert_eq!(forecast.next(), 0.0);
        (0..20).for_each(|_| forecast.second(0.4));
        assert!((forecast.next() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_growing_queue_is_forecast_to_grow() {
        let mut forecast = Forecast::default();
        (0..30).for_each(|i| forecast.second(f64::from(i) * 0.01));
        let next = forecast.next();
        assert!(next > 0.28 && next < 0.32, "{next}");
    }

    #[test]
    fn demand_is_more_than_what_was_served() {
        let counted = Counted { cycles: 500, bursts: 10, full: 9, packets: 320, dropped: 0 };
        assert_eq!(counted.demand(1000, false), 0.5);
        assert_eq!(counted.demand(1000, true), 0.625);
        assert_eq!(Counted { full: 2, ..counted }.demand(1000, true), 0.5);
        assert_eq!(Counted { dropped: 160, ..counted }.demand(1000, false), 0.75);
        assert_eq!(Counted { dropped: u64::MAX, ..counted }.demand(1000, false), DEMAND_MAX);
        assert_eq!(counted.demand(0, true), 0.0);
    }

    #[test]
    fn sums_become_seconds() {
        let mut forecast = Forecast::default();
        let at = |cycles| Counted { cycles, ..Counted::default() };
        forecast.read(at(5000), 1000, false);
        assert_eq!(forecast.next(), 0.0);
        forecast.read(at(5300), 1000, false);
        assert_eq!(forecast.next(), 0.3);
        // A counter that began anew is no load.
        forecast.read(at(0), 1000, false);
        assert!(forecast.next() < 0.3);
    }
}
