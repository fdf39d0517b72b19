//! Metrics of datapaths, their workers and rx queues.

use crate::view::{DatapathView, RxqView};
use datapath::last_drop::DropPort;
use datapath::stages::PathStage;
use datapath::{Event, Tally};
use metrics::table as m;
use metrics::{Histogram, Metric, Object, Samples};
use poll_threads::WorkerInfo;
use std::collections::BTreeMap;
use units::{CoreId, PortNo, WorkerId};

/// Maximum number of zones without a limit that are shown: those with the most connections.
const ZONES_MAX: usize = 512;

/// Metrics of a datapath that are event counters of its workers.
static EVENTS: [(&Metric, Event); 11] = [
    (&m::DP_RECEIVED, Event::Received),
    (&m::DP_CREATED, Event::Created),
    (&m::DP_SENT, Event::Sent),
    (&m::DP_DELIVERED, Event::Delivered),
    (&m::DP_RECIRCULATED, Event::Recirculated),
    (&m::CACHE_HITS, Event::CacheHit),
    (&m::FRONT_HITS, Event::FrontHit),
    (&m::MEGAFLOW_HITS, Event::MegaflowHit),
    (&m::MASKS_VISITED, Event::MasksVisited),
    (&m::UPCALLS, Event::Missed),
    (&m::UPCALLS_LOST, Event::Lost),
];

/// Metrics of a thread that are event counters of its worker.
static OF_THREAD: [(&Metric, Event); 9] = [
    (&m::THREAD_BUSY_CYCLES, Event::BusyCycles),
    (&m::THREAD_ITERATIONS, Event::Iterations),
    (&m::THREAD_SLEEPS, Event::SleepIterations),
    (&m::THREAD_RECEIVED, Event::Received),
    (&m::THREAD_SENT, Event::Sent),
    (&m::THREAD_BURSTS, Event::OutputBursts),
    (&m::THREAD_CACHE_HITS, Event::CacheHit),
    (&m::THREAD_MEGAFLOW_HITS, Event::MegaflowHit),
    (&m::THREAD_UPCALLS, Event::Missed),
];

/// Metrics of a thread in seconds; the worker counts cycles.
static TIMES: [(&Metric, Event); 4] = [
    (&m::THREAD_BUSY, Event::BusyCycles),
    (&m::THREAD_IDLE, Event::IdleCycles),
    (&m::THREAD_ASLEEP, Event::SleepCycles),
    (&m::THREAD_UPCALL, Event::UpcallCycles),
];

/// The name of a worker's thread in metrics. A PMD thread has this name, followed by its number, in tools like `top` and `perf`.
pub fn thread_name(info: &WorkerInfo) -> String {
    match info.core {
        CoreId::UNPINNED => "kernel-ports".to_owned(),
        CoreId(core) => format!("pmd-c{core:02}"),
    }
}

/// Adds the metrics of a datapath.
pub fn add(view: &DatapathView, hertz: f64, samples: &mut Samples) {
    let datapath = &view.datapath;
    if let Some(of) = samples.object(Object::Datapath, &[&view.name]) {
        let tally = datapath.tally();
        EVENTS.iter().for_each(|(metric, event)| samples.set(metric, of, tally.get(*event)));
        samples.set(&m::DP_DROPPED, of, tally.dropped_total());
        samples.set(&m::DP_PARKED, of, tally.parked());
        samples.set(&m::DP_FRAGMENTS, of, tally.waiting_fragments());
        samples.set(&m::HANDLERS, of, view.handlers);
        samples.set(&m::MEGAFLOWS, of, datapath.flow_count());
        samples.set(&m::MEGAFLOWS_MAX, of, datapath.flow_capacity());
        samples.set(&m::MEGAFLOW_BYTES, of, datapath.flow_bytes());
        samples.set(&m::MASKS, of, datapath.subtables().1);
        samples.set(&m::PORT_MASKS, of, datapath.most_masks().map_or(0, |(_, masks)| masks));
        samples.set(&m::REVALIDATOR_BEHIND, of, view.revalidation_pending);
        samples.set(&m::REVALIDATOR_SECONDS, of, view.round_ms as f64 / 1000.0);
        samples.set(&m::RXQ_MOVES, of, view.moves);
        let conntrack = datapath.conntrack();
        samples.set(&m::CT_CONNECTIONS, of, u64::from(conntrack.count()));
        samples.set(&m::CT_MAX, of, u64::from(conntrack.max()));
        drops(view, &tally, samples);
    }
    zones(view, samples);
    port_drops(view, samples);
    let mut queues: BTreeMap<usize, u64> = BTreeMap::new();
    view.rxqs.iter().for_each(|q| *queues.entry(q.worker).or_default() += 1);
    for (at, info) in view.workers.iter().enumerate() {
        thread(view, info, (queues.get(&at).copied().unwrap_or(0), hertz), samples);
    }
    for q in &view.rxqs {
        rxq(view, q, hertz, samples);
    }
}

fn drops(view: &DatapathView, tally: &Tally, samples: &mut Samples) {
    for reason in dpif::DropReason::ALL {
        if let Some(of) = samples.object(Object::Drop, &[&view.name, reason_name(*reason)]) {
            samples.set(&m::DROPS, of, tally.dropped(*reason));
        }
    }
}

