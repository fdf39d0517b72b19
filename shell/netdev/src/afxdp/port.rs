//! An AF_XDP port as a `Netdev`.

use super::options::Options;
use super::queue::{AfxdpRx, AfxdpTx, Port, Sender};
use super::sockets::{self, Sockets};
use crate::device::{Facts, Netdev, QosPlace, RxHandle, TxWork};
use crate::error::{NetdevError, errno_of};
use crate::kernel::KernelDevice;
use crate::linux::bpf::Redirect;
use crate::linux::packet_socket;
use crate::linux::xsk::{CHUNK, KERNEL_HEADROOM};
use crate::stats::Stats;
use packet::frame::HEADROOM;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::NumaId;

const ETHERNET_AND_TAG: usize = 18;
/// The largest MTU whose packets fit a chunk, regardless of the driver.
const MTU_MAX: usize = CHUNK - HEADROOM - KERNEL_HEADROOM - ETHERNET_AND_TAG;
/// Drivers whose packets may come from a network stack that left the checksum to them.
const VIRTUAL: [&str; 3] = ["veth", "tun", "virtio_net"];

/// A port on a kernel device through AF_XDP.
pub struct Afxdp {
    device: KernelDevice,
    kind: String,
    wanted: Options,
    running: Running,
    numa: NumaId,
    /// Kept open to make the device promiscuous.
    _promiscuous: OwnedFd,
}

/// State that a start creates and a restart replaces; empty if the start failed.
struct Running {
    options: Options,
    mode: &'static str,
    program: Option<Redirect>,
    port: Arc<Port>,
    fds: Vec<Arc<OwnedFd>>,
    receivers: Vec<AfxdpRx>,
    senders: Vec<Arc<Mutex<Sender>>>,
    /// The kernel completes checksums on transmission.
    checksums: bool,
    /// Index of the sender for the next caller of `tx_queue`.
    next_sender: AtomicUsize,
}

impl Running {
    fn nothing(options: Options) -> Running {
        Running {
            options,
            mode: "unspecified",
            program: None,
            port: Arc::default(),
            fds: Vec::new(),
            receivers: Vec::new(),
            senders: Vec::new(),
            checksums: false,
            next_sender: AtomicUsize::new(0),
        }
    }

    fn start(device: &KernelDevice, options: Options) -> std::io::Result<Running> {
        let facts = device.facts().ok();
        let driver = facts.as_ref().and_then(|f| f.status.get("driver_name").cloned()).unwrap_or_default();
        let partial_checksums = VIRTUAL.contains(&driver.as_str());
        let mut running = Running::nothing(options);
        running.port.mtu.store(facts.map_or(0, |f| f.mtu), Ordering::Relaxed);
        let Sockets { program, mode, sockets } = sockets::open(device.ifindex(), &options)?;
        (running.program, running.mode) = (Some(program), mode.name());
        for socket in sockets {
            running.fds.push(Arc::clone(&socket.fd));
            running.checksums = socket.tx.checksums;
            running.senders.push(Arc::new(Mutex::new(Sender::new(Arc::clone(&socket.fd), socket.tx))));
            let port = Arc::clone(&running.port);
            running.receivers.push(AfxdpRx { port, fd: socket.fd, half: socket.rx, partial_checksums });
        }
        Ok(running)
    }

    /// Detaches the program and closes the sockets, except those that queues still hold.
    fn stop(&mut self) -> Arc<Port> {
        let port = Arc::clone(&self.port);
        port.counters.end();
        *self = Running::nothing(self.options);
        port
    }
}

impl Afxdp {
    /// Opens the device `name` with these options.
    pub fn open(name: &str, kind: &str, options: &BTreeMap<String, String>) -> Result<Afxdp, NetdevError> {
        let error = |e: std::io::Error| NetdevError::open(name, errno_of(&e));
        let device = KernelDevice::find(name).map_err(error)?;
        device.refuse_loopback()?;
        let wanted = parse(name, options)?;
        // Lifts the kernel's limit on locked memory if we have the right to; otherwise the limit applies.
        let none = rustix::process::Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Memlock, none);
        let promiscuous = packet_socket::promiscuous(device.ifindex()).map_err(error)?;
        let running = Running::start(&device, wanted).map_err(|e| not_started(name, &e))?;
        let numa = numa_of(name);
        Ok(Afxdp { device, kind: kind.to_owned(), wanted, running, numa, _promiscuous: promiscuous })
    }
}

fn parse(name: &str, options: &BTreeMap<String, String>) -> Result<Options, NetdevError> {
    Options::parse(options).map_err(|why| NetdevError::configuration(name, &why))
}

fn not_started(name: &str, error: &std::io::Error) -> NetdevError {
    NetdevError::other(&format!("{name}: AF_XDP sockets could not be opened"), errno_of(error))
}

/// NUMA node of the device's memory; 0 for a virtual device.
fn numa_of(name: &str) -> NumaId {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node")).unwrap_or_default();
    NumaId(text.trim().parse().unwrap_or(0))
}

/// Waits up to 1 s until the queues are dropped. Returns false if a worker still holds one.
fn wait_for(port: &Arc<Port>) -> bool {
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
    fn is_watched(&self) -> bool {
        true
    }
    fn needs_restart(&self) -> bool {
        self.wanted != self.running.options || self.running.fds.is_empty()
    }
    fn restart(&mut self) -> Result<(), NetdevError> {
        const EBUSY: i32 = 16;
        let old = self.running.stop();
        self.running.options = self.wanted;
        let name = self.device.name();
        if !wait_for(&old) {
            return Err(not_started(name, &std::io::Error::from_raw_os_error(EBUSY)));
        }
        self.running = Running::start(&self.device, self.wanted).map_err(|e| not_started(name, &e))?;
        Ok(())
    }
    fn qos_place(&self) -> QosPlace {
        QosPlace::Datapath
    }
    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        let receivers = std::mem::take(&mut self.running.receivers);
        receivers
            .into_iter()
            .map(|rx| {
                let poll_fd = Some(Arc::clone(&rx.fd));
                RxHandle { queue: Box::new(rx), poll_fd }
            })
            .collect()
    }
    fn tx_queue(&self) -> Box<dyn packet::queue::TxQueue> {
        let running = &self.running;
        let next = running.next_sender.fetch_add(1, Ordering::Relaxed);
        let sender = running.senders.get(next % running.senders.len().max(1)).cloned();
        Box::new(AfxdpTx { port: Arc::clone(&running.port), sender })
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        let mut facts = self.device.named_facts()?;
        self.running.port.mtu.store(facts.mtu, Ordering::Relaxed);
        let checksum = self.running.checksums;
        facts.tx_work = TxWork { checksum, ..TxWork::default() };
        facts.status.insert("xdp-mode".to_owned(), self.running.mode.to_owned());
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
}
