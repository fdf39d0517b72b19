//! Fast path that adds headers over UDP: VXLAN, Geneve.
//!
//! The header is at the end of a block of whole cache lines, and the whole block is copied in front of the
//! frame: a copy of constant length takes a few vector instructions. The bytes of the block before the header
//! are written into unused headroom.

use crate::wire::{self, put16};
use packet::checksum;
use packet::frame::Frame;

/// Bytes of a cache line.
const LINE: usize = 64;
/// How many packets ahead the headroom is prefetched: nothing has touched it since the buffer was last used.
const AHEAD: usize = 4;
/// Bytes of the blocks of usual headers over IPv4 and IPv6: whole vector registers.
const BLOCK_V4: usize = 64;
const BLOCK_V6: usize = 96;
/// Bytes of these headers: VXLAN, or Geneve without options.
const USUAL_V4: usize = wire::ETHERNET + wire::IPV4 + wire::UDP + wire::VXLAN;
const USUAL_V6: usize = wire::ETHERNET + wire::IPV6 + wire::UDP + wire::VXLAN;
const _: () = assert!(wire::VXLAN == wire::GENEVE);

/// A header of which only lengths, the UDP source port and checksums depend on the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FastPut {
    /// The block; the header is at its end.
    block: Block,
    len: u8,
    /// Offset of the UDP header in the block.
    udp: u8,
    form: Form,
    /// The sum of the IPv4 header without its length; `None`: IPv6.
    sum: Option<u16>,
    /// The sum of all that the UDP checksum covers except lengths, the source port and the inner packet; `None`: no
    /// checksum.
    udp_sum: Option<u32>,
}

/// Aligned, so that each vector register is loaded from one cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Block([u8; 2 * LINE]);

/// How a header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// [`USUAL_V4`] bytes, without a UDP checksum.
    Ipv4,
    /// [`USUAL_V6`] bytes, with a UDP checksum.
    Ipv6,
    Any,
}

/// Parameters of [`FastPut::write`]. The code for a usual form has constants for all but the sums.
struct Plan {
    len: usize,
    /// Offset of the UDP header in the written block.
    udp: usize,
    sum: Option<u16>,
    udp_sum: Option<u32>,
}

impl FastPut {
    /// `udp`: offset of the UDP header in `header`. `None`: the header is longer than a block.
    pub(crate) fn new(header: &[u8], udp: usize, sum: Option<u32>, checksum: bool) -> Option<FastPut> {
        let mut block = [0; 2 * LINE];
        let at = block.len().checked_sub(header.len())?;
        block[at..].copy_from_slice(header);
        let udp_sum = if checksum { Some(udp_sum(header, udp, sum.is_some())?) } else { None };
        // The checksum field is zero while the sum is computed.
        block[at + udp + 6..at + udp + 8].fill(0);
        let sum = sum.map(|sum| !checksum::finish(sum));
        let form = match (header.len(), sum, udp_sum) {
            (USUAL_V4, Some(_), None) => Form::Ipv4,
            (USUAL_V6, None, Some(_)) => Form::Ipv6,
            _ => Form::Any,
        };
        Some(FastPut {
            block: Block(block),
            len: header.len() as u8,
            udp: (at + udp) as u8,
            form,
            sum,
            udp_sum,
        })
    }

