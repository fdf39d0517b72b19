//! Forecasts the load of an rx queue in the next second (`pmd-auto-lb-policy=predictive`).
//!
//! A PMD thread measures only the load that it *served*. If the thread is never idle, a queue may need more time than
//! it gets, and its measured load falls when another queue of the same thread receives more packets. So the demand is
//! estimated: from the packets that the device dropped, if the device counts them, otherwise from full bursts, because
//! only a queue with a backlog fills its bursts.
//!
//! The forecast is the exponentially smoothed demand (weight of the newest second: 0.5) plus the smoothed trend. The
//! average deviation of the demand from the smoothed demand is also computed. Deviations of different queues are
//! independent, so the planner adds headroom for all queues of a core together and not for each queue.

/// Weight of the newest demand in the smoothed demand (`level`).
const LEVEL_WEIGHT: f64 = 0.5;
/// Weight of the newest change of `level` in the trend.
const TREND_WEIGHT: f64 = 0.2;
/// Weight of the newest deviation in the average deviation.
const DEVIATION_WEIGHT: f64 = 0.1;
/// Assumed ratio of demand to served load of a queue with a backlog. The backlog's size is unknown; the demand measured
/// in the next seconds corrects the estimate.
const BACKLOG_FACTOR: f64 = 1.25;
/// Upper limit of a queue's estimated demand, in cores: drop counters of devices can be wrong.
const DEMAND_MAX: f64 = 4.0;

/// Counters of a queue since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Cycles spent on the queue's packets.
    pub cycles: u64,
    /// Iterations in which the queue had packets.
    pub bursts: u64,
    /// Iterations in which the queue filled a burst, so that more packets were waiting.
    pub full: u64,
    /// Packets received.
    pub packets: u64,
    /// Packets that the device dropped because they were not fetched in time.
    pub dropped: u64,
}

impl QueueCounters {
    /// Subtracts earlier counters.
    pub fn since(&self, previous: &QueueCounters) -> QueueCounters {
        QueueCounters {
            cycles: self.cycles.saturating_sub(previous.cycles),
            bursts: self.bursts.saturating_sub(previous.bursts),
            full: self.full.saturating_sub(previous.full),
            packets: self.packets.saturating_sub(previous.packets),
            dropped: self.dropped.saturating_sub(previous.dropped),
        }
    }

    /// The demand of the queue, in cores, during `elapsed` cycles. `saturated`: the thread was never idle during these
    /// cycles.
    pub fn demand(&self, elapsed: u64, saturated: bool) -> f64 {
        if elapsed == 0 {
            return 0.0;
        }
        let served = self.cycles as f64 / elapsed as f64;
        let factor = if self.dropped != 0 && self.packets != 0 {
            1.0 + self.dropped as f64 / self.packets as f64
        } else if saturated && self.full > self.bursts / 2 {
            BACKLOG_FACTOR
        } else {
            1.0
        };
        (served * factor).min(DEMAND_MAX)
    }
}

/// The load forecast of one queue; see the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Smoothed demand, in cores.
    level: f64,
    /// Smoothed change of `level` per second.
    trend: f64,
    /// Smoothed absolute difference between demand and `level`.
    deviation: f64,
    /// Number of seconds that were added.
    seconds: u32,
    /// The counters of the last call of `add_counters`.
    previous: Option<QueueCounters>,
}

impl Forecast {
    /// Adds the demand of the second that has ended, in cores.
    pub fn add_demand(&mut self, demand: f64) {
        if self.seconds == 0 {
            self.level = demand;
        }
        let difference = demand - self.level;
        self.level += LEVEL_WEIGHT * difference;
        self.trend += TREND_WEIGHT * (LEVEL_WEIGHT * difference - self.trend);
        self.deviation += DEVIATION_WEIGHT * (difference.abs() - self.deviation);
        self.seconds = self.seconds.saturating_add(1);
    }

    /// Adds the demand of the last second, computed from the difference to the previous counters. The first call only
    /// stores the counters.
    pub fn add_counters(&mut self, now: QueueCounters, elapsed: u64, saturated: bool) {
        if let Some(previous) = self.previous.replace(now) {
            self.add_demand(now.since(&previous).demand(elapsed, saturated));
        }
    }

    /// To be called when the queue's counters restart: the next call of `add_counters` only stores the counters.
    pub fn rebase(&mut self) {
        self.previous = None;
    }

    /// The forecast load of the next second, in cores.
    pub fn next(&self) -> f64 {
        (self.level + self.trend).max(0.0)
    }

    /// Average deviation of the demand from the smoothed demand, in cores.
    pub fn deviation(&self) -> f64 {
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
    fn constant_demand_is_forecast_unchanged() {
        let mut forecast = Forecast::default();
        assert_eq!(forecast.next(), 0.0);
        (0..20).for_each(|_| forecast.add_demand(0.4));
        assert!((forecast.next() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_growing_queue_is_forecast_to_grow() {
        let mut forecast = Forecast::default();
        (0..30).for_each(|i| forecast.add_demand(f64::from(i) * 0.01));
        let next = forecast.next();
        assert!(next > 0.28 && next < 0.32, "{next}");
    }

    #[test]
    fn demand_exceeds_served_load() {
        let counters = QueueCounters { cycles: 500, bursts: 10, full: 9, packets: 320, dropped: 0 };
        assert_eq!(counters.demand(1000, false), 0.5);
        assert_eq!(counters.demand(1000, true), 0.625);
        assert_eq!(QueueCounters { full: 2, ..counters }.demand(1000, true), 0.5);
        assert_eq!(QueueCounters { dropped: 160, ..counters }.demand(1000, false), 0.75);
        assert_eq!(QueueCounters { dropped: u64::MAX, ..counters }.demand(1000, false), DEMAND_MAX);
        assert_eq!(counters.demand(0, true), 0.0);
    }

    #[test]
    fn demand_is_computed_from_counter_differences() {
        let mut forecast = Forecast::default();
        let at = |cycles| QueueCounters { cycles, ..QueueCounters::default() };
        forecast.add_counters(at(5000), 1000, false);
        assert_eq!(forecast.next(), 0.0);
        forecast.add_counters(at(5300), 1000, false);
        assert_eq!(forecast.next(), 0.3);
        // A counter that restarted is not counted as load.
        forecast.add_counters(at(0), 1000, false);
        assert!(forecast.next() < 0.3);
    }
}
