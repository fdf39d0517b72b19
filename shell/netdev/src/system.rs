//! `system`: a port on an existing kernel device, through one packet socket.
//!
//! Frames keep their offload requests, so TCP and UDP between two such ports are forwarded in segments of up to 64 KB without access to
//! the payload. The rx and tx queues share the socket. When the last of them is dropped, the socket is closed, and the device is no longer
//! promiscuous because of this port.

use crate::account::Account;
use crate::device::{Facts, KernelCounters, Netdev, RxHandle};
use crate::error::{NetdevError, errno_of};
use crate::kernel::{KernelDevice, kernel_device_methods};
use crate::kernel_port_state::{KernelPortState, must_segment, send_segments, store_refused};
use crate::linux::mmsg::{BATCH, Mmsg};
use crate::linux::packet_socket;
use crate::posted::Posted;
use crate::qdisc;
use crate::received::frame_with_metadata;
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use crate::shared_member::Member;
use crate::socket_limit::{HIGH, SocketLimit};
use crate::stats::Stats;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use packet::vnet;
use rxpool::Mode;
use std::os::fd::OwnedFd;
use std::sync::Arc;

const ENOBUFS: i32 = 105;
const EMSGSIZE: i32 = 90;

/// A port on a kernel device.
pub struct System {
    device: KernelDevice,
    kind: String,
    shared: Arc<KernelPortState>,
    rx_taken: bool,
    buffers: RxPoolSettings,
    receive_mode: ReceiveMode,
}

/// How the port receives packets.
enum ReceiveMode {
    /// Through its own socket.
    Own,
    /// Through its own socket, whose buffer limit counts in the quota of a pool.
    Pooled(Arc<Account>),
    /// Through sockets that the datapath's devices share. Such a port also sends through a shared socket.
    Member(Arc<Member>),
}

impl System {
    /// Opens the device `name`.
    pub fn open(name: &str, kind: &str) -> Result<System, NetdevError> {
        let error = |e: std::io::Error| NetdevError::open(name, errno_of(&e));
        let device = KernelDevice::find(name).map_err(error)?;
        device.refuse_loopback()?;
        let socket = packet_socket::open(device.ifindex()).map_err(error)?;
        let (shared, buffers) = (KernelPortState::new(socket), RxPoolSettings::default());
        Ok(System {
            device,
            kind: kind.to_owned(),
            shared,
            rx_taken: false,
            buffers,
            receive_mode: ReceiveMode::Own,
        })
    }

