//! A mirror of a bridge at run time.

use flow::Flow;
use ovsdb::Uuid;
use std::sync::Arc;
use xlate::MirrorTally;

/// See the module.
pub struct BridgeMirror {
    /// Its row.
    pub row: Uuid,
    /// The flow and the mask of column `filter`.
    pub filter: Option<Arc<(Flow, Flow)>>,
    /// What it counted.
    pub tally: Arc<MirrorTally>,
    /// Its configuration can be followed.
    pub usable: bool,
}
