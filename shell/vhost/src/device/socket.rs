//! [`Socket`]: a path at which a guest connects, and the facts about this guest.

use super::Device;
use super::from_guest::FromGuest;
use super::session::Session;
use super::to_guest::ToGuest;
use crate::guest::Guest;
use crate::log::{Level, say};
use crate::lost_memory;
use crate::notify::Notify;
use crate::path::{PATH_MAX, Role, SocketError};
use crate::port_state::PortState;
use crate::server;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The sockets that are open, so that no path is used by two ports.
static OPEN: Mutex<Vec<Weak<PortState>>> = Mutex::new(Vec::new());

/// The socket of a port. Dropping it ends the connection; remaining receivers and senders then receive and send nothing.
#[derive(Debug)]
pub struct Socket {
    port: Arc<PortState>,
    device: Arc<Device>,
}

/// The back-end of one port whose rings the switch serves itself.
struct OwnBackend(Arc<Device>);

impl server::Backend for OwnBackend {
    fn port(&self) -> &PortState {
        &self.0.port
    }

    fn start(&mut self, guest: OwnedFd, closing: &Arc<AtomicUsize>) -> io::Result<Box<dyn server::Session>> {
        Ok(Box::new(Session::new(&self.0, guest, closing)))
    }

    fn unregister(&mut self) {}
}

impl Socket {
    /// Begins to listen or to connect. If the switch creates the socket, `path` must not exist. `notify` is called whenever the state of
    /// the port changes. `iommu`: guests are offered an IOMMU.
    pub fn open(path: &str, role: Role, iommu: bool, notify: Notify) -> Result<Socket, SocketError> {
        if path.len() > PATH_MAX {
            return Err(SocketError::TooLong);
        }
        if path.is_empty() || path.contains('\0') {
            return Err(SocketError::Invalid);
        }
        lost_memory::install_handler().map_err(|_| SocketError::Refused("opening /proc/self/maps"))?;
        let port = Arc::new(PortState::new(path, notify));
        {
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|other| other.upgrade().is_some_and(|other| !other.is_retired()));
            if open.iter().filter_map(Weak::upgrade).any(|other| other.path == path) {
                return Err(SocketError::Taken);
            }
            open.push(Arc::downgrade(&port));
        }
        let device = Arc::new(Device::new(&port, iommu));
        let backend = Box::new(OwnBackend(Arc::clone(&device)));
        if server::open(&port, role, backend).is_err() {
            port.retire();
            return Err(SocketError::Refused("opening the socket"));
        }
        Ok(Socket { port, device })
    }

    /// The port's state.
    pub fn state(&self) -> &PortState {
        &self.port
    }

    /// Whether a guest is connected and ready.
    pub fn is_connected(&self) -> bool {
        self.device.connected_guest().is_some()
    }

    /// NUMA node of the guest's memory, if known.
    pub fn numa(&self) -> Option<u32> {
        u32::try_from(self.port.numa.load(Ordering::Relaxed)).ok()
    }

    /// Distributes the senders over `pairs` queue pairs.
    pub fn distribute_senders(&mut self, pairs: usize) {
        self.port.distribute_senders(pairs);
    }

    /// Creates the receiver of queue pair `pair`.
    pub fn receiver(&self, pair: usize) -> FromGuest {
        FromGuest::new(&self.device, pair)
    }

    /// Creates the sender with number `slot` of the port.
    pub fn sender(&self, slot: usize) -> ToGuest {
        ToGuest::new(&self.device, slot)
    }

    /// Facts about the guest; `None` if no guest is connected.
    pub fn guest(&mut self) -> Option<Guest> {
        self.device.connected_guest().clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !server::retire(&self.port) {
            let path = &self.port.path;
            let what = "a worker is still using its rings; their memory is freed when it leaves";
            say(Level::Error, &format!("vhost '{path}': {what}"));
        }
    }
}
