//! A datapath with mock ports, whose megaflows the benchmark adds itself; and the CPU clock of the thread.

use super::cells::Cell;
use super::traffic::order;
use datapath::port::{FrameBatch, FramePool, RxQueue, RxResult, Sink};
use datapath::{Config, Datapath, Event, Tally, Worker};
use dpif::{DpAction, NoOwner};
use flow::compose::compose;
use flow::{Flow, Mac};
use std::sync::Arc;
use units::{Cycles, Millis, PortNo, QueueId, Ufid, WorkerId};

/// Number of windows of a measurement.
const WINDOWS: usize = 3;
const BURST: usize = 32;
/// Offset of the IPv4 source address in a frame.
const SRC: usize = 26;
/// Offset of the IPv4 destination address in a frame.
const DST: usize = 30;

/// The result of measuring one cell.
#[derive(Clone, Copy, Debug, Default)]
pub struct CellResult {
    /// Nanoseconds per packet: minimum, median, maximum of the windows.
    pub ns: [f64; 3],
    /// Share of the packets that were front hits (the megaflow that the port used last, or an EMC), 0 to 1.
    pub front: f64,
    /// Share of the packets that were found in the flow cache and were not front hits, 0 to 1.
    pub cache: f64,
    /// Share of the packets that were found in the subtables, 0 to 1.
    pub table: f64,
    /// Average number of subtables visited by a look-up that finds its megaflow in the subtables.
    pub visits: f64,
    /// Size of the caches, in KiB.
    pub cache_kb: u64,
    /// Transparent huge pages of the process, in KiB.
    pub huge_kb: u64,
}

/// Rx queue that generates the packets of the flows in `order`. The source address of a packet selects the megaflow, the
/// destination address is the flow's number.
struct Source {
    frame: Vec<u8>,
    order: Arc<[u32]>,
    next: usize,
    megaflows: u32,
}

impl RxQueue for Source {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        for _ in 0..max.min(BURST) {
            let flow = self.order[self.next];
            self.next = if self.next + 1 == self.order.len() { 0 } else { self.next + 1 };
            self.frame[SRC..SRC + 4].copy_from_slice(&source_of(flow % self.megaflows).to_be_bytes());
            self.frame[DST..DST + 4].copy_from_slice(&(0x1400_0000 + flow).to_be_bytes());
            out.extend(pool.frame_of(&self.frame));
        }
        RxResult::default()
    }
}

/// The source address of the packets of a megaflow. The addresses of the first twenty megaflows differ in the first byte, as
/// in the measurements of 2018 that this benchmark repeats (`bench/experiments/caches/README.md`).
fn source_of(megaflow: u32) -> u32 {
    (10 + megaflow % 20) << 24 | (megaflow / 20) << 4 | 1
}

fn packet(megaflow: u32) -> Flow {
    Flow {
        in_port: 1,
        dl_type: 0x0800,
        dl_src: Mac([2, 0, 0, 0, 0, 1]),
        dl_dst: Mac([2, 0, 0, 0, 0, 2]),
        nw_proto: 17,
        nw_src: source_of(megaflow),
        nw_dst: 0x1400_0000,
        nw_ttl: 64,
        tp_src: 1024,
        tp_dst: 4788,
        ..Flow::ZERO
    }
}

/// The mask of a megaflow. The prefix length of the source address distinguishes the subtables: with up to twenty megaflows
/// it is 8 bits or more, with more megaflows 28 to 32 bits.
fn mask(cell: &Cell, megaflow: usize) -> Flow {
    let subtable = megaflow % 20 % cell.subtables;
    let plain = Flow { in_port: u32::MAX, dl_type: 0xffff, nw_frag: 3, ..Flow::ZERO };
    let bits = if cell.megaflows <= 20 { 8 + subtable as u32 } else { 32 - (subtable as u32).min(4) };
    Flow { nw_src: u32::MAX << (32 - bits), ..plain }
}

struct Fixture {
    datapath: Arc<Datapath>,
    worker: Worker,
    ufids: Vec<Option<Ufid>>,
    random: fastrand::Rng,
    now: u64,
}

