//! Plots as SVG: lines over a few places on the x axis, one plot for each number of flows.

use super::report::{Row, caches};
use std::collections::BTreeSet;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 50.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 280.0;
const RIGHT: f64 = 430.0;
const COLOURS: [&str; 9] =
    ["#888", "#1f77b4", "#17becf", "#9467bd", "#8c564b", "#e377c2", "#bcbd22", "#2ca02c", "#d62728"];

/// A line of a plot: its name, and a value for each place on the x axis.
struct Line {
    name: String,
    values: Vec<f64>,
}

/// Returns name and content of the plot files for experiment (b).
pub fn all(rows: &[Row]) -> Vec<(String, String)> {
    let rows: Vec<&Row> = rows.iter().filter(|r| r.experiment == 'b').collect();
    let flows: BTreeSet<usize> = rows.iter().map(|r| r.cell.flows).collect();
    let of = |flows| {
        let rows: Vec<&Row> = rows.iter().copied().filter(|r| r.cell.flows == flows).collect();
        let places: BTreeSet<usize> = rows.iter().map(|r| r.cell.subtables).collect();
        let line = |name: &str| Line {
            name: name.to_owned(),
            values: rows.iter().filter(|r| r.cell.cache == name).map(|r| r.mpps()).collect(),
        };
        let lines: Vec<Line> = caches(&rows).into_iter().map(line).collect();
        let places: Vec<String> = places.iter().map(|p| p.to_string()).collect();
        (format!("subtables-{flows}.svg"), svg(&format!("{flows} flows: Mpps by subtables"), &places, &lines))
    };
    flows.into_iter().map(of).collect()
}

fn svg(title: &str, places: &[String], lines: &[Line]) -> String {
    let top = lines.iter().flat_map(|l| &l.values).fold(1.0f64, |a, b| a.max(*b));
    let x = |i: usize| LEFT + (RIGHT - LEFT) * i as f64 / (places.len().max(2) - 1) as f64;
    let y = |v: f64| BOTTOM - (BOTTOM - TOP) * v / top;
    let text = |x: f64, y: f64, s: &str| format!("<text x=\"{x:.0}\" y=\"{y:.0}\">{s}</text>\n");
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    out += &text(LEFT, 18.0, title);
    for step in 0..=4 {
        let v = top * f64::from(step) / 4.0;
        out += &format!("<path d=\"M{LEFT} {0:.1}H{RIGHT}\" stroke=\"#ddd\"/>\n", y(v));
        out += &text(8.0, y(v) + 4.0, &format!("{v:.1}"));
    }
    for (i, place) in places.iter().enumerate() {
        out += &text(x(i) - 4.0, BOTTOM + 16.0, place);
    }
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<String> =
            line.values.iter().enumerate().map(|(i, v)| format!("{:.1},{:.1}", x(i), y(*v))).collect();
        out += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            points.join(" ")
        );
        let at = TOP + 16.0 * i as f64;
        out += &format!("<path d=\"M{0} {at}h14\" stroke=\"{colour}\" stroke-width=\"2\"/>\n", RIGHT + 12.0);
        out += &text(RIGHT + 32.0, at + 4.0, &line.name);
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_values() {
        let line = Line { name: "cd".into(), values: vec![0.0, 5.0, 10.0] };
        let text = svg("title", &["1".into(), "3".into(), "5".into()], &[line]);
        assert!(text.contains("points=\"50.0,280.0 240.0,155.0 430.0,30.0\""), "{text}");
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n") && text.contains(">cd<"));
    }
}
