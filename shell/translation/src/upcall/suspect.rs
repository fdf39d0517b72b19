//! A packet that the main loop has to check: its megaflow may be wrong.

use dpif::DpAction;
use flow::Flow;
use std::sync::Arc;
use units::Ufid;

/// A packet whose megaflow's actions differ from its translation.
pub struct Suspect {
    /// Version of the snapshot that it was translated with.
    pub(crate) version: u64,
    pub(crate) packet: Vec<u8>,
    pub(crate) flow: Flow,
    pub(crate) ufid: Ufid,
    pub(crate) actions: Arc<[DpAction]>,
}
