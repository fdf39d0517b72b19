//! The threads of workers: a PMD thread on each selected core for poll-mode ports, and one thread for kernel ports, which
//! sleeps while there are no packets. In dummy mode the main loop runs the workers itself.
//!
//! ```text
//! workers.rs        all workers of a datapath, as the main thread manages them: settings, ports, waiting
//!   ├ handle.rs       the main thread's handle of one worker
//!   ├ ports.rs        the ports, their queues, and which worker has each queue
//!   ├ reconfigure.rs  starts and ends threads, assigns queues (core/pmd decides) and moves them
//!   ├ balance.rs      reassigns queues when a core is overloaded (`pmd-auto-lb-policy=variance`)
//!   ├ balance_by_forecast.rs
//!   │                 moves queues by a load forecast, once a second (`predictive`; state: forecast.rs)
//!   ├ load.rs         the load of a worker in the last minute
//!   ├ metrics.rs      switches recordings of iterations on and reads them
//!   └ waits.rs        waits for a worker's answer, for a limited time (state: answers.rs)
//! mailbox.rs        orders from the main thread to a worker; checking an empty mailbox costs one load
//! thread_loops.rs   the loops of the threads: polling, sleeping
//!   ├ thread_state.rs   the state of a thread: worker, queues; carries out orders between two iterations
//!   ├ latency_sleep.rs  latency-target sleep
//!   └ recording.rs      records each iteration while recording is switched on
//! cycles.rs         the cycle counter
//! machine_cores.rs  the cores of the machine
//! pmd_settings.rs   the settings of PMD threads
//! readiness.rs      which rx queues of a sleeping worker have packets (epoll)
//! log.rs            the log module of messages about PMD threads
//! ```
//!
//! One call of `reconfigure` carries out all changes of settings and ports since the previous call. No worker stops meanwhile: a worker
//! hands queues over between two of its iterations. Before a port's device is closed, the main thread waits until the workers have dropped
//! the port's queues. If a worker does not answer in time, the device stays open, and everything else continues.
//!
//! In dummy mode time is virtual, and results must not depend on scheduling: in each turn, the main loop polls every
//! worker until none has anything to do. In this mode, too, there is one worker for each core of the mask, without a thread.

mod answers;
mod balance;
mod balance_by_forecast;
pub mod cycles;
mod forecast;
mod handle;
mod latency_sleep;
mod load;
mod log;
pub mod machine_cores;
mod mailbox;
mod metrics;
mod pmd_settings;
mod ports;
mod readiness;
mod reconfigure;
mod recording;
mod thread_loops;
mod thread_state;
mod waits;
mod workers;

pub use answers::WorkerTimeout;
pub use forecast::PlannedMove;
pub use handle::{KERNEL_WORKER, WorkerInfo};
pub use load::WorkerLoad;
pub use pmd_settings::PmdSettings;
pub use ports::{PortScheduling, RxqView};
pub use workers::Workers;

#[cfg(test)]
mod tests;
