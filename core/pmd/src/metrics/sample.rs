//! The counters of one iteration of a PMD thread, or of one millisecond.

/// Number of iterations in the history, and number of milliseconds.
pub const HISTORY_LEN: usize = 1000;

/// The counters of a thread after an iteration, since the thread was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IterationCounters {
    /// Iterations.
    pub iterations: u64,
    /// Cycles of all iterations before the last one, without sleeps.
    pub cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles of the upcalls.
    pub upcall_cycles: u64,
}

/// The counts of one iteration, or of all iterations of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of the iteration, or time of the millisecond.
    pub stamp: u64,
    /// Iterations.
    pub iterations: u64,
    /// Cycles of all iterations.
    pub cycles: u64,
    /// Cycles of the iterations that received packets.
    pub busy_cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Batches.
    pub batches: u64,
    /// Largest number of packets in a guest's queue; for a millisecond, the sum over its iterations.
    pub queued: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles of the upcalls.
    pub upcall_cycles: u64,
}

impl Sample {
    pub(super) fn add(&mut self, other: &Sample) {
        self.iterations += other.iterations;
        self.cycles += other.cycles;
        self.busy_cycles += other.busy_cycles;
        self.packets += other.packets;
        self.batches += other.batches;
        self.queued += other.queued;
        self.upcalls += other.upcalls;
        self.upcall_cycles += other.upcall_cycles;
    }
}
