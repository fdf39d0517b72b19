//! Devices that are deleted in one transaction.
//!
//! The kernel waits for its readers in each transaction that deletes devices, about 20 ms, however many devices the transaction
//! names. So a hundred internal ports that leave a bridge are deleted together.

use crate::rtnl;
use std::sync::{Arc, Mutex, PoisonError};

/// The devices to delete, shared by all taps of a [`Netdevs`](crate::open::Netdevs).
#[derive(Clone, Default)]
pub(crate) struct Deletions {
    /// Indices of the devices that wait, while a [`Together`] lives.
    waiting: Arc<Mutex<Option<Vec<u32>>>>,
}

impl Deletions {
    /// Deletes a device now, or with the others of a [`Together`].
    pub(crate) fn delete(&self, ifindex: u32) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waiting {
            Some(list) => list.push(ifindex),
            // It may be deleted by now: then the request fails.
            None => _ = rtnl::delete_link(ifindex),
        }
    }

    /// Collects devices from now on.
    pub(crate) fn collect(&self) -> Together {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        Together(self.clone())
    }
}

/// While this value lives, devices of closed ports wait; its end deletes all of them. Ports with their names can be opened
/// afterwards.
pub struct Together(Deletions);

impl Drop for Together {
    fn drop(&mut self) {
        let list = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        rtnl::delete_links(&list.unwrap_or_default());
    }
}
