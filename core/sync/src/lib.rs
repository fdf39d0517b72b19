//! State that workers read while another thread changes it, without waiting.
//!
//! * [`arena`]: records with fixed indices, published by one thread, read by all, reclaimed when no reader can see
//!   them.
//! * [`lanes`]: per-worker counters of the records, written by one thread each and folded by another.
//! * [`Snapshot`]: a whole structure that is replaced at once. A worker reads it for every batch through a [`Cached`], which keeps
//!   the last version and checks with one load whether it is still current.
//! * [`mailbox`]: a list to which many threads add and from which one takes, and the synchronisation before that one
//!   sleeps.
//! * [`try_lock`]: a lock for one burst, which costs its holder no wait.
//! * [`index_stack`] and [`credits`]: the free buffers of a pool, and how many of them each owner holds.
//!
//! Memory is reclaimed by epochs: a reader announces the current epoch when it starts a batch and withdraws it when
//! the batch ends (so a sleeping worker never delays reclamation). Removed data is freed once every announced epoch
//! is newer.

pub mod arena;
mod atomic;
pub mod credits;
pub mod epoch;
pub mod index_stack;
pub mod lanes;
pub mod mailbox;
pub mod try_lock;

pub use arc_swap::{ArcSwap as Snapshot, Cache as Cached, Guard as Held};
pub use arena::{Arena, Guard, Reader, Records};
pub use credits::SharedPart;
pub use index_stack::IndexStack;
pub use lanes::{Lane, LaneCount, Lanes};
pub use mailbox::{Mailbox, SleepFlag};
pub use try_lock::{TryGuard, TryLock};
