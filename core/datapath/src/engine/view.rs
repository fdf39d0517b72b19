//! Copies of the shared state that a worker uses during an iteration.

use crate::capture::Captures;
use crate::meter::Meters;
use crate::ports::Ports;
use crate::shared::Shared;
use dpif::UpcallHandler;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The upcall handler, if there is one.
pub(crate) type Handler = Arc<Option<Arc<dyn UpcallHandler>>>;

/// Snapshots and settings that the stages of a worker read; they do not change during an iteration.
#[derive(Default)]
pub(crate) struct View {
    /// The version of the snapshots that follow.
    pub(crate) version: u64,
    /// Ports, upcall handler and meters as of the beginning of the iteration.
    pub(crate) ports: Arc<Ports>,
    pub(crate) handler: Handler,
    pub(crate) meters: Arc<Meters>,
    /// Captures that run.
    pub(crate) captures: Arc<Captures>,
    /// `Meta::vlan_limit` of received packets.
    pub(crate) vlan_limit: u8,
    /// Every look-up is compared with a linear search.
    pub(crate) validate: bool,
}

impl View {
    /// Reads all snapshots and settings again. `version`: the version of the shared state, read before.
    pub(crate) fn refresh(&mut self, version: u64, shared: &Shared) {
        self.version = version;
        self.ports = shared.ports.load_full();
        self.handler = shared.handler.load_full();
        self.meters = shared.meters.load();
        self.captures = shared.captures.load_full();
        self.vlan_limit = shared.settings.vlan_limit.load(Ordering::Relaxed);
        self.validate = shared.settings.validate.load(Ordering::Relaxed);
    }
}