impl Fixture {
    fn new(cell: &Cell) -> Fixture {
        // Leave space in the limit: replaced megaflows count until they are freed at the end of the window.
        let max_flows = cell.megaflows + 16_384;
        let datapath = Datapath::new(&Config { max_flows, seed: 42, ..Config::default() });
        datapath.set_flow_cache(cell.cache_params);
        for no in [1, 2] {
            // Cannot fail: the new datapath has no port with this number.
            let _ = datapath.add_port(PortNo(no), vec![Box::new(Sink)]);
        }
        let mut worker = datapath.worker(WorkerId(0), 0);
        let source = Source {
            frame: compose(&packet(0), &[0; 18]),
            order: order(cell.flows, cell.distribution),
            next: 0,
            megaflows: cell.megaflows as u32,
        };
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(source));
        let mut setup =
            Fixture { datapath, worker, ufids: Vec::new(), random: fastrand::Rng::with_seed(7), now: 0 };
        setup.ufids = (0..cell.megaflows).map(|m| setup.add_megaflow(cell, m)).collect();
        setup
    }

    fn add_megaflow(&self, cell: &Cell, megaflow: usize) -> Option<Ufid> {
        let actions = Arc::new([DpAction::Output(PortNo(2))]);
        let (key, mask) = (packet(megaflow as u32), mask(cell, megaflow));
        self.datapath.flow_put(&key, &mask, actions, Arc::new(NoOwner)).ok()
    }

    /// Replaces a random megaflow, so that its cache entries become invalid.
    fn replace(&mut self, cell: &Cell) {
        if let Some(ufid) = self.ufids[self.random.usize(..cell.megaflows)] {
            let actions = Arc::new([DpAction::Output(PortNo(2))]);
            // If this fails, nothing is replaced, and the measured shares show that.
            let _ = self.datapath.flow_modify(ufid, actions, None, Millis(self.now));
        }
    }

    /// Returns nanoseconds per packet, without the time to replace megaflows.
    fn run(&mut self, cell: &Cell, packets: usize) -> f64 {
        let (mut n, mut churned, mut replace_ns) = (0, 0.0, 0);
        let start = thread_ns();
        while n < packets {
            self.worker.poll(Millis(self.now), Cycles(self.now));
            n += BURST;
            if n % (BURST * 64) == 0 && cell.churn > 0.0 {
                let pause = thread_ns();
                while churned < n as f64 / 1000.0 * cell.churn {
                    self.replace(cell);
                    churned += 1.0;
                }
                replace_ns += thread_ns() - pause;
            }
        }
        self.now += 1000;
        let took = thread_ns() - start - replace_ns;
        self.datapath.maintain(Millis(self.now));
        took as f64 / n as f64
    }
}

/// Measures a cell.
pub fn measure(cell: &Cell) -> CellResult {
    let mut fixture = Fixture::new(cell);
    // Run four parts before the measurement, so that the subtables are ranked and the cache is sized in between.
    for _ in 0..4 {
        fixture.run(cell, cell.packets.0 / 4);
    }
    let zero = fixture.datapath.tally();
    let mut ns: Vec<f64> = (0..WINDOWS).map(|_| fixture.run(cell, cell.packets.1)).collect();
    ns.sort_by(f64::total_cmp);
    let tally = fixture.datapath.tally().since(&zero);
    let share = |n: u64| n as f64 / tally.get(Event::Received).max(1) as f64;
    let front = tally.get(Event::FrontHit);
    CellResult {
        ns: [ns[0], ns[WINDOWS / 2], ns[WINDOWS - 1]],
        front: share(front),
        cache: share(tally.get(Event::CacheHit) - front),
        table: share(tally.get(Event::MegaflowHit)),
        visits: visits(&tally),
        cache_kb: fixture.datapath.worker_cache(WorkerId(0)).bytes / 1024,
        huge_kb: huge_kb(),
    }
}

fn visits(tally: &Tally) -> f64 {
    tally.get(Event::MasksVisited) as f64 / tally.get(Event::MegaflowHit).max(1) as f64
}

/// CPU time of this thread, in nanoseconds.
pub(super) fn thread_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// KiB of this process in transparent huge pages.
fn huge_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::cells::Experiment;
    use super::*;

    fn quick(letter: char, fits: impl Fn(&Cell) -> bool) -> CellResult {
        let all = Experiment::all(true).into_iter().find(|e| e.letter == letter).unwrap();
        let cell = all.cells.into_iter().find(fits).unwrap();
        measure(&Cell { packets: (60_000, 20_000), ..cell })
    }

    #[test]
    fn two_entry_positions_miss_less_than_one_and_every_packet_is_found() {
        let one = quick('a', |c| c.cache == "1-hash 16k");
        let two = quick('a', |c| c.cache == "2-hash 16k");
        assert!(two.table < one.table * 0.6, "{two:?} {one:?}");
        for m in [one, two, quick('c', |c| c.churn > 0.0 && c.megaflows == 1000)] {
            assert!((m.front + m.cache + m.table - 1.0).abs() < 1e-9, "{m:?}");
        }
    }
}
