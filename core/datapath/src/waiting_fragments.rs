//! Access to waiting fragments for the control half.

use crate::datapath::Datapath;
use crate::last_drop::DropPort;
use crate::locks::lock;
use crate::packet::Packet;
use crate::path::fragments::reason;
use crate::tally::{Event, Tally};
use dpif::DropReason;
use reassembly::{Reassembly, Removed};
use units::{Millis, PortNo};

impl Datapath {
    /// The waiting fragments, with their settings and counters.
    pub fn reassembly(&self) -> &Reassembly<Packet> {
        &self.shared.reassembly
    }

    /// Removes fragments that have waited for too long. Call it about once a second.
    pub fn purge_fragments(&self, now: Millis) {
        self.count_removed(self.shared.reassembly.purge(now));
    }

    /// Removes fragments that were received by a removed port.
    pub(crate) fn forget_fragments(&self, no: PortNo) {
        self.count_removed(self.shared.reassembly.forget_port(no.0));
    }

    /// Adds removed fragments to the counters of removed workers, because no worker removed them.
    fn count_removed(&self, removed: Vec<Removed<Packet>>) {
        if removed.is_empty() {
            return;
        }
        let mut tally = Tally::default();
        tally.add(Event::FragmentWaitsEnded, removed.len() as u64);
        let mut tallies = lock(&self.shared.tallies);
        for one in &removed {
            let (why, drop_port) = (reason(one.why), DropPort::In(one.content.meta.in_port));
            tally.count_drops(why, 1);
            tallies.removed_workers_port_drops.entry(drop_port).or_insert([0; DropReason::COUNT])
                [why as usize] += 1;
        }
        tallies.removed_workers.merge(&tally);
    }
}
