//! The learning table of a bridge, shared by the threads that translate and the main loop.
//!
//! **Threads**: any. The lock is held for one look-up or one update; nobody holds it while it takes another.

use crate::changes::Changes;
use bridge::{BundleId, LearnNeed, MacRead, MacTable};
use flow::Mac;
use runtime::coverage::Counter;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, Change};

/// A station with a static entry was seen at another port.
static STATIC_ELSEWHERE: Counter = Counter::new("mac_learning_static_none_move");

/// A locked [`MacTable`].
#[derive(Debug, Default)]
pub struct SharedMacs(Mutex<MacTable>);

impl SharedMacs {
    /// The table itself. A panic elsewhere does not make a table of addresses untrustworthy.
    pub fn lock(&self) -> MutexGuard<'_, MacTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns or renews a station of a bridge. What translations may no longer be right about.
    pub fn learn(&self, bridge: BridgeId, need: &LearnNeed, now: Millis) -> Changes {
        let mut changes = Changes::default();
        let mut table = self.lock();
        let known = table.get(need.vlan, need.mac);
        if known.is_some_and(|e| e.is_static() && e.port != need.port) {
            STATIC_ELSEWHERE.hit();
        }
        let before = table.generation();
        if table.needs_update(need, now) && table.update(need, now) {
            match table.generation() - before {
                1 => changes.push(Change::Station { bridge, mac: need.mac }),
                // It took the place of others.
                _ => changes.all(),
            }
        }
        changes
    }
}

impl MacRead for SharedMacs {
    fn port_of(&self, vlan: u16, mac: Mac) -> Option<BundleId> {
        self.lock().port_of(vlan, mac)
    }

    fn may_learn(&self, vlan: u16, mac: Mac) -> bool {
        self.lock().may_learn(vlan, mac)
    }

    fn is_static(&self, vlan: u16, mac: Mac) -> bool {
        self.lock().is_static(vlan, mac)
    }
}