/// Adds the drops at each port. A reason for which nothing was dropped at a port has no sample.
fn port_drops(view: &DatapathView, samples: &mut Samples) {
    for (drop_port, counts) in view.datapath.port_drops() {
        let Some(port) = view.names.get(&PortNo(drop_port.port())) else { continue };
        for reason in dpif::DropReason::ALL.iter().filter(|reason| counts[**reason as usize] > 0) {
            let labels = [view.name.as_str(), port, direction(drop_port), reason_name(*reason)];
            if let Some(of) = samples.object(Object::PortDrop, &labels) {
                samples.set(&m::PORT_DROPS, of, counts[*reason as usize]);
            }
        }
    }
}

/// Whether a port had received the packet, or should have sent it.
pub fn direction(drop_port: DropPort) -> &'static str {
    match drop_port {
        DropPort::In(_) => "receive",
        DropPort::Out(_) => "transmit",
    }
}

/// The value of a label `reason`: the name of the reason's counter without the common prefix.
pub fn reason_name(reason: dpif::DropReason) -> &'static str {
    let name = reason.name();
    name.strip_prefix("datapath_drop_").unwrap_or(name)
}

fn zones(view: &DatapathView, samples: &mut Samples) {
    let conntrack = view.datapath.conntrack();
    let limits = conntrack.limits().into_iter();
    let limits: BTreeMap<u16, u32> = limits.filter_map(|of| Some((of.zone?, of.limit))).collect();
    let mut zones: BTreeMap<u16, u32> =
        limits.keys().map(|zone| (*zone, conntrack.count_of_zone(*zone))).collect();
    zones.extend(conntrack.zones(ZONES_MAX));
    for (zone, connections) in zones {
        if let Some(of) = samples.object(Object::Zone, &[&view.name, &zone.to_string()]) {
            samples.set(&m::ZONE_CONNECTIONS, of, u64::from(connections));
            if let Some(limit) = limits.get(&zone) {
                samples.set(&m::ZONE_MAX, of, u64::from(*limit));
            }
        }
    }
}

fn thread(view: &DatapathView, info: &WorkerInfo, (queues, hertz): (u64, f64), samples: &mut Samples) {
    let name = thread_name(info);
    let tally = view.datapath.worker_tally(info.id);
    for (reason, n) in tally.drops() {
        if let Some(of) = samples.object(Object::ThreadDrop, &[&view.name, &name, reason_name(reason)]) {
            samples.set(&m::THREAD_DROPS, of, n);
        }
    }
    let Some(of) = samples.object(Object::Thread, &[&view.name, &name]) else { return };
    TIMES.iter().for_each(|(metric, event)| samples.set(metric, of, tally.get(*event) as f64 / hertz));
    OF_THREAD.iter().for_each(|(metric, event)| samples.set(metric, of, tally.get(*event)));
    samples.set(&m::THREAD_DROPPED, of, tally.dropped_total());
    let sample = view.datapath.worker_stages(info.id);
    samples.set(&m::THREAD_STAGE_PACKETS, of, sample.packets);
    samples.set(&m::THREAD_RXQS, of, queues);
    let cache = view.datapath.worker_cache(info.id);
    samples.set(&m::THREAD_CACHE_ENTRIES, of, cache.entries);
    samples.set(&m::THREAD_CACHE_BYTES, of, cache.bytes);
    samples.set(&m::THREAD_NUMA, of, u64::from(info.numa));
    samples.set(&m::THREAD_ISOLATED, of, info.isolated);
    for (stage, cycles) in PathStage::ALL.iter().zip(sample.cycles) {
        if let Some(of) = samples.object(Object::Stage, &[&view.name, &name, stage.name()]) {
            samples.set(&m::STAGE_CYCLES, of, cycles);
        }
    }
}

fn rxq(view: &DatapathView, q: &RxqView, hertz: f64, samples: &mut Samples) {
    let number = q.queue.0.to_string();
    let Some(of) = samples.object(Object::Rxq, &[&view.name, &q.port, &number]) else { return };
    let (bursts, full) = q.load.bursts();
    samples.set(&m::RXQ_PACKETS, of, q.load.packets());
    samples.set(&m::RXQ_BURSTS, of, bursts);
    samples.set(&m::RXQ_FULL_BURSTS, of, full);
    samples.set(&m::RXQ_BUSY, of, q.load.cycles().0 as f64 / hertz);
    samples.set(&m::RXQ_FORECAST, of, q.forecast);
    let core = view.workers.get(q.worker).map_or(CoreId::UNPINNED, |w| w.core);
    samples.set(&m::RXQ_CORE, of, if core == CoreId::UNPINNED { -1.0 } else { f64::from(core.0) });
    samples.set(&m::RXQ_ENABLED, of, q.enabled);
    // The thread of kernel ports sleeps until packets arrive, so the time since the previous poll is not a residence time.
    if core != CoreId::UNPINNED && q.load.packets() > 0 {
        residence_times(view, q, &number, hertz, samples);
    }
}

fn residence_times(view: &DatapathView, q: &RxqView, number: &str, hertz: f64, samples: &mut Samples) {
    let Some(of) = samples.object(Object::RxqResidence, &[&view.name, &q.port, number]) else { return };
    let times = q.load.residence_times();
    let (above, bounded) = times.packets.split_last().unwrap_or((&0, &[]));
    let bound = |(k, n): (usize, &u64)| ((1u64 << k) as f64 / 1e6, *n);
    let buckets = bounded.iter().enumerate().map(bound).collect();
    samples.set_histogram(
        &m::RXQ_RESIDENCE,
        of,
        Histogram { buckets, above: *above, sum: times.sum as f64 / hertz },
    );
}

/// The thread name of a worker, for the list of dropped packets.
pub fn name_of_worker(view: &DatapathView, id: WorkerId) -> String {
    view.workers.iter().find(|w| w.id == id).map_or_else(|| "other".to_owned(), thread_name)
}
