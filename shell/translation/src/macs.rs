//! The learning table of a bridge.
//!
//! **Threads**: all threads that translate, and the main thread. The lock is held for one look-up or one update. A change is
//! reported to [`LiveChanges`] while the lock is held, so the revalidator's sweep never sees a change that was not reported.

use crate::changes::Changes;
use crate::live_changes::LiveChanges;
use bridge::{BundleId, MacObservation, MacRead, MacTable};
use flow::Mac;
use runtime::coverage::Counter;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, DependencyChange};

/// Packets from a station with a static entry, received at another port than that of the entry.
static STATIC_ELSEWHERE: Counter = Counter::new("mac_learning_static_none_move");

/// A [`MacTable`] behind a lock.
#[derive(Debug, Default)]
pub struct SharedMacs(Mutex<MacTable>);

impl SharedMacs {
    /// Locks the table. It stays usable after a panic of another thread.
    pub fn lock(&self) -> MutexGuard<'_, MacTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns a station of a bridge or renews its age, and reports the change, if any.
    pub fn learn(&self, live: &LiveChanges, bridge: BridgeId, observation: &MacObservation, now: Millis) {
        let mut table = self.lock();
        let known = table.get(observation.vlan, observation.mac);
        if known.is_some_and(|e| e.is_static() && e.port != observation.port) {
            STATIC_ELSEWHERE.hit();
        }
        let before = table.generation();
        if table.needs_update(observation, now) && table.update(observation, now) {
            let mut changes = Changes::default();
            match table.generation() - before {
                1 => changes.push(DependencyChange::Station { bridge, mac: observation.mac }),
                // Other stations were evicted; the table does not tell which.
                _ => changes.mark_all(),
            }
            live.note(changes);
        }
    }

    /// Applies `change`; if the table changed, reports that every translation may have another result.
    pub fn change<T>(&self, live: &LiveChanges, change: impl FnOnce(&mut MacTable) -> T) -> T {
        let mut table = self.lock();
        let before = table.generation();
        let result = change(&mut table);
        if table.generation() != before {
            live.note(Changes::everything());
        }
        result
    }

    /// Applies `change`, which affects several stations of a bridge; reports the change if the table changed.
    pub fn change_many(&self, live: &LiveChanges, bridge: BridgeId, change: impl FnOnce(&mut MacTable)) {
        let mut table = self.lock();
        let before = table.generation();
        change(&mut table);
        if table.generation() != before {
            let mut changes = Changes::default();
            changes.push(DependencyChange::Stations { bridge });
            live.note(changes);
        }
    }

    /// Removes the stations that have aged out, and reports these changes.
    pub fn expire(&self, live: &LiveChanges, bridge: BridgeId, now: Millis) {
        let mut table = self.lock();
        let mut changes = Changes::default();
        for (_, mac) in table.run(now) {
            changes.push(DependencyChange::Station { bridge, mac });
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

    fn is_grat_arp_locked(&self, vlan: u16, mac: Mac) -> bool {
        self.lock().is_grat_arp_locked(vlan, mac)
    }
}
