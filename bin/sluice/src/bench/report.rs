//! The results as CSV, and as a markdown page that compares them with published figures.

use super::cells::Cell;
use super::fixture::CellResult;
use ovsdb::Json;
use serde_json::json;
use std::collections::BTreeSet;

/// A cell with its result.
pub struct Row {
    pub experiment: char,
    pub cell: Cell,
    pub result: CellResult,
}

impl Row {
    pub const HEADER: &str = "experiment,cache,emc_inv_prob,flows,subtables,megaflows,distribution,churn,ns_min,ns_median,\
                              ns_max,front_share,cache_share,table_share,visits,cache_kb,huge_kb";

    pub fn csv(&self) -> String {
        let (c, m) = (&self.cell, &self.result);
        format!(
            "{},{},{},{},{},{},{},{},{:.2},{:.2},{:.2},{:.4},{:.4},{:.4},{:.2},{},{}",
            self.experiment,
            c.cache,
            c.choice.emc_insert_inv_prob,
            c.flows,
            c.subtables,
            c.megaflows,
            c.distribution.name(),
            c.churn,
            m.ns[0],
            m.ns[1],
            m.ns[2],
            m.front,
            m.cache,
            m.table,
            m.visits,
            m.cache_kb,
            m.huge_kb
        )
    }

    /// The same values as `csv`, as a JSON object.
    pub fn json(&self) -> Json {
        let (c, m) = (&self.cell, &self.result);
        json!({
            "experiment": self.experiment.to_string(),
            "cache": c.cache,
            "emc_inv_prob": c.choice.emc_insert_inv_prob,
            "flows": c.flows,
            "subtables": c.subtables,
            "megaflows": c.megaflows,
            "distribution": c.distribution.name(),
            "churn": c.churn,
            "ns_min": m.ns[0],
            "ns_median": m.ns[1],
            "ns_max": m.ns[2],
            "front_share": m.front,
            "cache_share": m.cache,
            "table_share": m.table,
            "visits": m.visits,
            "cache_kb": m.cache_kb,
            "huge_kb": m.huge_kb,
        })
    }

    /// Million packets per second of CPU time, from the median of the windows.
    pub fn mpps(&self) -> f64 {
        1000.0 / self.result.ns[1].max(1e-3)
    }
}

/// Throughput of CD divided by that of DFC in the measurements of 2018 (`bench/experiments/caches/README.md`), both with an EMC as first-level
/// cache: the number of flows, and the ratios for 1, 3, 5, 10 and 20 subtables.
pub const PUBLISHED_RATIOS: [(usize, [f64; 5]); 3] = [
    (10_000, [1.00, 1.00, 0.85, 1.00, 1.00]),
    (100_000, [0.81, 1.15, 1.17, 1.35, 1.55]),
    (1_000_000, [0.80, 1.12, 1.31, 1.37, 1.63]),
];

/// The report as markdown.
pub fn page(rows: &[Row]) -> String {
    let of = |letter| rows.iter().filter(|r| r.experiment == letter).collect::<Vec<_>>();
    let mut out = "# Flow caches compared\n\nMade by `sluice bench caches`. Packets are received from a mock port and sent to one; times \
                   are CPU time of the thread. Columns of times: median (minimum to maximum of three windows).\n"
        .to_owned();
    type Part = (char, fn(&[&Row]) -> String);
    let parts: [Part; 4] = [('a', misses), ('b', subtables), ('c', traffic), ('d', pages)];
    for (letter, text) in parts {
        let rows = of(letter);
        if !rows.is_empty() {
            out += &text(&rows);
        }
    }
    out
}

