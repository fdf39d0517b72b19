//! State of a worker for connection tracking (`ct`).

use crate::packet::Packet;
use crate::shared::Shared;
use conntrack::Conntrack;
use reassembly::Reassembly;
use std::sync::Arc;

/// Connections and waiting fragments, which all workers share, and this worker's cache of connections.
pub(crate) struct Tracking {
    pub(crate) conntrack: Arc<Conntrack>,
    /// Cache of the connections of recent packets.
    pub(crate) connections: conntrack::ConnectionCache,
    pub(crate) reassembly: Arc<Reassembly<Packet>>,
}

impl Tracking {
    pub(crate) fn new(shared: &Shared) -> Tracking {
        Tracking {
            conntrack: Arc::clone(&shared.conntrack),
            connections: conntrack::ConnectionCache::default(),
            reassembly: Arc::clone(&shared.reassembly),
        }
    }
}
