//! An AF_XDP port as a `Netdev`.

use super::options::{Options, XdpMode};
use super::pooled_rx::QueueMonitor;
use super::pools;
use super::queue::{HEADER_BYTES, PortShared};
use super::running::Running;
use crate::device::{Facts, Netdev, QosPlace, RxHandle, TxOffloads};
use crate::error::{NetdevError, errno_of};
use crate::kernel::KernelDevice;
use crate::linux::packet_socket;
use crate::linux::xsk::{CHUNK, KERNEL_HEADROOM};
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use crate::stats::Stats;
use packet::frame::HEADROOM;
use rustix::net::sockopt;
use rxpool::Mode;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use units::NumaId;

/// The largest MTU whose packets fit into a chunk, regardless of the driver.
const MTU_MAX: usize = CHUNK - HEADROOM - KERNEL_HEADROOM - HEADER_BYTES;

/// A port on a kernel device through AF_XDP.
pub struct Afxdp {
    device: KernelDevice,
    kind: String,
    /// The options as configured; [`Running`] has those in use.
    wanted: Options,
    /// The settings of receive buffers as configured.
    buffers: RxPoolSettings,
    running: Running,
    numa: NumaId,
    /// A socket that keeps the device promiscuous while it is open.
    _promiscuous: OwnedFd,
}

impl Afxdp {
    /// Opens the device `name` with these options. If the mode of receive buffers is refused, the port uses mode `none`.
    pub fn open(
        name: &str,
        kind: &str,
        options: &BTreeMap<String, String>,
        buffers_wanted: &RxPoolSettings,
    ) -> Result<Afxdp, NetdevError> {
        let error = |e: std::io::Error| NetdevError::open(name, errno_of(&e));
        let device = KernelDevice::find(name).map_err(error)?;
        device.refuse_loopback()?;
        let wanted = parse(name, options)?;
        // Without the permission to raise the limit on locked memory, the limit applies.
        let none = rustix::process::Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Memlock, none);
        let promiscuous = packet_socket::open_promiscuous(device.ifindex()).map_err(error)?;
        let numa = numa_of(name);
        let running = Running::stopped(wanted, RxPoolSettings::default());
        let (kind, buffers) = (kind.to_owned(), RxPoolSettings::default());
        let mut port = Afxdp { device, kind, wanted, buffers, running, numa, _promiscuous: promiscuous };
        let _ = port.set_rx_buffers(buffers_wanted);
        port.start()?;
        Ok(port)
    }

    fn start(&mut self) -> Result<(), NetdevError> {
        self.running = Running::start(&self.device, self.wanted, self.buffers, self.numa)
            .map_err(|e| not_started(self.device.name(), &e))?;
        Ok(())
    }
}

fn parse(name: &str, options: &BTreeMap<String, String>) -> Result<Options, NetdevError> {
    Options::parse(options).map_err(|why| NetdevError::configuration(name, &why))
}

fn not_started(name: &str, error: &std::io::Error) -> NetdevError {
    NetdevError::other(&format!("{name}: AF_XDP sockets could not be opened"), errno_of(error))
}

/// NUMA node of the device; 0 for a virtual device.
fn numa_of(name: &str) -> NumaId {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).unwrap_or_default();
    NumaId(text.trim().parse().unwrap_or(0))
}

/// Waits up to 1 s until workers have dropped the queues. Returns false if a worker still holds one.
fn wait_for_queue_release(port: &Arc<PortShared>) -> bool {
    const LONGEST: Duration = Duration::from_secs(1);
    const STEP: Duration = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    while Arc::strong_count(port) > 1 && waited < LONGEST {
        std::thread::sleep(STEP);
        waited += STEP;
    }
    Arc::strong_count(port) == 1
}

impl Drop for Afxdp {
    fn drop(&mut self) {
        self.running.stop();
    }
}

