//! `tap` and `internal`: a TAP device that the switch creates. Its other side is the host's network stack.
//!
//! The device is deleted when the port is closed, even if a worker still holds a queue, so its name is free again at once ([`Deletions`] may
//! delete several devices together; a device that was renamed or moved is deleted when its last queue is dropped). If the process ends without
//! closing the port, the device stays with its addresses and routes, and the next process attaches to it. The port receives the packets that the
//! host sends, so the kernel's receive and transmit counters are swapped.
//!
//! The host may move the device to another network namespace, which rtnetlink does not reach. The port continues to work,
//! and reports the facts that were read last and its own counters. Such a device is deleted when the process ends, because the next process
//! could not find it.

use crate::charged::Accounts;
use crate::deletions::Deletions;
use crate::device::{Facts, KernelCounters, Netdev, RxHandle};
use crate::error::{NetdevError, errno_of};
use crate::kernel::{KernelDevice, kernel_device_methods};
use crate::kernel_port_state::{KernelPortState, must_segment, send_segments, store_refused};
use crate::linux::mmsg::BATCH;
use crate::linux::tun;
use crate::posted::Posted;
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use crate::stats::Stats;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use packet::vnet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const EMSGSIZE: i32 = 90;
const EIO: i32 = 5;
/// Maximum number of frames read from a tap before the worker polls its other queues. Each frame needs a system call.
const READS: usize = 16;
/// Time for which frames are dropped without a system call after the device refused a frame because it was down.
const DOWN_PAUSE: Duration = Duration::from_millis(1);

/// A TAP device as a port.
pub struct Tap {
    device: KernelDevice,
    kind: String,
    shared: Arc<KernelPortState>,
    rx_taken: bool,
    last_facts: Facts,
    /// How often the facts were read. They are read after each notification of the kernel about the device.
    facts_read: Arc<AtomicU32>,
    /// Charges received frames to a pool, if the port shares one.
    pool_accounts: Accounts,
    deletions: Deletions,
    /// Whether the host moved the device to another network namespace.
    moved: bool,
    /// Set before the process ends: the device stays when the port is dropped.
    keeps_device: bool,
}

impl Tap {
    /// Creates the device `name`, or attaches to an existing one.
    pub(crate) fn open(name: &str, kind: &str, deletions: &Deletions) -> Result<Tap, NetdevError> {
        let error = |e: std::io::Error| NetdevError::open(name, errno_of(&e));
        if matches!(name, "default" | "all") {
            return Err(NetdevError::open(name, NetdevError::INVALID));
        }
        let fd = tun::open_tap(name).map_err(error)?;
        let device = KernelDevice::find(name).map_err(error)?;
        let last_facts = device.facts()?;
        tun::set_persistent(&fd, true).map_err(error)?;
        let (kind, shared, pool_accounts) = (kind.to_owned(), KernelPortState::new(fd), Accounts::default());
        let (facts_read, deletions) = (Arc::default(), deletions.clone());
        let (rx_taken, moved, keeps_device) = (false, false, false);
        Ok(Tap {
            device,
            kind,
            shared,
            rx_taken,
            last_facts,
            facts_read,
            pool_accounts,
            deletions,
            moved,
            keeps_device,
        })
    }

    /// Records whether the device is in another network namespace. There it must not outlive the process.
    fn note_moved(&mut self, moved: bool) {
        if std::mem::replace(&mut self.moved, moved) != moved {
            // Cannot fail: the file descriptor is attached to a device.
            let _ = tun::set_persistent(&self.shared.fd(), !moved);
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.end();
        if self.keeps_device {
            return;
        }
        // In another namespace the index may belong to another device, so the name is compared, too. A device that was
        // moved or renamed is deleted when the last of its queues is dropped.
        if self.device.link().is_ok_and(|link| link.name == self.device.name()) {
            self.deletions.delete(self.device.ifindex());
        } else {
            // Fails if another program has deleted the device.
            let _ = tun::set_persistent(&self.shared.fd(), false);
        }
    }
}

impl Netdev for Tap {
    // The methods that only need `device` and `kind`.
    kernel_device_methods!();

    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        if std::mem::replace(&mut self.rx_taken, true) {
            return Vec::new();
        }
        let queue = TapRx { shared: Arc::clone(&self.shared), posted: Posted::new(1) };
        vec![RxHandle { queue: self.pool_accounts.wrap(Box::new(queue)), poll_fd: Some(self.shared.fd()) }]
    }
    fn tx_queue(&self) -> Box<dyn TxQueue> {
        let down = DownState { facts_read: Arc::clone(&self.facts_read), pause: None };
        Box::new(TapTx { shared: Arc::clone(&self.shared), refused: Vec::new(), down, counted_by_kernel: 0 })
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        match self.device.facts() {
            Err(e) if e.errno() == NetdevError::NO_DEVICE && tun::is_attached(&self.shared.fd()) => {
                self.note_moved(true);
                Ok(self.last_facts.clone())
            }
            Ok(facts) => {
                self.note_moved(false);
                self.shared.set_mtu(facts.mtu);
                self.facts_read.fetch_add(1, Ordering::Relaxed);
                self.last_facts = facts.clone();
                Ok(facts)
            }
            Err(e) => Err(e),
        }
    }
    fn kernel_counters(&self) -> Option<KernelCounters> {
        // The kernel counts at the host's end of the device.
        Some(self.shared.own_drops(true))
    }
    fn keep_device(&mut self) {
        self.keeps_device = !self.moved;
    }
    fn stats(&mut self) -> Result<Stats, NetdevError> {
        let mut stats = match self.device.link() {
            Ok(link) => link.stats.seen_from_the_switch(),
            Err(_) if tun::is_attached(&self.shared.fd()) => self.shared.own_stats(),
            Err(e) => return Err(e),
        };
        self.shared.add_drops(&mut stats);
        Ok(stats)
    }
    fn set_rx_buffers(&mut self, wanted: &RxPoolSettings) -> Result<bool, NetdevError> {
        wanted.check(self.device.name(), "a tap device has a queue of its own")?;
        let changed = self.pool_accounts.set(wanted);
        if changed {
            self.pool_accounts.clear();
            self.rx_taken = false;
        }
        Ok(changed)
    }
    fn rx_buffer_usage(&self) -> Vec<QueueUse> {
        self.pool_accounts.usage()
    }
}

