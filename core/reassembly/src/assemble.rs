//! Assembles a whole datagram from its fragments.
//!
//! It has the headers of the first fragment, changed to those of a whole datagram. In IPv6 the fragment
//! header stays, as that of an atomic fragment (RFC 6946), so that all headers keep their offsets.

use crate::datagram::Datagram;
use packet::checksum::{update16, update32};
use packet::{Ipv4, Ipv6};

impl<T> Datagram<T> {
    /// Length of the whole datagram in bytes, from its network header on.
    pub fn len(&self) -> usize {
        let (first, last) = (self.parts.first(), self.parts.last());
        first.map_or(0, |p| p.payload().start) + last.map_or(0, |p| p.place().end)
    }

    /// Always `false`: a fragment has bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the datagram to `out`, whose length is [`Datagram::len`]. `l3` returns the bytes of a fragment
    /// from its network header on. `None`: these bytes are not those that were read.
    pub fn write<'a>(&'a self, out: &mut [u8], l3: impl Fn(&'a T) -> &'a [u8]) -> Option<()> {
        let first = self.parts.first()?;
        let header = first.payload().start;
        let (head, payload) = out.split_at_mut_checked(header)?;
        head.copy_from_slice(l3(&first.content).get(..header)?);
        for part in &self.parts {
            let bytes = l3(&part.content).get(part.payload())?;
            payload.get_mut(part.place())?.copy_from_slice(bytes);
        }
        let len = header + payload.len();
        match self.v6 {
            false => whole_v4(head, len),
            true => whole_v6(head, len),
        }
    }
}

impl<T> Datagram<T> {
    /// Copies changes of the whole datagram, from its network header on, to the fragments: addresses and
    /// payload. If the length of the datagram has changed, only addresses are copied. `l3` as in
    /// [`Datagram::write`].
    pub fn write_back(&mut self, whole: &[u8], l3: impl Fn(&mut T) -> &mut [u8]) {
        let Some(header) = self.parts.first().map(|first| first.payload().start) else { return };
        let (same_len, v6) = (whole.len() == self.len(), self.v6);
        for part in &mut self.parts {
            let (payload, place) = (part.payload(), part.place());
            let out = l3(&mut part.content);
            write_addresses(v6, whole, out);
            let new = whole.get(header + place.start..header + place.end);
            if let (Some(out), Some(new), true) = (out.get_mut(payload), new, same_len) {
                out.copy_from_slice(new);
            }
        }
    }
}

/// Copies source and destination, and updates the checksum of an IPv4 header.
fn write_addresses(v6: bool, from: &[u8], to: &mut [u8]) {
    if v6 {
        if let (Some(new), Some(old)) = (from.get(8..40), to.get_mut(8..40)) {
            old.copy_from_slice(new);
        }
        return;
    }
    for at in [12, 16] {
        let (Some(new), Some(ip)) = (from.get(at..at + 4), to.get_mut(..Ipv4::LEN)) else { return };
        let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        let sum = update32(u16::from_be_bytes([ip[10], ip[11]]), word(&ip[at..]), word(new));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip[at..at + 4].copy_from_slice(new);
    }
}

fn whole_v4(head: &mut [u8], len: usize) -> Option<()> {
    let word = |head: &[u8], at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    head.get(..Ipv4::LEN)?;
    let (old_len, old_flags, old_sum) = (word(head, 2), word(head, 6), word(head, 10));
    let (new_len, new_flags) = (u16::try_from(len).ok()?, old_flags & 0xc000);
    let sum = update16(update16(old_sum, old_len, new_len), old_flags, new_flags);
    for (at, value) in [(2, new_len), (6, new_flags), (10, sum)] {
        head[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    Some(())
}

fn whole_v6(head: &mut [u8], len: usize) -> Option<()> {
    let payload = u16::try_from(len.checked_sub(Ipv6::LEN)?).ok()?;
    head.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
    // The fragment header is the last of them: its reserved byte, offset and flag become zero.
    let at = head.len().checked_sub(8)?;
    head.get_mut(at + 2..at + 4)?.fill(0);
    Some(())
}
