//! The page of all metrics, `docs/metrics.md`.

use crate::metric::Metric;
use crate::object::Object;
use crate::table::ALL;
use std::fmt::Write;

const HEAD: &str = "# Metrics

The metrics that `/metrics` and `/api/metrics` have ([how to get them](guide/observability.md)). This page is made from the table in
`core/metrics/src/table.rs`: `sluice metrics --markdown`.

An object is omitted when its kind has reached the limit that is stated below; `sluice_metrics_omitted_objects` counts the omitted objects.
";

/// Generates the page.
pub fn markdown() -> String {
    let mut text = HEAD.to_owned();
    for object in Object::ALL {
        let of_object: Vec<&&Metric> = ALL.iter().filter(|m| m.object == *object).collect();
        if of_object.is_empty() {
            continue;
        }
        // Writing to memory cannot fail.
        let _ = write!(text, "\n## Of {}\n\n", object.plural());
        let labels: Vec<String> = object.labels().iter().map(|label| format!("`{label}`")).collect();
        let _ = match labels.is_empty() {
            true => write!(text, "Without labels.\n\n"),
            false => write!(text, "Labels: {}. At most {}.\n\n", labels.join(", "), object.limit()),
        };
        text += "| name | type | unit | meaning |\n|---|---|---|---|\n";
        for m in of_object {
            let (name, kind, unit, help) = (m.name, m.kind.name(), m.unit.name().replace('_', " "), m.help);
            let _ = writeln!(text, "| `{name}` | {kind} | {unit} | {help} |");
        }
    }
    text
}
