//! Ethernet devices: found or hot-plugged, each owned by one port.
//!
//! A device that the environment probed at its start is only stopped when its port is removed; one that this module
//! attached is closed and unplugged, once.
//!
//! # Invariants
//!
//! - [`Claim`] is the only claim on a device; the list of claims keeps a second port from using it. It is dropped
//!   last, after all queues: a driver's memory is never freed during a burst.
//! - A device is configured and stopped only while none of its queues is in use ([`Ethdev::stop`] waits for that, and
//!   fails if it takes too long).
//!
//! The main thread, or a helper thread of it, owns the [`Ethdev`]; its queues are moved to workers.

mod info;
mod queue;
mod run;
mod stats;

pub use info::{FlowControl, Info, Limits, Link};
pub use queue::{EthRx, EthTx};
pub use run::{Config, TxWork};
pub use stats::Counters;

use crate::log::Level;
use crate::mempool::Mempool;
use crate::{eal, log};
use dpdk_sys as sys;
use run::Running;
use stats::OwnCounters;
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use units::NumaId;

/// The first invalid port number of DPDK (`RTE_MAX_ETHPORTS`).
const NO_PORT: u16 = 32;
const BY_MAC: &str = "class=eth,mac=";
/// How long to wait for queues that are still in use, and the interval of checks.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Why a device could not be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// DPDK is not initialized.
    NoDpdk,
    /// No device has this name, and none could be probed.
    NotFound,
    /// The port of this name uses the device.
    InUse(String),
}

/// An operation that the driver refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The operation, as the beginning of an error message.
    pub what: String,
    /// The error number (errno), positive.
    pub errno: i32,
}

impl DeviceError {
    pub(crate) fn new(what: impl Into<String>, code: i32) -> DeviceError {
        DeviceError { what: what.into(), errno: code.saturating_abs() }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, log::error_text(self.errno))
    }
}

impl std::error::Error for DeviceError {}

/// Returns an error if a call of DPDK gave a negative number.
pub(crate) fn check(what: &str, code: i32) -> Result<i32, DeviceError> {
    if code < 0 { Err(DeviceError::new(what, code)) } else { Ok(code) }
}

/// Claimed devices: port number of DPDK, and name of the switch's port.
static CLAIMS: Mutex<Vec<(u16, String)>> = Mutex::new(Vec::new());

fn claims() -> MutexGuard<'static, Vec<(u16, String)>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The claim on a device; see the module.
pub(crate) struct Claim {
    pub(crate) port: u16,
    /// The device arguments by which this module attached it; `None` if it was probed at start.
    attached: Option<String>,
    /// Administrative state. Many drivers cannot take their link down, so the queues check this flag.
    up: AtomicBool,
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
            // SAFETY: the port is ours and stopped: `Running` holds the claim.
            match unsafe { remove(self.port, in_use) } {
                true => log::say(Level::Info, &format!("Device '{devargs}' has been removed and detached")),
                false => log::say(Level::Error, &format!("Device '{devargs}' can not be detached")),
            }
        }
        claims.retain(|(port, _)| *port != self.port);
    }
}

/// Closes the port and unplugs its device, unless another port of the device is in use. Returns false if the device
/// could not be unplugged.
///
/// # Safety
///
/// The port is valid and stopped, and none of its queues is in use.
unsafe fn remove(port: u16, in_use: impl Fn(u16) -> bool) -> bool {
    let device = device_of(port);
    let shared = siblings(port).into_iter().any(in_use);
    // SAFETY: the caller's promise; the device belongs to the port and outlives the port's closing.
    unsafe {
        sys::rte_eth_dev_close(port);
        shared || device.is_some_and(|device| sys::rte_dev_remove(device.as_ptr()) >= 0)
    }
}

fn device_of(port: u16) -> Option<NonNull<sys::rte_device>> {
    info::raw(port).ok().and_then(|raw| NonNull::new(raw.device))
}

/// All ports of the device that `port` belongs to, including `port`.
fn siblings(port: u16) -> Vec<u16> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < NO_PORT {
        // SAFETY: only reads DPDK's table of ports.
        at = unsafe { sys::rte_eth_find_next_sibling(at, port) };
        if at < NO_PORT {
            found.push(at);
            at += 1;
        }
    }
    found
}

fn is_valid(port: u16) -> bool {
    // SAFETY: only reads DPDK's table of ports.
    port < NO_PORT && unsafe { sys::rte_eth_dev_is_valid_port(port) } != 0
}