    /// Adds the header. Returns `None` and changes nothing if the headroom is smaller than the block, or the
    /// packet is too long.
    #[inline(always)]
    pub(crate) fn put_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        match self.form {
            Form::Ipv4 => self.put_ipv4(frame, source_port),
            Form::Ipv6 => self.put_ipv6(frame, source_port),
            Form::Any => self.put_any(frame, source_port),
        }
    }

    /// Adds the header to all frames, of which there are at most 64. Returns a bit for each frame to which
    /// [`put_on`](Self::put_on) does not add it.
    #[inline(always)]
    pub(crate) fn put_on_all(&self, frames: &mut [Frame], source_port: impl Fn(usize, &Frame) -> u16) -> u64 {
        // The form is matched once, and each loop is compiled for its form.
        match self.form {
            Form::Ipv4 => each(frames, source_port, |frame, port| self.put_ipv4(frame, port)),
            Form::Ipv6 => each(frames, source_port, |frame, port| self.put_ipv6(frame, port)),
            Form::Any => each(frames, source_port, |frame, port| self.put_any(frame, port)),
        }
    }

    #[inline(always)]
    fn put_ipv4(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        const UDP: usize = BLOCK_V4 - wire::UDP - wire::VXLAN;
        let sum = Some(self.sum.unwrap_or_default());
        self.write::<BLOCK_V4>(frame, source_port, &Plan { len: USUAL_V4, udp: UDP, sum, udp_sum: None })
    }

    #[inline(always)]
    fn put_ipv6(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        const UDP: usize = BLOCK_V6 - wire::UDP - wire::VXLAN;
        let udp_sum = Some(self.udp_sum.unwrap_or_default());
        self.write::<BLOCK_V6>(frame, source_port, &Plan { len: USUAL_V6, udp: UDP, sum: None, udp_sum })
    }

    #[inline(always)]
    fn put_any(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        let &FastPut { len, udp, sum, udp_sum, .. } = self;
        let plan = |udp| Plan { len: len.into(), udp, sum, udp_sum };
        match usize::from(udp).checked_sub(LINE) {
            Some(udp) if usize::from(len) <= LINE => self.write::<LINE>(frame, source_port, &plan(udp)),
            _ => self.write::<{ 2 * LINE }>(frame, source_port, &plan(udp.into())),
        }
    }

    /// Writes the last `N` bytes of the block in front of the frame, and fills in what depends on the frame.
    #[inline(always)]
    fn write<const N: usize>(&self, frame: &mut Frame, source_port: u16, plan: &Plan) -> Option<()> {
        let &Plan { len, udp, sum, udp_sum } = plan;
        let block = self.block.0.last_chunk::<N>()?;
        // The UDP header and its payload.
        let udp_len = u16::try_from(frame.len() + N.checked_sub(udp)?).ok()?;
        let ip_total = udp_len.checked_add(20)?;
        let udp_sum = match udp_sum {
            // The length is also in the pseudo header.
            Some(sum) => {
                let sum = u64::from(sum) + 2 * u64::from(udp_len) + u64::from(source_port);
                // Zero would mean "no checksum" (RFC 768).
                match checksum::finish(checksum::add(checksum::fold(sum), frame.bytes())) {
                    0 => u16::MAX,
                    sum => sum,
                }
            }
            None => 0,
        };
        let ports = u64::from_be_bytes(*block.get(udp..)?.first_chunk()?);
        frame.put_front::<N>(len, |head| {
            *head = *block;
            match sum {
                Some(sum) => {
                    put16(head, udp.wrapping_sub(18), ip_total);
                    put16(head, udp.wrapping_sub(10), checksum::finish_two(sum, ip_total));
                }
                None => put16(head, udp.wrapping_sub(36), udp_len),
            }
            let ports = ports & 0xffff_0000_0000 | u64::from(source_port) << 48;
            let own = ports | u64::from(udp_len) << 16 | u64::from(udp_sum);
            if let Some(place) = head.get_mut(udp..).and_then(|head| head.first_chunk_mut()) {
                *place = own.to_be_bytes();
            }
        })
    }
}

/// Calls `put` for each frame; returns a bit for each for which it fails.
#[inline(always)]
fn each(
    frames: &mut [Frame],
    source_port: impl Fn(usize, &Frame) -> u16,
    put: impl Fn(&mut Frame, u16) -> Option<()>,
) -> u64 {
    let (mut i, mut failed) = (0, 0);
    // A loop by index, because it accesses two frames at a time.
    while let Some(frame) = frames.get_mut(i) {
        let port = source_port(i, frame);
        if put(frame, port).is_none() {
            failed |= 1 << (i % 64);
        }
        if let Some(ahead) = frames.get(i + AHEAD) {
            ahead.prefetch_line(-1);
        }
        i += 1;
    }
    failed
}

/// The part of the UDP checksum that is the same for all packets: addresses, protocol, destination port, and the tunnel's header.
fn udp_sum(header: &[u8], udp: usize, four: bool) -> Option<u32> {
    let addresses = header.get(wire::ETHERNET + if four { 12 } else { 8 }..udp)?;
    let sum = checksum::add16(checksum::add(0, addresses), u16::from(wire::PROTO_UDP));
    let sum = checksum::add(sum, header.get(udp + 2..udp + 4)?);
    Some(checksum::add(sum, header.get(udp + wire::UDP..)?))
}

/// Adds `n` to the identification of an outer IPv4 header that was just put on a frame. A header of IPv6 has none.
pub fn add_to_id(frame: &mut [u8], n: u16) {
    const IP: usize = wire::ETHERNET;
    let Some(header) = frame.get_mut(..IP + wire::IPV4).filter(|header| header[12..15] == [8, 0, 0x45])
    else {
        return;
    };
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (id, sum) = (word(IP + 4), word(IP + 10));
    let new = id.wrapping_add(n);
    header[IP + 4..IP + 6].copy_from_slice(&new.to_be_bytes());
    header[IP + 10..IP + 12].copy_from_slice(&checksum::update16(sum, id, new).to_be_bytes());
}
