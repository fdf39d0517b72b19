//! Receiving from a guest.

use super::Device;
use super::kick::Kick;
use crate::guest::Received;
use crate::ring::loans::Loans;
use packet::frame::{FrameBatch, FramePool};
use packet::held::{self, Held, hold};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One receive queue, owned by one worker.
#[derive(Debug)]
pub struct FromGuest {
    device: Arc<Device>,
    pair: usize,
    kick: Option<Kick>,
    /// Packets of the last burst that are lent to frames.
    loans: Loans,
    /// The buffers of the last burst are held.
    holds: bool,
    held: Arc<Ring>,
}

/// A ring whose buffers are held.
#[derive(Debug)]
struct Ring {
    device: Arc<Device>,
    number: usize,
}

impl Held for Ring {
    fn release(&self) {
        if let Some(mut ring) = self.device.enter_lent(self.number) {
            ring.release();
        }
    }
}

impl FromGuest {
    pub(crate) fn new(device: &Arc<Device>, pair: usize) -> FromGuest {
        let held = Arc::new(Ring { device: Arc::clone(device), number: 2 * pair + 1 });
        FromGuest {
            device: Arc::clone(device),
            pair,
            kick: Kick::new(),
            loans: Loans::new(),
            holds: false,
            held,
        }
    }

    fn ring(&self) -> usize {
        2 * self.pair + 1
    }

    /// Appends up to `max` packets to `out`.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        self.take(max, pool, out, false)
    }

    /// As [`FromGuest::receive`], but long packets may keep their tails in the guest's memory, and buffers of a ring with an inflight
    /// area are [`held`]. If there are some ([`Received::lent`]), the caller must call [`FromGuest::give_back`] as soon as
    /// their frames are complete or freed.
    #[inline]
    pub fn borrow(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        self.take(max, pool, out, true)
    }

    /// Gives the guest the buffers of the last burst back, and returns the number of interrupts; `None`: a frame still needs
    /// its tail. Until then nothing is received.
    pub fn give_back(&mut self) -> Option<u64> {
        if self.loans.is_empty() && !self.holds {
            return Some(0);
        }
        if !self.loans.are_back() {
            return None;
        }
        self.loans.clear();
        if std::mem::take(&mut self.holds) {
            held::release();
        }
        let Some(mut ring) = self.device.enter_lent(self.ring()) else { return Some(0) };
        let interrupts = ring.publish_lent();
        ring.set_lent(false);
        Some(interrupts)
    }

    #[inline(always)]
    fn take(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch, lends: bool) -> Received {
        if !self.loans.is_empty() {
            return Received::default();
        }
        if self.pair == 0
            && let Some(address) = self.device.take_announcement()
        {
            out.extend(pool.frame_of(&announcement(address)));
            return Received { packets: 1, ..Received::default() };
        }
        let Some(mut ring) = self.device.enter(2 * self.pair + 1) else { return Received::default() };
        let received = ring.receive(max, pool, out, lends.then_some(&mut self.loans));
        if received.lent {
            ring.set_lent(true);
            if ring.is_noted() {
                self.holds = true;
                hold(Arc::clone(&self.held) as Arc<dyn Held>);
            }
        }
        received
    }

    /// The descriptor that becomes readable when the guest sends while kicks are enabled; `None` if kicks are not
    /// available.
    pub fn kick_fd(&self) -> Option<Arc<OwnedFd>> {
        self.kick.as_ref().map(Kick::fd)
    }

    /// Enables or disables kicks. Returns false if the guest cannot kick. Without a guest nothing can arrive, so that
    /// counts as success.
    pub fn arm(&mut self, on: bool) -> bool {
        let number = self.ring();
        let Some(kick) = &mut self.kick else { return false };
        if !on {
            kick.drain();
        }
        let Some(mut ring) = self.device.enter(number) else { return true };
        if on {
            ring.publish_rest();
        }
        let watched = !on || ring.kick().is_some_and(|fd| kick.watch(fd));
        ring.ask_for_kicks(on && watched);
        watched
    }

    /// Packets that wait in the ring.
    pub fn waiting(&mut self) -> u32 {
        self.device.enter(self.ring()).and_then(|ring| ring.waiting().ok()).map_or(0, u32::from)
    }
}

impl Drop for FromGuest {
    fn drop(&mut self) {
        // If a frame still needs its tail, the loans keep the memory; the guest gets its buffers back nevertheless.
        if (!self.loans.is_empty() || self.holds)
            && let Some(mut ring) = self.device.enter_lent(self.ring())
        {
            ring.publish_lent();
            ring.set_lent(false);
        }
    }
}

/// A RARP request (RFC 903) from this address: switches learn from it where the guest is.
fn announcement(address: [u8; 6]) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..6].fill(0xff);
    packet[6..12].copy_from_slice(&address);
    // EtherType; Ethernet and IPv4 with their lengths of addresses; "request reverse".
    packet[12..22].copy_from_slice(&[0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
    packet[22..28].copy_from_slice(&address);
    packet[32..38].copy_from_slice(&address);
    packet
}
