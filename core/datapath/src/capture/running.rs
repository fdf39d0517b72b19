//! A capture: its filter, its limits and its counters.

use super::copies::{Copies, CopyQueues, Record};
use super::offered::{Offered, Side};
use dpif::DropReason;
use flow::{Flow, Match};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Nanos, Ufid};

/// The largest number of captures at the same time.
pub const CAPTURES_MAX: usize = 8;

/// Reads the clock.
pub type CaptureClock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// Which packets are captured, and how many bytes of each.
#[derive(Clone, Debug)]
pub struct CaptureSpec {
    /// Only packets of these ports; empty: packets of all ports.
    pub ports: BTreeSet<u32>,
    /// Packets that the ports receive.
    pub rx: bool,
    /// Packets that the ports send.
    pub tx: bool,
    /// Packets that are dropped.
    pub drops: bool,
    /// Only drops for these reasons; empty: for all reasons.
    pub reasons: BTreeSet<DropReason>,
    /// Only packets that match. `in_port` is a datapath port number.
    pub filter: Option<Match>,
    /// Only packets that hit this megaflow.
    pub megaflow: Option<Ufid>,
    /// Also the later passes of recirculated packets.
    pub passes: bool,
    /// Maximum number of bytes of a packet that are kept.
    pub snaplen: usize,
    /// One in this many matching packets is kept; 0 means 1.
    pub every: u64,
    /// Maximum number of packets per second that are kept; 0: no limit.
    pub rate: u64,
    /// Maximum memory in bytes of the copies that wait for the reader.
    pub memory: usize,
}

impl CaptureSpec {
    /// Captures what all ports receive, send and drop. Of a recirculated packet, only the first pass counts as received.
    pub fn everything(snaplen: usize, memory: usize) -> CaptureSpec {
        CaptureSpec {
            ports: BTreeSet::new(),
            rx: true,
            tx: true,
            drops: true,
            reasons: BTreeSet::new(),
            filter: None,
            megaflow: None,
            passes: false,
            snaplen,
            every: 1,
            rate: 0,
            memory,
        }
    }
}

/// Counters of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Packets that match the filter.
    pub wanted: u64,
    /// Packets of `wanted` that were copied for the reader.
    pub kept: u64,
    /// Packets of `wanted` that were left out because only one in `every` is kept.
    pub sampled_out: u64,
    /// Packets of `wanted` that were left out because of `rate`.
    pub over_rate: u64,
    /// Packets of `wanted` that were lost because the reader was too slow.
    pub lost: u64,
}

/// A capture; see the documentation of module `capture`. Any thread may use it.
pub struct Capture {
    spec: CaptureSpec,
    clock: CaptureClock,
    queues: CopyQueues,
    wanted: AtomicU64,
    kept: AtomicU64,
    sampled_out: AtomicU64,
    over_rate: AtomicU64,
    lost: AtomicU64,
    /// The present second in the upper half, and the number of packets kept in this second in the lower half.
    second: AtomicU64,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("spec", &self.spec)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Creates a capture. Workers use it only after [`Datapath::start_capture`](crate::Datapath::start_capture).
    pub fn new(spec: CaptureSpec, clock: CaptureClock) -> Capture {
        let queues = CopyQueues::new(spec.memory);
        let zero = || AtomicU64::new(0);
        Capture {
            spec,
            clock,
            queues,
            wanted: zero(),
            kept: zero(),
            sampled_out: zero(),
            over_rate: zero(),
            lost: zero(),
            second: zero(),
        }
    }

    /// The filter and limits.
    pub fn spec(&self) -> &CaptureSpec {
        &self.spec
    }

    /// The counters.
    pub fn counts(&self) -> CaptureCounts {
        let n = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CaptureCounts {
            wanted: n(&self.wanted),
            kept: n(&self.kept),
            sampled_out: n(&self.sampled_out),
            over_rate: n(&self.over_rate),
            lost: n(&self.lost),
        }
    }

    /// Removes and returns all copies that wait, the oldest first.
    pub fn take(&self) -> Copies {
        self.queues.take()
    }

    /// Returns whether packets of this port are captured.
    pub(crate) fn captures_port(&self, port: u32) -> bool {
        self.spec.ports.is_empty() || self.spec.ports.contains(&port)
    }

    fn captures_side(&self, offered: &Offered<'_>) -> bool {
        match offered.side {
            Side::Rx => self.spec.rx && (self.spec.passes || offered.meta.passes == 0),
            Side::Tx => self.spec.tx,
            Side::DroppedIn(why) | Side::DroppedOut(why) => {
                self.spec.drops && (self.spec.reasons.is_empty() || self.spec.reasons.contains(&why))
            }
        }
    }

    /// Copies a packet if the filter matches. `queue`: the queue of the calling thread, so that threads do not contend
    /// for a queue.
    pub(crate) fn offer(&self, queue: usize, offered: &Offered<'_>) {
        let right_megaflow = self.spec.megaflow.is_none_or(|ufid| offered.megaflow == Some(ufid));
        if !right_megaflow
            || !self.captures_port(offered.port)
            || !self.captures_side(offered)
            || !self.matches_filter(offered)
        {
            return;
        }
        let number = self.wanted.fetch_add(1, Ordering::Relaxed);
        if self.spec.every > 1 && !number.is_multiple_of(self.spec.every) {
            self.sampled_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let at = (self.clock)();
        if !self.count_within_rate(at) {
            self.over_rate.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let kept = &offered.bytes[..offered.bytes.len().min(self.spec.snaplen)];
        let record = Record {
            at,
            side: offered.side,
            port: offered.port,
            len: offered.bytes.len() as u32,
            kept: kept.len() as u32,
            recirc_id: offered.meta.recirc_id,
            dp_hash: offered.meta.dp_hash,
            is_l3: offered.meta.packet_type != 0,
            megaflow: offered.megaflow,
            upcall: offered.upcall,
        };
        let count = if self.queues.put(queue, record, kept) { &self.kept } else { &self.lost };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn matches_filter(&self, offered: &Offered<'_>) -> bool {
        let Some(filter) = &self.spec.filter else { return true };
        let mut flow = Flow::ZERO;
        offered.meta.read(offered.bytes, &mut flow);
        filter.matches(&flow)
    }

    /// Counts a packet of this second, unless the rate is reached. Returns whether it was counted. The rate is approximate:
    /// threads that check it at the same time may exceed it.
    fn count_within_rate(&self, at: Nanos) -> bool {
        if self.spec.rate == 0 {
            return true;
        }
        let second = (at.0 / 1_000_000_000) << 32;
        let before = self.second.load(Ordering::Relaxed);
        if before >> 32 << 32 != second {
            self.second.store(second | 1, Ordering::Relaxed);
            return true;
        }
        if before & u64::from(u32::MAX) >= self.spec.rate {
            return false;
        }
        self.second.fetch_add(1, Ordering::Relaxed);
        true
    }
}
