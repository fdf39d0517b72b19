//! The definition of a metric.

use crate::object::Object;

/// How the value of a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; it starts again from 0 with the object or the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// The distribution of values: [`Histogram`](crate::Histogram).
    Histogram,
    /// It is always 1; the information is in the labels.
    Info,
}

impl Kind {
    /// The name of the type in a `# TYPE` line of Prometheus' own format, and in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or a state; the name of the metric says what.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A share, 0 to 1.
    Ratio,
    /// Cycles of the time stamp counter.
    Cycles,
    /// Bytes in each second.
    BytesPerSecond,
    /// Events in each second.
    Hertz,
}

impl Unit {
    /// The unit as names of metrics end with it; empty if there is none.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::Ratio => "ratio",
            Unit::Cycles => "cycles",
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::Hertz => "hertz",
        }
    }
}

/// A metric: a row of the table.
#[derive(Debug)]
pub struct Metric {
    /// Its name: ends with `_total` if its kind is `Counter`, with `_info` if its kind is `Info`.
    pub name: &'static str,
    /// How its value behaves.
    pub kind: Kind,
    /// The unit of its value.
    pub unit: Unit,
    /// The objects that have it.
    pub object: Object,
    /// What it means, in a sentence.
    pub help: &'static str,
    /// Its place in the table.
    pub(crate) place: usize,
}

impl Metric {
    /// The name of its family in OpenMetrics: without the ending of its kind.
    pub fn family(&self) -> &'static str {
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
            Kind::Info => "_info",
        };
        self.name.strip_suffix(ending).unwrap_or(self.name)
    }
}
