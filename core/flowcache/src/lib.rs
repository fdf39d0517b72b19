//! The flow caches in front of the classifier.
//!
//! A flow cache maps the hash of a packet's key to the result of the classifier for an earlier packet with that hash:
//! a megaflow, or (for CD) only the subtable. It holds no keys: the caller verifies each entry against the megaflow
//! itself. So a stale or colliding entry costs time but is never used wrongly, and **no entry has to be invalidated**
//! when megaflows change. A cache belongs to one worker.
//!
//! [`Unified`] is the default; the other caches exist for comparison. [`Cache`] is any of them, selected at run time.
//! The kind is matched once per batch ([`each_cache`]), and the code that follows is compiled separately for each
//! kind.
//!
//! Sources: `lib/dpif-netdev-private-dfc.h` of Open vSwitch for the sizes and rules of EMC and SMC; the discussion on
//! ovs-dev in 2018 for DFC and CD.

pub mod any_cache;
pub mod bucket;
pub mod cache;
pub mod cd;
pub mod dfc;
pub mod emc;
pub mod governor;
pub mod smc;
pub mod unified;
pub mod with_emc;

pub use any_cache::{Cache, CacheParams, Kind};
pub use bucket::{Narrow, Wide};
pub use cache::{Entry, FlowCache, NewEntry};
pub use cd::Cd;
pub use dfc::Dfc;
pub use emc::Emc;
pub use smc::Smc;
pub use unified::Unified;
pub use with_emc::{NoCache, WithEmc};

#[cfg(test)]
mod reference;
