//! A `dpdk` port as a `Netdev`.
//!
//! Opening the port claims the device. The device forwards packets after its first `restart`, which is called when the number of
//! senders is known. Settings take effect at the next restart. If a restart fails, the device stays
//! stopped until a setting changes.

use super::facts;
use super::options::{Options, Settings};
use super::rx_modes::refusal;
use super::statistics;
use crate::device::{Facts, Netdev, QosPlace, RxHandle};
use crate::error::NetdevError;
use crate::rx_buffers::RxPoolSettings;
use crate::stats::Stats;
use dpdk::ethdev::{AttachError, Config, Ethdev, Link};
use dpdk::log::{self, Level};
use dpdk::mempool::{Mempool, MempoolRequest};
use packet::frame::FrameBatch;
use packet::queue::{TxQueue, TxResult};
use rxpool::Mode;
use settings::options::DPDK_DEVARGS;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::NumaId;

/// Bytes that are added to the MTU: Ethernet header (14), check sequence (4), and two VLAN tags (8).
const MTU_OVERHEAD: u32 = 26;
/// Maximum length of a packet in bytes.
const PACKET_MAX: u32 = 9728;
const MTU_MIN: u32 = 68;
const MTU: u16 = 1500;

/// A port on a device of DPDK.
pub struct Dpdk {
    name: String,
    kind: String,
    /// `None` after a change to another device failed.
    device: Option<Ethdev>,
    /// The options as configured in the database.
    configured_options: BTreeMap<String, String>,
    /// The settings that the next restart applies.
    wanted: Settings,
    /// The settings of the last restart, whether or not it succeeded.
    last_settings: Option<Settings>,
    admin_up: bool,
    /// The link's state when it was last read.
    link: Link,
    link_resets: u64,
    /// Number of tx queues handed out since the last restart.
    next_txq: AtomicUsize,
    /// See [`Netdev::change_seq`].
    seq: u64,
}

impl Dpdk {
    /// Claims the device that the options name, and reads the options.
    pub fn open(name: &str, kind: &str, options: &BTreeMap<String, String>) -> Result<Dpdk, NetdevError> {
        let devargs = DPDK_DEVARGS.get(options).filter(|text| !text.is_empty());
        let devargs = devargs.ok_or_else(|| missing_devargs(name))?.to_owned();
        let device = attach(name, &devargs)?;
        let wanted = Settings {
            devargs,
            n_rxq: 1,
            n_txq: 1,
            n_rxq_desc: 0,
            n_txq_desc: 0,
            mtu: MTU,
            link_interrupt: false,
        };
        let mut port = Dpdk {
            name: name.to_owned(),
            kind: kind.to_owned(),
            device: Some(device),
            configured_options: options.clone(),
            wanted,
            last_settings: None,
            admin_up: true,
            link: Link::default(),
            link_resets: 0,
            next_txq: AtomicUsize::new(0),
            seq: 1,
        };
        port.apply()?;
        Ok(port)
    }

    /// Reads the options and applies those that need no restart.
    fn apply(&mut self) -> Result<(), NetdevError> {
        let name = self.name.clone();
        let devargs = DPDK_DEVARGS.get(&self.configured_options).filter(|text| !text.is_empty());
        self.wanted.devargs = devargs.ok_or_else(|| missing_devargs(&name))?.to_owned();
        // Without a device, the options are read when a device is attached.
        let Some(device) = &self.device else { return Ok(()) };
        let failed = |e: dpdk::ethdev::DeviceError| NetdevError::plain(&format!("{name}: {e}"));
        let info = device.info().map_err(failed)?;
        let read = Options::read(&name, &self.configured_options, &info);
        read.notes.iter().for_each(|note| log::say(Level::Info, note));
        self.wanted.n_rxq = read.n_rxq;
        self.wanted.n_rxq_desc = read.n_rxq_desc;
        self.wanted.n_txq_desc = read.n_txq_desc;
        if read.link_interrupt == Some(true) && !info.has_link_interrupt {
            return Err(NetdevError::plain(&format!("'{name}': link status interrupt is not supported.")));
        }
        self.wanted.link_interrupt = read.link_interrupt.unwrap_or(true) && info.has_link_interrupt;
        match device.flow_control().map_err(failed)? {
            None if read.flow_control.is_some() => {
                log::say(Level::Warning, &format!("{name}: Flow control is not supported."));
            }
            Some(now) => {
                let wanted = read.flow_control.unwrap_or_default();
                if wanted != now {
                    device.set_flow_control(wanted).map_err(failed)?;
                }
            }
            None => {}
        }
        self.seq += 1;
        Ok(())
    }

