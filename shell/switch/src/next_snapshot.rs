//! The next snapshot of a datapath, kept from one publication to the next: what did not change is shared.

use std::collections::HashMap;
use units::OfPort;
use xlate::{BridgeId, Snapshot};

/// Patch ports and their peers.
pub(crate) type Peers = HashMap<(BridgeId, OfPort), (BridgeId, OfPort)>;

/// See the module.
#[derive(Default)]
pub(crate) struct NextSnapshot {
    /// As it was published last, but for ports of the datapath that have gone since.
    pub(crate) snapshot: Snapshot,
    /// The peers of patch ports in it.
    pub(crate) peers: Peers,
    /// Tunnels came, went or changed.
    pub(crate) tunnels_changed: bool,
}
