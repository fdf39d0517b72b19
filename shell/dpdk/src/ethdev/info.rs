//! Capabilities and state of a device, and the settings that need no restart of the device.

use super::device::Ethdev;
use super::error::{DeviceError, check};
use super::raw_info::{mac, raw, text, tx_offloads};
use super::tx_offloads::TxOffloads;
use dpdk_sys as sys;
use std::sync::atomic::Ordering;

/// Limits for the number of descriptors of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The maximum.
    pub max: u16,
    /// The minimum.
    pub min: u16,
    /// The number of descriptors must be a multiple of this.
    pub align: u16,
}

/// Capabilities of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "DPDK's names say it")]
pub struct Info {
    pub driver_name: String,
    pub bus_name: String,
    pub bus_info: Option<String>,
    pub min_rx_bufsize: u32,
    pub max_rx_queues: u16,
    pub max_tx_queues: u16,
    pub max_mac_addrs: u32,
    pub max_hash_mac_addrs: u32,
    pub max_vfs: u16,
    pub max_vmdq_pools: u16,
    pub rx_desc: Limits,
    pub tx_desc: Limits,
    /// Whether the device reports link changes by interrupts.
    pub has_link_interrupt: bool,
    /// Whether the device verifies the checksums of received packets.
    pub has_rx_checksum: bool,
    /// Whether the driver can share rx queues between ports (`RTE_ETH_DEV_CAPA_RXQ_SHARE`).
    pub shares_rx_queues: bool,
    /// Offloads on transmission: while the device runs, those in use; while it is stopped, those that it supports.
    pub tx_offloads: TxOffloads,
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Whether the link is up.
    pub up: bool,
    /// Megabits per second; `None` if unknown.
    pub speed_mbps: Option<u32>,
    /// Whether the link is full-duplex.
    pub full_duplex: bool,
    /// Whether the parameters were autonegotiated.
    pub autoneg: bool,
}

/// Use of Ethernet pause frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowControl {
    /// Whether the device sends pause frames when its receive queue is full.
    pub rx: bool,
    /// Whether the device obeys received pause frames.
    pub tx: bool,
    /// Whether the use of pause frames is autonegotiated.
    pub autoneg: bool,
}

/// `UINT32_MAX`: DPDK's value for an unknown speed.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// `RTE_ETH_DEV_CAPA_RXQ_SHARE`, a macro that the bindings do not contain.
const RXQ_SHARE: u64 = 1 << 2;

fn limits(raw: &sys::rte_eth_desc_lim) -> Limits {
    Limits { max: raw.nb_max, min: raw.nb_min, align: raw.nb_align }
}

impl Ethdev {
    /// Capabilities of the device.
    pub fn info(&self) -> Result<Info, DeviceError> {
        let raw = raw(self.port())?;
        // SAFETY: the strings and the device live as long as the port, which `self` has claimed.
        let (driver, bus, bus_info, flags) = unsafe {
            let bus = sys::rte_dev_bus(raw.device);
            let bus = if bus.is_null() { None } else { text(sys::rte_bus_name(bus)) };
            let flags = raw.dev_flags.as_ref().copied().unwrap_or(0);
            (text(raw.driver_name), bus, text(sys::rte_dev_bus_info(raw.device)), flags)
        };
        Ok(Info {
            driver_name: driver.unwrap_or_default(),
            bus_name: bus.unwrap_or_default(),
            bus_info,
            min_rx_bufsize: raw.min_rx_bufsize,
            max_rx_queues: raw.max_rx_queues,
            max_tx_queues: raw.max_tx_queues,
            max_mac_addrs: raw.max_mac_addrs,
            max_hash_mac_addrs: raw.max_hash_mac_addrs,
            max_vfs: raw.max_vfs,
            max_vmdq_pools: raw.max_vmdq_pools,
            rx_desc: limits(&raw.rx_desc_lim),
            tx_desc: limits(&raw.tx_desc_lim),
            has_link_interrupt: u64::from(flags) & sys::SLUICE_RTE_ETH_DEV_INTR_LSC != 0,
            has_rx_checksum: raw.rx_offload_capa & sys::SLUICE_RTE_ETH_RX_OFFLOAD_CHECKSUM
                == sys::SLUICE_RTE_ETH_RX_OFFLOAD_CHECKSUM,
            shares_rx_queues: raw.dev_capa & RXQ_SHARE != 0,
            tx_offloads: self.running.as_ref().map_or_else(|| tx_offloads(&raw), |r| r.tx_offloads),
        })
    }

