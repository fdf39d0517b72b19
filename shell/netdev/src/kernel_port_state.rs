//! State shared by a port's `Netdev` and its queues: counters, and for kernel devices a file descriptor and the MTU.

use crate::device::KernelCounters;
use crate::linux::tun;
use crate::stats::Stats;
use packet::frame::Frame;
use packet::queue::TxResult;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Bytes of an Ethernet header: both addresses and the EtherType.
pub const ETHERNET_HEADER: usize = 14;
const VLAN_BYTES: usize = 4;
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];

/// Stores a frame that a device did not accept, for `TxQueue::refused`.
#[cold]
pub fn store_refused(buffer: &mut Vec<u8>, frame: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(frame);
}

/// The counters of a port, updated with relaxed ordering.
#[derive(Default)]
pub struct PortCounters {
    ended: AtomicBool,
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    rx_dropped: AtomicU64,
    tx_dropped: AtomicU64,
}

/// The file descriptor of a kernel device, with the port's counters.
pub struct KernelPortState {
    fd: Arc<OwnedFd>,
    counters: PortCounters,
    mtu: AtomicU32,
}

impl Deref for KernelPortState {
    type Target = PortCounters;

    fn deref(&self) -> &PortCounters {
        &self.counters
    }
}

impl KernelPortState {
    /// Creates the state of a port with this file descriptor.
    pub fn new(fd: impl Into<Arc<OwnedFd>>) -> Arc<KernelPortState> {
        Arc::new(KernelPortState {
            fd: fd.into(),
            counters: PortCounters::default(),
            mtu: AtomicU32::new(u32::MAX),
        })
    }

    /// The state of the same port with another file descriptor. The port's own drop counters continue.
    pub fn successor(&self, fd: impl Into<Arc<OwnedFd>>) -> Arc<KernelPortState> {
        let next = KernelPortState::new(fd);
        next.set_mtu(self.mtu.load(Ordering::Relaxed));
        let copy =
            |to: &AtomicU64, from: &AtomicU64| to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        copy(&next.counters.rx_dropped, &self.counters.rx_dropped);
        copy(&next.counters.tx_dropped, &self.counters.tx_dropped);
        next
    }

    /// Records the device's MTU.
    pub fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Whether segments of this frame would be longer than the MTU. The kernel checks the length only of packets that
    /// it need not segment, and would forward segments that are too long.
    pub fn has_too_long_segments(&self, frame: &Frame) -> bool {
        if !frame.has_offload_state() {
            return false;
        }
        let (offload, bytes) = (frame.offload(), frame.bytes());
        offload.gso.is_some()
            && offload.longest_segment(bytes) > longest(bytes, self.mtu.load(Ordering::Relaxed) as usize)
    }

    /// The file descriptor.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }
}

/// Whether the switch has to segment this frame, because this kernel does not.
pub fn must_segment(frame: &Frame) -> bool {
    frame.needs_segmentation()
        && frame.offload().gso.is_some_and(|gso| !tun::kernel_segmentation().contains(gso.kind))
}

/// Calls `send` for each segment of a frame. Adds the results to `result` as that of one frame.
#[cold]
pub fn send_segments(frame: &mut Frame, result: &mut TxResult, mut send: impl FnMut(&[u8], &mut TxResult)) {
    let (offload, len, mut segments) = (frame.offload(), frame.len(), TxResult::default());
    offload.finish(frame.bytes_mut(), |packet| send(packet, &mut segments));
    result.add_segments(&segments, len);
}

/// Maximum length of this frame with this MTU. A VLAN tag does not count towards the MTU.
pub fn longest(frame: &[u8], mtu: usize) -> usize {
    let tag = if frame.get(12..14) == Some(&ETHERTYPE_VLAN) { VLAN_BYTES } else { 0 };
    mtu.saturating_add(ETHERNET_HEADER + tag)
}

impl PortCounters {
    /// Marks the port as closed. Then its queues receive and send nothing.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the port was closed.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Counts received frames that were dropped.
    pub fn count_rx_dropped(&self, n: u64) {
        if n > 0 {
            self.rx_dropped.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts received frames.
    pub fn count_rx(&self, packets: u64, bytes: u64) {
        self.rx_packets.fetch_add(packets, Ordering::Relaxed);
        self.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts frames that were sent, and those that were not.
    pub fn count_tx(&self, result: &TxResult) {
        self.tx_packets.fetch_add(u64::from(result.sent), Ordering::Relaxed);
        self.tx_bytes.fetch_add(result.sent_bytes, Ordering::Relaxed);
        let dropped = u64::from(result.dropped + result.too_long);
        if dropped > 0 {
            self.tx_dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// The port's own counters, for a device whose kernel counters cannot be read.
    pub fn own_stats(&self) -> Stats {
        let read = |n: &AtomicU64| Some(n.load(Ordering::Relaxed));
        Stats {
            rx_packets: read(&self.rx_packets),
            rx_bytes: read(&self.rx_bytes),
            tx_packets: read(&self.tx_packets),
            tx_bytes: read(&self.tx_bytes),
            ..Stats::default()
        }
    }

    /// The port's own drops, for readers that read the kernel's counters themselves.
    pub fn own_drops(&self, directions_swapped: bool) -> KernelCounters {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        KernelCounters { directions_swapped, dropped: (read(&self.rx_dropped), read(&self.tx_dropped)) }
    }

    /// Adds the port's own drops to the kernel's counters.
    pub fn add_drops(&self, stats: &mut Stats) {
        let add =
            |to: &mut Option<u64>, n: &AtomicU64| *to = Some(to.unwrap_or(0) + n.load(Ordering::Relaxed));
        add(&mut stats.rx_dropped, &self.rx_dropped);
        add(&mut stats.tx_dropped, &self.tx_dropped);
    }
}
