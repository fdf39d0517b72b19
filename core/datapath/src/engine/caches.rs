//! The caches in which a worker looks packets up before it searches the subtables.

use crate::engine::recent::{Recent, RecentByPort, SLOTS};
use flowcache::{Cache, Choice};

/// The flow cache of a worker, and the cache of `path/recent.rs` in front of it.
pub(crate) struct Caches {
    pub(crate) cache: Cache,
    /// The choice from which `cache` was made.
    choice: Choice,
    /// The last packet of each port and its megaflow.
    pub(crate) recent: RecentByPort,
}

impl Default for Caches {
    fn default() -> Caches {
        Caches { cache: Cache::default(), choice: Choice::default(), recent: [Recent::default(); SLOTS] }
    }
}

impl Caches {
    /// Starts with an empty flow cache if another kind is chosen. Returns whether it does.
    pub(crate) fn choose(&mut self, choice: Choice, advise: Option<cpu::Advise>) -> bool {
        let differs = choice != self.choice;
        if differs {
            self.choice = choice;
            self.cache = Cache::new(&choice, advise);
        }
        differs
    }
}
