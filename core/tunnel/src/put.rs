//! Fast addition of the most frequent headers: UDP.
//!
//! The header is at the end of a block of whole cache lines, and the whole block is copied in front of the
//! frame: a copy of constant length takes a few vector instructions. The bytes of the block before the header
//! are written into unused headroom.

use crate::wire::{self, put16};
use packet::checksum;
use packet::frame::Frame;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A header in which only lengths, the source port and the checksum of IPv4 must be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quick {
    /// The block; the header is at its end.
    block: [u8; 2 * LINE],
    len: u8,
    /// Offset of the UDP header in the block.
    udp: u8,
    /// The sum of the IPv4 header without its length; `None`: IPv6.
    sum: Option<u32>,
    /// The sum of all that the UDP checksum covers except lengths, the source port and the inner packet; `None`: no
    /// checksum.
    udp_sum: Option<u32>,
}

impl Quick {
    /// Makes one of a header whose UDP header is at `udp`. `None`: the header is longer than a block.
    pub(crate) fn new(header: &[u8], udp: usize, sum: Option<u32>, checksum: bool) -> Option<Quick> {
        let mut block = [0; 2 * LINE];
        let at = block.len().checked_sub(header.len())?;
        block[at..].copy_from_slice(header);
        let udp_sum = if checksum { Some(udp_sum(header, udp, sum.is_some())?) } else { None };
        // The checksum that is not known yet must not be summed up.
        block[at + udp + 6..at + udp + 8].fill(0);
        Some(Quick { block, len: header.len() as u8, udp: (at + udp) as u8, sum, udp_sum })
    }

    /// Adds the header. Returns `None` and changes nothing if the headroom is smaller than the block, or the
    /// packet is too long.
    #[inline(always)]
    pub(crate) fn put_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        let inner = frame.len();
        let len = usize::from(self.len);
        if len <= LINE {
            self.write::<LINE>(frame, inner, source_port)?;
        } else {
            self.write::<{ 2 * LINE }>(frame, inner, source_port)?;
        }
        frame.grow_front(i16::from(self.len));
        Some(())
    }

    /// Writes the last `N` bytes of the block in front of the frame.
    #[inline(always)]
    fn write<const N: usize>(&self, frame: &mut Frame, inner: usize, source_port: u16) -> Option<()> {
        let left_out = 2 * LINE - N;
        let udp = usize::from(self.udp).checked_sub(left_out).filter(|at| *at < N)?;
        // The UDP header and its payload.
        let udp_len = u16::try_from(inner + N - udp).ok()?;
        let ip_total = udp_len.checked_add(20)?;
        let udp_sum = match self.udp_sum {
            // The length is also in the pseudo header.
            Some(sum) => {
                let lengths = checksum::add16(checksum::add16(sum, udp_len), udp_len);
                Some(checksum::add(checksum::add16(lengths, source_port), frame.bytes()))
            }
            None => None,
        };
        let head = frame.head_mut(N)?.first_chunk_mut::<N>()?;
        head.copy_from_slice(&self.block[left_out..]);
        match self.sum {
            Some(sum) => {
                put16(head, udp.checked_sub(18)?, ip_total);
                put16(head, udp.checked_sub(10)?, checksum::finish(checksum::add16(sum, ip_total)));
            }
            None => put16(head, udp.checked_sub(36)?, udp_len),
        }
        put16(head, udp, source_port);
        put16(head, udp + 4, udp_len);
        if let Some(sum) = udp_sum {
            // Zero would mean "no checksum" (RFC 768).
            let sum = checksum::finish(sum);
            put16(head, udp + 6, if sum == 0 { 0xffff } else { sum });
        }
        Some(())
    }
}

/// The sum of addresses, protocol, destination port, and of what is behind the UDP header.
fn udp_sum(header: &[u8], udp: usize, four: bool) -> Option<u32> {
    let addresses = header.get(wire::ETHERNET + if four { 12 } else { 8 }..udp)?;
    let sum = checksum::add16(checksum::add(0, addresses), u16::from(wire::PROTO_UDP));
    let sum = checksum::add(sum, header.get(udp + 2..udp + 4)?);
    Some(checksum::add(sum, header.get(udp + wire::UDP..)?))
}
