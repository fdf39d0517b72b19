//! Measures a table of millions of connections over time: `cargo run --release -p conntrack --example hold`.
//!
//! `hold pauses [connections]`: how long single packets take on a worker, alone and while another thread sweeps, dumps and flushes in
//! steps, as the main loop does; and how long the longest step takes. Both in processor time of the thread.
//!
//! `hold churn [per second] [seconds]`: memory while new connections begin and expire at a constant rate. Time is virtual, so ten minutes
//! of virtual time take less than one minute.

use conntrack::{Action, Conntrack, Filter, Metadata, Packet};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use units::Millis;

#[path = "shared/mod.rs"]
mod shared;
use shared::packet;

/// A packet that takes longer counts as a pause: a poll thread must not lose more time at once.
const PAUSE: Duration = Duration::from_micros(100);
/// Time of a step, as in the main loop.
const STEP: Duration = Duration::from_micros(50);
/// Records that a sweep visits between two readings of the clock.
const SWEPT: u32 = 128;
/// Records that a list or a flush visits between two readings of the clock.
const LISTED: u32 = 32;
/// How long flushes are repeated.
const FLUSHING: Duration = Duration::from_secs(4);
/// Interval between the main loop's sweeps in `churn`, in ms of virtual time.
const SWEEP_EVERY: u64 = 500;

fn track(ct: &Conntrack, l3: &[u8], now: u64) {
    let action = Action { commit: true, ..Action::default() };
    ct.track(
        &Packet { ethertype: 0x0800, l3, sums: conntrack::VERIFIED },
        &mut Metadata::default(),
        &action,
        Millis(now),
    );
}

fn resident_mb() -> usize {
    shared::resident() >> 20
}

/// How often this thread has given up the processor to wait for a lock.
fn waits() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Processor time of this thread, which does not depend on how busy the machine is.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a worker measured while another thread worked.
#[derive(Default)]
struct WorkerResult {
    packets: u64,
    /// The processor time of the slowest packet.
    longest: Duration,
    /// Packets that took more than [`PAUSE`] of processor time.
    pauses: u64,
    /// Packets that took longer than [`PAUSE`] because the worker waited for a lock.
    waited: u64,
}

/// Tracks packets of existing and of new connections until `stop`, at least `least` packets, and times each.
fn work(ct: &Conntrack, known: u64, new_from: u64, least: u64, stop: &AtomicBool) -> WorkerResult {
    let (mut seen, mut before) = (WorkerResult::default(), waits());
    for i in 0.. {
        if i >= least && stop.load(Ordering::Relaxed) {
            break;
        }
        // Every fourth packet begins a connection.
        let l3 =
            if i % 4 == 0 { packet(new_from + i / 4, false) } else { packet(i * 7919 % known, i % 2 == 0) };
        let (start, own) = (Instant::now(), own_time());
        track(ct, &l3, 1000);
        let (own, took) = (own_time().saturating_sub(own), start.elapsed());
        seen.packets += 1;
        seen.longest = seen.longest.max(own);
        seen.pauses += u64::from(own > PAUSE);
        if took > PAUSE {
            let after = waits();
            seen.waited += u64::from(after != before);
            before = after;
        }
    }
    seen
}

/// Runs a function while another thread tracks at least `least` packets. Returns the number of packets.
fn beside(
    (what, least): (&str, u64),
    ct: &Conntrack,
    known: u64,
    new_from: &mut u64,
    run: impl FnOnce(),
) -> u64 {
    let stop = AtomicBool::new(false);
    let (seen, took) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(ct, known, *new_from, least, &stop));
        let start = Instant::now();
        run();
        let took = start.elapsed();
        // At least a second, so that each run includes interruptions by the machine itself.
        std::thread::sleep(Duration::from_secs(1).saturating_sub(took));
        stop.store(true, Ordering::Relaxed);
        (worker.join().unwrap_or_default(), took)
    });
    *new_from += seen.packets;
    println!(
        "{what}: {:.0} ms; worker: {} packets, {} above 100 us of its processor time, {} longer for a lock, longest {:.0} us; {} MB",
        took.as_secs_f64() * 1e3,
        seen.packets,
        seen.pauses,
        seen.waited,
        seen.longest.as_secs_f64() * 1e6,
        resident_mb(),
    );
    seen.packets
}

