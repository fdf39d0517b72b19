//! What is published for the threads that translate.

use crate::macs::SharedMacs;
use std::collections::HashMap;
use std::sync::Arc;
use xlate::{BridgeId, Snapshot};

/// A snapshot with its number and with the learning tables behind it.
pub struct Published {
    /// Grows with each publication.
    pub version: u64,
    /// What translations see.
    pub snapshot: Snapshot,
    /// The learning tables of its bridges.
    pub macs: HashMap<BridgeId, Arc<SharedMacs>>,
}