    /// Replaces the socket by one for this mode. Then the caller must take the queues again.
    fn change_receive_mode(&mut self, wanted: &RxPoolSettings) -> Result<(), NetdevError> {
        let (name, ifindex) = (self.device.name(), self.device.ifindex());
        let failed = |e: std::io::Error| {
            NetdevError::other(&format!("{name}: rx-pool={} failed", wanted.mode.name()), errno_of(&e))
        };
        let (receive_mode, socket) = match wanted.mode {
            Mode::None => (ReceiveMode::Own, packet_socket::open(ifindex).map(Arc::new)),
            Mode::Spp => {
                let why = "the reserves of a pool exceed its size";
                let account = Account::open("kernel", wanted, HIGH)
                    .ok_or_else(|| NetdevError::rx_pool(name, "spp", why))?;
                (ReceiveMode::Pooled(account), packet_socket::open(ifindex).map(Arc::new))
            }
            Mode::Basic => {
                let member = Member::new(ifindex).map_err(failed)?;
                let sender = member.sender();
                (ReceiveMode::Member(member), Ok(sender))
            }
        };
        let next = self.shared.successor(socket.map_err(failed)?);
        std::mem::replace(&mut self.shared, next).end();
        (self.receive_mode, self.buffers, self.rx_taken) = (receive_mode, *wanted, false);
        Ok(())
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Netdev for System {
    kernel_device_methods!();

    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        if std::mem::replace(&mut self.rx_taken, true) {
            return Vec::new();
        }
        let fd = self.shared.fd();
        let own = |limit| {
            let shared = Arc::clone(&self.shared);
            SystemRx { shared, mmsg: Mmsg::new(), posted: Posted::new(BATCH), limit }
        };
        match &self.receive_mode {
            ReceiveMode::Own => vec![RxHandle { queue: Box::new(own(None)), poll_fd: Some(fd) }],
            ReceiveMode::Pooled(account) => {
                let queue = own(Some(SocketLimit::new(Arc::clone(account), &fd)));
                vec![RxHandle { queue: Box::new(queue), poll_fd: Some(fd) }]
            }
            ReceiveMode::Member(_) => Vec::new(),
        }
    }
    fn tx_queue(&self) -> Box<dyn TxQueue> {
        Box::new(SystemTx {
            shared: Arc::clone(&self.shared),
            mmsg: Mmsg::new(),
            refused: Vec::new(),
            ifindex: self.device.ifindex(),
            is_bound: !matches!(self.receive_mode, ReceiveMode::Member(_)),
            qos_socket: None,
        })
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        let mut facts = self.device.named_facts()?;
        self.shared.set_mtu(facts.mtu);
        if self.buffers.mode != Mode::None {
            facts.status.insert("rx-pool".to_owned(), self.buffers.mode.name().to_owned());
        }
        match &self.receive_mode {
            ReceiveMode::Own => {}
            ReceiveMode::Pooled(account) => {
                facts.status.insert("rx-pool-name".to_owned(), account.usage().pool);
            }
            ReceiveMode::Member(member) => facts.out_of_service_reason = member.fault(),
        }
        Ok(facts)
    }
    fn kernel_counters(&self) -> Option<KernelCounters> {
        Some(self.shared.own_drops(false))
    }
    fn stats(&mut self) -> Result<Stats, NetdevError> {
        let mut stats = self.device.link()?.stats;
        // Packets that shared sockets dropped cannot be assigned to a port.
        if !matches!(self.receive_mode, ReceiveMode::Member(_))
            && let Ok(drops) = packet_socket::take_drops(&self.shared.fd())
        {
            self.shared.count_rx_dropped(drops);
            if let ReceiveMode::Pooled(account) = &self.receive_mode {
                account.count_lost(drops);
            }
        }
        self.shared.add_drops(&mut stats);
        Ok(stats)
    }
    fn set_rx_buffers(&mut self, wanted: &RxPoolSettings) -> Result<bool, NetdevError> {
        let wanted = match wanted.mode {
            Mode::Spp => *wanted,
            mode => RxPoolSettings { mode, ..RxPoolSettings::default() },
        };
        if wanted == self.buffers {
            return Ok(false);
        }
        self.change_receive_mode(&wanted)?;
        Ok(true)
    }
    fn shared_member(&self) -> Option<Arc<Member>> {
        match &self.receive_mode {
            ReceiveMode::Member(member) => Some(Arc::clone(member)),
            _ => None,
        }
    }
    fn rx_buffer_usage(&self) -> Vec<QueueUse> {
        match &self.receive_mode {
            ReceiveMode::Own | ReceiveMode::Member(_) => Vec::new(),
            ReceiveMode::Pooled(account) => vec![account.usage()],
        }
    }
}

struct SystemRx {
    shared: Arc<KernelPortState>,
    mmsg: Box<Mmsg>,
    posted: Posted,
    /// Adjusts the limit of the socket, in mode `spp`.
    limit: Option<SocketLimit>,
}

impl RxQueue for SystemRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut result = RxResult::default();
        let (want, before) = (max.min(BATCH), out.len());
        if self.shared.ended() || !self.posted.fill(pool, want) {
            return result;
        }
        let fd: Arc<OwnedFd> = self.shared.fd();
        let mmsg = &mut self.mmsg;
        // An error concerns the device (down or gone); the main thread is notified of that by netlink. For the worker the
        // queue is empty.
        let received =
            self.posted.with_buffers::<BATCH>(want, |buffers| mmsg.receive(&fd, buffers).unwrap_or(0));
        for i in 0..received {
            let meta = self.mmsg.metadata(i);
            let frame = if meta.outgoing { continue } else { self.posted.take_frame(pool, i, meta.len) };
            match frame.and_then(|frame| frame_with_metadata(frame, &meta)) {
                Some(frame) => out.push(frame),
                None => result.dropped += 1,
            }
        }
        self.posted.end_of_burst(pool);
        self.shared.count_rx_dropped(u64::from(result.dropped));
        result.more = received == want;
        if let Some(limit) = &mut self.limit {
            let bytes = out.iter().skip(before).map(|frame| frame.len() as u64).sum();
            self.shared.count_rx_dropped(limit.record_poll(&fd, result.more, bytes));
        }
        result
    }
}

struct SystemTx {
    shared: Arc<KernelPortState>,
    mmsg: Box<Mmsg>,
    /// A copy of the last frame that the device did not accept.
    refused: Vec<u8>,
    ifindex: u32,
    /// Whether the socket is bound to this device.
    is_bound: bool,
    /// The socket for frames with a QoS queue, and the queue that its priority selects now.
    qos_socket: Option<(Arc<OwnedFd>, u32)>,
}