fn ns(row: &Row) -> String {
    let [least, median, greatest] = row.result.ns;
    format!("{median:.1} ({least:.1}–{greatest:.1})")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn misses(rows: &[&Row]) -> String {
    let mut out = "\n## (a) Exact match cache, one place for a flow or two\n\n10,000 flows, 3 subtables. The source measured 47 % (one place) and 14 % (two) with \
                   16,384 entries.\n\n| cache | insertion: one flow in | misses | ns per packet |\n|---|---|---|---|\n"
        .to_owned();
    for r in rows {
        let missed = percent(1.0 - r.result.front);
        out +=
            &format!("| {} | {} | {missed} | {} |\n", r.cell.cache, r.cell.choice.emc_insert_inv_prob, ns(r));
    }
    out
}

fn unique<T: Ord>(all: impl Iterator<Item = T>) -> BTreeSet<T> {
    all.collect()
}

/// The caches in the order in which they were measured.
fn caches(rows: &[&Row]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for r in rows {
        if !names.contains(&r.cell.cache) {
            names.push(r.cell.cache);
        }
    }
    names
}

fn subtables(rows: &[&Row]) -> String {
    let mut out = "\n## (b) Flows by subtables\n\nThroughput of CD over that of DFC, an EMC in front of both, and in brackets what the source \
                   measured in the whole of a switch with cards.\n"
        .to_owned();
    let tables = unique(rows.iter().map(|r| r.cell.subtables));
    let flows = unique(rows.iter().map(|r| r.cell.flows));
    let find = |cache: &str, flows, subtables| {
        rows.iter().find(|r| (r.cell.cache, r.cell.flows, r.cell.subtables) == (cache, flows, subtables))
    };
    let head = |first: &str| {
        let names: String = tables.iter().map(|t| format!(" {t} |")).collect();
        format!("\n| {first} |{names}\n|---|{}\n", "---|".repeat(tables.len()))
    };
    out += &head("flows \\ subtables");
    for &f in &flows {
        let source = PUBLISHED_RATIOS.iter().find(|(n, _)| *n == f).map(|(_, r)| r);
        let ratios = tables.iter().enumerate().map(|(i, &t)| {
            let ratio = find("emc+cd", f, t).zip(find("emc+dfc", f, t)).map(|(c, d)| c.mpps() / d.mpps());
            let theirs = source.and_then(|r| r.get(i));
            format!(" {} ({}) |", figure(ratio), figure(theirs.copied()))
        });
        out += &format!("| {f} |{}\n", ratios.collect::<String>());
    }
    for &f in &flows {
        out += &format!("\nNanoseconds per packet, {f} flows:\n{}", head("cache \\ subtables"));
        for name in caches(rows) {
            let cells =
                tables.iter().map(|&t| find(name, f, t).map_or(" |".into(), |r| format!(" {} |", ns(r))));
            out += &format!("| {name} |{}\n", cells.collect::<String>());
        }
    }
    out
}

fn figure(x: Option<f64>) -> String {
    x.map_or("–".into(), |x| format!("{x:.2}"))
}

fn traffic(rows: &[&Row]) -> String {
    let mut out = "\n## (c) Distributions by megaflows and churn\n\n200,000 flows (fewer if `--quick`), 5 subtables. Churn: megaflows replaced \
                   per thousand packets. Each field: nanoseconds per packet, and the share that no cache found.\n"
        .to_owned();
    let names = caches(rows);
    out += &format!(
        "\n| distribution | megaflows | churn |{}\n|---|---|---|{}\n",
        names.iter().map(|n| format!(" {n} |")).collect::<String>(),
        "---|".repeat(names.len())
    );
    for group in rows.chunks(names.len().max(1)) {
        let Some(first) = group.first().map(|r| &r.cell) else { continue };
        let cells = group.iter().map(|r| format!(" {}, {} |", ns(r), percent(r.result.table)));
        out += &format!(
            "| {} | {} | {} |{}\n",
            first.distribution.name(),
            first.megaflows,
            first.churn,
            cells.collect::<String>()
        );
    }
    out
}

fn pages(rows: &[&Row]) -> String {
    let mut out = "\n## (d) Huge pages\n\nA million flows, 10 subtables. Run it with and without \
                   `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`: huge pages are those of the whole process.\n\n\
                   | cache | its kB | huge pages, kB | ns a packet |\n|---|---|---|---|\n"
        .to_owned();
    for r in rows {
        out += &format!("| {} | {} | {} | {} |\n", r.cell.cache, r.result.cache_kb, r.result.huge_kb, ns(r));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::cells::Experiment;
    use super::*;

    #[test]
    fn every_experiment_has_its_part_of_the_page() {
        let all = Experiment::all(true).into_iter();
        let rows: Vec<Row> = all
            .flat_map(|e| e.cells.into_iter().map(move |cell| (e.letter, cell)))
            .map(|(experiment, cell)| {
                let ns = if cell.cache == "emc+cd" { [9.0, 10.0, 11.0] } else { [4.5, 5.0, 6.0] };
                Row { experiment, cell, result: CellResult { ns, front: 0.86, ..CellResult::default() } }
            })
            .collect();
        let text = page(&rows);
        for part in ["## (a)", "## (b)", "## (c)", "## (d)", "| 2-hash 16k | 100 | 14.0 % | 5.0 (4.5–6.0) |"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("| 10000 | 0.50 (1.00) | 0.50 (1.00) | 0.50 (0.85) |"), "{text}");
        assert_eq!(Row::HEADER.split(',').count(), rows[0].csv().split(',').count());
    }
}
