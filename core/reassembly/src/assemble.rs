//! Assembles a datagram from its fragments.
//!
//! The datagram has the headers of the first fragment, changed to headers of a complete datagram. In IPv6 the fragment header stays, as the
//! header of an atomic fragment (RFC 6946), so that all headers keep their offsets.

use crate::datagram::Datagram;
use packet::checksum::{update16, update32};
use packet::{Ipv4, Ipv6};

impl<T> Datagram<T> {
    /// Length of the datagram in bytes, from its network header on.
    pub fn len(&self) -> usize {
        let (first, last) = (self.parts.first(), self.parts.last());
        first.map_or(0, |p| p.payload().start) + last.map_or(0, |p| p.range_in_datagram().end)
    }

    /// Always `false`: a datagram has at least the header of its first fragment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the datagram to `out`, whose length must be [`Datagram::len`]. `l3` returns the bytes of a fragment from its network header
    /// on. `None`: a fragment is shorter than when it was added.
    pub fn write<'a>(&'a self, out: &mut [u8], l3: impl Fn(&'a T) -> &'a [u8]) -> Option<()> {
        let first = self.parts.first()?;
        let header = first.payload().start;
        let (head, payload) = out.split_at_mut_checked(header)?;
        head.copy_from_slice(l3(&first.content).get(..header)?);
        for part in &self.parts {
            let bytes = l3(&part.content).get(part.payload())?;
            payload.get_mut(part.range_in_datagram())?.copy_from_slice(bytes);
        }
        let len = header + payload.len();
        match self.v6 {
            false => complete_header_v4(head, len),
            true => complete_header_v6(head, len),
        }
    }
}

impl<T> Datagram<T> {
    /// Copies changes of the reassembled datagram, from its network header on, to the fragments: addresses and payload. If the length of
    /// the datagram has changed, only addresses are copied. `l3` as in [`Datagram::write`].
    pub fn write_back(&mut self, datagram: &[u8], l3: impl Fn(&mut T) -> &mut [u8]) {
        let Some(header) = self.parts.first().map(|first| first.payload().start) else { return };
        let (same_len, v6) = (datagram.len() == self.len(), self.v6);
        for part in &mut self.parts {
            let (payload, range) = (part.payload(), part.range_in_datagram());
            let out = l3(&mut part.content);
            write_addresses(v6, datagram, out);
            let new = datagram.get(header + range.start..header + range.end);
            if let (Some(out), Some(new), true) = (out.get_mut(payload), new, same_len) {
                out.copy_from_slice(new);
            }
        }
    }
}

/// Copies source and destination address, and updates the checksum of an IPv4 header.
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

fn complete_header_v4(head: &mut [u8], len: usize) -> Option<()> {
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

fn complete_header_v6(head: &mut [u8], len: usize) -> Option<()> {
    let payload = u16::try_from(len.checked_sub(Ipv6::LEN)?).ok()?;
    head.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
    // The fragment header is the last header: its reserved bits, offset and flag become zero.
    let at = head.len().checked_sub(8)?;
    head.get_mut(at + 2..at + 4)?.fill(0);
    Some(())
}
