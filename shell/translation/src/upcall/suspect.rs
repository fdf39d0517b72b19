//! A packet on its way to the main loop, which decides whether its megaflow was wrong.

use dpif::DpAction;
use flow::Flow;
use std::sync::Arc;
use units::Ufid;

/// A packet that seems to have been answered wrongly.
pub struct Suspect {
    /// The snapshot that it was translated with.
    pub(crate) version: u64,
    pub(crate) packet: Vec<u8>,
    pub(crate) flow: Flow,
    pub(crate) ufid: Ufid,
    pub(crate) actions: Arc<[DpAction]>,
}
