//! Histograms: the number of values in each bucket.

use std::fmt::Write;

/// A histogram of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The upper bound of each bucket, ascending, and the number of values in this bucket alone.
    pub buckets: Vec<(f64, u64)>,
    /// Number of values above the last bound.
    pub above: u64,
    /// The sum of all values.
    pub sum: f64,
}

impl Histogram {
    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, n)| n).sum::<u64>() + self.above
    }

    /// Each bound with the number of values up to it; last `None` with the number of all values.
    fn cumulative_buckets(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let sums = self.buckets.iter().scan(0, |sum, (bound, n)| {
            *sum += n;
            Some((Some(*bound), *sum))
        });
        sums.chain([(None, self.count())])
    }

    /// The lines for Prometheus. `labels`: for example `{port="p1"}`.
    pub(crate) fn lines(&self, name: &str, labels: &str) -> String {
        let mut out = String::new();
        let within = labels.trim_end_matches('}');
        let separator = if within.is_empty() { "{" } else { "," };
        for (bound, n) in self.cumulative_buckets() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            // Writing to memory cannot fail.
            let _ = writeln!(out, "{name}_bucket{within}{separator}le=\"{bound}\"}} {n}");
        }
        let _ = writeln!(out, "{name}_sum{labels} {}", self.sum);
        let _ = writeln!(out, "{name}_count{labels} {}", self.count());
        out
    }

    /// The JSON. As in Prometheus, the buckets are cumulative, and the last one has no bound.
    pub(crate) fn json(&self) -> String {
        let buckets: Vec<(Option<f64>, u64)> = self.cumulative_buckets().collect();
        serde_json::json!({ "count": self.count(), "sum": self.sum, "buckets": buckets }).to_string()
    }

    /// Number of lines in Prometheus' formats.
    pub(crate) fn len(&self) -> usize {
        self.buckets.len() + 3
    }
}
