//! The values of metrics at one moment.

use crate::histogram::Histogram;
use crate::metric::Metric;
use crate::object::Object;
use crate::table::{ALL, OMITTED};
use std::fmt::Write;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A real number.
    Real(f64),
    /// A histogram, by its index in [`Samples`]: see [`Samples::set_histogram`].
    Histogram(usize),
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Whole(n)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Value {
        Value::Real(n)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Whole(yes.into())
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::Whole(n as u64)
    }
}

/// Identifies an object in [`Samples`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels(u32);

/// The labels of an object in both formats. They are formatted once for all metrics of the object.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSet {
    /// `{bridge="br0",port="p1"}`; empty without labels.
    pub(crate) prometheus: String,
    /// `["br0","p1"]`
    pub(crate) json: String,
}

/// The values of all metrics at one moment.
#[derive(Debug)]
pub struct Samples {
    /// The labels of all objects; [`Labels`] is an index into it.
    sets: Vec<LabelSet>,
    /// Number of objects of each kind.
    counts: Vec<usize>,
    /// Number of objects of each kind that were left out.
    left_out: Vec<u64>,
    /// The values of each metric, by the metric's index in the table.
    families: Vec<Vec<(Labels, Value)>>,
    /// The histograms to which `Value::Histogram` refers.
    histograms: Vec<Histogram>,
}

impl Default for Samples {
    fn default() -> Samples {
        let none = || LabelSet { prometheus: String::new(), json: "[]".to_owned() };
        Samples {
            sets: vec![none()],
            counts: vec![0; Object::ALL.len()],
            left_out: vec![0; Object::ALL.len()],
            families: vec![Vec::new(); ALL.len()],
            histograms: Vec::new(),
        }
    }
}

impl Samples {
    /// The labels of an object of a kind without labels.
    pub const NO_LABELS: Labels = Labels(0);

    /// Adds an object with these label values. `None`: the limit of its kind is reached; the object is counted as left out.
    pub fn object(&mut self, object: Object, values: &[&str]) -> Option<Labels> {
        debug_assert_eq!(values.len(), object.labels().len());
        let kind = object as usize;
        if self.counts[kind] == object.limit() {
            self.left_out[kind] += 1;
            return None;
        }
        self.counts[kind] += 1;
        if object.labels().is_empty() {
            return Some(Samples::NO_LABELS);
        }
        self.sets.push(LabelSet::new(object, values));
        Some(Labels(self.sets.len() as u32 - 1))
    }

    /// Adds the value of a metric of an object.
    pub fn set(&mut self, metric: &'static Metric, of: Labels, value: impl Into<Value>) {
        self.families[metric.index].push((of, value.into()));
    }

    /// Adds the histogram of an object.
    pub fn set_histogram(&mut self, metric: &'static Metric, of: Labels, histogram: Histogram) {
        self.families[metric.index].push((of, Value::Histogram(self.histograms.len())));
        self.histograms.push(histogram);
    }

    /// The histogram with this index.
    pub(crate) fn histogram(&self, index: usize) -> Option<&Histogram> {
        self.histograms.get(index)
    }

    /// Adds the numbers of objects that were left out, for ports also the number 0, so that the metric always exists. Must be
    /// called last.
    pub fn finish(&mut self) {
        for object in Object::ALL {
            let left = self.left_out[*object as usize];
            if (left > 0 || *object == Object::Port)
                && let Some(labels) = self.object(Object::Omitted, &[object.plural()])
            {
                self.set(&OMITTED, labels, left);
            }
        }
    }

    /// The number of samples; a histogram has several.
    pub fn len(&self) -> usize {
        let more: usize = self.histograms.iter().map(|histogram| histogram.len() - 1).sum();
        more + self.families.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The metrics that have values, in the order of the table.
    pub(crate) fn families(&self) -> impl Iterator<Item = (&'static Metric, &[(Labels, Value)])> {
        let all = ALL.iter().copied().zip(self.families.iter().map(Vec::as_slice));
        all.filter(|(_, samples)| !samples.is_empty())
    }

    pub(crate) fn labels(&self, of: Labels) -> &LabelSet {
        &self.sets[of.0 as usize]
    }
}

impl LabelSet {
    fn new(object: Object, values: &[&str]) -> LabelSet {
        let mut prometheus = String::with_capacity(64);
        for (name, value) in object.labels().iter().zip(values) {
            prometheus.push(if prometheus.is_empty() { '{' } else { ',' });
            let _ = write!(prometheus, "{name}=\"");
            escape(value, &mut prometheus);
            prometheus.push('"');
        }
        prometheus.push('}');
        // Encoding a list of strings cannot fail.
        let json = serde_json::to_string(values).unwrap_or_default();
        LabelSet { prometheus, json }
    }
}

/// Escapes the value of a label. Control characters are replaced: they could end the line or change a terminal's state.
fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}
