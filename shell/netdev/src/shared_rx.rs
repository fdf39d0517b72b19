//! `rx-pool=basic`: a few packet sockets receive for all kernel devices that use this mode, the *members*. The metadata of a packet contains its
//! device.
//!
//! [`SharedRx`] is the set of a datapath's sockets, owned by the main thread. The sockets are not bound to a device, and a
//! filter accepts only packets of the members. If there are several sockets, the kernel distributes the packets over them, by flow or
//! by device. Each socket is one rx queue ([`SharedQueue`]), however many members there are, so 1,000 ports need no more polls than
//! one. All members send by one socket.
//!
//! Members are not isolated from each other: a flood to one member fills the socket, and packets of all ports that are distributed to
//! this socket are lost. Mode `spp` avoids that (ADR 35).

use crate::device::RxHandle;
use crate::linux::mmsg::{BATCH, Mmsg};
use crate::linux::{packet_socket, shared_filter};
use crate::posted::Posted;
use crate::received::frame_with_metadata;
use crate::shared_member::Member;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult};
use settings::root::{RX_POOL_BASIC_HASH, RX_POOL_BASIC_PMD, RX_POOL_BASIC_QUEUES};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sync::SnapshotCell;
use units::PortNo;

/// Maximum number of bursts that are read at once. Their packets are sorted by port, so that the datapath gets larger batches of a port.
const BURSTS: usize = 4;

/// The number of shared queues, and how packets are distributed over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRxConfig {
    /// Number of queues.
    pub queues: u16,
    /// Whether the device selects the queue; otherwise the flow does.
    pub by_port: bool,
    /// Whether PMD threads poll the queues; otherwise the worker of kernel ports does.
    pub pmd: bool,
}

impl Default for SharedRxConfig {
    fn default() -> SharedRxConfig {
        SharedRxConfig::read(&BTreeMap::new())
    }
}

impl SharedRxConfig {
    /// Reads `other_config` of `Open_vSwitch`.
    pub fn read(root: &BTreeMap<String, String>) -> SharedRxConfig {
        SharedRxConfig {
            queues: RX_POOL_BASIC_QUEUES.number(root) as u16,
            by_port: RX_POOL_BASIC_HASH.word(root) == "port",
            pmd: RX_POOL_BASIC_PMD.flag_of(root),
        }
    }

    /// The value of `rx-pool-basic-hash`.
    pub fn hash(&self) -> &'static str {
        if self.by_port { "port" } else { "flow" }
    }
}

/// Port numbers by interface index. Published to the queues.
type PortNumbers = BTreeMap<u32, NonZeroU32>;

/// Counters of a queue, for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets that were passed to the worker.
    pub packets: u64,
    /// Packets that the kernel dropped because the socket was full.
    pub lost: u64,
    /// Packets that were read from the socket but not yet passed to the worker.
    pub waiting: u32,
}

#[derive(Default)]
struct Counters {
    packets: AtomicU64,
    lost: AtomicU64,
    waiting: AtomicU32,
}

/// The shared queues of a datapath.
#[derive(Default)]
pub struct SharedRx {
    config: SharedRxConfig,
    members: BTreeMap<PortNo, Arc<Member>>,
    port_numbers: Arc<SnapshotCell<PortNumbers>>,
    /// The sockets, each with the counters of its queue.
    queues: Vec<(Arc<OwnedFd>, Arc<Counters>)>,
    /// Whether members joined or left since the filter was set.
    members_changed: bool,
    /// Whether the configuration changed since the sockets were opened.
    config_changed: bool,
    /// Why the sockets could not be opened.
    fault: Option<String>,
}

impl SharedRx {
    /// Sets the configuration. It takes effect in `apply_changes`.
    pub fn configure(&mut self, config: SharedRxConfig) {
        self.config_changed |= config != self.config;
        self.config = config;
    }

    /// The configuration.
    pub fn config(&self) -> SharedRxConfig {
        self.config
    }

    /// Adds a member port. It receives by the shared queues after the next `apply_changes`.
    pub fn join(&mut self, port: PortNo, member: Arc<Member>) {
        self.members.insert(port, member);
        self.members_changed = true;
    }

    /// Removes a member port.
    pub fn leave(&mut self, port: PortNo) {
        self.members_changed |= self.members.remove(&port).is_some();
    }

    /// Why the sockets could not be opened; `None`: they are open.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The member ports.
    pub fn members(&self) -> impl Iterator<Item = PortNo> {
        self.members.keys().copied()
    }

    /// The counters of each queue.
    pub fn usage(&self) -> Vec<Usage> {
        let of = |(fd, counters): &(Arc<OwnedFd>, Arc<Counters>)| {
            let lost = packet_socket::take_drops(fd).unwrap_or(0);
            Usage {
                packets: counters.packets.load(Ordering::Relaxed),
                lost: counters.lost.fetch_add(lost, Ordering::Relaxed) + lost,
                waiting: counters.waiting.load(Ordering::Relaxed),
            }
        };
        self.queues.iter().map(of).collect()
    }

