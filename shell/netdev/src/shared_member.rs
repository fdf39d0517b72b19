//! A kernel device that shares its rx queues with others (mode `basic`), and the socket by which all of these send.

use crate::linux::packet_socket;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The socket by which all members send. It also makes their devices promiscuous, which the kernel ends when the socket is closed.
static SENDER: Mutex<Weak<OwnedFd>> = Mutex::new(Weak::new());

/// A device in mode `basic`; it is promiscuous until the value is dropped.
pub struct Member {
    ifindex: u32,
    sender: Arc<OwnedFd>,
    fault: Mutex<Option<String>>,
}

impl Member {
    /// Makes the device promiscuous, and opens the common socket if this is the first member.
    pub fn new(ifindex: u32) -> io::Result<Arc<Member>> {
        let mut place = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match place.upgrade() {
            Some(sender) => sender,
            None => {
                let new = Arc::new(packet_socket::open_shared_sender()?);
                *place = Arc::downgrade(&new);
                new
            }
        };
        packet_socket::set_promiscuous(&sender, ifindex, true)?;
        Ok(Arc::new(Member { ifindex, sender, fault: Mutex::default() }))
    }

    /// The socket to send by.
    pub fn sender(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.sender)
    }

    /// The device's interface index.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sets why the device receives nothing; `None` if it receives.
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
