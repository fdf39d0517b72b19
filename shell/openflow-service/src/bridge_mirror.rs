//! A mirror of a bridge at run time.

use flow::Flow;
use ovsdb::Uuid;
use std::sync::Arc;
use xlate::MirrorTally;

/// A mirror at run time.
pub struct BridgeMirror {
    /// The UUID of the mirror's row.
    pub row: Uuid,
    /// The flow and the mask of column `filter`.
    pub filter: Option<Arc<(Flow, Flow)>>,
    /// Counters of the mirrored packets.
    pub tally: Arc<MirrorTally>,
    /// Whether the configuration of the mirror is usable.
    pub usable: bool,
}
