//! `pmd-perf-metrics`: what every single turn of a poll thread took, while an administrator wants to know.
//!
//! * [`histogram`]: how often which amount.
//! * [`recorder`]: keeps histograms, the last thousand turns and the last thousand milliseconds of one thread.
//! * [`watch`]: turns that took too long, or found a guest's queue full, are told together with those around them.
//! * [`text`]: the tables, as Open vSwitch 3.7 prints them.
//!
//! A thread of which nobody wants to know has no recorder, and pays nothing but the question.

mod block;
pub mod histogram;
pub mod recorder;
pub mod text;
pub mod watch;

pub use histogram::Histogram;
pub use recorder::{Burst, Counted, Recorder, Sample};
pub use watch::{Suspicion, Watch};
