//! The caches in which a worker looks packets up before it searches the subtables.

use crate::engine::recent::{Recent, RecentByPort, SLOTS};
use flowcache::{Cache, CacheParams};

/// The flow cache of a worker, and the cache of `path/recent.rs` in front of it.
pub(crate) struct Caches {
    pub(crate) cache: Cache,
    /// The configured choice for which `cache` was created.
    choice: CacheParams,
    /// By port and pass: the megaflow of the last packet.
    pub(crate) recent: RecentByPort,
}

impl Default for Caches {
    fn default() -> Caches {
        Caches { cache: Cache::default(), choice: CacheParams::default(), recent: [Recent::default(); SLOTS] }
    }
}

impl Caches {
    /// Replaces the flow cache by an empty one if the choice has changed. Returns whether it has.
    pub(crate) fn choose(&mut self, choice: CacheParams, advise: Option<cpu::Advise>) -> bool {
        let differs = choice != self.choice;
        if differs {
            self.choice = choice;
            self.cache = Cache::new(&choice, advise);
        }
        differs
    }
}
