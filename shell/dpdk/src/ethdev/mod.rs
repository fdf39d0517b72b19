//! Ethernet devices: found or hot-plugged, each owned by one port.
//!
//! A device that the environment probed at its start is only stopped when its port is removed; one that this module
//! attached is closed and unplugged, once.
//!
//! # Invariants
//!
//! - `Claim` is the only claim on a device; the list of claims keeps a second port from using it. It is dropped
//!   last, after all queues: a driver's memory is never freed during a burst.
//! - A device is configured and stopped only while none of its queues is in use ([`Ethdev::stop`] waits for that, and
//!   fails if it takes too long).
//!
//! The main thread, or a helper thread of it, owns the [`Ethdev`]; its queues are moved to workers.

mod claim;
mod device;
mod error;
mod info;
mod own_counters;
mod queue;
mod raw_info;
mod run;
mod stats;
mod tx_work;

pub use claim::detach;
pub use device::{AttachError, Ethdev};
pub use error::DeviceError;
pub use info::{FlowControl, Info, Limits, Link};
pub use queue::{EthRx, EthTx};
pub use run::Config;
pub use stats::Counters;
pub use tx_work::TxWork;
