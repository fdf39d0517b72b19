//! The multicast groups of a bridge.
//!
//! **Threads**: all threads that translate, and the main thread. The lock is held for one look-up or one update. A change is
//! reported to [`LiveChanges`] while the lock is held, so the revalidator's sweep never sees a change that was not reported.

use crate::changes::Changes;
use crate::live_changes::LiveChanges;
use bridge::snooping::SnoopingChange;
use bridge::snooping::message::Message;
use bridge::{BundleId, GroupRead, GroupTable};
use runtime::coverage::Counter;
use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;
use xlate::{BridgeId, DependencyChange};

static LEARNED: Counter = Counter::new("mcast_snooping_learned");
static EXPIRED: Counter = Counter::new("mcast_snooping_expired");

/// A [`GroupTable`] behind a lock.
#[derive(Debug, Default)]
pub struct SharedGroupTable(Mutex<GroupTable>);

impl SharedGroupTable {
    /// Locks the table. It stays usable after a panic of another thread.
    pub fn lock(&self) -> MutexGuard<'_, GroupTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from a message that `port` received in `vlan`.
    pub fn learn(
        &self,
        live: &LiveChanges,
        bridge: BridgeId,
        (vlan, port): (u16, BundleId),
        message: &Message,
        now: Millis,
    ) {
        self.change(live, bridge, |table| table.learn(vlan, port, message, now));
    }

    /// Removes the members and router ports that have aged out.
    pub fn expire(&self, live: &LiveChanges, bridge: BridgeId, now: Millis) {
        self.change(live, bridge, |table| table.run(now));
    }

    /// Applies `change` to the table, and reports the changes of groups and router ports.
    pub fn change<T>(
        &self,
        live: &LiveChanges,
        bridge: BridgeId,
        change: impl FnOnce(&mut GroupTable) -> T,
    ) -> T {
        let mut table = self.lock();
        let before = table.stats();
        let result = change(&mut table);
        let after = table.stats();
        LEARNED.add(after.learned - before.learned);
        EXPIRED.add(after.expired - before.expired);
        let mut changes = Changes::default();
        for change in table.take_changes() {
            changes.push(match change {
                SnoopingChange::Group(group) => DependencyChange::MulticastGroup { bridge, group },
                SnoopingChange::Routers => DependencyChange::MulticastRouters { bridge },
            });
        }
        live.note(changes);
        result
    }
}

impl GroupRead for SharedGroupTable {
    fn members(&self, vlan: u16, group: Ipv6Addr) -> Option<Vec<BundleId>> {
        self.lock().members(vlan, group)
    }

    fn routers_of(&self, vlan: u16) -> Vec<BundleId> {
        self.lock().routers_of(vlan)
    }

    fn routers(&self) -> Vec<(u16, BundleId)> {
        self.lock().routers()
    }

    fn count_changes(&self, vlan: u16, port: BundleId, message: &Message) -> usize {
        self.lock().count_changes(vlan, port, message)
    }
}