    fn device(&self) -> Result<&Ethdev, NetdevError> {
        self.device.as_ref().ok_or_else(|| NetdevError::open(&self.name, NetdevError::NO_DEVICE))
    }

    /// Changes to another device if the options name one. The old device is released first, because both may use the same
    /// hardware.
    fn change_device(&mut self) -> Result<(), NetdevError> {
        let same = self
            .last_settings
            .as_ref()
            .is_none_or(|last_settings| last_settings.devargs == self.wanted.devargs);
        if self.device.is_some() && same {
            return Ok(());
        }
        self.device = None;
        self.device = Some(attach(&self.name, &self.wanted.devargs)?);
        self.apply()
    }

    /// An error of this port.
    fn failed(&self, what: &dyn std::fmt::Display) -> NetdevError {
        NetdevError::plain(&format!("could not set up network device {}: {what}", self.name))
    }
}

fn missing_devargs(name: &str) -> NetdevError {
    NetdevError::plain(&format!(
        "'{name}' is missing 'options:dpdk-devargs'. The old 'dpdk<port_id>' names are not supported"
    ))
}

fn attach(name: &str, devargs: &str) -> Result<Ethdev, NetdevError> {
    Ethdev::attach(devargs, name).map_err(|e| match e {
        AttachError::NoDpdk => NetdevError::open(name, NetdevError::UNKNOWN_TYPE),
        AttachError::NotFound => NetdevError::plain(&format!("Error attaching device '{devargs}' to DPDK")),
        AttachError::InUse(by) => NetdevError::plain(&format!(
            "'{name}' is trying to use device '{devargs}' which is already in use by '{by}'"
        )),
    })
}

