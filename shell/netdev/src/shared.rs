//! What a port's `Netdev` and its queues share: what was dropped on it, and mostly a descriptor.

use crate::stats::Stats;
use packet::frame::Frame;
use packet::queue::TxResult;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Ethernet's header: addresses and type.
pub const ETHERNET_HEADER: usize = 14;
const VLAN_BYTES: usize = 4;
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];

/// Keeps a frame that a device did not take in the place of the one before (`TxQueue::refused`).
#[cold]
pub fn keep(place: &mut Vec<u8>, frame: &[u8]) {
    place.clear();
    place.extend_from_slice(frame);
}

/// The counters of a port. They are statistics, updated without ordering among them.
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

/// One descriptor and its counters, of a device of the kernel.
pub struct Shared {
    fd: Arc<OwnedFd>,
    counters: PortCounters,
    mtu: AtomicU32,
}

impl Deref for Shared {
    type Target = PortCounters;

    fn deref(&self) -> &PortCounters {
        &self.counters
    }
}

impl Shared {
    /// Takes the descriptor.
    pub fn new(fd: OwnedFd) -> Arc<Shared> {
        Arc::new(Shared {
            fd: Arc::new(fd),
            counters: PortCounters::default(),
            mtu: AtomicU32::new(u32::MAX),
        })
    }

    /// What the device's MTU was found to be.
    pub fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// The frame would be cut into packets that are longer than the MTU. The kernel looks at the length of what it need
    /// not cut only; such packets it would pass on.
    pub fn cuts_too_long(&self, frame: &Frame) -> bool {
        if !frame.is_undone() {
            return false;
        }
        let (offload, bytes) = (frame.offload(), frame.bytes());
        offload.gso.is_some()
            && offload.longest(bytes) > longest(bytes, self.mtu.load(Ordering::Relaxed) as usize)
    }

    /// The descriptor.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }
}

/// The longest frame of this kind that the MTU allows: a tag does not count.
pub fn longest(frame: &[u8], mtu: usize) -> usize {
    let tag = if frame.get(12..14) == Some(&ETHERTYPE_VLAN) { VLAN_BYTES } else { 0 };
    mtu.saturating_add(ETHERNET_HEADER + tag)
}

impl PortCounters {
    /// The port is no more; its queues are to fall silent.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// See `end`.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Counts frames that were lost on their way in.
    pub fn count_rx_dropped(&self, n: u64) {
        if n > 0 {
            self.rx_dropped.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts frames that came in.
    pub fn count_rx(&self, packets: u64, bytes: u64) {
        self.rx_packets.fetch_add(packets, Ordering::Relaxed);
        self.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts frames that went out, and those that did not.
    pub fn count_tx(&self, result: &TxResult) {
        self.tx_packets.fetch_add(u64::from(result.sent), Ordering::Relaxed);
        self.tx_bytes.fetch_add(result.sent_bytes, Ordering::Relaxed);
        let dropped = u64::from(result.dropped + result.too_long);
        if dropped > 0 {
            self.tx_dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// What we counted ourselves, for a device whose kernel counters are out of reach.
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

    /// Adds our own losses to the kernel's.
    pub fn add_drops(&self, stats: &mut Stats) {
        let add =
            |to: &mut Option<u64>, n: &AtomicU64| *to = Some(to.unwrap_or(0) + n.load(Ordering::Relaxed));
        add(&mut stats.rx_dropped, &self.rx_dropped);
        add(&mut stats.tx_dropped, &self.tx_dropped);
    }
}
