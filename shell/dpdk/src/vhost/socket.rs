//! [`Socket`]: a vhost-user path that is registered with the library, and the facts about its guest.

use super::callbacks;
use super::device_access::Accessor;
use super::from_guest::FromGuest;
use super::port_state::PortState;
use super::ports;
use super::proxy::{self, LibraryBackend};
use super::to_guest::ToGuest;
use crate::eal;
use crate::mempool::Mempool;
use dpdk_sys as sys;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vhost::log::{Level, say};
use vhost::path::{PATH_MAX, Role, SocketError};
use vhost::{Guest, Notify, feature, lost_memory, server};

/// A registered path. Dropping it ends the connection; remaining receivers and senders then receive and send nothing.
#[derive(Debug)]
pub struct Socket {
    port: Arc<PortState>,
    accessor: Accessor,
}

impl Socket {
    /// Registers `path` and begins to listen or to connect. If the switch creates the socket, `path` must not exist. `notify` is called
    /// whenever the state of the port changes.
    pub fn open(path: &str, role: Role, notify: Notify) -> Result<Socket, SocketError> {
        if !eal::initialized() {
            return Err(SocketError::NoEnvironment);
        }
        if path.len() > PATH_MAX {
            return Err(SocketError::TooLong);
        }
        if path.is_empty() || path.contains('\0') {
            return Err(SocketError::Invalid);
        }
        lost_memory::install_handler().map_err(|_| SocketError::Refused("opening /proc/self/maps"))?;
        let library_path = proxy::new_path(path)?;
        let c_inner = CString::new(library_path.as_str()).map_err(|_| SocketError::Invalid)?;
        let shared = Arc::new(vhost::PortState::new(path, notify));
        let port = Arc::new(PortState::new(&shared, &library_path, allows_postcopy(role)));
        if !ports::add(&port) {
            return Err(SocketError::Taken);
        }
        register(&c_inner, role).inspect_err(|_| ports::remove(&library_path))?;
        let opened = server::open(&shared, role, Box::new(LibraryBackend(Arc::clone(&port))))
            .map_err(|_| SocketError::Refused("opening the socket"));
        if let Err(e) = opened {
            // SAFETY: the path was registered above, and no guest has connected.
            unsafe { sys::rte_vhost_driver_unregister(c_inner.as_ptr()) };
            ports::remove(&library_path);
            return Err(e);
        }
        // From here on, dropping the `Socket` undoes all steps.
        Ok(Socket { accessor: port.access.accessor(), port })
    }

    /// The port's state.
    pub fn state(&self) -> &vhost::PortState {
        &self.port.shared
    }

    /// Whether a guest is connected and ready.
    pub fn is_connected(&self) -> bool {
        self.port.access.vid().is_some()
    }

    /// NUMA node of the guest's memory, if known.
    pub fn numa(&self) -> Option<u32> {
        u32::try_from(self.port.numa.load(Ordering::Relaxed)).ok()
    }

    /// Distributes the senders over `pairs` queue pairs, and requests that the guest does not kick rings that were added.
    pub fn distribute_senders(&mut self, pairs: usize) {
        self.port.distribute_senders(pairs);
        if let Some(access) = self.port.access.enter(&mut self.accessor) {
            callbacks::disable_kicks(access.vid());
        }
    }

    /// Creates the receiver of queue pair `pair`. Packets are received into buffers of `pool`.
    pub fn receiver(&self, pair: usize, pool: Mempool) -> FromGuest {
        FromGuest::new(&self.port, pair, pool)
    }

    /// Creates the sender with number `slot` of the port.
    pub fn sender(&self, slot: usize) -> ToGuest {
        ToGuest::new(&self.port, slot)
    }

    /// Facts about the guest; `None` if no guest is connected.
    pub fn guest(&mut self) -> Option<Guest> {
        let access = self.port.access.enter(&mut self.accessor)?;
        let vid = access.vid();
        let mut guest = Guest::default();
        let mut mtu = 0;
        // SAFETY: the vid is valid during the access; these functions only copy values and take no lock.
        unsafe {
            sys::rte_vhost_get_negotiated_features(vid, &mut guest.features);
            guest.mtu = (sys::rte_vhost_get_mtu(vid, &mut mtu) == 0).then_some(mtu);
            guest.numa = u32::try_from(sys::rte_vhost_get_numa_node(vid)).ok();
            for ring in 0..sys::rte_vhost_get_vring_num(vid) {
                let mut vring: sys::rte_vhost_vring = std::mem::zeroed();
                sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring);
                guest.rings.push(vring.size);
            }
        }
        Some(guest)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !server::retire(&self.port.shared) {
            let path = &self.port.path;
            say(
                Level::Error,
                &format!(
                    "vhost '{path}': a worker is still using its rings; their memory is freed when it leaves"
                ),
            );
        }
    }
}

/// Makes the library listen at `library_path`.
fn register(library_path: &CStr, role: Role) -> Result<(), SocketError> {
    let path = library_path.as_ptr();
    // SAFETY: `path` is a C string that lives until the call returns.
    if unsafe { sys::rte_vhost_driver_register(path, flags(role)) } != 0 {
        return Err(SocketError::Refused("rte_vhost_driver_register"));
    }
    let unwanted = feature::HOST_UFO;
    // SAFETY: the path is registered; the table of callbacks is static.
    let failed = unsafe {
        if sys::rte_vhost_driver_callback_register(path, callbacks::CALLBACKS.as_ptr()) != 0 {
            Some("rte_vhost_driver_callback_register")
        } else if sys::rte_vhost_driver_disable_features(path, unwanted) != 0 {
            Some("rte_vhost_driver_disable_features")
        } else if sys::rte_vhost_driver_start(path) != 0 {
            Some("rte_vhost_driver_start")
        } else {
            None
        }
    };
    let Some(step) = failed else { return Ok(()) };
    // SAFETY: the path was registered above.
    unsafe { sys::rte_vhost_driver_unregister(path) };
    Err(SocketError::Refused(step))
}

fn allows_postcopy(role: Role) -> bool {
    role == Role::Client && crate::settings().vhost_postcopy
}

fn flags(role: Role) -> u64 {
    let settings = crate::settings();
    // The rest of the switch expects a packet to be contiguous, even if it does not fit one buffer. Offload requests must be
    // reported in the same flags as NICs use.
    let mut flags = sys::SLUICE_RTE_VHOST_USER_LINEARBUF_SUPPORT
        | sys::SLUICE_RTE_VHOST_USER_EXTBUF_SUPPORT
        | sys::SLUICE_RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS;
    if role == Role::Client && settings.vhost_iommu {
        flags |= sys::SLUICE_RTE_VHOST_USER_IOMMU_SUPPORT;
    }
    if allows_postcopy(role) {
        flags |= sys::SLUICE_RTE_VHOST_USER_POSTCOPY_SUPPORT;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_environment_there_is_no_socket() {
        let error = Socket::open("/tmp/s", Role::Client, Notify::default()).unwrap_err();
        assert_eq!(error.to_string(), "DPDK is not initialized");
    }
}
