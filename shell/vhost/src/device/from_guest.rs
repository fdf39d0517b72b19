//! Receives from a guest.

use super::Device;
use super::kick::Kick;
use crate::guest::Received;
use crate::ring::tail_leases::TailLeases;
use packet::frame::{FrameBatch, FramePool};
use packet::held_buffers::{self, HeldBuffers, hold};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One receive queue, owned by one worker.
#[derive(Debug)]
pub struct FromGuest {
    device: Arc<Device>,
    pair: usize,
    kick: Option<Kick>,
    /// The leases of the last burst.
    leases: TailLeases,
    /// Buffers of the last burst are held.
    holds_buffers: bool,
    held_ring: Arc<HeldRing>,
}

/// A ring whose buffers may be held; [`packet::held_buffers`] releases them.
#[derive(Debug)]
struct HeldRing {
    device: Arc<Device>,
    number: usize,
}

impl HeldBuffers for HeldRing {
    fn release(&self) {
        if let Some(mut ring) = self.device.enter_leased(self.number) {
            ring.release();
        }
    }
}

impl FromGuest {
    pub(crate) fn new(device: &Arc<Device>, pair: usize) -> FromGuest {
        let held_ring = Arc::new(HeldRing { device: Arc::clone(device), number: 2 * pair + 1 });
        FromGuest {
            device: Arc::clone(device),
            pair,
            kick: Kick::new(),
            leases: TailLeases::new(),
            holds_buffers: false,
            held_ring,
        }
    }

    fn ring(&self) -> usize {
        2 * self.pair + 1
    }

    /// Appends up to `max` packets to `out`.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        self.receive_burst(max, pool, out, false)
    }

    /// As [`FromGuest::receive`], but long packets may keep their tails in the guest's memory, and buffers of a ring with an inflight
    /// area are [held](packet::held_buffers). If so ([`Received::needs_return`]), the caller must call [`FromGuest::return_buffers`] as
    /// soon as the frames are complete or freed.
    #[inline]
    pub fn receive_with_leases(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
    ) -> Received {
        self.receive_burst(max, pool, out, true)
    }

    /// Returns the buffers of the last burst to the guest. The result is the number of interrupts; `None`: a frame still needs its tail.
    /// Until the buffers are returned nothing is received.
    pub fn return_buffers(&mut self) -> Option<u64> {
        if self.leases.is_empty() && !self.holds_buffers {
            return Some(0);
        }
        if !self.leases.all_released() {
            return None;
        }
        self.leases.clear();
        if std::mem::take(&mut self.holds_buffers) {
            held_buffers::release();
        }
        let Some(mut ring) = self.device.enter_leased(self.ring()) else { return Some(0) };
        let interrupts = ring.publish_deferred();
        ring.set_leased(false);
        Some(interrupts)
    }

    #[inline(always)]
    fn receive_burst(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        may_lease: bool,
    ) -> Received {
        if !self.leases.is_empty() {
            return Received::default();
        }
        if self.pair == 0
            && let Some(address) = self.device.take_announcement()
        {
            out.extend(pool.frame_of(&announcement(address)));
            return Received { packets: 1, ..Received::default() };
        }
        let Some(mut ring) = self.device.enter(2 * self.pair + 1) else { return Received::default() };
        let received = ring.receive(max, pool, out, may_lease.then_some(&mut self.leases));
        if received.needs_return {
            ring.set_leased(true);
            if ring.has_inflight_area() {
                self.holds_buffers = true;
                hold(Arc::clone(&self.held_ring) as Arc<dyn HeldBuffers>);
            }
        }
        received
    }

    /// The file descriptor that becomes readable when the guest sends while kicks are enabled; `None`: kicks are not available.
    pub fn kick_fd(&self) -> Option<Arc<OwnedFd>> {
        self.kick.as_ref().map(Kick::fd)
    }

    /// Enables or disables kicks. Returns false if the guest cannot kick. Without a guest no packet can arrive, so the result is true.
    pub fn arm(&mut self, on: bool) -> bool {
        let number = self.ring();
        let Some(kick) = &mut self.kick else { return false };
        if !on {
            kick.drain();
        } else if self.device.iommu {
            // A ring that waits for a translation continues without a kick.
            match self.device.continuation(number) {
                Some(event) => kick.watch_switch_eventfd(event),
                None => return false,
            }
        }
        let Some(mut ring) = self.device.enter(number) else { return true };
        if on {
            ring.publish_rest();
        }
        let watched = !on || ring.kick().is_some_and(|fd| kick.watch(fd));
        ring.request_kicks(on && watched);
        watched
    }

    /// Number of packets that wait in the ring; in a packed ring the number of descriptors.
    pub fn waiting(&mut self) -> u32 {
        self.device.enter(self.ring()).and_then(|ring| ring.available().ok()).map_or(0, u32::from)
    }
}

impl Drop for FromGuest {
    fn drop(&mut self) {
        // If a frame still needs its tail, the leases keep the memory mapped. The buffers are returned to the guest nevertheless.
        if (!self.leases.is_empty() || self.holds_buffers)
            && let Some(mut ring) = self.device.enter_leased(self.ring())
        {
            ring.publish_deferred();
            ring.set_leased(false);
        }
    }
}

/// A RARP request (RFC 903) from this address, from which switches learn the port of the guest.
fn announcement(address: [u8; 6]) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..6].fill(0xff);
    packet[6..12].copy_from_slice(&address);
    // EtherType RARP; hardware type Ethernet, protocol type IPv4, lengths of both addresses; operation "request reverse".
    packet[12..22].copy_from_slice(&[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
    packet[22..28].copy_from_slice(&address);
    packet[32..38].copy_from_slice(&address);
    packet
}
