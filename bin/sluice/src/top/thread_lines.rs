//! The page of threads and queues of `sluice top`, as lines and as JSON.

use super::findings::findings;
use super::rates::{DatapathRates, Queue, Thread};
use ovsdb::Json;
use serde_json::json;

/// Sort order of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Load,
    Packets,
    Name,
}

/// What the user has selected with keys on the page of threads and queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    pub sort: Sort,
    /// The index of the marked queue.
    pub marked: usize,
    /// If set, only queues of this port are shown, in more detail.
    pub port: Option<String>,
}

impl Selection {
    /// The queues to show, sorted.
    pub fn queues<'a>(&self, datapath: &'a DatapathRates) -> Vec<&'a Queue> {
        let mut all: Vec<&Queue> = datapath
            .queues
            .iter()
            .filter(|q| self.port.as_ref().is_none_or(|port| q.port == *port))
            .collect();
        let name = |q: &Queue| (q.port.clone(), q.queue);
        all.sort_by_key(|q| name(q));
        match self.sort {
            Sort::Load => all.sort_by(|a, b| b.load.total_cmp(&a.load)),
            Sort::Packets => all.sort_by(|a, b| b.packets.total_cmp(&a.packets)),
            Sort::Name => {}
        }
        all
    }
}

/// A rate in a few characters, with a unit prefix (k, M, G).
pub fn format_rate(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2}G", n / 1e9),
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e3 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// The core of a thread; `main` for the thread of kernel ports, as in `pmd-stats-show`.
fn core(core: Option<u64>) -> String {
    core.map_or("main".to_owned(), |core| core.to_string())
}

/// The lines of a datapath. `mark`: mark the selected queue.
pub fn lines(datapath: &DatapathRates, selection: &Selection, mark: bool) -> Vec<String> {
    let auto = if datapath.auto_lb { "on" } else { "off" };
    let sum = |of: fn(&Thread) -> f64| datapath.threads.iter().map(of).fold(0.0, |sum, n| sum + n);
    let mut out = vec![
        format!(
            "{}  {} packets/s  {} drops/s  {} upcalls/s",
            datapath.name,
            format_rate(sum(|t| t.packets)),
            format_rate(sum(|t| t.drops)),
            format_rate(sum(|t| t.misses))
        ),
        format!(
            "auto load balance {auto} ({}), {} queues moved, {} since the previous sample",
            datapath.policy, datapath.moves.0, datapath.moves.1
        ),
    ];
    out.extend(findings(datapath));
    out.extend([
        String::new(),
        format!(
            "{:>5} {:>4} {:>7} {:>7} {:>8} {:>9} {:>8} {:>7} {:>8} {:>7}  ",
            "core",
            "numa",
            "busy %",
            "sleep %",
            "sleeps/s",
            "packets/s",
            "cyc/pkt",
            "cache %",
            "drops/s",
            "queues"
        ),
    ]);
    out.extend(datapath.threads.iter().map(thread));
    out.push(String::new());
    out.push(format!(
        "  {:<18} {:>5} {:>5} {:>7} {:>10} {:>9} {:>7} {:>7}",
        "port", "queue", "core", "load %", "forecast %", "packets/s", "burst", "full %"
    ));
    for (i, q) in selection.queues(datapath).into_iter().enumerate() {
        let sign = if mark && i == selection.marked { '>' } else { ' ' };
        out.push(format!("{sign} {}", queue(q)));
    }
    if selection.port.is_some() {
        out.push(String::new());
        out.push("drops of all ports by reason, per second:".to_owned());
        out.extend(datapath.drops.iter().map(|(reason, n)| format!("  {reason}: {}", format_rate(*n))));
    }
    out
}

fn thread(t: &Thread) -> String {
    let isolated = if t.isolated { "isolated" } else { "" };
    format!(
        "{:>5} {:>4} {:>7} {:>7} {:>8} {:>9} {:>8.0} {:>7} {:>8} {:>7} {isolated}",
        core(t.core),
        t.numa,
        percent(t.busy),
        percent(t.asleep),
        format_rate(t.sleeps),
        format_rate(t.packets),
        t.cost,
        percent(t.cached),
        format_rate(t.drops),
        t.queues
    )
}

fn queue(q: &Queue) -> String {
    let off = if q.enabled { "" } else { " (disabled)" };
    format!(
        "{:<18} {:>5} {:>5} {:>7} {:>10} {:>9} {:>7.1} {:>7}{off}",
        q.port,
        q.queue,
        core(q.core),
        percent(q.load),
        percent(q.forecast),
        format_rate(q.packets),
        q.burst,
        percent(q.full)
    )
}

/// The data of a datapath as JSON.
pub fn object(datapath: &DatapathRates) -> Json {
    let threads: Vec<Json> = datapath.threads.iter().map(thread_object).collect();
    let queues: Vec<Json> = datapath.queues.iter().map(queue_object).collect();
    let drops: Json = datapath.drops.iter().map(|(r, n)| (r.clone(), Json::from(*n))).collect();
    json!({
        "name": datapath.name,
        "policy": datapath.policy,
        "auto-lb": datapath.auto_lb,
        "moves": datapath.moves.0,
        "moves-since-last-sample": datapath.moves.1,
        "threads": threads,
        "queues": queues,
        "drops-per-second": drops,
    })
}

fn thread_object(t: &Thread) -> Json {
    json!({
        "core": t.core, "numa": t.numa, "isolated": t.isolated, "busy": t.busy, "asleep": t.asleep,
        "packets-per-second": t.packets, "sleeps-per-second": t.sleeps, "upcalls-per-second": t.misses,
        "drops-per-second": t.drops, "cache-hit-share": t.cached, "cycles-per-packet": t.cost, "queues": t.queues,
    })
}

fn queue_object(q: &Queue) -> Json {
    json!({
        "port": q.port, "queue": q.queue, "core": q.core, "enabled": q.enabled, "load": q.load,
        "forecast": q.forecast, "packets-per-second": q.packets, "burst": q.burst, "full-burst-share": q.full,
    })
}
