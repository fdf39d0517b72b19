//! Access to dropped packets for the control half.

use crate::datapath::Datapath;
use crate::drop_counters::DropCounts;
use crate::last_drop::{DropPort, LastDrop};
use crate::locks::lock;
use crate::shared::Tallies;
use dpif::DropReason;
use std::collections::BTreeMap;
use units::PortNo;

impl Datapath {
    /// Recently dropped packets, the newest first. Packets that removed workers dropped are not included.
    pub fn last_drops(&self) -> Vec<LastDrop> {
        let tallies = lock(&self.shared.tallies);
        let mut all: Vec<LastDrop> = tallies.present.iter().flat_map(|(_, t)| t.last_drops.all()).collect();
        all.sort_by_key(|last| std::cmp::Reverse(last.order()));
        all
    }

    /// Number of dropped packets by reason, without reasons that never occurred.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        self.tally().drops().collect()
    }

    /// Number of dropped packets by port and reason, including those of removed workers.
    pub fn port_drops(&self) -> BTreeMap<DropPort, DropCounts> {
        let Tallies { present, removed_workers_port_drops, .. } = &*lock(&self.shared.tallies);
        let mut sums = removed_workers_port_drops.clone();
        present.iter().for_each(|(_, tally)| tally.port_drops.add_to(&mut sums));
        sums
    }

    /// Removes all records and counters of drops at a removed port.
    pub(crate) fn forget_drops(&self, no: PortNo) {
        let Tallies { present, removed_workers_port_drops, .. } = &mut *lock(&self.shared.tallies);
        for (_, tally) in present {
            tally.last_drops.forget(no.0);
            tally.port_drops.forget(no.0);
        }
        removed_workers_port_drops.retain(|drop_port, _| drop_port.port() != no.0);
    }
}
