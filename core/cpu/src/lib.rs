//! What the processor does faster when asked by name: prefetch, CRC32C hashing, compares of many values at once.
//!
//! Every function has a scalar twin, which is the meaning; the other is only faster, and tests hold them together.
//! What every processor of the architecture has (SSE2 on x86-64) is used without asking, and inlines into its caller.
//! What must be asked for (SSE4.2) is dispatched once per *batch stage*, so that the test costs nothing per packet.

pub mod compare;
#[cfg(feature = "counting-allocator")]
pub mod counting;
pub mod hash;
pub mod known;
pub mod pause;
pub mod prefetch;
pub mod signature;
pub mod stage;
pub mod table;

pub use compare::{Line, masked_eq, matching, matching_scalar};
pub use hash::{crc32c, crc32c_of, hash_line, hash_lines, mix32};
pub use prefetch::{prefetch_at, prefetch_lines, prefetch_read};
pub use signature::{match_any, match_any_scalar};
pub use stage::{Stage, stage};
pub use table::{Advise, Table};
