//! The counters of one iteration of a PMD thread, or of one millisecond.

/// Number of iterations and of milliseconds in the history.
pub const REMEMBERED: usize = 1000;

/// The counters of a thread after an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Iterations.
    pub turns: u64,
    /// Cycles of all iterations before this one, without sleep.
    pub cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles of the upcalls.
    pub upcall_cycles: u64,
}

/// Sums of one iteration, or of all iterations of a millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of the iteration, or the millisecond.
    pub stamp: u64,
    /// Iterations.
    pub turns: u64,
    /// Cycles of all iterations.
    pub cycles: u64,
    /// Cycles of the iterations that found packets.
    pub busy_cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Bursts.
    pub batches: u64,
    /// Largest number of packets in a guest's queue, summed over iterations.
    pub queued: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles of the upcalls.
    pub upcall_cycles: u64,
}

impl Sample {
    pub(super) fn add(&mut self, other: &Sample) {
        self.turns += other.turns;
        self.cycles += other.cycles;
        self.busy_cycles += other.busy_cycles;
        self.packets += other.packets;
        self.batches += other.batches;
        self.queued += other.queued;
        self.upcalls += other.upcalls;
        self.upcall_cycles += other.upcall_cycles;
    }
}