/// Calls `step` until it returns false. A step of the main loop consists of as many calls as fit into [`STEP`]; prints the longest one.
fn in_steps(what: &str, mut step: impl FnMut() -> bool) {
    let (mut longest, mut steps, mut more) = (Duration::ZERO, 0, true);
    while more {
        let (start, own) = (Instant::now(), own_time());
        while more && start.elapsed() < STEP {
            more = step();
        }
        longest = longest.max(own_time().saturating_sub(own));
        steps += 1;
    }
    println!("{what}: {steps} steps, the longest {:.0} us", longest.as_secs_f64() * 1e6);
}

/// Runs a function while another thread allocates memory in advance, as the main loop does.
fn with_memory_in_advance(ct: &Conntrack, run: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let allocator = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                while ct.allocate_ahead() {}
                std::thread::park();
            }
        });
        let thread = allocator.thread().clone();
        ct.set_memory_wake(Arc::new(move || thread.unpark()));
        run();
        stop.store(true, Ordering::Relaxed);
        allocator.thread().unpark();
    });
}

fn pauses(ct: &Conntrack, n: u64) {
    ct.set_max(u32::MAX >> 6);
    let before = resident_mb();
    (0..n).for_each(|i| track(ct, &packet(i, false), 0));
    println!("{} connections: {} MB", ct.count(), resident_mb() - before);
    let new = &mut n.clone();
    ct.sweep(Millis(0));
    let sweep = |what: &str, at: &[u64]| {
        for now in at {
            ct.begin_sweep(Millis(*now));
            in_steps(what, || ct.sweep_some(SWEPT, Millis(*now)));
        }
    };
    beside(("a sweep without expired ones", 0), ct, n, new, || sweep("sweep", &[30_000]));
    let listed = beside(("a list as text", 0), ct, n, new, || {
        let (mut next, mut text, mut bytes) = (0, String::new(), 0);
        in_steps("list", || {
            next =
                ct.dump_some((next, LISTED), None, Millis(1000), |entry| text += &entry.text(false, false));
            bytes += text.len();
            text.clear();
            next != 0
        });
        println!("{} MB", bytes >> 20);
    });
    // Pauses that the machine itself causes for as many packets.
    beside(("nothing", listed), ct, n, new, || ());
    let filter = Filter { proto: Some(6), ..Filter::default() };
    let flushed = beside(("flushes that match nothing", 0), ct, n, new, || {
        let mut next = 0;
        let start = Instant::now();
        in_steps("flush", || {
            next = ct.flush_some((next, LISTED), None, &filter).0;
            next != 0 || start.elapsed() < FLUSHING
        });
    });
    beside(("nothing", flushed), ct, n, new, || ());
    beside(("a sweep that removes all", 0), ct, n, new, || sweep("sweep", &[10_000_000, 20_000_000]));
}

fn churn(rate: u64, seconds: u64) {
    let ct = Conntrack::new(7);
    ct.set_max(8_000_000);
    ct.sweep(Millis(0));
    for now in 0..seconds * 1000 {
        (now * rate / 1000..(now + 1) * rate / 1000).for_each(|n| track(&ct, &packet(n, false), now));
        if now % SWEEP_EVERY == 0 {
            ct.sweep(Millis(now));
        }
        // More often than the main loop does it, so this is the most memory that it allocates.
        while ct.allocate_ahead() {}
        if (now + 1) % 30_000 == 0 {
            println!("{} s: {} connections, {} MB", (now + 1) / 1000, ct.count(), resident_mb());
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| args.get(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("pauses") => {
            let ct = Conntrack::new(7);
            with_memory_in_advance(&ct, || pauses(&ct, number(1, 5_000_000)));
        }
        Some("churn") => churn(number(1, 100_000), number(2, 600)),
        _ => eprintln!("hold pauses [connections] | churn [per second] [seconds]"),
    }
}
