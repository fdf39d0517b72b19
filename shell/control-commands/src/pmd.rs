//! `dpif-netdev/*`: statistics and settings of workers.

use crate::answer::{Answer, unknown};
use crate::perf_log::PerfLog;
use crate::pmd_perf::{Measurement, ShownParts};
use crate::{pmd_impl, pmd_txq, subtable_lookup};
use ctl::names;
use datapath::{Event, Tally};
use pmd::load::intervals_of;
use poll_threads::cycles;
use poll_threads::{RxqView, WorkerInfo};
use switch::{Backer, Switch};
use units::{CoreId, Millis};
use unixctl::Format;

/// Default and maximum time over which the usage of queues is measured, in seconds.
const DEFAULT_SECONDS: u64 = 60;
/// Length of a measurement interval in seconds. The requested time is rounded up to a multiple of it.
const INTERVAL: u64 = 5;

const NO_DATAPATH: &str = "please specify an existing datapath";

/// The datapath and options of a command.
struct Arguments<'a> {
    backer: &'a Backer,
    core: Option<u32>,
    seconds: u64,
}

pub(crate) fn execute(
    perf_log: &mut PerfLog,
    switch: &mut Switch,
    name: &str,
    args: &[String],
    format: Format,
) -> Answer {
    match name {
        names::DPIF_NETDEV_PMD_STATE => return crate::pmd_state::state(switch).into(),
        names::DPIF_NETDEV_SUBTABLE_LOOKUP_INFO_GET | names::DPIF_NETDEV_SUBTABLE_LOOKUP_PRIO_GET => {
            return Ok(subtable_lookup::show(switch)).into();
        }
        names::DPIF_NETDEV_SUBTABLE_LOOKUP_PRIO_SET => return subtable_lookup::set(switch, args).into(),
        names::DPIF_NETDEV_BOND_SHOW => return bond_show(switch, args).into(),
        names::DPIF_NETDEV_PMD_PLAN => return crate::pmd_state::plan(switch, format).into(),
        _ => {}
    }
    let cores = || {
        let infos = switch.datapaths.with_bridges().flat_map(|b| b.workers.infos());
        infos.filter(|p| p.core != CoreId::UNPINNED).map(|p| p.core.0).collect::<Vec<_>>()
    };
    if let Some(result) = pmd_impl::execute(name, args, &cores()) {
        return result.into();
    }
    if name == names::DPIF_NETDEV_PMD_RXQ_REBALANCE {
        return rebalance(switch, args).into();
    }
    if name == names::DPIF_NETDEV_PMD_PERF_LOG_SET {
        let watch = crate::perf_log::set(perf_log, args);
        return watch
            .map(|watch| {
                switch.watch_iterations(watch);
                String::new()
            })
            .into();
    }
    if name == names::DPIF_NETDEV_PMD_STATS_CLEAR {
        return clear(switch, args).into();
    }
    let perf = name == names::DPIF_NETDEV_PMD_PERF_SHOW;
    let (wanted, args) = if perf { ShownParts::parse(args) } else { (ShownParts::default(), args) };
    let now = switch.clock.now();
    let result =
        arguments(switch, args, name == names::DPIF_NETDEV_PMD_RXQ_SHOW).map(|arguments| match name {
            names::DPIF_NETDEV_PMD_STATS_SHOW => stats_show(&arguments).into(),
            names::DPIF_NETDEV_PMD_PERF_SHOW => perf_show(&arguments, &wanted, now).into(),
            names::DPIF_NETDEV_PMD_SLEEP_SHOW => sleep_show(&arguments).into(),
            names::DPIF_NETDEV_PMD_TXQ_SHOW => pmd_txq::show(arguments.backer, now).into(),
            names::DPIF_NETDEV_PMD_RXQ_SHOW => rxq_show(switch, &arguments).into(),
            _ => unknown(name),
        });
    result.unwrap_or_else(|text: String| Answer::Now(Err(text)))
}

