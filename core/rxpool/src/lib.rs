//! Decides how many receive buffers each queue may hold. The buffers are allocated elsewhere.
//!
//! * [`Mode`]: the ways in which a port gets its buffers (`none`, `basic`, `spp`).
//! * [`pool`]: a pool that several queues share. Each queue has a reserve; a dynamic threshold divides the rest.
//! * [`threshold`]: the threshold, `alpha` times the free buffers.
//! * [`refill`]: how many buffers a queue posts: few while it is idle, up to its allowance while it is busy.
//! * [`drain`]: a weight for the threshold: the share of a queue's backlog that its worker clears in a poll.
//!
//! Decision and reasons: docs/adr/0035-shared-receive-buffers.md.

pub mod drain;
mod mode;
pub mod pool;
pub mod refill;
pub mod threshold;

pub use drain::DrainRate;
pub use mode::Mode;
pub use pool::{Pool, PoolSlot};
pub use refill::Refill;
pub use threshold::Alpha;

/// Number of buffers that an idle queue has posted: two bursts.
pub const LOW_WATERMARK: u32 = 128;
