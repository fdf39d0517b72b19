//! Queueing disciplines, their classes and counters.

/// A queueing discipline. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// Hierarchical token bucket.
    Htb(HtbClass),
    /// Hierarchical fair service curve.
    Hfsc(HfscClass),
    /// Stochastic fairness queueing.
    #[allow(missing_docs, reason = "tc-sfq(8) says it")]
    Sfq { quantum: u32, perturb: u32 },
    /// Controlled delay.
    #[allow(missing_docs, reason = "tc-codel(8) says it")]
    Codel { target: u32, limit: u32, interval: u32 },
    /// CoDel for each flow separately.
    #[allow(missing_docs, reason = "tc-fq_codel(8) says it")]
    FqCodel { target: u32, limit: u32, interval: u32, flows: u32, quantum: u32 },
    /// Delays and drops packets; `loss` is in percent.
    #[allow(missing_docs, reason = "tc-netem(8) says it")]
    Netem { latency: u32, limit: u32, loss: u32, jitter: u32 },
}

/// Parameters of an HTB class. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbClass {
    /// Guaranteed rate.
    pub min: u64,
    /// Maximum rate.
    pub max: u64,
    /// Burst in bytes.
    pub burst: u64,
    /// Classes with lower values are served first.
    pub priority: u32,
    /// The MTU of the device.
    pub mtu: u32,
}

/// Rates of an HFSC class, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HfscClass {
    /// Guaranteed rate.
    pub min: u32,
    /// Maximum rate.
    pub max: u32,
}

/// A class (queue) of a discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A class of HTB.
    Htb(HtbClass),
    /// A class of HFSC.
    Hfsc(HfscClass),
}

/// The kernel's counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}
