//! DPDK's description of a device.

use super::error::{DeviceError, check};
use super::tx_offloads::TxOffloads;
use dpdk_sys as sys;
use packet::gso::GsoKinds;
use std::ffi::{CStr, c_char};

/// Copies a string that DPDK owns.
///
/// # Safety
///
/// `text` is null or a C string that lives until this function returns.
pub(super) unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller guarantees a C string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Reads DPDK's description of the device.
pub(super) fn raw(port: u16) -> Result<sys::rte_eth_dev_info, DeviceError> {
    // SAFETY: all zeros are valid for this structure, which the call fills. The call returns an error for an invalid port.
    unsafe {
        let mut raw: sys::rte_eth_dev_info = std::mem::zeroed();
        check("Failed to get device info", sys::rte_eth_dev_info_get(port, &raw mut raw))?;
        Ok(raw)
    }
}

/// Drivers that report TCP segmentation but fail for segments with a full MTU: net_tap counts the Ethernet header
/// towards the MTU.
const CANNOT_SEGMENT: [&str; 1] = ["net_tap"];
/// Drivers that cut a UDP packet into datagrams, according to their sources in DPDK 25.11. With other drivers this offload is not used:
/// DPDK's API defines it as IP fragmentation (rte_mbuf_core.h), and net_zxdh implements it in this way; net_txgbe and net_ngbe report it
/// but refuse such packets.
const CUT_DATAGRAMS: [&str; 4] = ["net_bnxt", "net_igc", "net_nfp_pf", "net_nfp_vf"];

/// Offloads on transmission that the device supports.
pub(super) fn tx_offloads(raw: &sys::rte_eth_dev_info) -> TxOffloads {
    let mut offloads = TxOffloads::of(raw.tx_offload_capa);
    // SAFETY: the name is a C string that lives as long as the driver.
    let driver = unsafe { text(raw.driver_name) };
    limit_segmentation(&mut offloads, driver.as_deref().unwrap_or_default());
    offloads
}

/// Removes the kinds of segmentation that cannot be used with this driver.
fn limit_segmentation(offloads: &mut TxOffloads, driver: &str) {
    if CANNOT_SEGMENT.contains(&driver) {
        offloads.segmentation = GsoKinds::default();
    }
    if !CUT_DATAGRAMS.contains(&driver) {
        offloads.segmentation = offloads.segmentation.without(GsoKinds::UDP);
    }
}

/// The port's MAC address; zeros if the driver has none.
pub(super) fn mac(port: u16) -> [u8; 6] {
    let mut mac = sys::rte_ether_addr { addr_bytes: [0; 6] };
    // SAFETY: the call fills `mac`. It returns an error for an invalid port.
    unsafe { sys::rte_eth_macaddr_get(port, &raw mut mac) };
    mac.addr_bytes
}
