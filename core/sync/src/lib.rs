//! State that workers read while another thread changes it, mostly without locks: arena, snapshots, counters, mailboxes, a lock, quotas.
//!
//! * [`arena`]: records with fixed indices. One thread publishes them, all threads read them, and they are dropped when no reader can hold
//!   a reference any more.
//! * [`lanes`]: per-worker counters of the records. One worker writes a lane; another thread adds the lanes to totals.
//! * [`SnapshotCell`]: a cell whose content is replaced as a whole. A worker reads it for every batch through a [`Cached`], which keeps the last
//!   version and checks with one load whether that version is current.
//! * [`mailbox`]: a list to which many threads add items and from which one thread takes them, and the synchronisation before that thread
//!   sleeps.
//! * [`try_lock`]: a lock that is held for one burst; a thread that cannot get it at once does not wait.
//! * [`CachePadded`]: a value that shares no cache line with values of other threads.
//! * [`index_stack`] and [`quota`]: the free buffers of a pool, and the number of buffers that each owner holds.
//!
//! Records of an arena are reclaimed by epochs: a reader announces the current epoch when it starts a batch, and withdraws the announcement when the
//! batch ends (so a sleeping worker never delays reclamation). Removed data is freed when every announced epoch is newer.

pub mod arena;
mod atomic;
mod cache_padded;
pub mod epoch;
pub mod index_stack;
pub mod lanes;
pub mod mailbox;
pub mod quota;
pub mod try_lock;
mod zeroed_mapping;

pub use arc_swap::{ArcSwap as SnapshotCell, Cache as Cached, Guard as SnapshotCellGuard};
pub use arena::{Arena, Guard, Reader, Records};
pub use cache_padded::CachePadded;
pub use index_stack::IndexStack;
pub use lanes::{LaneCount, LaneReader, LaneWriter};
pub use mailbox::{Mailbox, SleepFlag};
pub use quota::PoolUsage;
pub use try_lock::{TryGuard, TryLock};