/// Parses the datapath and the options of a command. `allows_secs`: option `-secs` is allowed.
fn arguments<'a>(switch: &'a Switch, args: &[String], allows_secs: bool) -> Result<Arguments<'a>, String> {
    let (mut backer, mut core, mut seconds) = (None, None, DEFAULT_SECONDS);
    let mut rest = args;
    loop {
        rest = match rest {
            [option, value, rest @ ..] if option == "-pmd" => {
                core = value.parse().ok().or(core);
                rest
            }
            [option, value, rest @ ..] if allows_secs && option == "-secs" => {
                seconds = value.parse().unwrap_or(DEFAULT_SECONDS);
                rest
            }
            [name, rest @ ..] => {
                backer = switch.datapaths.all().find(|b| *name == b.dp_name);
                rest
            }
            [] => break,
        }
    }
    let only = || switch.datapaths.only();
    let backer = backer.or_else(only).ok_or(NO_DATAPATH)?;
    Ok(Arguments { backer, core, seconds })
}

/// `dpif-netdev/bond-show`: the bonds whose links the datapath selects without a second look-up.
fn bond_show(switch: &Switch, args: &[String]) -> Result<String, String> {
    let named = args.first().map(|name| switch.datapaths.all().find(|b| b.dp_name == *name));
    let backer = named.unwrap_or_else(|| switch.datapaths.only()).ok_or(NO_DATAPATH)?;
    let bonds = backer.datapath.bonds().all();
    let mut out = if bonds.is_empty() { String::new() } else { "Bonds:\n".to_owned() };
    for (id, ports) in bonds {
        out += &format!("  bond-id {id}:\n");
        for (bucket, port) in ports.into_iter().enumerate() {
            let member = port.map_or(u32::MAX, |port| port.0);
            out += &format!("    bucket {bucket} - member {member}\n");
        }
    }
    Ok(out)
}

/// Requests that all rx queues are reassigned. This happens before the next command.
fn rebalance(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let name = arguments(switch, args, false)?.backer.dp_name.clone();
    if args.first().is_some_and(|given| *given != name) {
        return Err(NO_DATAPATH.to_owned());
    }
    for backer in switch.datapaths.all_mut().filter(|b| b.dp_name == name) {
        backer.workers.request_reassignment();
    }
    Ok("pmd rxq rebalance requested.\n".to_owned())
}

/// Clears the counters and recordings of workers.
fn clear(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let now = switch.clock.now();
    let arguments = arguments(switch, args, false)?;
    let (name, infos) = (arguments.backer.dp_name.clone(), worker_infos(&arguments));
    for backer in switch.datapaths.all_mut().filter(|b| b.dp_name == name) {
        for info in &infos {
            backer.upcall_translator.command_settings.clear(
                info.id,
                backer.datapath.worker_tally(info.id),
                now,
            );
            backer.workers.clear_record(info.id, now);
        }
    }
    Ok(String::new())
}

fn perf_show(arguments: &Arguments<'_>, wanted: &ShownParts, now: Millis) -> String {
    let mut text = String::new();
    for info in worker_infos(arguments).into_iter().filter(|p| p.core != CoreId::UNPINNED) {
        let settings = &arguments.backer.upcall_translator.command_settings;
        let tally = arguments.backer.datapath.worker_tally(info.id).since(&settings.cleared(info.id));
        let since = settings.cleared_at(info.id).map_or(info.since, |at| at.max(info.since));
        let seconds = now.since(since).0 as f64 / 1000.0;
        let ms = runtime::clock::wall_ms();
        let (s, ms) = (ms / 1000, ms % 1000);
        let (hour, minute) = (s / 3600 % 24, s / 60 % 60);
        text += &format!(
            "\nTime: {hour:02}:{minute:02}:{:02}.{ms:03}\nMeasurement duration: {seconds:.3} s\n\npmd thread \
             numa_id {} core_id {}:\n\n",
            s % 60,
            info.numa,
            info.core.0
        );
        text += &Measurement { tally, seconds, hz: cycles::per_second() }.text();
        if let Some(recorder) = arguments.backer.workers.copy_of_recorder(info.id) {
            text += &wanted.text(&recorder);
        }
    }
    text
}

fn sleep_show(arguments: &Arguments<'_>) -> String {
    let sleep = arguments.backer.workers.sleep_max();
    let latency = arguments.backer.workers.latency_target();
    let mut text = format!("Default max sleep: {:4} us\n", sleep.default.0);
    for info in worker_infos(arguments).into_iter().filter(|p| p.core != CoreId::UNPINNED) {
        let (core, max) = (info.core.0, sleep.of(info.core).0);
        text += &format!("pmd thread numa_id {} core_id {core}:\n  max sleep: {max:4} us\n", info.numa);
        if let target @ 1.. = latency.of(info.core).0 {
            text += &format!("  latency target: {target:4} us\n");
        }
    }
    text
}

