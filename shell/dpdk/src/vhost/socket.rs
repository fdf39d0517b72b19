//! A socket's life, and what is to be known of its guest.

use super::callbacks;
use super::feature;
use super::from_guest::FromGuest;
use super::front;
use super::gate::Pass;
use super::link::Link;
use super::lost_memory;
use super::notify::Notify;
use super::to_guest::ToGuest;
use crate::eal;
use crate::log::{Level, say};
use crate::mempool::Mempool;
use dpdk_sys as sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};

/// Bytes of a path that a socket's address has room for, without the 0 at its end.
pub(super) const PATH_MAX: usize = 107;

/// Who makes the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The guest; we connect, and again when it went away.
    Client,
    /// We do.
    Server,
}

/// Why there is no socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// DPDK is not in use.
    NoEnvironment,
    /// The path is longer than a socket's address.
    TooLong,
    /// The path is empty, or no text that C can hold.
    Invalid,
    /// Another port has this path.
    Taken,
    /// The library refused, at this step.
    Refused(&'static str),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketError::NoEnvironment => f.write_str("DPDK is not initialized"),
            SocketError::TooLong => write!(f, "the path is longer than {PATH_MAX} bytes"),
            SocketError::Invalid => f.write_str("the path is empty or has a zero byte"),
            SocketError::Taken => f.write_str("the path is in use by another port"),
            SocketError::Refused(step) => write!(f, "{step} failed"),
        }
    }
}

impl std::error::Error for SocketError {}

/// What is known of a connected guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// What was negotiated.
    pub features: u64,
    /// The MTU that it was told, if that was negotiated.
    pub mtu: Option<u16>,
    /// Node of its memory.
    pub numa: Option<u32>,
    /// Descriptors of each ring; ring 2n is filled by us, ring 2n + 1 by the guest.
    pub rings: Vec<u16>,
}

/// A registered path. Dropping it ends the connection; queues that are left then bring nothing and take nothing.
#[derive(Debug)]
pub struct Socket {
    link: Arc<Link>,
    pass: Pass,
}

impl Socket {
    /// Registers `path` and begins to listen there, or to connect. A server's path must not exist. `notify` is told
    /// whenever [`Socket::seq`] changes.
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
        lost_memory::mend().map_err(|_| SocketError::Refused("opening /proc/self/maps"))?;
        if role == Role::Server {
            deprecate();
        }
        let inner = front::new_path(path)?;
        let c_inner = CString::new(inner.as_str()).map_err(|_| SocketError::Invalid)?;
        let link = Arc::new(Link::new(path, &inner, takes_postcopy(role), notify));
        if !callbacks::add(&link) {
            return Err(SocketError::Taken);
        }
        register(&c_inner, role).inspect_err(|_| callbacks::remove(&inner))?;
        let opened = front::open(&link, role).map_err(|_| SocketError::Refused("opening the socket"));
        if let Err(e) = opened {
            // SAFETY: registered above; nobody connected.
            unsafe { sys::rte_vhost_driver_unregister(c_inner.as_ptr()) };
            callbacks::remove(&inner);
            return Err(e);
        }
        // From here on, dropping it undoes all.
        Ok(Socket { pass: link.door.pass(), link })
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.link.path
    }

    /// Changes whenever what is known of the guest does.
    pub fn seq(&self) -> u64 {
        self.link.seq()
    }

    /// How often a guest came or went.
    pub fn changes(&self) -> u64 {
        self.link.changes()
    }

    /// A guest is there.
    pub fn is_connected(&self) -> bool {
        self.link.door.vid().is_some()
    }

    /// A worker has not come back from the guest's rings: the port is out of service until it does.
    pub fn is_stuck(&self) -> bool {
        self.link.is_stuck()
    }

    /// Queue pairs of the guest; 1 without one.
    pub fn pairs(&self) -> usize {
        self.link.pairs()
    }

    /// Node of the guest's memory, if that is known.
    pub fn numa(&self) -> Option<u32> {
        u32::try_from(self.link.numa.load(Ordering::Relaxed)).ok()
    }

    /// Whether the guest sends on this queue.
    pub fn is_from_guest(&self, pair: usize) -> bool {
        self.link.guest_sends(pair)
    }

    /// Spreads senders over so many pairs, and asks the guest not to kick rings that came late.
    pub fn spread_over(&mut self, pairs: usize) {
        self.link.spread_over(pairs);
        if let Some(inside) = self.link.door.enter(&mut self.pass) {
            callbacks::quiet(inside.vid());
        }
    }

    /// The receiver of this queue, into buffers of `pool`.
    pub fn receiver(&self, pair: usize, pool: Mempool) -> FromGuest {
        FromGuest::new(&self.link, pair, pool)
    }

    /// A sender; the `slot`-th of the port.
    pub fn sender(&self, slot: usize) -> ToGuest {
        ToGuest::new(&self.link, slot)
    }

    /// What is known of the guest; `None`: there is none.
    pub fn guest(&mut self) -> Option<Guest> {
        let inside = self.link.door.enter(&mut self.pass)?;
        let vid = inside.vid();
        let mut guest = Guest::default();
        let mut mtu = 0;
        // SAFETY: the number is valid while we are inside; these copy facts and take no lock.
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
        self.link.retire();
        if !front::retire(&self.link) {
            let path = &self.link.path;
            say(
                Level::Error,
                &format!(
                    "vhost '{path}': a worker is still at its rings; their memory is kept until it left"
                ),
            );
        }
    }
}

/// Has the library listen at `inner`.
fn register(inner: &CStr, role: Role) -> Result<(), SocketError> {
    let path = inner.as_ptr();
    // SAFETY: a string of C.
    if unsafe { sys::rte_vhost_driver_register(path, flags(role)) } != 0 {
        return Err(SocketError::Refused("rte_vhost_driver_register"));
    }
    let unwanted = feature::HOST_UFO;
    // SAFETY: the path is registered; the table of callbacks lives for ever.
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
    // SAFETY: registered above.
    unsafe { sys::rte_vhost_driver_unregister(path) };
    Err(SocketError::Refused(step))
}

fn takes_postcopy(role: Role) -> bool {
    role == Role::Client && crate::settings().vhost_postcopy
}

/// Says once that a guest has to start again when the switch does, where the socket is ours.
fn deprecate() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        say(
            Level::Warning,
            "dpdkvhostuser ports are considered deprecated;  please migrate to dpdkvhostuserclient ports.",
        );
    });
}

fn flags(role: Role) -> u64 {
    let settings = crate::settings();
    // A packet is one piece of memory to the rest of the switch, also one that no buffer has room for. Notes of work left
    // undone are wanted as a NIC's are.
    let mut flags = sys::SLUICE_RTE_VHOST_USER_LINEARBUF_SUPPORT
        | sys::SLUICE_RTE_VHOST_USER_EXTBUF_SUPPORT
        | sys::SLUICE_RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS;
    if role == Role::Client && settings.vhost_iommu {
        flags |= sys::SLUICE_RTE_VHOST_USER_IOMMU_SUPPORT;
    }
    if takes_postcopy(role) {
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
