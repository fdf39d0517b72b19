//! The state of the predictive policy of auto load balance (`balance_by_forecast.rs`), and the moves that it plans.

use pmd::predictive::PredictiveBalancer;
use std::collections::BTreeMap;
use units::{CoreId, Cycles, Millis, WorkerId};

/// The state of the predictive policy.
#[derive(Debug, Default)]
pub(crate) struct PredictiveState {
    pub(crate) balancer: PredictiveBalancer,
    /// When the load counters are read next.
    pub(crate) next: Option<Millis>,
    /// When the load counters were read last.
    pub(crate) read_at: Cycles,
    /// Cycles that each worker has been idle or asleep since its start, when the counters were last read.
    pub(crate) idle: BTreeMap<WorkerId, u64>,
    /// Moves made so far.
    pub(crate) moves: u64,
}

/// A planned move, for commands that show it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedMove {
    /// Name of the port.
    pub port: String,
    /// The queue's number in the port.
    pub queue: u16,
    /// The core that polls the queue now.
    pub from: CoreId,
    /// The core that will poll the queue.
    pub to: CoreId,
    /// The load forecast of the queue, in cores.
    pub load: f64,
}