    /// The MAC address.
    pub fn mac(&self) -> [u8; 6] {
        mac(self.port())
    }

    /// Changes the MAC address.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), DeviceError> {
        let mut raw = sys::rte_ether_addr { addr_bytes: mac };
        // SAFETY: `self` has claimed the port, so its number is valid.
        let code = unsafe { sys::rte_eth_dev_default_mac_addr_set(self.port(), &raw mut raw) };
        check("Failed to set requested mac", code).map(|_| ())
    }

    /// The driver's MTU in bytes; `None` if the driver does not report it.
    pub fn mtu(&self) -> Option<u16> {
        let mut mtu = 0;
        // SAFETY: `self` has claimed the port, so its number is valid.
        (unsafe { sys::rte_eth_dev_get_mtu(self.port(), &raw mut mtu) } == 0).then_some(mtu)
    }

    /// The state of the link; down if the driver does not report it.
    pub fn link(&self) -> Link {
        let mut raw =
            sys::sluice_link { speed: SPEED_UNKNOWN, up: false, full_duplex: false, autoneg: false };
        // SAFETY: the call fills `raw`; `self` has claimed the port, so its number is valid.
        if unsafe { sys::sluice_link(self.port(), &raw mut raw) } < 0 {
            return Link::default();
        }
        Link {
            up: raw.up,
            speed_mbps: Some(raw.speed).filter(|speed| *speed != SPEED_UNKNOWN),
            full_duplex: raw.full_duplex,
            autoneg: raw.autoneg,
        }
    }

    /// Brings the link up or down. Returns `Ok(false)` if the driver does not support that. A port that is down neither receives nor
    /// sends, regardless of its driver.
    pub fn set_link(&self, up: bool) -> Result<bool, DeviceError> {
        // SAFETY: `self` has claimed the port, so its number is valid.
        let code = unsafe {
            match up {
                true => sys::rte_eth_dev_set_link_up(self.port()),
                false => sys::rte_eth_dev_set_link_down(self.port()),
            }
        };
        let can = code != -libc::ENOTSUP;
        if can {
            check("link change error", code)?;
        }
        self.claim.up.store(up, Ordering::Relaxed);
        Ok(can)
    }

    /// The use of pause frames; `None` if the driver does not support them.
    pub fn flow_control(&self) -> Result<Option<FlowControl>, DeviceError> {
        let Some(raw) = self.raw_flow_control()? else { return Ok(None) };
        let both = raw.mode == sys::RTE_ETH_FC_FULL;
        Ok(Some(FlowControl {
            rx: both || raw.mode == sys::RTE_ETH_FC_TX_PAUSE,
            tx: both || raw.mode == sys::RTE_ETH_FC_RX_PAUSE,
            autoneg: raw.autoneg != 0,
        }))
    }

    /// Changes the use of pause frames. Does nothing if the driver does not support them.
    pub fn set_flow_control(&self, wanted: FlowControl) -> Result<(), DeviceError> {
        let Some(mut raw) = self.raw_flow_control()? else { return Ok(()) };
        raw.mode = match (wanted.rx, wanted.tx) {
            (false, false) => sys::RTE_ETH_FC_NONE,
            (true, false) => sys::RTE_ETH_FC_TX_PAUSE,
            (false, true) => sys::RTE_ETH_FC_RX_PAUSE,
            (true, true) => sys::RTE_ETH_FC_FULL,
        };
        raw.autoneg = u8::from(wanted.autoneg);
        // SAFETY: `self` has claimed the port, so its number is valid.
        let code = unsafe { sys::rte_eth_dev_flow_ctrl_set(self.port(), &raw mut raw) };
        check("Failed to enable flow control", code).map(|_| ())
    }

    fn raw_flow_control(&self) -> Result<Option<sys::rte_eth_fc_conf>, DeviceError> {
        // SAFETY: all zeros are valid for this structure of numbers, which the call fills; `self` has claimed the port.
        unsafe {
            let mut raw: sys::rte_eth_fc_conf = std::mem::zeroed();
            match sys::rte_eth_dev_flow_ctrl_get(self.port(), &raw mut raw) {
                code if code == -libc::ENOTSUP => Ok(None),
                code => check("Cannot get flow control parameters", code).map(|_| Some(raw)),
            }
        }
    }
}
