//! State of auto load balance by forecast (`predict`), and the moves that it plans.

use pmd::predictive::Predictor;
use std::collections::BTreeMap;
use units::{CoreId, Cycles, Millis, WorkerId};

/// State of auto load balance by forecast.
#[derive(Debug, Default)]
pub(crate) struct ForecastLoop {
    pub(crate) predictor: Predictor,
    /// When loads are read next.
    pub(crate) next: Option<Millis>,
    /// When they were read last.
    pub(crate) read_at: Cycles,
    /// Cycles that each worker has been idle or asleep.
    pub(crate) idle: BTreeMap<WorkerId, u64>,
    /// Moves made so far.
    pub(crate) moves: u64,
}

/// A planned move, for commands that show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Name of the port.
    pub port: String,
    /// The queue's number there.
    pub queue: u16,
    /// The core that polls it.
    pub from: CoreId,
    /// The core that is to poll it.
    pub to: CoreId,
    /// The load forecast of the queue, in cores.
    pub load: f64,
}
