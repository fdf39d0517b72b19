//! The two vhost back-ends of a guest's port, behind one interface: crate `vhost`, and DPDK's library (crate `dpdk`).

use crate::device::RxHandle;
use dpdk::mempool::Mempool;
use dpdk::vhost as library;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::Offload;
use packet::queue::RxQueue;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vhost::path::{Role, SocketError};
use vhost::{Guest, Notify, PortState, Received};

/// The socket of a port in one of the two back-ends. `Own`: crate `vhost`; `Library`: DPDK's library.
#[derive(Debug)]
pub(super) enum BackEnd {
    Own(vhost::Socket),
    Library(library::Socket),
}

/// Whether new ports use DPDK's library.
pub(super) fn uses_library() -> bool {
    dpdk::eal::initialized() && dpdk::settings().vhost_library
}

impl BackEnd {
    /// Opens the socket of a port. `iommu`: the own back-end offers guests an IOMMU; the library reads its settings itself.
    pub fn open(path: &str, role: Role, iommu: bool, notify: Notify) -> Result<BackEnd, SocketError> {
        if uses_library() {
            return library::Socket::open(path, role, notify).map(BackEnd::Library);
        }
        vhost::Socket::open(path, role, iommu, notify).map(BackEnd::Own)
    }

    pub fn state(&self) -> &PortState {
        match self {
            BackEnd::Own(socket) => socket.state(),
            BackEnd::Library(socket) => socket.state(),
        }
    }

    pub fn path(&self) -> &str {
        &self.state().path
    }

    /// Whether a guest is connected and ready.
    pub fn is_connected(&self) -> bool {
        match self {
            BackEnd::Own(socket) => socket.is_connected(),
            BackEnd::Library(socket) => socket.is_connected(),
        }
    }

    /// Whether packets are received into a pool of DPDK mbufs.
    pub fn needs_pool(&self) -> bool {
        matches!(self, BackEnd::Library(_))
    }

    pub fn numa(&self) -> Option<u32> {
        match self {
            BackEnd::Own(socket) => socket.numa(),
            BackEnd::Library(socket) => socket.numa(),
        }
    }

    pub fn distribute_senders(&mut self, pairs: usize) {
        match self {
            BackEnd::Own(socket) => socket.distribute_senders(pairs),
            BackEnd::Library(socket) => socket.distribute_senders(pairs),
        }
    }

    pub fn guest(&mut self) -> Option<Guest> {
        match self {
            BackEnd::Own(socket) => socket.guest(),
            BackEnd::Library(socket) => socket.guest(),
        }
    }

    /// The receiver of a queue pair; `None`: the pool that it needs does not exist yet.
    pub fn receiver(&self, pair: usize, pool: Option<&Mempool>) -> Option<Source> {
        Some(match self {
            BackEnd::Own(socket) => Source::Own(socket.receiver(pair)),
            BackEnd::Library(socket) => Source::Library(socket.receiver(pair, pool?.clone())),
        })
    }

    pub fn sender(&self, slot: usize) -> Sender {
        match self {
            BackEnd::Own(socket) => Sender::Own(socket.sender(slot)),
            BackEnd::Library(socket) => Sender::Library(socket.sender(slot)),
        }
    }
}

/// The receiving side of a queue pair.
#[derive(Debug)]
pub(super) enum Source {
    Own(vhost::FromGuest),
    Library(library::FromGuest),
}

