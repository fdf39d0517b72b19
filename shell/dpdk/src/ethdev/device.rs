//! A device that a port has claimed: attaching, starting and stopping it.

use super::claim::{Claim, claims, find, find_by_mac};
use super::error::DeviceError;
use super::own_counters::OwnCounters;
use super::queue::{EthRx, EthTx};
use super::run::{Config, Running};
use crate::log::Level;
use crate::mempool::Mempool;
use crate::{eal, log};
use dpdk_sys as sys;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use units::NumaId;

const BY_MAC: &str = "class=eth,mac=";
/// Time limit of waiting for queues that are still in use.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which the use of queues is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Why a device could not be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// DPDK is not initialized.
    NoDpdk,
    /// No device matches the arguments, and none could be probed.
    NotFound,
    /// The port with this name uses the device.
    InUse(String),
}

/// A device that a port has claimed.
pub struct Ethdev {
    pub(super) claim: Arc<Claim>,
    pub(super) running: Option<Arc<Running>>,
}

impl Ethdev {
    /// Finds or probes the device, and claims it for the port `user`.
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
                // SAFETY: the string lives until the call returns.
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
        // SAFETY: the port number is valid, because the port is claimed.
        let socket = unsafe { sys::rte_eth_dev_socket_id(self.claim.port) };
        NumaId(u32::try_from(socket).unwrap_or(0))
    }

    /// Configures and starts the device, which is stopped first.
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
        if !self.wait_for_dropped_queues() {
            return Err(DeviceError::new("its queues are still in use", libc::EBUSY));
        }
        self.running = None;
        Ok(())
    }

    /// Waits for a limited time until all queues have been dropped. New queues are only created through `self`.
    fn wait_for_dropped_queues(&self) -> bool {
        let Some(running) = &self.running else { return true };
        let checks = STOP_TIMEOUT.as_millis() / CHECK_INTERVAL.as_millis();
        for _ in 0..checks {
            if Arc::strong_count(running) == 1 {
                return true;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        Arc::strong_count(running) == 1
    }

    /// Numbers of receive and transmit queues; zero while the device is stopped.
    pub fn queues(&self) -> (usize, usize) {
        self.running.as_ref().map_or((0, 0), |r| (r.n_rxq(), r.n_txq()))
    }

    /// The memory pool; `None` while the device is stopped.
    pub fn mempool(&self) -> Option<&Mempool> {
        self.running.as_ref().map(|running| &running.mempool)
    }

    /// The receive queues. Each may be polled by one thread only. Returned once after each start.
    pub fn take_rx_queues(&mut self) -> Vec<EthRx> {
        let Some(running) = &self.running else { return Vec::new() };
        match running.take_rx_once() {
            true => (0..running.n_rxq()).map(|q| EthRx::new(Arc::clone(running), q as u16)).collect(),
            false => Vec::new(),
        }
    }

    /// The transmit queue for sender number `nth`. Several senders share a queue only if there are too few queues.
    pub fn tx_queue(&self, nth: usize) -> Option<EthTx> {
        let running = self.running.as_ref()?;
        Some(EthTx::new(Arc::clone(running), (nth % running.n_txq().max(1)) as u16))
    }
}

impl Drop for Ethdev {
    fn drop(&mut self) {
        // Usually the queues are dropped already. Otherwise the drop of the last queue closes the device.
        self.wait_for_dropped_queues();
    }
}

#[cfg(test)]
mod tests {
    use super::super::detach;
    use super::*;

    #[test]
    fn without_dpdk_nothing_is_touched() {
        assert_eq!(Ethdev::attach("net_null0", "p").err(), Some(AttachError::NoDpdk));
        assert_eq!(detach("net_null0").unwrap_err(), "Device 'net_null0' not found in DPDK");
    }
}
