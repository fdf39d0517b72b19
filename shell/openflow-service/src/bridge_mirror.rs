//! A mirror of a bridge at run time.

use flow::Flow;
use ovsdb::Uuid;
use std::sync::Arc;
use xlate::MirrorTally;

/// A mirror at run time.
pub struct BridgeMirror {
    /// Its row.
    pub row: Uuid,
    /// The flow and the mask of column `filter`.
    pub filter: Option<Arc<(Flow, Flow)>>,
    /// Its counters.
    pub tally: Arc<MirrorTally>,
    /// Whether its configuration is usable.
    pub usable: bool,
}