    /// Applies changes of members and configuration. Returns the new queues if they were replaced: then the caller must drop the earlier ones. If
    /// the sockets cannot be opened, there are no queues, and the error is stored in each member.
    pub fn apply_changes(&mut self) -> Option<Vec<RxHandle>> {
        if !self.members_changed && !self.config_changed {
            return None;
        }
        self.members_changed = false;
        // An interface index identifies one member: the kernel gives a new device an index that is not in use.
        let index =
            |(port, member): (&PortNo, &Arc<Member>)| Some((member.ifindex(), NonZeroU32::new(port.0)?));
        let port_numbers: PortNumbers = self.members.iter().filter_map(index).collect();
        let mut filter = shared_filter::accept(&port_numbers.keys().copied().collect::<Vec<u32>>());
        self.port_numbers.store(Arc::new(port_numbers));
        let wanted = if self.members.is_empty() { 0 } else { usize::from(self.config.queues) };
        let config_changed = std::mem::take(&mut self.config_changed);
        let keep = self.queues.len() == wanted && !config_changed;
        let done = match keep {
            true => self.queues.iter().try_for_each(|(fd, _)| packet_socket::set_filter(fd, &mut filter)),
            false => self.open(wanted, &mut filter),
        };
        let fault = done.err().map(|e| {
            let (n, hash) = (self.config.queues, self.config.hash());
            format!("rx-pool=basic: cannot set up {n} shared queues (packets distributed by {hash}) for {} ports: {e}", self.members.len())
        });
        for member in self.members.values() {
            member.set_fault(fault.as_deref());
        }
        let failed = fault.is_some();
        self.fault = fault;
        if failed {
            // The next change of members or configuration tries to open the sockets again.
            self.queues.clear();
        }
        (failed || !keep).then(|| self.handles())
    }

    /// Opens `n` sockets, as a fanout group if there are several, and sets their filter.
    fn open(&mut self, n: usize, filter: &mut [libc::sock_filter]) -> io::Result<()> {
        self.queues.clear();
        let sockets: Vec<OwnedFd> =
            (0..n).map(|_| packet_socket::open_unbound()).collect::<io::Result<_>>()?;
        for socket in &sockets {
            // A bound socket that is not in the group yet would receive all packets. So its filter rejects all packets first.
            packet_socket::set_filter(socket, &mut shared_filter::accept(&[]))?;
            packet_socket::bind_all(socket)?;
        }
        if n > 1 {
            let mut select = self.config.by_port.then(shared_filter::by_interface);
            packet_socket::join_fanout_group(&sockets, select.as_deref_mut())?;
        }
        sockets.iter().try_for_each(|socket| packet_socket::set_filter(socket, filter))?;
        self.queues = sockets.into_iter().map(|socket| (Arc::new(socket), Arc::default())).collect();
        Ok(())
    }

    /// Creates the queues of the open sockets.
    fn handles(&self) -> Vec<RxHandle> {
        let handle = |(fd, counters): &(Arc<OwnedFd>, Arc<Counters>)| RxHandle {
            queue: Box::new(SharedQueue {
                fd: Arc::clone(fd),
                counters: Arc::clone(counters),
                port_numbers: Arc::clone(&self.port_numbers),
                mmsg: Mmsg::new(),
                posted: Posted::new(BATCH),
                waiting: VecDeque::with_capacity(BURSTS * BATCH),
            }),
            poll_fd: Some(Arc::clone(fd)),
        };
        self.queues.iter().map(handle).collect()
    }
}

/// One shared queue. Each call of `rx` returns packets of one port; those of other ports stay in `waiting` for the next calls. The socket is
/// read again when `waiting` is empty. So a worker that has received no packet may sleep until the socket is readable.
struct SharedQueue {
    fd: Arc<OwnedFd>,
    counters: Arc<Counters>,
    port_numbers: Arc<SnapshotCell<PortNumbers>>,
    mmsg: Box<Mmsg>,
    posted: Posted,
    /// Packets sorted by port; those of one port in the order of arrival.
    waiting: VecDeque<(NonZeroU32, Frame)>,
}

impl SharedQueue {
    /// Reads up to `BURSTS` bursts, until one is not full. Returns how many packets were dropped.
    fn read(&mut self, pool: &mut FramePool) -> u32 {
        let mut dropped = 0;
        let port_numbers = self.port_numbers.load();
        for _ in 0..BURSTS {
            if !self.posted.fill(pool, BATCH) {
                break;
            }
            let (fd, mmsg) = (&self.fd, &mut self.mmsg);
            let receive = |buffers: &mut [[&mut [u8]; 2]]| mmsg.receive(fd, buffers).unwrap_or(0);
            let received = self.posted.with_buffers::<BATCH>(BATCH, receive);
            for i in 0..received {
                let meta = self.mmsg.metadata(i);
                // The socket may still contain packets of a device that is not a member any more.
                let port = port_numbers.get(&self.mmsg.ifindex_of(i)).filter(|_| !meta.outgoing);
                let Some(port) = port.copied() else { continue };
                match self
                    .posted
                    .take_frame(pool, i, meta.len)
                    .and_then(|frame| frame_with_metadata(frame, &meta))
                {
                    Some(frame) => self.waiting.push_back((port, frame)),
                    None => dropped += 1,
                }
            }
            self.posted.end_of_burst(pool);
            if received < BATCH {
                break;
            }
        }
        self.waiting.make_contiguous().sort_by_key(|(port, _)| *port);
        dropped
    }
}

impl RxQueue for SharedQueue {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let dropped = if self.waiting.is_empty() { self.read(pool) } else { 0 };
        let port = self.waiting.front().map(|(port, _)| *port);
        let mut n = 0;
        while n < max
            && let Some((_, frame)) = self.waiting.pop_front_if(|(of, _)| Some(*of) == port)
        {
            out.push(frame);
            n += 1;
        }
        if n > 0 {
            self.counters.packets.fetch_add(n as u64, Ordering::Relaxed);
            self.counters.waiting.store(self.waiting.len() as u32, Ordering::Relaxed);
        }
        RxResult { dropped, more: !self.waiting.is_empty(), port, needs_return: false }
    }
}
