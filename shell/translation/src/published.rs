//! The state that the main thread publishes for the threads that translate.

use crate::macs::SharedMacs;
use crate::multicast_groups::SharedGroupTable;
use std::collections::HashMap;
use std::sync::Arc;
use units::OfPort;
use xlate::{BridgeId, PortView, Snapshot};

/// A snapshot with its version, and the learning tables of its bridges.
pub struct PublishedState {
    /// Increases with each publication.
    pub version: u64,
    /// The snapshot that translations read.
    pub snapshot: Snapshot,
    /// The learning tables of the snapshot's bridges.
    pub macs: Arc<HashMap<BridgeId, Arc<SharedMacs>>>,
    /// The multicast groups of the snapshot's bridges that have multicast snooping.
    pub groups: Arc<HashMap<BridgeId, Arc<SharedGroupTable>>>,
}

impl PublishedState {
    /// A port of a bridge.
    pub(crate) fn port(&self, (bridge, port): (BridgeId, OfPort)) -> Option<&PortView> {
        self.snapshot.bridge(bridge)?.port(port)
    }
}
