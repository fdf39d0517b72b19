//! The JSON of samples.
//!
//! ```json
//! {"schema": 1, "metrics": {"sluice_port_receive_bytes_total":
//!     {"type": "counter", "unit": "bytes", "labels": ["bridge", "port"], "samples": [[["br0", "p1"], 1500]]}}}
//! ```

use crate::prometheus::write_number;
use crate::samples::{Samples, Value};
use std::io::Write;

/// The version of the schema. It is increased when something is removed or changes its meaning, not when something is added.
const SCHEMA: u32 = 1;

/// The JSON of the metrics whose names begin with one of `prefixes`; of all metrics, if there are no prefixes.
pub fn json(samples: &Samples, prefixes: &[&str]) -> Vec<u8> {
    let is_selected = |name: &str| prefixes.is_empty() || prefixes.iter().any(|p| name.starts_with(p));
    let mut out = Vec::with_capacity(4096);
    // Writing to memory cannot fail.
    let _ = write!(out, "{{\"schema\":{SCHEMA},\"metrics\":{{");
    let mut first = true;
    for (metric, values) in samples.families().filter(|(metric, _)| is_selected(metric.name)) {
        let (kind, unit) = (metric.kind.name(), metric.unit.name());
        let labels = serde_json::to_string(metric.object.labels()).unwrap_or_default();
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        let _ = write!(
            out,
            "{comma}\"{}\":{{\"type\":\"{kind}\",\"unit\":\"{unit}\",\"labels\":{labels},\"samples\":[",
            metric.name
        );
        for (i, (labels, value)) in values.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"[" } else { b",[" });
            out.extend_from_slice(samples.labels(*labels).json.as_bytes());
            out.push(b',');
            match value {
                Value::Histogram(index) => {
                    let histogram = samples.histogram(*index).map(crate::Histogram::json);
                    out.extend_from_slice(histogram.unwrap_or_default().as_bytes());
                }
                value => write_number(*value, &mut out),
            }
            out.push(b']');
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"}}\n");
    out
}
