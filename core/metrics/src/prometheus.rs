//! The text for Prometheus: its own exposition format 0.0.4, and OpenMetrics 1.0.

use crate::metric::{Kind, Metric, Unit};
use crate::samples::{Samples, Value};
use std::io::Write;

/// The format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Prometheus' own format.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Formats samples as text.
pub fn render(samples: &Samples, format: Format) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024 + 100 * samples.len());
    for (metric, values) in samples.families() {
        write_header(metric, format, &mut out);
        for (labels, value) in values {
            if let Value::Histogram(index) = value {
                let labels = &samples.labels(*labels).prometheus;
                let lines = samples.histogram(*index).map(|histogram| histogram.lines(metric.name, labels));
                out.extend_from_slice(lines.unwrap_or_default().as_bytes());
                continue;
            }
            out.extend_from_slice(metric.name.as_bytes());
            out.extend_from_slice(samples.labels(*labels).prometheus.as_bytes());
            out.push(b' ');
            write_number(*value, &mut out);
            out.push(b'\n');
        }
    }
    if format == Format::OpenMetrics {
        out.extend_from_slice(b"# EOF\n");
    }
    out
}

fn write_header(metric: &Metric, format: Format, out: &mut Vec<u8>) {
    let help = metric.help;
    // Writing to memory cannot fail.
    let _ = match format {
        Format::Prometheus => {
            // Prometheus' own format has no type for constant information.
            let kind = if metric.kind == Kind::Info { Kind::Gauge } else { metric.kind };
            let (name, kind) = (metric.name, kind.name());
            write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n")
        }
        Format::OpenMetrics => {
            let (name, kind) = (metric.family(), metric.kind.name());
            let unit = match metric.unit {
                Unit::None => String::new(),
                unit if name.ends_with(unit.name()) => format!("# UNIT {name} {}\n", unit.name()),
                _ => String::new(),
            };
            write!(out, "# TYPE {name} {kind}\n{unit}# HELP {name} {help}\n")
        }
    };
}

pub(crate) fn write_number(value: Value, out: &mut Vec<u8>) {
    match value {
        Value::Whole(n) => write_integer(n, out),
        Value::Real(x) if x.is_finite() => {
            let _ = write!(out, "{x}");
        }
        // No metric of the switch is NaN or infinite, and JSON has no such numbers.
        Value::Real(_) | Value::Histogram(_) => out.push(b'0'),
    }
}

/// Appends a decimal number. Faster than `write!`: a page about 10,000 ports has 100,000 numbers.
fn write_integer(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
