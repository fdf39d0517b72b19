//! Fragments that wait for their datagrams, for the control half.

use crate::datapath::Datapath;
use crate::packet::Packet;
use crate::shared::lock;
use crate::tally::{Event, Tally};
use dpif::DropReason;
use reassembly::{Gone, Reassembly, Removal};
use units::{Millis, PortNo};

/// Why a fragment that was removed is dropped.
pub(crate) fn reason(why: Removal) -> DropReason {
    match why {
        Removal::Expired => DropReason::FragmentExpired,
        Removal::Purged => DropReason::FragmentPurged,
        Removal::Evicted => DropReason::FragmentEvicted,
    }
}

impl Datapath {
    /// Fragments that wait, their settings and counters.
    pub fn reassembly(&self) -> &Reassembly<Packet> {
        &self.shared.reassembly
    }

    /// Removes fragments that wait for long. To be called about once a second.
    pub fn purge_fragments(&self, now: Millis) {
        self.count_removed(self.shared.reassembly.purge(now));
    }

    /// Removes fragments that came by a port which is gone.
    pub(crate) fn forget_fragments(&self, no: PortNo) {
        self.count_removed(self.shared.reassembly.forget_port(no.0));
    }

    /// No worker removed them: they are counted with the workers that are gone.
    fn count_removed(&self, removed: Vec<Gone<Packet>>) {
        if removed.is_empty() {
            return;
        }
        let mut tally = Tally::default();
        tally.add(Event::FragmentsReleased, removed.len() as u64);
        removed.iter().for_each(|one| tally.drop(reason(one.why), 1));
        lock(&self.shared.tallies).gone.merge(&tally);
    }
}
