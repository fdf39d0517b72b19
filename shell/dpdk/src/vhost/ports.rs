//! All ports that the library serves, by the path at which the library listens.

use super::port_state::PortState;
use dpdk_sys as sys;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static PORTS: Mutex<BTreeMap<String, Arc<PortState>>> = Mutex::new(BTreeMap::new());

fn ports() -> MutexGuard<'static, BTreeMap<String, Arc<PortState>>> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a port. Returns false if another port uses the guest's path.
pub(super) fn add(port: &Arc<PortState>) -> bool {
    let mut ports = ports();
    if ports.values().any(|l| l.path == port.path && !l.is_retired()) {
        return false;
    }
    ports.insert(port.library_path.clone(), port.clone());
    true
}

/// Removes a port by the path at which the library listens for it.
pub(super) fn remove(library_path: &str) {
    ports().remove(library_path);
}

/// The port to which the connection `vid` belongs.
pub(super) fn find(vid: c_int) -> Option<Arc<PortState>> {
    let mut path = [0u8; 128];
    // SAFETY: the library passes a valid vid to callbacks, and the buffer has `path.len()` bytes. The library ends the text
    // with a zero byte.
    if unsafe { sys::rte_vhost_get_ifname(vid, path.as_mut_ptr().cast(), path.len()) } != 0 {
        return None;
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?.to_str().ok()?;
    ports().get(path).cloned()
}