impl Source {
    /// Receives packets. With the own back-end, frames may have leased tails: then [`return_buffers`](Self::return_buffers) must be called.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        match self {
            Source::Own(source) => source.receive_with_leases(max, pool, out),
            Source::Library(source) => source.receive(max, pool, out),
        }
    }

    /// Returns the buffers of the last burst to the guest. The result is the number of interrupts; `None`: a frame still needs its tail.
    pub fn return_buffers(&mut self) -> Option<u64> {
        match self {
            Source::Own(source) => source.return_buffers(),
            Source::Library(_) => Some(0),
        }
    }

    pub fn waiting(&mut self) -> u32 {
        match self {
            Source::Own(source) => source.waiting(),
            Source::Library(source) => source.waiting(),
        }
    }

    pub fn arm(&mut self, on: bool) -> bool {
        match self {
            Source::Own(source) => source.arm(on),
            Source::Library(source) => source.arm(on),
        }
    }

    fn kick_fd(&self) -> Option<Arc<OwnedFd>> {
        match self {
            Source::Own(source) => source.kick_fd(),
            Source::Library(source) => source.kick_fd(),
        }
    }

    /// A queue with the file descriptor for which a sleeping worker waits.
    pub fn handle(
        source: Option<Source>,
        queue: impl FnOnce(Option<Source>) -> Box<dyn RxQueue>,
    ) -> RxHandle {
        let poll_fd = source.as_ref().and_then(Source::kick_fd);
        RxHandle { queue: queue(source), poll_fd }
    }
}

/// The sending side of a port.
pub(super) enum Sender {
    Own(vhost::ToGuest),
    Library(library::ToGuest),
}

impl Sender {
    pub fn accepts_large(&self) -> bool {
        match self {
            Sender::Own(sender) => sender.accepts_large(),
            Sender::Library(sender) => sender.accepts_large(),
        }
    }
}

/// A transmission to one ring, by either back-end: see [`vhost::Sending`].
pub(super) trait Transmission<'f> {
    fn is_full(&self) -> bool;
    fn pair(&self) -> usize;
    fn supports(&self, frame: &Frame, offload: &Offload) -> bool;
    fn push(&mut self, frame: &'f Frame) -> bool;
    fn push_with_offload(&mut self, frame: &'f mut Frame, offload: &Offload) -> bool;
    /// Sends a packet at once. `sent` is called with the packet, or its beginning, and its length.
    fn send_now(&mut self, bytes: &[u8], sent: impl FnMut(&[u8], usize)) -> usize;
    fn flush(&mut self, sent: impl FnMut(&[u8], usize)) -> usize;
    fn interrupts(&mut self) -> u64;
    fn retries(&self) -> u32;
}

/// The functions that are the same for both back-ends.
macro_rules! forward_common_methods {
    () => {
        #[inline]
        fn is_full(&self) -> bool {
            self.is_full()
        }
        #[inline]
        fn pair(&self) -> usize {
            self.pair()
        }
        #[inline]
        fn interrupts(&mut self) -> u64 {
            self.interrupts()
        }
        #[inline]
        fn retries(&self) -> u32 {
            self.retries()
        }
    };
}

impl<'f> Transmission<'f> for vhost::Sending<'_, 'f> {
    forward_common_methods!();
    fn supports(&self, frame: &Frame, offload: &Offload) -> bool {
        self.supports(frame.head_of(offload.needed_head_len()), frame.len(), offload)
    }
    #[inline]
    fn push(&mut self, frame: &'f Frame) -> bool {
        self.push_frame(frame)
    }
    fn push_with_offload(&mut self, frame: &'f mut Frame, offload: &Offload) -> bool {
        self.push_with_offload(frame, offload)
    }
    fn send_now(&mut self, bytes: &[u8], sent: impl FnMut(&[u8], usize)) -> usize {
        self.send_now(bytes, sent)
    }
    #[inline]
    fn flush(&mut self, sent: impl FnMut(&[u8], usize)) -> usize {
        self.flush(sent)
    }
}

impl<'f> Transmission<'f> for library::Sending<'_, 'f> {
    forward_common_methods!();
    fn supports(&self, frame: &Frame, offload: &Offload) -> bool {
        self.supports(frame.bytes(), offload)
    }
    #[inline]
    fn push(&mut self, frame: &'f Frame) -> bool {
        self.push(frame.bytes())
    }
    fn push_with_offload(&mut self, frame: &'f mut Frame, offload: &Offload) -> bool {
        self.push_with_offload(frame.bytes_mut(), offload)
    }
    fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8], usize)) -> usize {
        self.send_now(bytes, |bytes| sent(bytes, bytes.len()))
    }
    #[inline]
    fn flush(&mut self, mut sent: impl FnMut(&[u8], usize)) -> usize {
        self.flush(|bytes| sent(bytes, bytes.len()))
    }
}
