//! The state that the main loop publishes for the threads that translate.

use crate::macs::SharedMacs;
use crate::multicast_groups::SharedGroupTable;
use std::collections::HashMap;
use std::sync::Arc;
use units::OfPort;
use xlate::{BridgeId, Port, Snapshot};

/// A snapshot with its version and the learning tables that belong to it.
pub struct Published {
    /// Increases with each publication.
    pub version: u64,
    /// What translations read.
    pub snapshot: Snapshot,
    /// The learning tables of the snapshot's bridges.
    pub macs: HashMap<BridgeId, Arc<SharedMacs>>,
    /// The multicast groups of the snapshot's bridges that have multicast snooping.
    pub groups: HashMap<BridgeId, Arc<SharedGroupTable>>,
}

impl Published {
    /// A port of a bridge.
    pub(crate) fn port(&self, (bridge, port): (BridgeId, OfPort)) -> Option<&Port> {
        self.snapshot.bridge(bridge)?.port(port)
    }
}
