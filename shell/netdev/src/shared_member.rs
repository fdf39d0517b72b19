//! A kernel device that shares its rx queues with others (mode `basic`), and the socket by which all such devices send.

use crate::linux::packet_socket;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The socket by which all members send. It also makes the device of each member promiscuous.
static SENDER: Mutex<Weak<OwnedFd>> = Mutex::new(Weak::new());

/// A device in mode `basic`. It is promiscuous until the value is dropped.
pub struct Member {
    ifindex: u32,
    sender: Arc<OwnedFd>,
    fault: Mutex<Option<String>>,
}

impl Member {
    /// Makes the device promiscuous, and opens the shared socket if this is the first member.
    pub fn new(ifindex: u32) -> io::Result<Arc<Member>> {
        let mut shared_sender = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match shared_sender.upgrade() {
            Some(sender) => sender,
            None => {
                let new = Arc::new(packet_socket::open_shared_sender()?);
                *shared_sender = Arc::downgrade(&new);
                new
            }
        };
        packet_socket::set_promiscuous(&sender, ifindex, true)?;
        Ok(Arc::new(Member { ifindex, sender, fault: Mutex::default() }))
    }

    /// The socket by which the device sends.
    pub fn sender(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.sender)
    }

    /// The device's interface index.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sets the reason why the device receives nothing; `None` if it receives.
    pub(crate) fn set_fault(&self, fault: Option<&str>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault.map(str::to_owned);
    }

    /// Why the device receives nothing.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Fails if the device does not exist any more, which is no error here.
        let _ = packet_socket::set_promiscuous(&self.sender, self.ifindex, false);
    }
}
