//! Decisions for PMD threads: rxq assignment, auto load balance, sleep. Nothing in this crate runs a thread, sleeps or reads a clock.
//!
//! * [`cores`]: which cores poll (`pmd-cpu-mask`).
//! * [`affinity`]: rx queues that the administrator pinned (`pmd-rxq-affinity`).
//! * [`assign`]: which core polls which rx queue (`pmd-rxq-assign`, `pmd-rxq-isolate`).
//! * [`balance`]: auto load balance with Open vSwitch's policy (`pmd-auto-lb-policy=variance`).
//! * [`predictive`]: auto load balance once a second, by a [`forecast`] of each queue's load and a plan of few moves ([`plan_moves`]).
//! * [`load`]: how busy queues and cores were in the last minute.
//! * [`metrics`]: statistics of each iteration, while enabled (`pmd-perf-metrics`).
//! * [`sleep`]: how long an idle thread sleeps, bounded by `pmd-sleep-max`.
//! * [`latency_sleep`]: how long an idle thread sleeps, bounded by `pmd-latency-target`.
//!
//! Results, defaults and log texts are those of Open vSwitch 3.7, because scripts and tests read them.

pub mod affinity;
pub mod assign;
pub mod balance;
pub mod cores;
pub mod forecast;
pub mod latency_sleep;
pub mod load;
pub mod metrics;
pub mod plan_moves;
pub mod predictive;
pub mod sleep;

pub use assign::{Algorithm, Assignment, QueueText, Rxq};
pub use cores::{Core, Topology};
pub use latency_sleep::{IdleAction, LatencySleep, LatencyTarget};
pub use load::History;

pub use predictive::Policy;
pub use sleep::{SleepMax, Sleeper};