/// The requested workers, by core; the worker of kernel ports is last.
fn worker_infos(arguments: &Arguments<'_>) -> Vec<WorkerInfo> {
    let mut infos = arguments.backer.workers.infos();
    infos.retain(|p| arguments.core.is_none_or(|core| p.core.0 == core));
    infos.sort_by_key(|p| p.core);
    infos
}

fn stats_show(arguments: &Arguments<'_>) -> String {
    let text = |info: WorkerInfo| {
        let counted = arguments.backer.datapath.worker_tally(info.id);
        let tally = counted.since(&arguments.backer.upcall_translator.command_settings.cleared(info.id));
        match info.core {
            // The cycles of this worker are not shown, because it sleeps when it is idle.
            CoreId::UNPINNED => format!("main thread:\n{}", tally_text(&tally)),
            CoreId(core) => {
                let title = format!("pmd thread numa_id {} core_id {core}:\n", info.numa);
                title + &tally_text(&tally) + &cycles_text(&tally)
            }
        }
    };
    worker_infos(arguments).into_iter().map(text).collect()
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

fn tally_text(tally: &Tally) -> String {
    let n = |event| tally.get(event);
    let received = n(Event::Received);
    // Hits of the flow cache are shown as SMC hits, hits of the cache in front of the flow cache as EMC hits.
    let passes = ratio(received + n(Event::Recirculated), received);
    format!(
        "  packets received: {received}\n  packet recirculations: {}\n  \
         avg. datapath passes per packet: {passes:.2}\n  phwol hits: 0\n  mfex opt hits: 0\n  \
         simple match hits: {}\n  emc hits: {}\n  smc hits: {}\n  megaflow hits: {}\n  \
         avg. subtable lookups per megaflow hit: {:.2}\n  miss with success upcall: {}\n  \
         miss with failed upcall: {}\n  avg. packets per output batch: {:.2}\n",
        n(Event::Recirculated),
        n(Event::SimpleHit),
        n(Event::FrontHit).saturating_sub(n(Event::SimpleHit)),
        n(Event::CacheHit).saturating_sub(n(Event::FrontHit)),
        n(Event::MegaflowHit),
        ratio(n(Event::MasksVisited), n(Event::MegaflowHit)),
        n(Event::Missed),
        n(Event::Lost),
        ratio(n(Event::Sent), n(Event::OutputBursts)),
    )
}

fn cycles_text(tally: &Tally) -> String {
    let n = |event| tally.get(event);
    let received = n(Event::Received);
    let (idle, busy) = (n(Event::IdleCycles), n(Event::BusyCycles));
    let all = idle + busy;
    if all == 0 {
        return String::new();
    }
    let share = |cycles| ratio(cycles, all) * 100.0;
    let mut text = format!("  idle cycles: {idle} ({:.2}%)\n", share(idle));
    text += &format!("  processing cycles: {busy} ({:.2}%)\n", share(busy));
    if received != 0 {
        let line =
            |what: &str, cycles| format!("  {what}: {:.2} ({cycles}/{received})\n", ratio(cycles, received));
        text += &line("avg cycles per packet", all);
        text += &line("avg processing cycles per packet", busy);
    }
    text
}

/// A queue in the form of the output.
struct QueueRow {
    port: String,
    queue: u16,
    enabled: bool,
    /// Cycles spent on packets of the queue, and all cycles in that time.
    usage: (u64, u64),
}

/// A PMD thread and its queues in the form of the output.
struct Thread {
    info: WorkerInfo,
    rxqs: Vec<QueueRow>,
    /// Cycles of busy iterations, and all cycles in that time; (0, 0): not measured yet.
    usage: (u64, u64),
}

fn rxq_show(switch: &Switch, arguments: &Arguments<'_>) -> String {
    let seconds = match arguments.seconds {
        s if s == 0 || s > DEFAULT_SECONDS => DEFAULT_SECONDS,
        s => s.next_multiple_of(INTERVAL),
    };
    let intervals = intervals_of(seconds);
    let workers = &arguments.backer.workers;
    let mut text = String::new();
    for info in worker_infos(arguments) {
        if text.is_empty() {
            text = format!("Displaying last {seconds} seconds pmd usage %\n");
        }
        if info.core == CoreId::UNPINNED {
            continue;
        }
        let shown = |q: RxqView<'_>| QueueRow {
            port: q.port.to_owned(),
            queue: q.queue.0,
            enabled: switch.is_rxq_enabled(arguments.backer, q.no, q.queue),
            usage: q.usage(intervals),
        };
        let mut rxqs: Vec<QueueRow> = workers.rxqs(info.id).map(shown).collect();
        rxqs.sort_by(|a, b| (&a.port, a.queue).cmp(&(&b.port, b.queue)));
        let tally = arguments.backer.datapath.worker_tally(info.id);
        // As in Open vSwitch, there is no measurement before the first interval has ended.
        let load = workers.load(info.id).filter(|load| load.elapsed() != 0);
        let usage = load.map_or((0, 0), |load| load.usage(intervals, &tally));
        text += &thread_text(&Thread { info, rxqs, usage });
    }
    text
}

