//! Ports that have stopped to forward: their trees wait until no megaflow forwards their packets.

use bridge::spanning_tree::Flush;
use std::collections::BTreeMap;
use translation::PortKey;
use xlate::BridgeId;

/// What waits for publications, and for the revalidation after them.
#[derive(Debug, Default)]
pub struct Stopping {
    unpublished: Stopped,
    /// The version in which it was published.
    published: Vec<(u64, Stopped)>,
}

/// Consequences of one publication.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    pub(super) ports: Vec<PortKey>,
    /// Addresses to remove again: a packet may have been translated meanwhile with the old states, and have taught one.
    pub(super) flushes: BTreeMap<BridgeId, Flush>,
}

impl Stopping {
    /// A port is to stop with the next publication.
    pub(super) fn stop(&mut self, at: PortKey) {
        self.unpublished.ports.push(at);
    }

    /// Addresses are to be removed again after the next publication.
    pub(super) fn flush_again(&mut self, bridge: BridgeId, flush: Flush) {
        self.unpublished.flushes.entry(bridge).or_default().append(flush);
    }

    /// To be called when changes were published as this version.
    pub(crate) fn published(&mut self, version: u64) {
        let stopped = std::mem::take(&mut self.unpublished);
        if !stopped.ports.is_empty() || !stopped.flushes.is_empty() {
            self.published.push((version, stopped));
        }
    }

    /// Takes what waited for versions that are done.
    pub(super) fn take_done(&mut self, is_done: impl Fn(u64) -> bool) -> Vec<Stopped> {
        let done = self.published.extract_if(.., |(version, _)| is_done(*version));
        done.map(|(_, stopped)| stopped).collect()
    }
}