impl TxQueue for SystemTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        let fd = self.shared.fd();
        self.send((&fd, self.device()), frames, &mut result);
        self.shared.count_tx(&result);
        result
    }

    fn accepts_large(&self) -> bool {
        true
    }

    /// The kernel selects the class by the socket's priority, which is set for each run of frames with the same queue.
    fn tx_queued(&mut self, frames: &mut FrameBatch, queues: &[u32]) -> TxResult {
        let mut result = TxResult::default();
        let mut rest = &mut frames[..];
        for run in queues.chunk_by(|a, b| a == b) {
            let n = run.len().min(rest.len());
            let (same, others) = rest.split_at_mut(n);
            rest = others;
            // If the socket cannot be opened, the frames use the default queue.
            let (fd, to) = match self.qos_socket(run[0]) {
                Some(fd) => (fd, None),
                None => (self.shared.fd(), self.device()),
            };
            self.send((&fd, to), same, &mut result);
        }
        let fd = self.shared.fd();
        self.send((&fd, self.device()), rest, &mut result);
        self.shared.count_tx(&result);
        result
    }

    fn refused(&self) -> Option<&[u8]> {
        Some(&self.refused)
    }
}

impl SystemTx {
    /// The socket whose packets use QoS queue `queue`. Its priority is changed if necessary.
    fn qos_socket(&mut self, queue: u32) -> Option<Arc<OwnedFd>> {
        if self.qos_socket.is_none() {
            let fd = packet_socket::open_sender(self.ifindex).ok()?;
            packet_socket::set_priority(&fd, qdisc::priority(queue)).ok()?;
            self.qos_socket = Some((Arc::new(fd), queue));
        }
        let (fd, known) = self.qos_socket.as_mut()?;
        if *known != queue {
            packet_socket::set_priority(fd, qdisc::priority(queue)).ok()?;
            *known = queue;
        }
        Some(Arc::clone(fd))
    }

    /// The interface index that each packet needs if the socket is not bound to the device.
    fn device(&self) -> Option<u32> {
        (!self.is_bound).then_some(self.ifindex)
    }

    /// Sends frames through the socket to the interface: `None` if the socket is bound to it.
    fn send(&mut self, to: (&OwnedFd, Option<u32>), frames: &mut [Frame], result: &mut TxResult) {
        // Each frame that the kernel does not segment is a run of its own.
        for run in frames.chunk_by_mut(|a, b| !must_segment(a) && !must_segment(b)) {
            match run {
                [frame] if must_segment(frame) && !self.shared.has_too_long_segments(frame) => {
                    send_segments(frame, result, |packet, result| {
                        self.send_slots(to, &[([0; vnet::LEN], packet)], result);
                    });
                }
                run => run.chunks(BATCH).for_each(|chunk| self.send_chunk(to, chunk, result)),
            }
        }
    }

    /// Sends at most [`BATCH`] frames.
    fn send_chunk(&mut self, to: (&OwnedFd, Option<u32>), frames: &[Frame], result: &mut TxResult) {
        let mut slots = [([0; vnet::LEN], &[][..]); BATCH];
        let mut n_slots = 0;
        for frame in frames {
            if self.shared.has_too_long_segments(frame) {
                result.too_long += 1;
                continue;
            }
            slots[n_slots] = (vnet::encode(&frame.offload(), frame.bytes()), frame.bytes());
            n_slots += 1;
        }
        self.send_slots(to, &slots[..n_slots], result);
    }

    /// Sends packets with their vnet headers.
    fn send_slots(
        &mut self,
        (fd, to): (&OwnedFd, Option<u32>),
        slots: &[([u8; vnet::LEN], &[u8])],
        result: &mut TxResult,
    ) {
        let mut rest = slots;
        while !rest.is_empty() && !self.shared.ended() {
            match self.mmsg.send(fd, to, rest) {
                Ok(n) if n > 0 => {
                    let (sent, left) = rest.split_at(n.min(rest.len()));
                    result.sent += sent.len() as u32;
                    result.sent_bytes += sent.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
                    rest = left;
                }
                // The send buffer or the device's queue is full. Further calls would fail, too.
                Ok(_) => break,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock || e.raw_os_error() == Some(ENOBUFS) => {
                    break;
                }
                Err(e) => {
                    match e.raw_os_error() {
                        Some(EMSGSIZE) => result.too_long += 1,
                        _ => {
                            result.dropped += 1;
                            store_refused(&mut self.refused, rest[0].1);
                        }
                    }
                    rest = &rest[1..];
                }
            }
        }
        result.dropped += rest.len() as u32;
        if let Some((_, frame)) = rest.last() {
            store_refused(&mut self.refused, frame);
        }
    }
}
