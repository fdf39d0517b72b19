//! The running state of an AF_XDP port: everything that its start creates and a restart replaces.

use super::options::{Options, XdpMode};
use super::pooled_rx::{PooledRx, QueueMonitor};
use super::pooled_tx::{PooledSender, PooledTx};
use super::pools;
use super::queue::{AfxdpRx, AfxdpTx, HEADER_BYTES, PortShared, Sender};
use super::sockets::{self, Sockets};
use crate::kernel::KernelDevice;
use crate::linux::bpf::Redirect;
use crate::linux::umem::Umem;
use crate::linux::umem_socket::{self, UmemSocket};
use crate::linux::xsk::{self, TX_METADATA, Xsk};
use crate::rx_buffers::RxPoolSettings;
use packet::queue::{RxQueue, TxQueue};
use rxpool::Mode;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use units::NumaId;

/// Drivers of virtual devices, which may receive packets from a network stack that left the checksum to the device.
const VIRTUAL: [&str; 3] = ["veth", "tun", "virtio_net"];

/// Sizes of buffers in pools, in bytes. The first is large enough for an MTU of up to 1774 bytes.
const CHUNKS: [u32; 2] = [2048, 4096];

/// The sending halves of the sockets.
enum Senders {
    Own(Vec<Arc<Mutex<Sender>>>),
    Pooled(Vec<Arc<Mutex<PooledSender>>>),
}

/// The program, the sockets and their queues; empty if the start failed.
pub struct Running {
    /// The options with which the port was started.
    pub options: Options,
    /// The settings of receive buffers with which the port was started.
    pub buffers: RxPoolSettings,
    /// The XDP mode in use.
    pub mode: &'static str,
    /// State shared with the queues.
    pub port: Arc<PortShared>,
    /// The sockets.
    pub fds: Vec<Arc<OwnedFd>>,
    /// The receive queues, until the datapath takes them.
    pub receivers: Vec<(Box<dyn RxQueue>, Arc<OwnedFd>)>,
    /// Whether the kernel completes checksums of sent packets.
    pub checksums: bool,
    /// The queues that use a pool.
    pub monitors: Vec<QueueMonitor>,
    senders: Senders,
    program: Option<Redirect>,
    /// Bytes of a pool buffer; `None`: the queues have their own rings.
    chunk: Option<u32>,
    /// Index of the sender for the next caller of `tx_queue`.
    next_sender: AtomicUsize,
}

/// The size of pool buffers that packets of this MTU need.
fn chunk_for(mtu: u32) -> u32 {
    let fits = |chunk: &u32| mtu as usize + HEADER_BYTES <= Umem::receive_capacity(*chunk);
    CHUNKS.into_iter().find(fits).unwrap_or(CHUNKS[1])
}

impl Running {
    /// The state of a port that is not running.
    pub fn stopped(options: Options, buffers: RxPoolSettings) -> Running {
        Running {
            options,
            buffers,
            mode: "unspecified",
            port: Arc::default(),
            fds: Vec::new(),
            receivers: Vec::new(),
            checksums: false,
            monitors: Vec::new(),
            senders: Senders::Own(Vec::new()),
            program: None,
            chunk: None,
            next_sender: AtomicUsize::new(0),
        }
    }

    /// Attaches the program and opens the sockets.
    pub fn start(
        device: &KernelDevice,
        options: Options,
        buffers: RxPoolSettings,
        numa: NumaId,
    ) -> io::Result<Running> {
        let facts = device.facts().ok();
        let driver = facts.as_ref().and_then(|f| f.status.get("driver_name").cloned()).unwrap_or_default();
        let partial_checksums = VIRTUAL.contains(&driver.as_str());
        let mut running = Running::stopped(options, buffers);
        let mtu = facts.map_or(0, |f| f.mtu);
        running.port.mtu.store(mtu, Ordering::Relaxed);
        let (ifindex, n) = (device.ifindex(), options.n_rxq);
        if buffers.mode != Mode::Spp {
            let each = |queue, transfer| xsk::open(ifindex, queue, transfer, options.depth);
            running.use_own_sockets(
                sockets::open(ifindex, n, options.mode.candidates(), each)?,
                partial_checksums,
            );
            return Ok(running);
        }
        let chunk = chunk_for(mtu);
        running.chunk = Some(chunk);
        // With zero copy, the switch cannot know when the kernel has released the buffers of a closed socket.
        let modes: Vec<XdpMode> =
            options.mode.candidates().iter().copied().filter(|m| *m != XdpMode::NativeZerocopy).collect();
        let each = |queue, _| {
            let slots = pools::open(numa, chunk, &buffers)?;
            let socket = umem_socket::open(slots.umem, slots.slots, ifindex, queue)?;
            Ok(PooledSocket { name: slots.name, socket })
        };
        running.use_pooled_sockets(sockets::open(ifindex, n, &modes, each)?, partial_checksums);
        Ok(running)
    }