/// The existing port that these device arguments name.
fn find(devargs: &CString) -> Option<u16> {
    // SAFETY: an iterator is plain data; the call initialises it, and it is cleaned up if the loop ends early.
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

/// The port with this MAC address.
fn find_by_mac(text: &str) -> Option<u16> {
    let wanted = parse_mac(text)?;
    (0..NO_PORT).filter(|port| is_valid(*port)).find(|port| info::mac(*port) == wanted)
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

/// Unplugs the device that these arguments name (`netdev-dpdk/detach`). The error is the text for the user.
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
    // SAFETY: the port is valid and not claimed, so it was never started by us, or stopped with its last claim.
    match unsafe { remove(port, |_| false) } {
        true => Ok(()),
        false => Err(format!("Device '{devargs}' can not be detached")),
    }
}

/// A device that is owned by a port.
pub struct Ethdev {
    claim: Arc<Claim>,
    running: Option<Arc<Running>>,
}

impl Ethdev {
    /// Finds the device, or probes it, and claims it for the port `user`.
    pub fn attach(devargs: &str, user: &str) -> Result<Ethdev, AttachError> {
        if !eal::initialized() {
            return Err(AttachError::NoDpdk);
        }
        let words = CString::new(devargs).map_err(|_| AttachError::NotFound)?;
        let mut claims = claims();
        let (port, attached) = match devargs.strip_prefix(BY_MAC) {
            Some(mac) => (find_by_mac(mac), false),
            None => match find(&words) {
                Some(port) => (Some(port), false),
                // SAFETY: the text outlives the call.
                None if unsafe { sys::rte_dev_probe(words.as_ptr()) } == 0 => (find(&words), true),
                None => (None, false),
            },
        };
        let port = port.ok_or(AttachError::NotFound)?;
        if let Some((_, by)) = claims.iter().find(|(claimed, _)| *claimed == port) {
            return Err(AttachError::InUse(by.clone()));
        }
        claims.push((port, user.to_owned()));
        let attached = attached.then(|| devargs.to_owned());
        if attached.is_some() {
            log::say(Level::Info, &format!("Device '{devargs}' attached to DPDK"));
        }
        let claim = Claim { port, attached, up: AtomicBool::new(true), counters: OwnCounters::default() };
        Ok(Ethdev { claim: Arc::new(claim), running: None })
    }

    /// DPDK's port number.
    pub fn port(&self) -> u16 {
        self.claim.port
    }

    /// NUMA node of the device.
    pub fn numa_id(&self) -> NumaId {
        // SAFETY: the port is valid.
        let socket = unsafe { sys::rte_eth_dev_socket_id(self.claim.port) };
        NumaId(u32::try_from(socket).unwrap_or(0))
    }

    /// Configures and starts the device. It must be stopped.
    pub fn start(&mut self, config: &Config) -> Result<(), DeviceError> {
        self.stop()?;
        self.running = Some(Arc::new(Running::start(Arc::clone(&self.claim), config)?));
        Ok(())
    }

    /// Whether the device is started.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Stops the device. Waits up to 2 s until its queues have been dropped.
    pub fn stop(&mut self) -> Result<(), DeviceError> {
        if !self.queues_are_dropped() {
            return Err(DeviceError::new("its queues are still in use", libc::EBUSY));
        }
        self.running = None;
        Ok(())
    }

    /// Waits for a bounded time until no queue is in use. New queues are only created through `self`.
    fn queues_are_dropped(&self) -> bool {
        let Some(running) = &self.running else { return true };
        let looks = STOP_TIMEOUT.as_millis() / CHECK_INTERVAL.as_millis();
        for _ in 0..looks {
            if Arc::strong_count(running) == 1 {
                return true;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Arc::strong_count(running) == 1
    }

    /// Numbers of receive and of transmit queues; zero while the device is stopped.
    pub fn queues(&self) -> (usize, usize) {
        self.running.as_ref().map_or((0, 0), |r| (r.n_rxq(), r.n_txq()))
    }

    /// The memory pool; `None` while the device is stopped.
    pub fn mempool(&self) -> Option<&Mempool> {
        self.running.as_ref().map(|running| &running.mempool)
    }

    /// The receive queues, each to be polled by one thread. To be called once after each start.
    pub fn rx_queues(&mut self) -> Vec<EthRx> {
        let Some(running) = &self.running else { return Vec::new() };
        match running.take_rx_once() {
            true => (0..running.n_rxq()).map(|q| EthRx::new(Arc::clone(running), q as u16)).collect(),
            false => Vec::new(),
        }
    }

    /// The transmit queue of sender number `nth`; not shared if there are enough queues.
    pub fn tx_queue(&self, nth: usize) -> Option<EthTx> {
        let running = self.running.as_ref()?;
        Some(EthTx::new(Arc::clone(running), (nth % running.n_txq().max(1)) as u16))
    }
}

impl Drop for Ethdev {
    fn drop(&mut self) {
        // Usually the queues are dropped already. Otherwise the last of them closes the device.
        self.queues_are_dropped();
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

    #[test]
    fn without_dpdk_nothing_is_touched() {
        assert_eq!(Ethdev::attach("net_null0", "p").err(), Some(AttachError::NoDpdk));
        assert_eq!(detach("net_null0").unwrap_err(), "Device 'net_null0' not found in DPDK");
    }
}