impl Netdev for Dpdk {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &str {
        &self.kind
    }
    fn is_pmd(&self) -> bool {
        true
    }
    fn n_rxq(&self) -> usize {
        self.device.as_ref().map_or(0, |d| d.queues().0)
    }
    fn n_txq(&self) -> usize {
        self.device.as_ref().map_or(0, |d| d.queues().1)
    }
    fn numa_id(&self) -> NumaId {
        self.device.as_ref().map_or(NumaId(0), Ethdev::numa_id)
    }
    fn mempool_info(&self) -> Option<String> {
        let mempool = self.device.as_ref().and_then(Ethdev::mempool);
        Some(mempool.map(Mempool::info).unwrap_or_default())
    }
    fn set_senders(&mut self, workers: usize) {
        self.wanted.n_txq = u16::try_from(workers).unwrap_or(u16::MAX).max(1);
    }
    fn needs_periodic_check(&self) -> bool {
        true
    }
    fn needs_restart(&self) -> bool {
        self.last_settings.as_ref() != Some(&self.wanted)
    }
    fn restart(&mut self) -> Result<(), NetdevError> {
        if let Some(device) = &mut self.device {
            // If this fails, nothing has changed, so the restart is tried again.
            let stopped = device.stop();
            stopped.map_err(|e| self.failed(&e))?;
        }
        let changed = self.change_device();
        self.last_settings = Some(self.wanted.clone());
        self.next_txq = AtomicUsize::new(0);
        self.seq += 1;
        changed?;
        let (wanted, numa) = (self.wanted.clone(), self.numa_id());
        let mempool = Mempool::request(&MempoolRequest {
            port: self.name.clone(),
            mtu: u32::from(wanted.mtu),
            numa,
            n_rxq: u32::from(wanted.n_rxq),
            n_rxq_desc: u32::from(wanted.n_rxq_desc),
            n_txq: u32::from(wanted.n_txq),
            n_txq_desc: u32::from(wanted.n_txq_desc),
        });
        let config = Config {
            n_rxq: wanted.n_rxq,
            n_txq: wanted.n_txq,
            n_rxq_desc: wanted.n_rxq_desc,
            n_txq_desc: wanted.n_txq_desc,
            mtu: wanted.mtu,
            link_interrupt: wanted.link_interrupt,
            numa,
            mempool: mempool.map_err(|e| self.failed(&e))?,
            segmentation: !dpdk::settings().segment_in_software,
        };
        let started = self.device.as_mut().map_or(Ok(()), |d| d.start(&config));
        started.map_err(|e| self.failed(&e))?;
        // The start brings the link up. This does not count as a change of the link.
        self.link = self.device.as_ref().map(Ethdev::link).unwrap_or_default();
        Ok(())
    }
    fn qos_place(&self) -> QosPlace {
        QosPlace::Datapath
    }
    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        let queues = self.device.as_mut().map(Ethdev::take_rx_queues).unwrap_or_default();
        queues.into_iter().map(|queue| RxHandle { queue: Box::new(queue), poll_fd: None }).collect()
    }
    fn tx_queue(&self) -> Box<dyn TxQueue> {
        let nth = self.next_txq.fetch_add(1, Ordering::Relaxed);
        match self.device.as_ref().and_then(|d| d.tx_queue(nth)) {
            Some(queue) => Box::new(queue),
            None => Box::new(StoppedTx),
        }
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        let device = self.device()?;
        let link = device.link();
        let info = device.info().map_err(|e| NetdevError::plain(&format!("{}: {e}", self.name)))?;
        let live = self.last_settings.as_ref().unwrap_or(&self.wanted);
        let facts = Facts {
            ifindex: Some(facts::ifindex(&self.name)),
            mac: device.mac(),
            mtu: u32::from(live.mtu),
            admin_up: self.admin_up,
            link_up: link.up,
            link_resets: self.link_resets + u64::from(link.up != self.link.up),
            modes: facts::modes(link),
            tx_offloads: facts::tx_offloads(info.tx_offloads),
            out_of_service_reason: None,
            status: facts::status(device, &info, live, link),
        };
        self.link_resets = facts.link_resets;
        self.link = link;
        Ok(facts)
    }
    fn stats(&mut self) -> Result<Stats, NetdevError> {
        let counters = self.device()?.counters();
        counters.map(statistics::stats).map_err(|e| NetdevError::plain(&format!("{}: {e}", self.name)))
    }
    fn set_mtu(&mut self, mtu: u32) -> Result<(), NetdevError> {
        if !(MTU_MIN..=PACKET_MAX - MTU_OVERHEAD).contains(&mtu) {
            return Err(NetdevError::other(
                &format!("{}: unsupported MTU {mtu}", self.name),
                NetdevError::INVALID,
            ));
        }
        self.wanted.mtu = mtu as u16;
        Ok(())
    }
    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), NetdevError> {
        let device = self.device()?;
        if device.mac() != mac {
            device.set_mac(mac).map_err(|e| NetdevError::plain(&format!("{}: {e}", self.name)))?;
            self.seq += 1;
        }
        Ok(())
    }
    fn set_admin(&mut self, up: bool) -> Result<(), NetdevError> {
        if self.admin_up != up {
            // If the driver cannot bring its link down, the port counts as down nevertheless.
            let set = self.device()?.set_link(up);
            set.map_err(|e| NetdevError::plain(&format!("Interface {} {e}", self.name)))?;
            self.admin_up = up;
            self.seq += 1;
        }
        Ok(())
    }
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError> {
        self.configured_options = options.clone();
        self.apply().map(|()| false)
    }
    fn set_rx_buffers(&mut self, wanted: &RxPoolSettings) -> Result<bool, NetdevError> {
        if wanted.mode == Mode::None {
            return Ok(false);
        }
        let info = self.device()?.info().map_err(|e| self.failed(&e))?;
        match refusal(wanted.mode, &info) {
            Some(why) => Err(NetdevError::rx_pool(self.name(), wanted.mode.name(), &why)),
            None => Ok(false),
        }
    }
    fn options(&self) -> BTreeMap<String, String> {
        let live = self.last_settings.as_ref().unwrap_or(&self.wanted);
        let mut options = BTreeMap::new();
        let mut put = |key: &str, value: String| options.insert(key.to_owned(), value);
        put("dpdk-devargs", live.devargs.clone());
        put("n_rxq", self.wanted.n_rxq.to_string());
        put("n_rxq_desc", live.n_rxq_desc.to_string());
        put("n_txq_desc", live.n_txq_desc.to_string());
        put("dpdk-lsc-interrupt", live.link_interrupt.to_string());
        let pause = self.device.as_ref().and_then(|d| d.flow_control().ok().flatten()).unwrap_or_default();
        let pauses = [("rx-flow-ctrl", pause.rx), ("tx-flow-ctrl", pause.tx)];
        for (key, on) in pauses.into_iter().chain([("flow-ctrl-autoneg", pause.autoneg)]) {
            if on {
                put(key, "true".to_owned());
            }
        }
        options
    }
    fn change_seq(&self) -> u64 {
        self.seq
    }
    fn check_for_change(&mut self) {
        if self.device.as_ref().is_some_and(|d| d.link() != self.link) {
            self.seq += 1;
        }
    }
}

/// The transmit queue of a stopped device: it drops all packets.
struct StoppedTx;

impl TxQueue for StoppedTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        TxResult { dropped: frames.len() as u32, ..TxResult::default() }
    }
}
