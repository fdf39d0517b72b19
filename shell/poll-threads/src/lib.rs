//! Poll threads: on cores of their own for poll-mode ports, one thread that may sleep for the kernel's ports, or (in dummy
//! mode) the main loop itself.
//!
//! ```text
//! workers.rs        all workers of a datapath, as the main thread has them: settings, ports, waiting
//!   ├ handle.rs       one worker as the main thread knows it
//!   ├ ports.rs        the ports and their queues, and which worker has each
//!   ├ reconfigure.rs  makes and ends threads, assigns queues (core/pmd decides) and moves them
//!   ├ balance.rs      reassigns queues when a core has too much to do
//!   ├ predict.rs      the same by forecast, each second (state: forecast.rs)
//!   ├ metrics.rs      records of turns are switched on and read
//!   └ waits.rs        waits for a worker's answer, for a limited time (state: answers.rs)
//! mailbox.rs        orders from the main thread to a worker; one load tells that there are none
//! threads.rs        the loops of the threads: polling, sleeping
//!   ├ thread_state.rs   what a thread has: its worker, its queues, and how it obeys orders between two turns
//!   ├ latency_sleep.rs  latency-target sleep
//!   └ recording.rs      records each turn while that is switched on
//! cycles.rs         the cycle counter
//! topology.rs       the cores of the machine
//! ```
//!
//! Changes are recorded and carried out together by `reconfigure`. No worker stops, except one that gives away or
//! takes a queue, between two of its iterations. Removing a port waits for the worker's answer, so that a device is
//! never closed while it is polled; a worker that does not answer keeps what it has, and everything else continues.
//!
//! In dummy mode time is virtual and scheduling must not be visible: in each iteration, the main loop polls every
//! worker until none has anything to do. The workers of poll-mode ports exist all the same.

mod answers;
mod balance;
pub mod cycles;
mod forecast;
mod handle;
mod latency_sleep;
mod load;
mod log;
mod mailbox;
mod metrics;
mod polling;
mod ports;
mod predict;
mod readiness;
mod reconfigure;
mod recording;
mod thread_state;
mod threads;
pub mod topology;
mod waits;
mod workers;

pub use answers::Silent;
pub use forecast::Planned;
pub use handle::{MAIN, WorkerPlace};
pub use load::WorkerLoad;
pub use polling::Polling;
pub use ports::{PolledPort, RxqView};
pub use workers::Workers;

#[cfg(test)]
mod tests;
