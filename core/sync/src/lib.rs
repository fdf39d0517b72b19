//! State that workers read while another thread changes it: no worker ever waits.
//!
//! * [`arena`]: records of fixed index, published by one thread, read by all, reclaimed when no reader can see them.
//! * [`lanes`]: per-worker counters of the records, written by one thread each and folded by another.
//! * [`Snapshot`]: a whole structure replaced at once. Who looks at it for every batch does so through a [`Cached`],
//!   which keeps what it saw last and asks with one load whether that is still it.
//!
//! Memory is reclaimed by epochs: a reader announces the epoch it entered in when it starts a batch and withdraws
//! when it ends (a sleeping worker is therefore never in the way); what was removed is freed once every announced
//! epoch is younger.

pub mod arena;
pub mod epoch;
pub mod lanes;

pub use arc_swap::{ArcSwap as Snapshot, Cache as Cached, Guard as Held};
pub use arena::{Arena, Guard, Reader};
pub use lanes::{Lane, LaneCount, Lanes};