fn thread_text(thread: &Thread) -> String {
    let WorkerInfo { core, numa, isolated, .. } = thread.info;
    let (busy, all) = thread.usage;
    let share = |(cycles, of): (u64, u64)| match all {
        0 => "NOT AVAIL".to_owned(),
        _ => format!("{:2.0} %", ratio(cycles, of) * 100.0),
    };
    let mut text = format!("pmd thread numa_id {numa} core_id {}:\n  isolated : {isolated}\n", core.0);
    for q in &thread.rxqs {
        let state = if q.enabled { "(enabled) " } else { "(disabled)" };
        let QueueRow { port, queue, .. } = q;
        text += &format!("  port: {port:<16}  queue-id: {queue:2} {state}  pmd usage: {}\n", share(q.usage));
    }
    if !thread.rxqs.is_empty() {
        let counted: u64 = thread.rxqs.iter().map(|q| q.usage.0).sum();
        text += &format!("  overhead: {}\n", share((busy.saturating_sub(counted), all)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::WorkerId;

    #[test]
    fn counters_as_scripts_read_them() {
        let mut tally = Tally::default();
        assert!(tally_text(&tally).ends_with("  avg. packets per output batch: 0.00\n"));
        tally.add(Event::Received, 4);
        tally.add(Event::MegaflowHit, 2);
        tally.add(Event::MasksVisited, 3);
        tally.add(Event::IdleCycles, 60);
        tally.add(Event::BusyCycles, 40);
        let text = tally_text(&tally);
        assert!(text.starts_with("  packets received: 4\n  packet recirculations: 0\n"));
        assert!(text.contains("\n  avg. datapath passes per packet: 1.00\n"));
        assert!(text.contains("\n  avg. subtable lookups per megaflow hit: 1.50\n"));
        assert_eq!(
            cycles_text(&tally),
            "  idle cycles: 60 (60.00%)
  processing cycles: 40 (40.00%)
  avg cycles per packet: 25.00 (100/4)
  avg processing cycles per packet: 10.00 (40/4)
"
        );
    }

    #[test]
    fn queues_as_scripts_read_them() {
        let info =
            WorkerInfo { id: WorkerId(2), core: CoreId(1), numa: 0, isolated: false, since: Millis(0) };
        let rxq =
            |queue, enabled, used| QueueRow { port: "p2".to_owned(), queue, enabled, usage: (used, 1000) };
        let mut thread = Thread { info, rxqs: vec![rxq(0, true, 0)], usage: (0, 0) };
        assert_eq!(
            thread_text(&thread),
            "pmd thread numa_id 0 core_id 1:
  isolated : false
  port: p2                queue-id:  0 (enabled)   pmd usage: NOT AVAIL
  overhead: NOT AVAIL
"
        );
        thread.info.isolated = true;
        thread.rxqs = vec![rxq(0, true, 250), rxq(11, false, 40)];
        thread.usage = (310, 1000);
        assert_eq!(
            thread_text(&thread),
            "pmd thread numa_id 0 core_id 1:
  isolated : true
  port: p2                queue-id:  0 (enabled)   pmd usage: 25 %
  port: p2                queue-id: 11 (disabled)  pmd usage:  4 %
  overhead:  2 %
"
        );
        thread.rxqs.clear();
        assert!(!thread_text(&thread).contains("overhead"));
    }
}
