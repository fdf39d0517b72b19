//! `pmd-perf-metrics`: statistics of every iteration of a PMD thread, while enabled.
//!
//! * [`histogram`]: a histogram with 32 bins.
//! * [`sample`]: the counters of one iteration or millisecond.
//! * [`recorder`] keeps the histograms, the last 1000 iterations and the last 1000 milliseconds of one thread.
//! * [`watch`] logs iterations that took too long or found a guest's queue full, with the iterations around them.
//! * [`text`] prints the tables as Open vSwitch 3.7 does.
//!
//! While the statistics are off, a thread has no recorder; in each iteration it only checks whether it has one.

mod block;
pub mod histogram;
pub mod recorder;
pub mod sample;
pub mod text;
pub mod watch;

pub use histogram::Histogram;
pub use recorder::{Burst, Recorder};
pub use sample::{IterationCounters, Sample};
pub use watch::{Suspicion, Watch};