    /// Uses sockets with their own memory.
    fn use_own_sockets(&mut self, opened: Sockets<Xsk>, partial_checksums: bool) {
        (self.program, self.mode) = (Some(opened.program), opened.mode.name());
        let mut senders = Vec::new();
        for socket in opened.sockets {
            self.checksums = socket.tx.checksums;
            self.fds.push(Arc::clone(&socket.fd));
            senders.push(Arc::new(Mutex::new(Sender::new(Arc::clone(&socket.fd), socket.tx))));
            let (port, fd) = (Arc::clone(&self.port), Arc::clone(&socket.fd));
            let rx = AfxdpRx { port, fd, half: socket.rx, partial_checksums };
            self.receivers.push((Box::new(rx), socket.fd));
        }
        self.senders = Senders::Own(senders);
    }

    /// Uses sockets that share a pool.
    fn use_pooled_sockets(&mut self, opened: Sockets<PooledSocket>, partial_checksums: bool) {
        (self.program, self.mode) = (Some(opened.program), opened.mode.name());
        let mut senders = Vec::new();
        for PooledSocket { name, socket } in opened.sockets {
            let UmemSocket { socket_use, fill, rx, tx, completion } = socket;
            self.checksums = socket_use.umem.checksums.get().copied().unwrap_or(false);
            self.fds.push(Arc::clone(&socket_use.fd));
            let (wanted, high) = (self.buffers, self.options.depth);
            let sender = PooledSender::new(Arc::clone(&socket_use), tx, completion, wanted.alpha);
            senders.push(Arc::new(Mutex::new(sender)));
            let fd = Arc::clone(&socket_use.fd);
            let monitor = QueueMonitor::new(name, socket_use, wanted, high);
            let rx = PooledRx::new(Arc::clone(&self.port), (fill, rx), &monitor, partial_checksums);
            self.receivers.push((Box::new(rx), fd));
            self.monitors.push(monitor);
        }
        self.senders = Senders::Pooled(senders);
    }

    /// Creates a tx queue for the next caller.
    pub fn tx_queue(&self) -> Box<dyn TxQueue> {
        let next = self.next_sender.fetch_add(1, Ordering::Relaxed) % self.fds.len().max(1);
        let port = Arc::clone(&self.port);
        match &self.senders {
            Senders::Own(senders) => Box::new(AfxdpTx { port, sender: senders.get(next).cloned() }),
            Senders::Pooled(senders) => {
                let Some(sender) = senders.get(next).cloned() else {
                    return Box::new(AfxdpTx { port, sender: None });
                };
                let capacity = self.chunk.unwrap_or(CHUNKS[0]) as usize - TX_METADATA;
                Box::new(PooledTx { port, sender, capacity })
            }
        }
    }

    /// Whether the current MTU needs pool buffers of another size.
    pub fn has_wrong_chunks(&self) -> bool {
        self.chunk.is_some_and(|chunk| chunk != chunk_for(self.port.mtu.load(Ordering::Relaxed)))
    }

    /// Detaches the program and closes the sockets, except those whose queues a worker still holds.
    pub fn stop(&mut self) -> Arc<PortShared> {
        let port = Arc::clone(&self.port);
        port.counters.end();
        *self = Running::stopped(self.options, self.buffers);
        port
    }
}

/// A socket and the name of its pool.
struct PooledSocket {
    name: String,
    socket: UmemSocket,
}

impl sockets::Socket for PooledSocket {
    fn fd(&self) -> &OwnedFd {
        self.socket.fd()
    }
}
