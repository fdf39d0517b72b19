//! The captures of a datapath, as workers and ports hold them.

use super::offered::{Offered, Side};
use super::running::Capture;
use crate::drop_port::DropPort;
use crate::packet::Meta;
use dpif::DropReason;
use std::sync::Arc;
use units::WorkerId;

/// All captures; usually none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captures(Vec<Arc<Capture>>);

impl Captures {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn with(&self, new: &Arc<Capture>) -> Captures {
        Captures(self.0.iter().chain([new]).cloned().collect())
    }

    pub(crate) fn without(&self, old: &Arc<Capture>) -> Captures {
        Captures(self.0.iter().filter(|one| !Arc::ptr_eq(one, old)).cloned().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Capture>> {
        self.0.iter()
    }

    /// Returns whether some capture captures packets after their look-up.
    pub(crate) fn captures_any_rx(&self) -> bool {
        self.0.iter().any(|one| one.spec().rx)
    }

    /// Returns whether some capture captures packets that this port receives.
    pub(crate) fn captures_rx(&self, port: u32) -> bool {
        self.0.iter().any(|one| one.spec().rx && one.captures_port(port))
    }

    /// Returns the captures that capture packets sent by this port.
    pub(crate) fn of_tx(&self, port: u32) -> Captures {
        Captures(self.0.iter().filter(|one| one.spec().tx && one.captures_port(port)).cloned().collect())
    }

    /// Returns whether some capture captures dropped packets.
    pub(crate) fn captures_drops(&self) -> bool {
        self.0.iter().any(|one| one.spec().drops)
    }

    /// Returns whether some capture captures dropped packets of this port.
    #[cold]
    pub(crate) fn captures_drops_of(&self, port: u32) -> bool {
        self.0.iter().any(|one| one.spec().drops && one.captures_port(port))
    }

    #[cold]
    pub(crate) fn offer(&self, queue: usize, offered: &Offered<'_>) {
        self.0.iter().for_each(|one| one.offer(queue, offered));
    }

    /// Offers a dropped packet.
    #[cold]
    pub(crate) fn offer_drop(
        &self,
        worker: WorkerId,
        (bytes, meta): (&[u8], &Meta),
        reason: DropReason,
        drop_port: DropPort,
    ) {
        let side = Side::dropped(drop_port, reason);
        let offered = Offered { side, port: drop_port.port(), bytes, meta, megaflow: None, upcall: false };
        self.offer(usize::from(worker.0), &offered);
    }
}
