//! State that workers read while another thread changes it: no worker ever waits.
//!
//! * [`arena`]: records of fixed index, published by one thread, read by all, reclaimed when no reader can see them.
//! * [`lanes`]: per-worker counters of the records, written by one thread each and folded by another.
//! * [`Snapshot`]: a whole structure replaced at once. A worker reads it for every batch through a [`Cached`], which keeps
//!   what it saw last and asks with one load whether that is still it.
//! * [`mailbox`]: a list that many threads add to and one takes from, and the hand-shake before that one sleeps.
//!
//! Memory is reclaimed by epochs: a reader announces the epoch it entered in when it starts a batch and withdraws
//! when it ends (a sleeping worker is therefore never in the way); what was removed is freed once every announced
//! epoch is younger.

pub mod arena;
mod atomic;
pub mod epoch;
pub mod lanes;
pub mod mailbox;

pub use arc_swap::{ArcSwap as Snapshot, Cache as Cached, Guard as Held};
pub use arena::{Arena, Guard, Reader, Records};
pub use lanes::{Lane, LaneCount, Lanes};
pub use mailbox::{Mailbox, SleepFlag};
