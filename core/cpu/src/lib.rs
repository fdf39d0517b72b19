//! CPU-specific code: prefetch, keyed hashing, comparisons of many values at once.
//!
//! Every function with explicit vector instructions has a scalar reference implementation, which defines the result;
//! tests compare the fast implementation with it. Code that uses only features of every CPU of the architecture (SSE2
//! on x86-64) needs no check and is inlined into the caller. Optional features (AVX2) are dispatched once per *batch
//! stage*, so that the check costs nothing per packet.

#[cfg(any(test, feature = "adversary"))]
pub mod adversary;
pub mod compare;
#[cfg(feature = "counting-allocator")]
pub mod counting;
pub mod crc;
pub mod hash;
pub mod pause;
pub mod prefetch;
pub mod prehashed;
pub mod rearrange;
pub mod signature;
pub mod siphash;
pub mod stage;
pub mod table;

pub use compare::{Line, all_equal, masked_eq, matching, matching_scalar, matching_words, union};
pub use crc::{crc32c, crc32c_of};
pub use hash::{
    KeyedHash64, Secret, add_column, hash_line, hash_lines, mix32, reduce_sums, sum_line, sum_lines,
};
pub use prefetch::{prefetch_at, prefetch_lines, prefetch_read, prefetch_write_at, prefetch_write_lines};
pub use rearrange::{NO_BYTE, rearrange, rearrange_part};
pub use signature::{match_mask, match_mask_scalar};
pub use siphash::{derive, siphash, siphash_key};
pub use stage::{Baseline, Level, Stage, stage};
pub use table::{Advise, Table};
