//! Queueing disciplines, their classes and counters.

/// A discipline. Times in microseconds.
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
    /// CoDel for each flow.
    #[allow(missing_docs, reason = "tc-fq_codel(8) says it")]
    FqCodel { target: u32, limit: u32, interval: u32, flows: u32, quantum: u32 },
    /// Delays and loses packets; `loss` in percent.
    #[allow(missing_docs, reason = "tc-netem(8) says it")]
    Netem { latency: u32, limit: u32, loss: u32, jitter: u32 },
}

/// Rates of HTB in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbClass {
    /// Guaranteed.
    pub min: u64,
    /// Highest.
    pub max: u64,
    /// Burst in bytes.
    pub burst: u64,
    /// Classes with lower values are served first.
    pub priority: u32,
    /// The MTU of the device.
    pub mtu: u32,
}

/// Rates of HFSC in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HfscClass {
    /// Guaranteed.
    pub min: u32,
    /// Highest.
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
