//! What a device is and what state it is in; the settings that need no restart.

use super::{DeviceError, Ethdev, TxWork, check};
use dpdk_sys as sys;
use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

/// Bounds of a queue's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// At most.
    pub max: u16,
    /// At least.
    pub min: u16,
    /// A multiple of it.
    pub align: u16,
}

/// What a device can.
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
    /// It tells of its link by itself.
    pub has_link_interrupt: bool,
    /// It checks the checksums of received packets.
    pub has_rx_checksum: bool,
    /// What it does on packets that it sends; while it does not run, what it can.
    pub tx_work: TxWork,
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// It is up.
    pub up: bool,
    /// Megabits per second; `None` where it is not known.
    pub speed_mbps: Option<u32>,
    /// Full, not half.
    pub full_duplex: bool,
    /// Both ends agreed on it.
    pub autoneg: bool,
}

/// Which pause frames are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowControl {
    /// Those that we send when our queue is full.
    pub rx: bool,
    /// Those that we obey.
    pub tx: bool,
    /// Negotiated.
    pub autoneg: bool,
}

/// `UINT32_MAX`: DPDK does not know the speed.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// A string that lives in DPDK.
///
/// # Safety
///
/// `text` is null or a string that lives during the call.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// DPDK's own description.
pub(super) fn raw(port: u16) -> Result<sys::rte_eth_dev_info, DeviceError> {
    // SAFETY: plain data, filled by the call; an invalid port is refused by it.
    unsafe {
        let mut raw: sys::rte_eth_dev_info = std::mem::zeroed();
        check("Failed to get device info", sys::rte_eth_dev_info_get(port, &raw mut raw))?;
        Ok(raw)
    }
}

/// Drivers that say they cut TCP and do not cut what comes of an MTU: this one counts its Ethernet header, too.
const CANNOT_SEGMENT: [&str; 1] = ["net_tap"];

/// What it can do on packets that it sends.
pub(super) fn tx_work(raw: &sys::rte_eth_dev_info) -> TxWork {
    let mut work = TxWork::of(raw.tx_offload_capa);
    // SAFETY: the driver's name lives as long as the driver.
    let driver = unsafe { text(raw.driver_name) };
    work.segmentation &= !driver.is_some_and(|name| CANNOT_SEGMENT.contains(&name.as_str()));
    work
}

/// The port's address; zeros where the driver tells none.
pub(super) fn mac(port: u16) -> [u8; 6] {
    let mut mac = sys::rte_ether_addr { addr_bytes: [0; 6] };
    // SAFETY: filled by the call; an invalid port is refused by it.
    unsafe { sys::rte_eth_macaddr_get(port, &raw mut mac) };
    mac.addr_bytes
}

fn limits(raw: &sys::rte_eth_desc_lim) -> Limits {
    Limits { max: raw.nb_max, min: raw.nb_min, align: raw.nb_align }
}

impl Ethdev {
    /// What it can.
    pub fn info(&self) -> Result<Info, DeviceError> {
        let raw = raw(self.port())?;
        // SAFETY: the strings and the device live as long as the port, which is ours.
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
            tx_work: self.running.as_ref().map_or_else(|| tx_work(&raw), |r| r.work),
        })
    }

    /// Its address.
    pub fn mac(&self) -> [u8; 6] {
        mac(self.port())
    }

    /// Changes its address.
    pub fn set_mac(&self, mac: [u8; 6]) -> Result<(), DeviceError> {
        let mut raw = sys::rte_ether_addr { addr_bytes: mac };
        // SAFETY: the port is ours.
        let code = unsafe { sys::rte_eth_dev_default_mac_addr_set(self.port(), &raw mut raw) };
        check("Failed to set requested mac", code).map(|_| ())
    }

    /// Its MTU as the driver has it.
    pub fn mtu(&self) -> Option<u16> {
        let mut mtu = 0;
        // SAFETY: the port is ours.
        (unsafe { sys::rte_eth_dev_get_mtu(self.port(), &raw mut mtu) } == 0).then_some(mtu)
    }

    /// State of its link; down where the driver cannot tell.
    pub fn link(&self) -> Link {
        let mut raw =
            sys::sluice_link { speed: SPEED_UNKNOWN, up: false, full_duplex: false, autoneg: false };
        // SAFETY: the structure is filled by the call; the port is ours.
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

    /// Takes the link up or down. `Ok(false)`: the driver cannot. A device that is down brings and sends nothing, whatever
    /// its driver does.
    pub fn set_link(&self, up: bool) -> Result<bool, DeviceError> {
        // SAFETY: the port is ours.
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
        self.plug.up.store(up, Ordering::Relaxed);
        Ok(can)
    }

    /// Its pause frames; `None`: the driver knows of none.
    pub fn flow_control(&self) -> Result<Option<FlowControl>, DeviceError> {
        let Some(raw) = self.raw_flow_control()? else { return Ok(None) };
        let both = raw.mode == sys::RTE_ETH_FC_FULL;
        Ok(Some(FlowControl {
            rx: both || raw.mode == sys::RTE_ETH_FC_TX_PAUSE,
            tx: both || raw.mode == sys::RTE_ETH_FC_RX_PAUSE,
            autoneg: raw.autoneg != 0,
        }))
    }

    /// Changes which pause frames are used.
    pub fn set_flow_control(&self, wish: FlowControl) -> Result<(), DeviceError> {
        let Some(mut raw) = self.raw_flow_control()? else { return Ok(()) };
        raw.mode = match (wish.rx, wish.tx) {
            (false, false) => sys::RTE_ETH_FC_NONE,
            (true, false) => sys::RTE_ETH_FC_TX_PAUSE,
            (false, true) => sys::RTE_ETH_FC_RX_PAUSE,
            (true, true) => sys::RTE_ETH_FC_FULL,
        };
        raw.autoneg = u8::from(wish.autoneg);
        // SAFETY: the port is ours.
        let code = unsafe { sys::rte_eth_dev_flow_ctrl_set(self.port(), &raw mut raw) };
        check("Failed to enable flow control", code).map(|_| ())
    }

    fn raw_flow_control(&self) -> Result<Option<sys::rte_eth_fc_conf>, DeviceError> {
        // SAFETY: plain data, filled by the call; the port is ours.
        unsafe {
            let mut raw: sys::rte_eth_fc_conf = std::mem::zeroed();
            match sys::rte_eth_dev_flow_ctrl_get(self.port(), &raw mut raw) {
                code if code == -libc::ENOTSUP => Ok(None),
                code => check("Cannot get flow control parameters", code).map(|_| Some(raw)),
            }
        }
    }
}
