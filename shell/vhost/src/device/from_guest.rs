//! Receiving from a guest.

use super::Device;
use super::kick::Kick;
use crate::guest::Received;
use packet::frame::{FrameBatch, FramePool};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// One receive queue, owned by one worker.
#[derive(Debug)]
pub struct FromGuest {
    device: Arc<Device>,
    pair: usize,
    kick: Option<Kick>,
}

impl FromGuest {
    pub(crate) fn new(device: &Arc<Device>, pair: usize) -> FromGuest {
        FromGuest { device: Arc::clone(device), pair, kick: Kick::new() }
    }

    fn ring(&self) -> usize {
        2 * self.pair + 1
    }

    /// Appends up to `max` packets to `out`.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        if self.pair == 0
            && let Some(address) = self.device.take_announcement()
        {
            out.extend(pool.frame_of(&announcement(address)));
            return Received { packets: 1, ..Received::default() };
        }
        let Some(mut ring) = self.device.enter(self.ring()) else { return Received::default() };
        ring.receive(max, pool, out)
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
        let watched = !on || ring.kick.as_ref().is_some_and(|fd| kick.watch(fd));
        ring.ask_for_kicks(on && watched);
        watched
    }

    /// Packets that wait in the ring.
    pub fn waiting(&mut self) -> u32 {
        self.device.enter(self.ring()).and_then(|ring| ring.offered().ok()).map_or(0, u32::from)
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
