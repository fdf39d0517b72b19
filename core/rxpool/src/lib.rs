//! Who may hold how many receive buffers. Nothing here allocates buffers, runs a thread or reads a clock.
//!
//! * [`Mode`]: the ways in which a port gets its buffers, with the names of the source (`none`, `basic`, `spp`).
//! * [`pool`]: a pool that several queues share. Each has a reserve; what is left is divided by a dynamic threshold.
//! * [`threshold`]: the threshold, `alpha` times the free buffers.
//! * [`refill`]: how many buffers a queue posts: few while it is idle, up to its allowance while it is busy.
//! * [`drain`]: the share of its backlog that a queue's worker clears, by which the threshold may be weighted.
//!
//! Decision and reasons: docs/adr/0035-shared-receive-buffers.md.

pub mod drain;
mod mode;
pub mod pool;
pub mod refill;
pub mod threshold;

pub use drain::Drain;
pub use mode::Mode;
pub use pool::{Place, Pool};
pub use refill::Refill;
pub use threshold::Alpha;

/// Buffers that an idle queue has posted: two bursts.
pub const LOW_WATERMARK: u32 = 128;
