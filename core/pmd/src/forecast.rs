//! Forecasts the load of a queue in the next second (`pmd-auto-lb-policy=predictive`).
//!
//! A PMD thread measures only the load that it *served*. If the thread is never idle, a queue may need more than it
//! gets, and its measured share falls when the load of a neighbouring queue grows. So the demand is estimated: from
//! the packets that the device dropped, if the device counts them, otherwise from full bursts, which only a queue
//! with a backlog has.
//!
//! The forecast is the smoothed level of the last seconds (half of it the newest reading) plus the trend. The average
//! forecast error is kept with it. Errors of different queues are independent, so the planner adds headroom for the
//! queues of a core together and not for each queue.

/// Weight of the newest reading in the level.
const LEVEL: f64 = 0.5;
/// Weight of the newest correction of the level in the trend.
const TREND: f64 = 0.2;
/// Weight of the newest error in the deviation.
const DEVIATION: f64 = 0.1;
/// Assumed ratio of demand to served load for a queue with a backlog of unknown size; the readings of the next
/// seconds correct it.
const BACKLOG: f64 = 1.25;
/// Largest demand of a queue that is believed, in cores, because drop counters of devices can be wrong.
const DEMAND_MAX: f64 = 4.0;

/// Counters of a queue since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Cycles spent on the queue's packets.
    pub cycles: u64,
    /// Iterations in which the queue had packets.
    pub bursts: u64,
    /// Iterations in which the queue filled a burst, so more packets were waiting.
    pub full: u64,
    /// Packets received.
    pub packets: u64,
    /// Packets that the device dropped because they were not fetched in time.
    pub dropped: u64,
}

impl Counted {
    /// The difference from earlier counters.
    pub fn since(&self, before: &Counted) -> Counted {
        Counted {
            cycles: self.cycles.saturating_sub(before.cycles),
            bursts: self.bursts.saturating_sub(before.bursts),
            full: self.full.saturating_sub(before.full),
            packets: self.packets.saturating_sub(before.packets),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }

    /// The demand of the queue, in cores, during `elapsed` cycles. `saturated`: the thread was never idle in that
    /// time.
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

/// The load forecast of one queue; see the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    level: f64,
    trend: f64,
    deviation: f64,
    seconds: u32,
    /// The counters at the last reading.
    before: Option<Counted>,
}

impl Forecast {
    /// Adds the demand, in cores, of the second that ended.
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

    /// Adds a second from counters. The first call only stores them.
    pub fn read(&mut self, now: Counted, elapsed: u64, saturated: bool) {
        if let Some(before) = self.before.replace(now) {
            self.second(now.since(&before).demand(elapsed, saturated));
        }
    }

    /// To be called when the counters restart: the next reading only stores them.
    pub fn rebase(&mut self) {
        self.before = None;
    }

    /// The forecast load of the next second, in cores.
    pub fn next(&self) -> f64 {
        (self.level + self.trend).max(0.0)
    }

    /// The average error of recent forecasts, in cores.
    pub fn doubt(&self) -> f64 {
        self.deviation
    }

    /// The smoothed demand of the last seconds, in cores.
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
    fn readings_of_counters_give_seconds() {
        let mut forecast = Forecast::default();
        let at = |cycles| Counted { cycles, ..Counted::default() };
        forecast.read(at(5000), 1000, false);
        assert_eq!(forecast.next(), 0.0);
        forecast.read(at(5300), 1000, false);
        assert_eq!(forecast.next(), 0.3);
        // A counter that restarted is not counted as load.
        forecast.read(at(0), 1000, false);
        assert!(forecast.next() < 0.3);
    }
}
