//! Settings of PMD threads in the database.

use pmd::Algorithm;
use pmd::balance::Settings;

/// The settings of PMD threads in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polling {
    /// `pmd-cpu-mask`
    pub mask: Option<String>,
    /// `pmd-rxq-assign`
    pub algorithm: Algorithm,
    /// `pmd-rxq-isolate`
    pub isolate: bool,
    /// `pmd-perf-metrics`
    pub metrics: bool,
    /// `pmd-auto-lb` and its parameters.
    pub balance: Settings,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling {
            mask: None,
            algorithm: Algorithm::default(),
            isolate: true,
            metrics: false,
            balance: Settings::default(),
        }
    }
}
