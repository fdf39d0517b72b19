//! Ports that have stopped forwarding: their spanning tree waits until no megaflow forwards packets of these ports.

use bridge::spanning_tree::Flush;
use std::collections::BTreeMap;
use translation::PortKey;
use xlate::BridgeId;

/// Stopped ports that wait for a publication, or for the revalidation after it.
#[derive(Debug, Default)]
pub struct Stopping {
    unpublished: Stopped,
    /// Published stops, each with the version of the snapshot.
    published: Vec<(u64, Stopped)>,
}

/// The ports and flushes of one publication.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    pub(super) ports: Vec<PortKey>,
    /// Learned addresses to remove again: a packet may have been translated with the old port states after the first
    /// removal, so that its address was learned again.
    pub(super) flushes: BTreeMap<BridgeId, Flush>,
}

impl Stopping {
    /// Records a port that stops with the next publication.
    pub(super) fn note_stopped(&mut self, at: PortKey) {
        self.unpublished.ports.push(at);
    }

    /// Records learned addresses that are removed again after the next publication.
    pub(super) fn flush_again(&mut self, bridge: BridgeId, flush: Flush) {
        self.unpublished.flushes.entry(bridge).or_default().append(flush);
    }

    /// Records that the stops were published. `version`: the version of the snapshot.
    pub(crate) fn published(&mut self, version: u64) {
        let stopped = std::mem::take(&mut self.unpublished);
        if !stopped.ports.is_empty() || !stopped.flushes.is_empty() {
            self.published.push((version, stopped));
        }
    }

    /// Removes and returns the stops of versions whose revalidation is done.
    pub(super) fn take_done(&mut self, is_done: impl Fn(u64) -> bool) -> Vec<Stopped> {
        let done = self.published.extract_if(.., |(version, _)| is_done(*version));
        done.map(|(_, stopped)| stopped).collect()
    }
}
