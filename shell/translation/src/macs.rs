//! The learning table of a bridge, shared by the threads that translate and the main loop.
//!
//! **Threads**: any. The lock is held for one look-up or one update; under it a change is noted in [`LiveChanges`], so that the
//! revalidator's slow pass never sees a change that nobody knows of.

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

/// A locked [`MacTable`].
#[derive(Debug, Default)]
pub struct SharedMacs(Mutex<MacTable>);

impl SharedMacs {
    /// The table itself. A panic elsewhere does not make a table of addresses untrustworthy.
    pub fn lock(&self) -> MutexGuard<'_, MacTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns or renews a station of a bridge, and notes what translations may no longer be right about.
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
                // It took the place of others.
                _ => changes.all(),
            }
            live.note(changes);
        }
    }

    /// Changes the table of a bridge in a way that any translation may have to do with, and notes that if it did.
    pub fn change<T>(&self, live: &LiveChanges, change: impl FnOnce(&mut MacTable) -> T) -> T {
        let mut table = self.lock();
        let before = table.generation();
        let result = change(&mut table);
        if table.generation() != before {
            live.note(Changes::everything());
        }
        result
    }

    /// Forgets stations that aged out, and notes them.
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
