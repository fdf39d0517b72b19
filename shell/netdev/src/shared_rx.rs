//! Mode `basic` of kernel devices: a few packet sockets receive for all of them; the metadata of a packet tells its device.
//!
//! [`SharedRx`] is the set of a datapath's sockets, owned by the main thread. The sockets are bound to no device, and a
//! filter lets the packets of the members pass. With several sockets the kernel divides the packets among them, by flow or
//! by device. Each socket is one rx queue ([`SharedQueue`]), whoever its members are, so 1,000 ports cost no more polls than
//! one. All members send by one socket.
//!
//! As in the source, nothing isolates members from each other: a flood to one fills its socket, and the packets of all ports
//! that hash to it are lost. That is what mode `spp` is for.

use crate::device::RxHandle;
use crate::linux::mmsg::{BATCH, Mmsg};
use crate::linux::{packet_socket, shared_filter};
use crate::posted::Posted;
use crate::received::finish;
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
use sync::Snapshot;
use units::PortNo;

/// Bursts that are read at once: their packets are sorted by port, so that the path gets batches.
const BURSTS: usize = 4;

/// How many queues there are, and how packets are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of queues.
    pub queues: u16,
    /// The device selects the queue, and not the flow.
    pub by_port: bool,
    /// Poll threads poll the queues, and not the worker of kernel ports.
    pub pmd: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape::read(&BTreeMap::new())
    }
}

