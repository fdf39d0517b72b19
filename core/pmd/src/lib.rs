//! What a poll thread decides, and what is decided about poll threads: nothing here runs, sleeps or reads a clock.
//!
//! * [`cores`]: which cores poll (`pmd-cpu-mask`).
//! * [`affinity`]: queues that an administrator pinned (`pmd-rxq-affinity`).
//! * [`assign`]: which rx queue goes to which core (`pmd-rxq-assign`, `pmd-rxq-isolate`).
//! * [`balance`]: whether to do that anew because a core has too much to do (`pmd-auto-lb`).
//! * [`predictive`]: the same once a second, by [`forecast`], with a [`plan`] of as few moves as possible.
//! * [`load`]: how busy queues and cores were in the last minute.
//! * [`metrics`]: what every turn of a thread took, while somebody wants to know.
//! * [`sleep`]: how long a thread that finds nothing sleeps, at most so long (`pmd-sleep-max`).
//! * [`nap`]: the same, so that no packet waits longer than a target (`pmd-latency-target`).
//!
//! Results, defaults and the text of what is logged are those of Open vSwitch 3.7, whose scripts and tests read them.

pub mod affinity;
pub mod assign;
pub mod balance;
pub mod cores;
pub mod forecast;
pub mod load;
pub mod metrics;
pub mod nap;
pub mod plan;
pub mod predictive;
pub mod sleep;

pub use assign::{Algorithm, Assignment, Placed, Rxq};
pub use cores::{Core, Topology};
pub use load::History;
pub use nap::{LatencyTarget, Nap, Napper};
pub use predictive::Policy;
pub use sleep::{SleepMax, Sleeper};
