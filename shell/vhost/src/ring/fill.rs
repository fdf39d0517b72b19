//! Packets that a guest receives.

use super::Lie;
use super::chain::{Direction, Parts};
use super::split::{HEADER, Ring};
use crate::feature;
use crate::memory::Part;
use arrayvec::ArrayVec;
use packet::vnet;

/// A packet to be sent, with the first bytes of its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'f> {
    pub bytes: &'f [u8],
    pub header: [u8; vnet::LEN],
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    /// The guest's buffer is too short, and packets may not be spread over several.
    TooLong,
    /// The guest offers too few buffers.
    Full,
}

/// What became of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Packets before the first that found no buffer.
    pub handled: usize,
    /// Packets among them that did not fit the guest's buffers.
    pub too_long: usize,
    pub interrupts: u64,
}

/// Chains that one packet may take: each has a byte of it at least.
const CHAINS_MAX: usize = 280;

impl Ring {
    /// Puts packets into the guest's buffers until these run out, and calls `sent` for each that was sent.
    pub fn fill(&mut self, items: &[Item<'_>], mut sent: impl FnMut(&[u8])) -> Filled {
        let mut filled = Filled::default();
        if self.lie.is_some() {
            return filled;
        }
        let start = self.next;
        if let Err(lie) = self.put_all(items, &mut filled, &mut sent) {
            self.lie = Some(lie);
        }
        if self.next != start {
            filled.interrupts = self.publish();
        }
        filled
    }

    fn put_all(
        &mut self,
        items: &[Item<'_>],
        filled: &mut Filled,
        sent: &mut impl FnMut(&[u8]),
    ) -> Result<(), Lie> {
        let mut left = self.offered()?;
        for i in 0..(items.len() as u16).min(left) {
            self.memory.prefetch(self.memory.available(self.next.wrapping_add(i)));
        }
        for item in items {
            match self.put(item, &mut left)? {
                Outcome::Sent => sent(item.bytes),
                Outcome::TooLong => filled.too_long += 1,
                Outcome::Full => break,
            }
            filled.handled += 1;
        }
        Ok(())
    }

    /// Puts one packet into as many of the `left` chains as it needs.
    #[inline]
    fn put(&mut self, item: &Item<'_>, left: &mut u16) -> Result<Outcome, Lie> {
        let header_len = self.header();
        let needed = header_len + item.bytes.len();
        let (mut parts, mut room) = (Parts::new(), 0usize);
        // The descriptor and the length of each chain.
        let mut taken = ArrayVec::<(u16, u32), CHAINS_MAX>::new();
        let mut hint = self.hint;
        while room < needed {
            let chains = taken.len() as u16;
            if chains == *left || taken.is_full() {
                return Ok(Outcome::Full);
            }
            let head = self.memory.available(self.next.wrapping_add(chains));
            let first = self.memory.descriptor(head).ok_or(Lie::Head)?;
            let len = self.walk(Direction::ToGuest).chain(first, &mut parts, &mut hint)?;
            room += len as usize;
            taken.push((head, len));
            if room < needed && !self.has(feature::MRG_RXBUF) {
                return Ok(Outcome::TooLong);
            }
        }
        let mut header = [0; HEADER];
        header[..vnet::LEN].copy_from_slice(&item.header);
        header[vnet::LEN..].copy_from_slice(&(taken.len() as u16).to_le_bytes());
        scatter(&parts, &header[..header_len], item.bytes);
        drop(parts);
        let mut rest = needed as u32;
        for (head, len) in &taken {
            self.memory.put_used(self.next, *head, rest.min(*len));
            rest -= rest.min(*len);
            self.next = self.next.wrapping_add(1);
        }
        *left -= taken.len() as u16;
        self.hint = hint;
        Ok(Outcome::Sent)
    }
}

/// Writes the header, then the packet, into the parts.
#[inline(always)]
fn scatter(parts: &[Part<'_>], header: &[u8], packet: &[u8]) {
    let (mut header, mut packet) = (header, packet);
    for part in parts {
        let mut part = *part;
        if !header.is_empty() {
            let n = part.write(header);
            header = &header[n..];
            part = part.skip(n);
        }
        let n = part.write(packet);
        packet = &packet[n..];
        if packet.is_empty() && header.is_empty() {
            return;
        }
    }
}
