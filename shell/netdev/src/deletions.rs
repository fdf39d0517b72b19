//! Deletes many kernel devices in one transaction.
//!
//! In each transaction that deletes devices, the kernel waits about 20 ms (for RCU readers), however many devices it deletes. So the devices
//! of a hundred internal ports that are removed from a bridge are deleted together.

use crate::rtnl;
use std::sync::{Arc, Mutex, PoisonError};

/// The devices to be deleted, shared by all taps of a [`Netdevs`](crate::open::Netdevs).
#[derive(Clone, Default)]
pub(crate) struct Deletions {
    /// Indices of devices whose deletion is deferred; `None`: devices are deleted at once.
    waiting: Arc<Mutex<Option<Vec<u32>>>>,
}

impl Deletions {
    /// Deletes a device, now or when the [`DeletionGuard`] is dropped.
    pub(crate) fn delete(&self, ifindex: u32) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            Some(list) => list.push(ifindex),
            // Fails if the device was deleted meanwhile.
            None => _ = rtnl::delete_link(ifindex),
        }
    }

    /// Defers deletions until the returned guard is dropped.
    pub(crate) fn defer(&self) -> DeletionGuard {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        DeletionGuard(self.clone())
    }
}

/// While this guard lives, the devices of closed ports are not deleted. Dropping it deletes all of them. Ports with their names can be
/// opened only afterwards.
pub struct DeletionGuard(Deletions);

impl Drop for DeletionGuard {
    fn drop(&mut self) {
        let list = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        rtnl::delete_links(&list.unwrap_or_default());
    }
}
