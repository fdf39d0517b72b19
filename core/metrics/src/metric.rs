//! The definition of a metric.

use crate::object::Object;

/// How the value of a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value only increases; it starts again from 0 when the object is created or the process starts.
    Counter,
    /// The value can increase and decrease.
    Gauge,
    /// The distribution of values: [`Histogram`](crate::Histogram).
    Histogram,
    /// The value is always 1; the information is in the labels.
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
    /// A number of things, or a state.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A ratio from 0 to 1.
    Ratio,
    /// Cycles of the time stamp counter.
    Cycles,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second.
    Hertz,
}

impl Unit {
    /// The unit as it appears at the end of metric names; empty if there is none.
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
    /// Name. It ends with `_total` if the kind is `Counter`, and with `_info` if the kind is `Info`.
    pub name: &'static str,
    /// How the value behaves.
    pub kind: Kind,
    /// Unit of the value.
    pub unit: Unit,
    /// The kind of object that has this metric.
    pub object: Object,
    /// The meaning, in a sentence.
    pub help: &'static str,
    /// Index in the table.
    pub(crate) index: usize,
}

impl Metric {
    /// The name of the metric's family in OpenMetrics: the name without the suffix of its kind.
    pub fn family(&self) -> &'static str {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
            Kind::Info => "_info",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }
}