impl Netdev for Afxdp {
    fn name(&self) -> &str {
        self.device.name()
    }
    fn kind(&self) -> &str {
        &self.kind
    }
    fn is_pmd(&self) -> bool {
        self.kind == "afxdp"
    }
    fn n_rxq(&self) -> usize {
        self.running.fds.len()
    }
    fn n_txq(&self) -> usize {
        self.running.fds.len()
    }
    fn numa_id(&self) -> NumaId {
        self.numa
    }
    fn needs_periodic_check(&self) -> bool {
        true
    }
    fn needs_restart(&self) -> bool {
        self.wanted != self.running.options
            || self.buffers != self.running.buffers
            || self.running.fds.is_empty()
            || self.running.has_wrong_chunks()
            || self.running.monitors.iter().any(QueueMonitor::should_release_buffers)
    }
    fn restart(&mut self) -> Result<(), NetdevError> {
        const EBUSY: i32 = 16;
        let old = self.running.stop();
        (self.running.options, self.running.buffers) = (self.wanted, self.buffers);
        if !wait_for_queue_release(&old) {
            return Err(not_started(self.device.name(), &std::io::Error::from_raw_os_error(EBUSY)));
        }
        self.start()
    }
    fn qos_place(&self) -> QosPlace {
        QosPlace::Datapath
    }
    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        let receivers = std::mem::take(&mut self.running.receivers);
        receivers.into_iter().map(|(queue, fd)| RxHandle { queue, poll_fd: Some(fd) }).collect()
    }
    fn tx_queue(&self) -> Box<dyn packet::queue::TxQueue> {
        self.running.tx_queue()
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        let mut facts = self.device.named_facts()?;
        self.running.port.mtu.store(facts.mtu, Ordering::Relaxed);
        let checksum = self.running.checksums;
        facts.tx_offloads = TxOffloads { checksum, ..TxOffloads::default() };
        facts.status.insert("xdp-mode".to_owned(), self.running.mode.to_owned());
        if let Some(queue) = self.running.monitors.first() {
            facts.status.insert("rx-pool".to_owned(), self.running.buffers.mode.name().to_owned());
            facts.status.insert("rx-pool-name".to_owned(), queue.pool.clone());
        }
        Ok(facts)
    }
    fn stats(&mut self) -> Result<Stats, NetdevError> {
        let mut stats = self.device.link()?.stats;
        self.running.port.counters.add_drops(&mut stats);
        for (i, fd) in self.running.fds.iter().enumerate() {
            let Ok(queue) = sockopt::xdp_statistics(fd) else { continue };
            for (name, value) in [
                ("rx_dropped", queue.rx_dropped),
                ("rx_invalid_descs", queue.rx_invalid_descs),
                ("tx_invalid_descs", queue.tx_invalid_descs),
            ] {
                stats.custom.push((format!("xsk_queue_{i}_{name}"), value));
            }
        }
        if !self.running.monitors.is_empty() {
            stats.custom.extend(totals(&self.rx_buffer_usage()));
        }
        Ok(stats)
    }
    fn set_mtu(&mut self, mtu: u32) -> Result<(), NetdevError> {
        if mtu as usize > MTU_MAX {
            let what = format!("{}: setting the MTU failed", self.device.name());
            return Err(NetdevError::other(&what, NetdevError::INVALID));
        }
        self.device.set_mtu(mtu)?;
        self.running.port.mtu.store(mtu, Ordering::Relaxed);
        Ok(())
    }
    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), NetdevError> {
        self.device.set_mac(mac)
    }
    fn set_admin(&mut self, up: bool) -> Result<(), NetdevError> {
        self.device.set_admin(up)
    }
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError> {
        self.wanted = parse(self.device.name(), options)?;
        Ok(false)
    }
    fn options(&self) -> BTreeMap<String, String> {
        self.running.options.shown()
    }
    /// If the mode is refused, the port uses its own rings.
    fn set_rx_buffers(&mut self, wanted: &RxPoolSettings) -> Result<bool, NetdevError> {
        let why = match wanted.mode {
            Mode::None => None,
            Mode::Basic => Some("AF_XDP delivers the packets of a device only to sockets of that device"),
            Mode::Spp if !self.is_pmd() => Some("only ports of type afxdp share a pool"),
            Mode::Spp if self.wanted.mode == XdpMode::NativeZerocopy => {
                Some("with zero copy the kernel does not tell when buffers of a closed socket are free")
            }
            Mode::Spp if pools::reserves(wanted) >= wanted.pool_size => {
                Some("the reserves of a pool exceed its size")
            }
            Mode::Spp => None,
        };
        self.buffers = match wanted.mode {
            Mode::Spp if why.is_none() => *wanted,
            _ => RxPoolSettings::default(),
        };
        why.map_or(Ok(false), |why| Err(NetdevError::rx_pool(self.device.name(), wanted.mode.name(), why)))
    }
    fn rx_buffer_usage(&self) -> Vec<QueueUse> {
        self.running.monitors.iter().map(QueueMonitor::usage).collect()
    }
}

/// Counters of a port's queues in a pool, for column `statistics`.
fn totals(queues: &[QueueUse]) -> impl Iterator<Item = (String, u64)> {
    let sum = |of: fn(&QueueUse) -> u64| queues.iter().map(of).sum();
    [
        ("rx_pool_held", sum(|q| q.held.into())),
        ("rx_pool_posted", sum(|q| q.posted.into())),
        ("rx_pool_sending", sum(|q| q.sending.into())),
        ("rx_pool_became_busy", sum(|q| q.became_busy)),
        ("rx_pool_first_burst_lost", sum(|q| q.first_burst_lost)),
        ("rx_pool_lost", sum(|q| q.lost)),
    ]
    .map(|(name, value): (&str, u64)| (name.to_owned(), value))
    .into_iter()
}
