//! The metrics of the switch: each metric is defined once, and all formats are generated from the definition.
//!
//! | file | what |
//! |---|---|
//! | `metric.rs` | the definition of a metric |
//! | `object.rs` | the kinds of objects that metrics describe, with their labels and the maximum number of objects shown |
//! | `table.rs` | all definitions; `docs/metrics.md` is generated from them (`markdown.rs`) |
//! | `histogram.rs` | histograms |
//! | `samples.rs` | the values of all metrics at one moment |
//! | `prometheus.rs` | the text for Prometheus, in its own format and as OpenMetrics 1.0 |
//! | `json.rs` | the JSON |
//!
//! Names follow the conventions of Prometheus: base units (seconds, bytes), the unit in the name, `_total` for counters. The JSON has the
//! same names, labels and units.
//!
//! The number of series is bounded: every kind of object has a limit, and objects that are left out are counted.

mod histogram;
mod json;
mod markdown;
mod metric;
mod object;
mod prometheus;
mod samples;
pub mod table;

pub use crate::histogram::Histogram;
pub use crate::json::json;
pub use crate::markdown::markdown;
pub use crate::metric::{Kind, Metric, Unit};
pub use crate::object::{Label, Object};
pub use crate::prometheus::{Format, render};
pub use crate::samples::{Labels, Samples, Value};
pub use crate::table::ALL;

#[cfg(test)]
mod tests;
