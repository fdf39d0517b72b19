//! `pmd-perf-metrics`: statistics of every iteration of a PMD thread, while enabled.
//!
//! * [`histogram`]: a distribution.
//! * [`sample`]: the counters of one iteration or millisecond.
//! * [`recorder`] keeps the histograms, the last 1000 iterations and the last 1000 milliseconds of one thread.
//! * [`watch`] logs iterations that took too long or found a guest's queue full, with the iterations around them.
//! * [`text`] prints the tables as Open vSwitch 3.7 does.
//!
//! A thread without enabled statistics has no recorder and pays only the check for one.

mod block;
pub mod histogram;
pub mod recorder;
pub mod sample;
pub mod text;
pub mod watch;

pub use histogram::Histogram;
pub use recorder::{Burst, Recorder};
pub use sample::{Counted, Sample};
pub use watch::{Suspicion, Watch};
