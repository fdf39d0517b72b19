//! The settings of PMD threads in the database.

use pmd::Algorithm;
use pmd::balance::Settings;

/// The settings of PMD threads in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmdSettings {
    /// `pmd-cpu-mask`
    pub mask: Option<String>,
    /// `pmd-rxq-assign`
    pub algorithm: Algorithm,
    /// `pmd-rxq-isolate`
    pub isolate: bool,
    /// `pmd-perf-metrics`
    pub metrics: bool,
    /// `pmd-auto-lb` and its parameters (`pmd-auto-lb-*`).
    pub balance: Settings,
}

impl Default for PmdSettings {
    fn default() -> PmdSettings {
        PmdSettings {
            mask: None,
            algorithm: Algorithm::default(),
            isolate: true,
            metrics: false,
            balance: Settings::default(),
        }
    }
}
