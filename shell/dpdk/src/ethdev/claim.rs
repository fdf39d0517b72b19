//! Claims on devices. A device is found by its arguments or its MAC address, is claimed by one port, and can be unplugged.

use super::own_counters::OwnCounters;
use super::raw_info;
use crate::log::Level;
use crate::{eal, log};
use dpdk_sys as sys;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first invalid port number of DPDK (`RTE_MAX_ETHPORTS`).
const NO_PORT: u16 = 32;

/// Claimed devices: DPDK's port number, and the name of the switch's port.
static CLAIMS: Mutex<Vec<(u16, String)>> = Mutex::new(Vec::new());

pub(super) fn claims() -> MutexGuard<'static, Vec<(u16, String)>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The claim of a port on a device. Dropping it unplugs the device if this module attached it.
pub(crate) struct Claim {
    pub(crate) port: u16,
    /// The arguments with which this module attached the device; `None` if the environment probed it at its start.
    pub(super) attached: Option<String>,
    /// Whether the port is administratively up. The queues check this, because many drivers cannot bring their link down.
    pub(super) up: AtomicBool,
    pub(crate) counters: OwnCounters,
}

impl Claim {
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = claims();
        if let Some(devargs) = &self.attached {
            let in_use = |other| other != self.port && claims.iter().any(|(port, _)| *port == other);
            // SAFETY: the port is claimed by `self`. It is stopped: a started port (`Running`)
            // holds the claim, so the claim is dropped only after the port was stopped.
            match unsafe { close_and_unplug(self.port, in_use) } {
                true => log::say(Level::Info, &format!("Device '{devargs}' has been removed and detached")),
                false => log::say(Level::Error, &format!("Device '{devargs}' can not be detached")),
            }
        }
        claims.retain(|(port, _)| *port != self.port);
    }
}

/// Closes the port, and unplugs its device unless another port of the device is in use. Returns false if the device could not be
/// unplugged.
///
/// # Safety
///
/// The port is valid and stopped, and none of its queues is in use.
unsafe fn close_and_unplug(port: u16, in_use: impl Fn(u16) -> bool) -> bool {
    let device = device_of(port);
    let shared = siblings(port).into_iter().any(in_use);
    // SAFETY: the caller guarantees the port's state. The device of the port outlives the closing of the port.
    unsafe {
        sys::rte_eth_dev_close(port);
        shared || device.is_some_and(|device| sys::rte_dev_remove(device.as_ptr()) >= 0)
    }
}

fn device_of(port: u16) -> Option<NonNull<sys::rte_device>> {
    raw_info::raw(port).ok().and_then(|raw| NonNull::new(raw.device))
}

/// All ports of the device that `port` belongs to, including `port`.
fn siblings(port: u16) -> Vec<u16> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < NO_PORT {
        // SAFETY: the function only reads DPDK's table of ports.
        at = unsafe { sys::rte_eth_find_next_sibling(at, port) };
        if at < NO_PORT {
            found.push(at);
            at += 1;
        }
    }
    found
}

fn is_valid(port: u16) -> bool {
    // SAFETY: the function only reads DPDK's table of ports.
    port < NO_PORT && unsafe { sys::rte_eth_dev_is_valid_port(port) } != 0
}

/// The number of the existing port with these device arguments.
pub(super) fn find(devargs: &CString) -> Option<u16> {
    // SAFETY: all zeros are valid for the iterator; `rte_eth_iterator_init` initialises it. It is cleaned up explicitly, because the
    // iteration ends after the first port.
    unsafe {
        let mut iterator: sys::rte_dev_iterator = std::mem::zeroed();
        if sys::rte_eth_iterator_init(&raw mut iterator, devargs.as_ptr()) != 0 {
            return None;
        }
        let port = sys::rte_eth_iterator_next(&raw mut iterator);
        if port < NO_PORT {
            sys::rte_eth_iterator_cleanup(&raw mut iterator);
        }
        Some(port).filter(|port| is_valid(*port))
    }
}

/// The number of the port with this MAC address.
pub(super) fn find_by_mac(text: &str) -> Option<u16> {
    let wanted = parse_mac(text)?;
    (0..NO_PORT).filter(|port| is_valid(*port)).find(|port| raw_info::mac(*port) == wanted)
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|p| p.len() <= 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Unplugs the device with these arguments (`netdev-dpdk/detach`). The error is a message for the user.
pub fn detach(devargs: &str) -> Result<(), String> {
    let not_found = || format!("Device '{devargs}' not found in DPDK");
    let words = CString::new(devargs).map_err(|_| not_found())?;
    let claims = claims();
    let port = eal::initialized().then(|| find(&words)).flatten().ok_or_else(not_found)?;
    let family = siblings(port);
    let users = claims.iter().filter(|(port, _)| family.contains(port)).map(|(_, user)| format!(" {user}"));
    let users: String = users.collect();
    if !users.is_empty() {
        return Err(format!(
            "Device '{devargs}' is being used by the following interfaces:{users}. Remove them before detaching."
        ));
    }
    // SAFETY: the port is valid and not claimed. So it either was never started, or was stopped before its last claim was dropped. None of
    // its queues exists any more.
    match unsafe { close_and_unplug(port, |_| false) } {
        true => Ok(()),
        false => Err(format!("Device '{devargs}' can not be detached")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(parse_mac("00:1b:21:a0:B:ff"), Some([0, 0x1b, 0x21, 0xa0, 0xb, 0xff]));
        for bad in ["", "00:11:22:33:44", "00:11:22:33:44:55:66", "00:11:22:33:44:+5", "001:1:2:3:4:5"] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }
}
