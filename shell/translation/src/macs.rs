//! The learning table of a bridge, shared by the threads that translate and the main loop.
//!
//! **Threads**: any. The lock is held for one look-up or one update. Under it a change is reported to [`LiveChanges`],
//! so the revalidator's sweep never sees a change that was not reported.

use crate::changes::Changes;
use crate::live_changes::LiveChanges;
use bridge::{BundleId, LearnNeed, MacRead, MacTable};
use flow::Mac;
use runtime::coverage::Counter;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, Change};

/// A station with a static entry was seen at another port.
static STATIC_ELSEWHERE: Counter = Counter::new("mac_learning_static_none_move");

/// A [`MacTable`] behind a lock.
#[derive(Debug, Default)]
pub struct SharedMacs(Mutex<MacTable>);

impl SharedMacs {
    /// The table itself. It stays usable after a panic of another thread.
    pub fn lock(&self) -> MutexGuard<'_, MacTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns or renews a station of a bridge, and reports the translations that this may change.
    pub fn learn(&self, live: &LiveChanges, bridge: BridgeId, need: &LearnNeed, now: Millis) {
        let mut table = self.lock();
        let known = table.get(need.vlan, need.mac);
        if known.is_some_and(|e| e.is_static() && e.port != need.port) {
            STATIC_ELSEWHERE.hit();
        }
        let before = table.generation();
        if table.needs_update(need, now) && table.update(need, now) {
            let mut changes = Changes::default();
            match table.generation() - before {
                1 => changes.push(Change::Station { bridge, mac: need.mac }),
                // Entries of other stations were evicted.
                _ => changes.all(),
            }
            live.note(changes);
        }
    }

    /// Applies a change that may affect any translation, and reports it if the table changed.
    pub fn change<T>(&self, live: &LiveChanges, change: impl FnOnce(&mut MacTable) -> T) -> T {
        let mut table = self.lock();
        let before = table.generation();
        let result = change(&mut table);
        if table.generation() != before {
            live.note(Changes::everything());
        }
        result
    }

    /// Applies a change to several stations of a bridge, and reports it if the table changed.
    pub fn change_many(&self, live: &LiveChanges, bridge: BridgeId, change: impl FnOnce(&mut MacTable)) {
        let mut table = self.lock();
        let before = table.generation();
        change(&mut table);
        if table.generation() != before {
            let mut changes = Changes::default();
            changes.push(Change::Stations { bridge });
            live.note(changes);
        }
    }

    /// Removes stations that aged out, and reports them.
    pub fn expire(&self, live: &LiveChanges, bridge: BridgeId, now: Millis) {
        let mut table = self.lock();
        let mut changes = Changes::default();
        for (_, mac) in table.run(now) {
            changes.push(Change::Station { bridge, mac });
        }
        live.note(changes);
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

    fn was_announced(&self, vlan: u16, mac: Mac) -> bool {
        self.lock().was_announced(vlan, mac)
    }
}