struct TapRx {
    shared: Arc<KernelPortState>,
    posted: Posted,
}

impl RxQueue for TapRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut result = RxResult::default();
        let (before, mut bytes) = (out.len(), 0);
        let want = max.min(BATCH).min(READS);
        let fd = self.shared.fd();
        for n in 0..want {
            if self.shared.ended() || !self.posted.fill(pool, 1) {
                break;
            }
            let mut header = [0; vnet::LEN];
            let mut len = None;
            self.posted.with_buffers::<1>(1, |buffers| {
                len = tun::read(&fd, &mut header, &mut buffers[0]).ok();
                usize::from(len.is_some())
            });
            // An error counts as an empty queue. The main thread is notified by netlink if the device is gone.
            let Some(len) = len else { break };
            let frame = self.posted.take_frame(pool, 0, len).and_then(|mut frame| {
                let offload = vnet::decode(&header, frame.bytes_mut())?;
                frame.set_offload(offload);
                Some(frame)
            });
            match frame {
                Some(frame) => {
                    bytes += frame.len() as u64;
                    out.push(frame);
                }
                None => result.dropped += 1,
            }
            // Each read is a burst of one frame.
            self.posted.end_of_burst(pool);
            result.more = n + 1 == want;
        }
        self.shared.count_rx((out.len() - before) as u64, bytes);
        self.shared.count_rx_dropped(u64::from(result.dropped));
        result
    }
}

/// Avoids system calls for a device that is down. The device of a bridge's local port usually is down, and every broadcast of
/// the bridge is sent to it.
///
/// After a send has failed because the device is down, frames are dropped for a millisecond, or until the kernel reports a
/// change of the device to the main thread. For a device in another network namespace the kernel reports no changes, so there the
/// pause always lasts the full millisecond.
struct DownState {
    facts_read: Arc<AtomicU32>,
    /// The value of `facts_read` before the last frame that the device refused, and the end of the pause; `None`: no pause.
    pause: Option<(u32, Instant)>,
}

impl DownState {
    /// Whether frames must be dropped now.
    fn is_pausing(&mut self) -> bool {
        let Some((facts_read, end)) = self.pause else { return false };
        if self.facts_read.load(Ordering::Relaxed) != facts_read || Instant::now() >= end {
            self.pause = None;
        }
        self.pause.is_some()
    }
}

struct TapTx {
    shared: Arc<KernelPortState>,
    /// A copy of the last frame that the device did not accept.
    refused: Vec<u8>,
    down: DownState,
    /// Number of packets that the device refused because it was down, since the last count. The kernel counts these drops itself.
    counted_by_kernel: u32,
}

impl TapTx {
    /// Writes one frame, or its segments if the kernel does not segment it.
    fn send(&mut self, fd: &OwnedFd, frame: &mut Frame, result: &mut TxResult) {
        if self.shared.has_too_long_segments(frame) {
            result.too_long += 1;
        } else if must_segment(frame) {
            send_segments(frame, result, |packet, result| self.write(fd, &[0; vnet::LEN], packet, result));
        } else {
            self.write(fd, &vnet::encode(&frame.offload(), frame.bytes()), frame.bytes(), result);
        }
    }

    /// Writes one packet with its vnet header.
    fn write(&mut self, fd: &OwnedFd, header: &[u8; vnet::LEN], packet: &[u8], result: &mut TxResult) {
        let facts_read = self.down.facts_read.load(Ordering::Relaxed);
        match tun::write(fd, header, packet) {
            Ok(()) => {
                result.sent += 1;
                result.sent_bytes += packet.len() as u64;
                return;
            }
            Err(e) if e.raw_os_error() == Some(EMSGSIZE) => return result.too_long += 1,
            Err(e) if e.raw_os_error() == Some(EIO) => {
                self.down.pause = Some((facts_read, Instant::now() + DOWN_PAUSE));
                self.counted_by_kernel += 1;
            }
            // The device's queue is full.
            Err(_) => {}
        }
        result.dropped += 1;
        store_refused(&mut self.refused, packet);
    }
}

impl TxQueue for TapTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        let fd = self.shared.fd();
        if self.down.is_pausing() {
            result.dropped += frames.len() as u32;
            if let Some(frame) = frames.last() {
                store_refused(&mut self.refused, frame.bytes());
            }
        } else {
            frames.iter_mut().for_each(|frame| self.send(&fd, frame, &mut result));
        }
        let counted = std::mem::take(&mut self.counted_by_kernel);
        self.shared.count_tx(&TxResult { dropped: result.dropped.saturating_sub(counted), ..result });
        result
    }

    fn accepts_large(&self) -> bool {
        true
    }

    fn refused(&self) -> Option<&[u8]> {
        Some(&self.refused)
    }
}
