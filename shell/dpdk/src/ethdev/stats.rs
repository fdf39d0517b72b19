//! Counters of a device: those of the driver, and of packets that were lost outside the driver.

use super::device::Ethdev;
use super::error::{DeviceError, check};
use dpdk_sys as sys;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Limit of the number of extended counters, higher than that of any driver, so that memory is bounded.
const XSTATS_MAX: usize = 16_384;

/// The counters of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Counters {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Dropped by the device because the receive queue was full.
    pub rx_missed: u64,
    /// Dropped by the device because no buffer was free.
    pub rx_no_buffer: u64,
    /// Packets that were received but could not be converted to a frame.
    pub rx_lost: u64,
    /// Packets that the device did not accept.
    pub tx_failed: u64,
    /// Packets that were longer than the MTU allows.
    pub tx_too_long: u64,
    /// The driver's extended counters, by the driver's names.
    pub extended: Vec<(String, u64)>,
}

impl Ethdev {
    /// Reads all counters.
    pub fn counters(&self) -> Result<Counters, DeviceError> {
        // SAFETY: all zeros are valid for this structure of numbers, which the call fills; `self` has claimed the port.
        let raw = unsafe {
            let mut raw: sys::rte_eth_stats = std::mem::zeroed();
            check("Can't get ETH statistics", sys::rte_eth_stats_get(self.port(), &raw mut raw))?;
            raw
        };
        let own = &self.claim.counters;
        Ok(Counters {
            rx_packets: raw.ipackets,
            tx_packets: raw.opackets,
            rx_bytes: raw.ibytes,
            tx_bytes: raw.obytes,
            rx_errors: raw.ierrors,
            tx_errors: raw.oerrors,
            rx_missed: raw.imissed,
            rx_no_buffer: raw.rx_nombuf,
            rx_lost: own.rx_lost.load(Ordering::Relaxed),
            tx_failed: own.tx_failed.load(Ordering::Relaxed),
            tx_too_long: own.tx_too_long.load(Ordering::Relaxed),
            extended: self.extended(),
        })
    }

    /// The driver's extended counters; empty if the driver does not report their names.
    fn extended(&self) -> Vec<(String, u64)> {
        let port = self.port();
        // SAFETY: without space for names, the call only returns their number.
        let n = unsafe { sys::rte_eth_xstats_get_names(port, std::ptr::null_mut(), 0) };
        let n = usize::try_from(n).unwrap_or(0).min(XSTATS_MAX);
        let mut names = vec![sys::rte_eth_xstat_name { name: [0; 64] }; n];
        let mut values = vec![sys::rte_eth_xstat { id: 0, value: 0 }; n];
        // SAFETY: each call writes at most `n` entries, for which the vector has space.
        let (named, counted) = unsafe {
            let named = sys::rte_eth_xstats_get_names(port, names.as_mut_ptr(), n as u32);
            (named, sys::rte_eth_xstats_get(port, values.as_mut_ptr(), n as u32))
        };
        if [named, counted] != [n as i32; 2] {
            return Vec::new();
        }
        let name = |id: u64| {
            let name = names.get(usize::try_from(id).ok()?)?;
            let bytes = name.name.map(|c| c as u8);
            Some(CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy().into_owned())
        };
        values.iter().filter_map(|v| Some((name(v.id)?, v.value))).collect()
    }
}
