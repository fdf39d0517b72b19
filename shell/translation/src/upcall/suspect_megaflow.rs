//! The result of a shadow check that found a difference: the main thread checks whether the megaflow is wrong.

use dpif::DpAction;
use flow::Flow;
use std::sync::Arc;
use units::Ufid;

/// A megaflow that may be wrong: a new translation of a packet that it matched gives other actions.
pub struct SuspectMegaflow {
    /// Version of the snapshot of the translation.
    pub(crate) version: u64,
    pub(crate) packet: Vec<u8>,
    /// The packet's datapath flow.
    pub(crate) flow: Flow,
    /// Identifier of the megaflow.
    pub(crate) ufid: Ufid,
    /// Actions of the megaflow.
    pub(crate) actions: Arc<[DpAction]>,
}
