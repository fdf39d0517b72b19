//! `dpif-netdev/pmd-state` and `dpif-netdev/pmd-plan`: Sluice's own commands for `sluice top` and `sluice pmd`.
//!
//! The state consists of increasing counters in JSON; clients compute rates from two replies. The plan shows the effect
//! of a rebalance, by forecast and by `pmd-rxq-assign`, without executing it.

use datapath::Event;
use ovsdb::Json;
use pmd::plan_moves::Outcome;
use poll_threads::cycles;
use poll_threads::{PlannedMove, RxqView, WorkerInfo};
use serde_json::json;
use switch::{Backer, Switch};
use units::CoreId;
use unixctl::{Format, Reply};

fn backers(switch: &Switch) -> impl Iterator<Item = &Backer> {
    switch.datapaths.all()
}

pub(crate) fn state(switch: &Switch) -> Reply {
    let hz = cycles::per_second();
    let datapaths: Json = backers(switch).map(|b| (b.name(), datapath(switch, b))).collect();
    Reply::Json(json!({ "cycles-per-second": hz, "now": cycles::now().0, "datapaths": datapaths }))
}

fn datapath(switch: &Switch, backer: &Backer) -> Json {
    let workers = &backer.workers;
    let threads: Vec<Json> = workers.infos().into_iter().map(|info| thread(switch, backer, info)).collect();
    json!({
        "auto-lb": workers.is_auto_lb_on(),
        "policy": workers.policy().name(),
        "moves": workers.moves_made(),
        "threads": threads,
    })
}

fn thread(switch: &Switch, backer: &Backer, info: WorkerInfo) -> Json {
    let tally = backer.datapath.worker_tally(info.id);
    let n = |event| tally.get(event);
    let drops: Json = tally.drops().map(|(reason, n)| (reason.name(), Json::from(n))).collect();
    let workers = &backer.workers;
    let rxqs: Vec<Json> = workers.all_rxqs(info.id).map(|q| rxq(switch, backer, &q)).collect();
    json!({
        "core": (info.core != CoreId::UNPINNED).then_some(info.core.0),
        "numa": info.numa,
        "isolated": info.isolated,
        "sleep-max": workers.sleep_max().of(info.core).0,
        "latency-target": workers.latency_target().of(info.core).0,
        "iterations": n(Event::Iterations),
        "sleeps": n(Event::SleepIterations),
        "busy-cycles": n(Event::BusyCycles),
        "idle-cycles": n(Event::IdleCycles),
        "sleep-cycles": n(Event::SleepCycles),
        "received": n(Event::Received),
        "sent": n(Event::Sent),
        "cache-hits": n(Event::CacheHit),
        "megaflow-hits": n(Event::MegaflowHit),
        "missed": n(Event::Missed),
        "drops": drops,
        "rxqs": rxqs,
    })
}

fn rxq(switch: &Switch, backer: &Backer, q: &RxqView<'_>) -> Json {
    let (bursts, full) = q.load.bursts();
    json!({
        "port": q.port,
        "queue": q.queue.0,
        "enabled": switch.is_rxq_enabled(backer, q.no, q.queue),
        "cycles": q.load.cycles().0,
        "packets": q.load.packets(),
        "bursts": bursts,
        "full-bursts": full,
        "forecast": q.forecast.next(),
    })
}

pub(crate) fn plan(switch: &Switch, format: Format) -> Reply {
    match format {
        Format::Text => Reply::Text(backers(switch).map(plan_text).collect()),
        Format::Json => Reply::Json(backers(switch).map(|b| (b.name(), plan_object(b))).collect()),
    }
}

fn percent(load: f64) -> f64 {
    load * 100.0
}

fn plan_text(backer: &Backer) -> String {
    let workers = &backer.workers;
    let (plan, moves) = workers.preview();
    let auto = if workers.is_auto_lb_on() { "on" } else { "off" };
    let mut text = format!("{}: pmd-auto-lb is {auto}, policy {}\n", backer.name(), workers.policy().name());
    for node in &plan.nodes {
        let (before, after, bound) = (percent(node.before), percent(node.after), percent(node.even_load));
        text += &format!(
            "  numa node {}: busiest core {before:.0} % -> {after:.0} % by {} moves, bound {bound:.0} %\n",
            node.numa.0, node.moves
        );
    }
    moves.iter().for_each(|m| text += &move_text(m));
    let given = workers.preview_reassignment();
    let name = workers.pmd_settings().algorithm.name();
    text += &format!("  dpif-netdev/pmd-rxq-rebalance ({name}) would move {}\n", given.len());
    given.iter().for_each(|m| text += &move_text(m));
    text
}

fn move_text(m: &PlannedMove) -> String {
    let (from, to) = (m.from.0, m.to.0);
    format!("    port {} rx queue {} ({:.0} %): core {from} -> core {to}\n", m.port, m.queue, percent(m.load))
}

fn plan_object(backer: &Backer) -> Json {
    let workers = &backer.workers;
    let (plan, moves) = workers.preview();
    let node = |n: &Outcome| json!({ "numa": n.numa.0, "before": n.before, "after": n.after, "bound": n.even_load, "moves": n.moves });
    let nodes: Vec<Json> = plan.nodes.iter().map(node).collect();
    let object = |m: &PlannedMove| json!({ "port": m.port, "queue": m.queue, "from": m.from.0, "to": m.to.0, "load": m.load });
    let moves: Vec<Json> = moves.iter().map(object).collect();
    let given: Vec<Json> = workers.preview_reassignment().iter().map(object).collect();
    json!({
        "auto-lb": workers.is_auto_lb_on(),
        "policy": workers.policy().name(),
        "nodes": nodes,
        "moves": moves,
        "rebalance": given,
    })
}
