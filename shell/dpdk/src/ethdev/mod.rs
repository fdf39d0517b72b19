//! Ethernet devices, found or hot-plugged. Each is claimed by one port.
//!
//! When a port is removed, its device is stopped. A device that this module attached is also closed and unplugged; a device that the
//! environment probed at its start is not.
//!
//! # Invariants
//!
//! - A device has at most one `Claim`, because the list of claims prevents a second port from claiming it. The claim is
//!   dropped last, after all queues, so a driver's memory is never freed during a burst.
//! - A device is configured and stopped only while none of its queues is in use ([`Ethdev::stop`] waits for that, and
//!   fails if it takes too long).
//!
//! The main thread, or a helper thread of it, owns the [`Ethdev`]; workers own its queues.

mod claim;
mod device;
mod error;
mod info;
mod own_counters;
mod queue;
mod raw_info;
mod run;
mod stats;
mod tx_offloads;

pub use claim::detach;
pub use device::{AttachError, Ethdev};
pub use error::DeviceError;
pub use info::{FlowControl, Info, Limits, Link};
pub use queue::{EthRx, EthTx};
pub use run::Config;
pub use stats::Counters;
pub use tx_offloads::TxOffloads;
