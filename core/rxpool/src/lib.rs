//! Decides how many receive buffers each queue may hold. The buffers themselves are allocated elsewhere.
//!
//! * [`Mode`]: the ways in which a port gets its buffers (`none`, `basic`, `spp`).
//! * [`pool`]: a pool that several queues share. Each has a reserve; the rest is divided by a dynamic threshold.
//! * [`threshold`]: the threshold, `alpha` times the free buffers.
//! * [`refill`]: how many buffers a queue posts: few while it is idle, up to its allowance while it is busy.
//! * [`drain`]: a weight for the threshold, from the share of its backlog that a queue's worker clears in a poll.
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
