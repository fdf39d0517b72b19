//! The metrics of the switch: each is defined once, and all formats are made from its definition.
//!
//! | file | what |
//! |---|---|
//! | `metric.rs`, `object.rs` | a definition; the kind of object that it describes, with its labels and the most objects that are shown |
//! | `table.rs` | all definitions; `docs/metrics.md` is made from them (`markdown.rs`) |
//! | `histogram.rs` | values by bucket |
//! | `samples.rs` | values of one moment |
//! | `prometheus.rs` | their text for Prometheus, in its own format and as OpenMetrics 1.0 |
//! | `json.rs` | their JSON |
//!
//! Names follow the conventions of Prometheus: base units (seconds, bytes), the unit in the name, `_total` for counters. The JSON has the
//! same names, labels and units.
//!
//! The number of series is bounded: every kind of object has a limit, and what is left out is counted.

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
