//! Rates of threads and queues between two replies of `dpif-netdev/pmd-state`.

use ovsdb::Json;

/// Rates of a PMD thread, or of the thread of kernel ports, between two replies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// The core; `None`: the thread is not pinned to a core.
    pub core: Option<u64>,
    pub numa: u64,
    /// Whether the thread polls only rx queues that `pmd-rxq-affinity` binds to its core.
    pub isolated: bool,
    /// Share of the time spent on packets, 0 to 1.
    pub busy: f64,
    /// Share of the time asleep, 0 to 1.
    pub asleep: f64,
    /// Packets per second.
    pub packets: f64,
    /// Sleeps per second.
    pub sleeps: f64,
    /// Misses per second.
    pub misses: f64,
    /// Drops per second.
    pub drops: f64,
    /// Share of the look-ups that the flow cache answered, 0 to 1.
    pub cached: f64,
    /// Processing cycles per packet.
    pub cost: f64,
    pub queues: usize,
}

/// Rates of an rx queue between two replies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    pub port: String,
    pub queue: u64,
    pub core: Option<u64>,
    pub enabled: bool,
    /// Load, as a share of a core.
    pub load: f64,
    /// Forecast of the load, as a share of a core.
    pub forecast: f64,
    /// Packets per second.
    pub packets: f64,
    /// Average number of packets in a burst.
    pub burst: f64,
    /// Share of bursts that were full, 0 to 1.
    pub full: f64,
}

/// Rates of a datapath between two replies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatapathRates {
    pub name: String,
    pub policy: String,
    pub auto_lb: bool,
    /// Number of queue moves: in total, and between the replies.
    pub moves: (u64, u64),
    pub threads: Vec<Thread>,
    pub queues: Vec<Queue>,
    /// Drops per second by reason.
    pub drops: Vec<(String, f64)>,
}

fn number(of: &Json, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

fn list<'a>(of: &'a Json, name: &str) -> &'a [Json] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// `a` divided by `b`; 0 if `b` is 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The time between two replies.
#[derive(Clone, Copy)]
struct Elapsed {
    seconds: f64,
    cycles: f64,
}

/// Differences between the counters of two JSON objects.
struct CounterDiff<'a> {
    before: &'a Json,
    now: &'a Json,
    seconds: f64,
}

impl CounterDiff<'_> {
    fn count(&self, name: &str) -> f64 {
        number(self.now, name).saturating_sub(number(self.before, name)) as f64
    }

    fn rate(&self, name: &str) -> f64 {
        ratio(self.count(name), self.seconds)
    }
}

/// The rates between two replies of `dpif-netdev/pmd-state`. A counter that is missing in the first reply counts
/// from zero.
pub fn between(before: &Json, now: &Json) -> Vec<DatapathRates> {
    let cycles = number(now, "now").saturating_sub(number(before, "now")) as f64;
    let seconds = ratio(cycles, number(now, "cycles-per-second") as f64);
    let Some(all) = now["datapaths"].as_object() else { return Vec::new() };
    all.iter()
        .map(|(name, now)| datapath(name, &before["datapaths"][name], now, Elapsed { seconds, cycles }))
        .collect()
}

fn datapath(name: &str, before: &Json, now: &Json, time: Elapsed) -> DatapathRates {
    let mut out = DatapathRates {
        name: name.to_owned(),
        policy: now["policy"].as_str().unwrap_or_default().to_owned(),
        auto_lb: now["auto-lb"].as_bool().unwrap_or(false),
        moves: (number(now, "moves"), number(now, "moves").saturating_sub(number(before, "moves"))),
        ..DatapathRates::default()
    };
    let old_rxqs: Vec<&Json> = list(before, "threads").iter().flat_map(|t| list(t, "rxqs")).collect();
    for thread in list(now, "threads") {
        let was = list(before, "threads").iter().find(|t| t["core"] == thread["core"]).unwrap_or(&Json::Null);
        let since = CounterDiff { before: was, now: thread, seconds: time.seconds };
        let drops = drop_rates(&since);
        out.threads.push(rates(&since, drops.iter().fold(0.0, |sum, (_, n)| sum + n)));
        for (reason, rate) in drops {
            match out.drops.iter_mut().find(|(r, _)| *r == reason) {
                Some((_, sum)) => *sum += rate,
                None => out.drops.push((reason, rate)),
            }
        }
        for rxq in list(thread, "rxqs") {
            // Another thread may have polled the queue before.
            let same = |q: &&&Json| q["port"] == rxq["port"] && q["queue"] == rxq["queue"];
            let was = old_rxqs.iter().find(same).copied().unwrap_or(&Json::Null);
            let since = CounterDiff { before: was, now: rxq, seconds: time.seconds };
            out.queues.push(queue(&since, thread["core"].as_u64(), time.cycles));
        }
    }
    out
}

fn drop_rates(since: &CounterDiff<'_>) -> Vec<(String, f64)> {
    let Some(reasons) = since.now["drops"].as_object() else { return Vec::new() };
    let inner =
        CounterDiff { before: &since.before["drops"], now: &since.now["drops"], seconds: since.seconds };
    reasons.keys().map(|r| (r.clone(), inner.rate(r))).filter(|(_, n)| *n > 0.0).collect()
}

fn rates(since: &CounterDiff<'_>, drops: f64) -> Thread {
    let n = |name| since.count(name);
    let all = n("busy-cycles") + n("idle-cycles") + n("sleep-cycles");
    Thread {
        core: since.now["core"].as_u64(),
        numa: number(since.now, "numa"),
        isolated: since.now["isolated"].as_bool().unwrap_or(false),
        busy: ratio(n("busy-cycles"), all),
        asleep: ratio(n("sleep-cycles"), all),
        packets: since.rate("received"),
        sleeps: since.rate("sleeps"),
        misses: since.rate("missed"),
        drops,
        cached: ratio(n("cache-hits"), n("cache-hits") + n("megaflow-hits") + n("missed")),
        cost: ratio(n("busy-cycles"), n("received")),
        queues: list(since.now, "rxqs").len(),
    }
}

fn queue(since: &CounterDiff<'_>, core: Option<u64>, cycles: f64) -> Queue {
    let n = |name| since.count(name);
    Queue {
        port: since.now["port"].as_str().unwrap_or_default().to_owned(),
        queue: number(since.now, "queue"),
        core,
        enabled: since.now["enabled"].as_bool().unwrap_or(true),
        load: ratio(n("cycles"), cycles),
        forecast: since.now["forecast"].as_f64().unwrap_or(0.0),
        packets: since.rate("packets"),
        burst: ratio(n("packets"), n("bursts")),
        full: ratio(n("full-bursts"), n("bursts")),
    }
}
