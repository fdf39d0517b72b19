//! Samples of the daemon's counters, and the rates between two of them.

use ovsdb::Json;

/// A poll thread, or the thread of kernel ports, between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// `None`: not pinned to a core.
    pub core: Option<u64>,
    pub numa: u64,
    pub isolated: bool,
    /// Shares of the time, 0 to 1.
    pub busy: f64,
    pub asleep: f64,
    /// Rates per second.
    pub packets: f64,
    pub sleeps: f64,
    pub misses: f64,
    pub drops: f64,
    /// Share of the look-ups that the flow cache answered, 0 to 1.
    pub cached: f64,
    /// Processing cycles per packet.
    pub cost: f64,
    pub queues: usize,
}

/// An rx queue between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    pub port: String,
    pub queue: u64,
    pub core: Option<u64>,
    pub enabled: bool,
    /// Load and forecast, as shares of a core.
    pub load: f64,
    pub forecast: f64,
    /// Packets per second.
    pub packets: f64,
    /// Average number of packets in a burst.
    pub burst: f64,
    /// Share of bursts that were full, 0 to 1.
    pub full: f64,
}

/// A datapath between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Datapath {
    pub name: String,
    pub policy: String,
    pub auto_lb: bool,
    /// Number of queue moves: in total, and between the samples.
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

fn share(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// Differences between the counters of two JSON objects.
struct Since<'a> {
    before: &'a Json,
    now: &'a Json,
    seconds: f64,
}

impl Since<'_> {
    fn count(&self, name: &str) -> f64 {
        number(self.now, name).saturating_sub(number(self.before, name)) as f64
    }

    fn rate(&self, name: &str) -> f64 {
        share(self.count(name), self.seconds)
    }
}

/// The rates between two replies of `dpif-netdev/pmd-state`. Counters that the first one lacks count from
/// zero.
pub fn between(before: &Json, now: &Json) -> Vec<Datapath> {
    let cycles = number(now, "now").saturating_sub(number(before, "now")) as f64;
    let seconds = share(cycles, number(now, "cycles-per-second") as f64);
    let Some(all) = now["datapaths"].as_object() else { return Vec::new() };
    all.iter().map(|(name, now)| datapath(name, &before["datapaths"][name], now, (seconds, cycles))).collect()
}

fn datapath(name: &str, before: &Json, now: &Json, time: (f64, f64)) -> Datapath {
    let mut out = Datapath {
        name: name.to_owned(),
        policy: now["policy"].as_str().unwrap_or_default().to_owned(),
        auto_lb: now["auto-lb"].as_bool().unwrap_or(false),
        moves: (number(now, "moves"), number(now, "moves").saturating_sub(number(before, "moves"))),
        ..Datapath::default()
    };
    let old_rxqs: Vec<&Json> = list(before, "threads").iter().flat_map(|t| list(t, "rxqs")).collect();
    for thread in list(now, "threads") {
        let was = list(before, "threads").iter().find(|t| t["core"] == thread["core"]).unwrap_or(&Json::Null);
        let since = Since { before: was, now: thread, seconds: time.0 };
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
            let since = Since { before: was, now: rxq, seconds: time.0 };
            out.queues.push(queue(&since, thread["core"].as_u64(), time.1));
        }
    }
    out
}

fn drop_rates(since: &Since<'_>) -> Vec<(String, f64)> {
    let Some(reasons) = since.now["drops"].as_object() else { return Vec::new() };
    let inner = Since { before: &since.before["drops"], now: &since.now["drops"], seconds: since.seconds };
    reasons.keys().map(|r| (r.clone(), inner.rate(r))).filter(|(_, n)| *n > 0.0).collect()
}

fn rates(since: &Since<'_>, drops: f64) -> Thread {
    let n = |name| since.count(name);
    let all = n("busy-cycles") + n("idle-cycles") + n("sleep-cycles");
    Thread {
        core: since.now["core"].as_u64(),
        numa: number(since.now, "numa"),
        isolated: since.now["isolated"].as_bool().unwrap_or(false),
        busy: share(n("busy-cycles"), all),
        asleep: share(n("sleep-cycles"), all),
        packets: since.rate("received"),
        sleeps: since.rate("sleeps"),
        misses: since.rate("missed"),
        drops,
        cached: share(n("cache-hits"), n("cache-hits") + n("megaflow-hits") + n("missed")),
        cost: share(n("busy-cycles"), n("received")),
        queues: list(since.now, "rxqs").len(),
    }
}

fn queue(since: &Since<'_>, core: Option<u64>, cycles: f64) -> Queue {
    let n = |name| since.count(name);
    Queue {
        port: since.now["port"].as_str().unwrap_or_default().to_owned(),
        queue: number(since.now, "queue"),
        core,
        enabled: since.now["enabled"].as_bool().unwrap_or(true),
        load: share(n("cycles"), cycles),
        forecast: since.now["forecast"].as_f64().unwrap_or(0.0),
        packets: since.rate("packets"),
        burst: share(n("packets"), n("bursts")),
        full: share(n("full-bursts"), n("bursts")),
    }
}