impl Shape {
    /// Reads `other_config` of `Open_vSwitch`.
    pub fn read(root: &BTreeMap<String, String>) -> Shape {
        Shape {
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

/// Port numbers by interface index, as the queues read them.
type Numbers = BTreeMap<u32, NonZeroU32>;

/// What a queue did, for tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets that it delivered.
    pub packets: u64,
    /// Packets that the kernel dropped because the socket was full.
    pub lost: u64,
    /// Packets that were read from the socket and not yet taken by the worker.
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
    shape: Shape,
    members: BTreeMap<PortNo, Arc<Member>>,
    numbers: Arc<Snapshot<Numbers>>,
    queues: Vec<(Arc<OwnedFd>, Arc<Counters>)>,
    /// Members have come or gone since the filter was set.
    changed: bool,
    reshaped: bool,
    fault: Option<String>,
}

impl SharedRx {
    /// Sets the shape; in force after `follow`.
    pub fn configure(&mut self, shape: Shape) {
        self.reshaped |= shape != self.shape;
        self.shape = shape;
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// A port receives by the shared queues from the next `follow` on.
    pub fn join(&mut self, port: PortNo, member: Arc<Member>) {
        self.members.insert(port, member);
        self.changed = true;
    }

    /// A port is no member any more.
    pub fn leave(&mut self, port: PortNo) {
        self.changed |= self.members.remove(&port).is_some();
    }

    /// Why the members have no queue.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The member ports.
    pub fn members(&self) -> impl Iterator<Item = PortNo> {
        self.members.keys().copied()
    }

    /// What each queue did.
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

    /// Follows changes of members and shape. Returns the queues if they were replaced: earlier ones are to be dropped. If
    /// that fails there are none, and each member knows why.
    pub fn follow(&mut self) -> Option<Vec<RxHandle>> {
        if !self.changed && !self.reshaped {
            return None;
        }
        self.changed = false;
        // The kernel gives a new device an index that is not in use.
        let index =
            |(port, member): (&PortNo, &Arc<Member>)| Some((member.ifindex(), NonZeroU32::new(port.0)?));
        let numbers: Numbers = self.members.iter().filter_map(index).collect();
        let mut filter = shared_filter::accept(&numbers.keys().copied().collect::<Vec<u32>>());
        self.numbers.store(Arc::new(numbers));
        let wanted = if self.members.is_empty() { 0 } else { usize::from(self.shape.queues) };
        let reshaped = std::mem::take(&mut self.reshaped);
        let keep = self.queues.len() == wanted && !reshaped;
        let done = match keep {
            true => self.queues.iter().try_for_each(|(fd, _)| packet_socket::set_filter(fd, &mut filter)),
            false => self.open(wanted, &mut filter),
        };
        let fault = done.err().map(|e| {
            let (n, hash) = (self.shape.queues, self.shape.hash());
            format!("rx-pool=basic: {n} shared queues by {hash} for {} ports failed: {e}", self.members.len())
        });
        for member in self.members.values() {
            member.set_fault(fault.as_deref());
        }
        let failed = fault.is_some();
        self.fault = fault;
        if failed {
            // The next change tries to open them again.
            self.queues.clear();
        }
        (failed || !keep).then(|| self.handles())
    }

    fn open(&mut self, n: usize, filter: &mut [libc::sock_filter]) -> io::Result<()> {
        self.queues.clear();
        let sockets: Vec<OwnedFd> =
            (0..n).map(|_| packet_socket::open_unbound()).collect::<io::Result<_>>()?;
        for socket in &sockets {
            // Each bound socket receives everything until it is in the group.
            packet_socket::set_filter(socket, &mut shared_filter::accept(&[]))?;
            packet_socket::bind_all(socket)?;
        }
        if n > 1 {
            let mut select = self.shape.by_port.then(shared_filter::by_interface);
            packet_socket::group(&sockets, select.as_deref_mut())?;
        }
        sockets.iter().try_for_each(|socket| packet_socket::set_filter(socket, filter))?;
        self.queues = sockets.into_iter().map(|socket| (Arc::new(socket), Arc::default())).collect();
        Ok(())
    }

    fn handles(&self) -> Vec<RxHandle> {
        let handle = |(fd, counters): &(Arc<OwnedFd>, Arc<Counters>)| RxHandle {
            queue: Box::new(SharedQueue {
                fd: Arc::clone(fd),
                counters: Arc::clone(counters),
                numbers: Arc::clone(&self.numbers),
                mmsg: Mmsg::new(),
                posted: Posted::new(BATCH),
                waiting: VecDeque::with_capacity(BURSTS * BATCH),
            }),
            poll_fd: Some(Arc::clone(fd)),
        };
        self.queues.iter().map(handle).collect()
    }
}

/// One shared queue. Each call returns packets of one port; those of other ports wait for the next calls, and the socket is
/// read again when none waits. So a worker that has found no packet may sleep on the socket.
struct SharedQueue {
    fd: Arc<OwnedFd>,
    counters: Arc<Counters>,
    numbers: Arc<Snapshot<Numbers>>,
    mmsg: Box<Mmsg>,
    posted: Posted,
    /// By port, in the order of arrival for each of them.
    waiting: VecDeque<(NonZeroU32, Frame)>,
}

impl SharedQueue {
    /// Reads bursts until one is not full. Returns how many packets could not be delivered.
    fn read(&mut self, pool: &mut FramePool) -> u32 {
        let mut dropped = 0;
        let numbers = self.numbers.load();
        for _ in 0..BURSTS {
            if !self.posted.fill(pool, BATCH) {
                break;
            }
            let (fd, mmsg) = (&self.fd, &mut self.mmsg);
            let receive = |buffers: &mut [[&mut [u8]; 2]]| mmsg.receive(fd, buffers).unwrap_or(0);
            let received = self.posted.with_buffers::<BATCH>(BATCH, receive);
            for i in 0..received {
                let meta = self.mmsg.received(i);
                // A device that has left may still have packets in the socket.
                let port = numbers.get(&self.mmsg.device(i)).filter(|_| !meta.outgoing);
                let Some(port) = port.copied() else { continue };
                match self.posted.take(pool, i, meta.len).and_then(|frame| finish(frame, &meta)) {
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
        RxResult { dropped, more: !self.waiting.is_empty(), port, lent: false }
    }
}
