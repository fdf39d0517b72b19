//! Builds the next snapshot of a datapath from the last one: unchanged parts are shared.

use crate::spanning_tree::Stopping;
use cpu::KeyedHash64;
use std::collections::HashMap;
use units::{Millis, OfPort};
use xlate::{BridgeId, Snapshot};

/// The peer of each patch port.
pub(crate) type Peers = HashMap<(BridgeId, OfPort), (BridgeId, OfPort)>;

/// The last published snapshot, which `publish.rs` updates to the next one.
pub(crate) struct SnapshotBuilder {
    /// The snapshot that was published last; datapath ports that were removed since are not in it.
    pub(crate) snapshot: Snapshot,
    /// The peers of patch ports in the snapshot.
    pub(crate) peers: Peers,
    /// Tunnels were added, removed or changed.
    pub(crate) tunnels_changed: bool,
    /// Ports that spanning trees stop with the next snapshot.
    pub(crate) stopping: Stopping,
    /// The time of the last publication.
    pub(crate) published_at: Millis,
}

impl SnapshotBuilder {
    /// An empty snapshot. `chain` hashes the dependencies of translations.
    pub(crate) fn new(chain: KeyedHash64) -> SnapshotBuilder {
        let snapshot = Snapshot { chain, ..Snapshot::default() };
        SnapshotBuilder {
            snapshot,
            peers: Peers::default(),
            tunnels_changed: false,
            stopping: Stopping::default(),
            published_at: Millis(0),
        }
    }
}
