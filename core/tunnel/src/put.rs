//! Fast path that adds headers over UDP: VXLAN, Geneve.
//!
//! The header is at the end of a block of whole cache lines, and the whole block is copied in front of the
//! frame: a copy of constant length takes a few vector instructions. The bytes of the block before the header
//! are written into unused headroom. They hold everything else that is needed to add the header, so that the
//! headers to thousands of remote ends take as few cache lines as possible.

use crate::wire::{self, put16};
use packet::checksum::{self, Words};
use packet::frame::Frame;
use std::sync::Arc;

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

/// A header of which only lengths, the UDP source port and checksums depend on the packet. Copies share its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastPut(Form);

/// How a header is stored and written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// [`USUAL_V4`] bytes, without a UDP checksum.
    Ipv4(Arc<Usual4>),
    /// [`USUAL_V6`] bytes, with a UDP checksum.
    Ipv6(Arc<Usual6>),
    Any(Arc<Any>),
}

/// The header is at the end of one cache line. The first two bytes are the sum of the IPv4 header without its length; they are written
/// into unused headroom with the rest of the line, which is harmless and lets a packet need no other line.
#[derive(Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Usual4([u8; LINE]);

/// The header is at the end of two cache lines; the first two bytes are the constant part of the UDP checksum.
#[derive(Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Usual6([u8; 2 * LINE]);

/// A header of any other length, or with another choice of checksums.
#[derive(Debug, PartialEq, Eq)]
#[repr(C, align(64))]
struct Any {
    /// The header is at the end of the block.
    block: [u8; 2 * LINE],
    len: u8,
    /// Offset of the UDP header in the block.
    udp: u8,
    sums: Sums,
}

/// Parts of the checksums that are the same for all packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    /// The sum of the IPv4 header without its length; `None`: IPv6.
    ip: Option<u16>,
    /// The sum of all that the UDP checksum covers except lengths, the source port and the inner packet; `None`: no
    /// checksum.
    udp: Option<u16>,
}

/// Parameters of [`write()`]. The code for a usual form has constants for all but the sums.
struct Plan {
    len: usize,
    /// Offset of the UDP header in the written block.
    udp: usize,
    sums: Sums,
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
            (USUAL_V4, Some(sum), None) => {
                let mut line = *block.last_chunk()?;
                *line.first_chunk_mut()? = sum.to_ne_bytes();
                Form::Ipv4(Arc::new(Usual4(line)))
            }
            (USUAL_V6, None, Some(sum)) => {
                *block.first_chunk_mut()? = sum.to_ne_bytes();
                Form::Ipv6(Arc::new(Usual6(block)))
            }
            (len, ip, udp_sum) => {
                let sums = Sums { ip, udp: udp_sum };
                Form::Any(Arc::new(Any { block, len: len as u8, udp: (at + udp) as u8, sums }))
            }
        };
        Some(FastPut(form))
    }

    /// Prefetches what adding the header reads.
    #[inline(always)]
    pub fn prefetch(&self) {
        match &self.0 {
            Form::Ipv4(usual) => cpu::prefetch_lines(&**usual),
            Form::Ipv6(usual) => cpu::prefetch_lines(&**usual),
            Form::Any(any) => cpu::prefetch_lines(&**any),
        }
    }

    /// Adds the header. Returns `None` and changes nothing if the headroom is smaller than the block, or the
    /// packet is too long.
    #[inline(always)]
    pub fn put_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        match &self.0 {
            Form::Ipv4(usual) => usual.put_on(frame, source_port),
            Form::Ipv6(usual) => usual.put_on(frame, source_port),
            Form::Any(any) => any.put_on(frame, source_port),
        }
    }

    /// Adds the header to all frames, of which there are at most 64. Returns a bit for each frame to which
    /// [`put_on`](Self::put_on) does not add it.
    #[inline(always)]
    pub fn put_on_all(&self, frames: &mut [Frame], source_port: impl Fn(usize, &Frame) -> u16) -> u64 {
        // The form is matched once, and each loop is compiled for its form.
        match &self.0 {
            Form::Ipv4(usual) => each(frames, source_port, |_, frame, port| usual.put_on(frame, port)),
            Form::Ipv6(usual) => each(frames, source_port, |_, frame, port| usual.put_on(frame, port)),
            Form::Any(any) => each(frames, source_port, |_, frame, port| any.put_on(frame, port)),
        }
    }

    /// As [`put_on_all`](Self::put_on_all), with a header for each frame.
    #[inline(always)]
    pub fn put_on_each<'p>(
        frames: &mut [Frame],
        header: impl Fn(usize) -> Option<&'p FastPut>,
        source_port: impl Fn(usize, &Frame) -> u16,
    ) -> u64 {
        each(frames, source_port, |i, frame, port| header(i)?.put_on(frame, port))
    }
}

impl Usual4 {
    #[inline(always)]
    fn put_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        const UDP: usize = BLOCK_V4 - wire::UDP - wire::VXLAN;
        let ip = Some(u16::from_ne_bytes(*self.0.first_chunk()?));
        let plan = Plan { len: USUAL_V4, udp: UDP, sums: Sums { ip, udp: None } };
        write::<BLOCK_V4>(&self.0, frame, source_port, &plan)
    }
}

impl Usual6 {
    #[inline(always)]
    fn put_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        const UDP: usize = BLOCK_V6 - wire::UDP - wire::VXLAN;
        let udp = Some(u16::from_ne_bytes(*self.0.first_chunk()?));
        let plan = Plan { len: USUAL_V6, udp: UDP, sums: Sums { ip: None, udp } };
        write::<BLOCK_V6>(self.0.last_chunk()?, frame, source_port, &plan)
    }
}

impl Any {
    #[inline(always)]
    fn put_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        let &Any { ref block, len, udp, sums } = self;
        let plan = |udp| Plan { len: len.into(), udp, sums };
        match usize::from(udp).checked_sub(LINE) {
            Some(udp) if usize::from(len) <= LINE => {
                write::<LINE>(block.last_chunk()?, frame, source_port, &plan(udp))
            }
            _ => write::<{ 2 * LINE }>(block, frame, source_port, &plan(udp.into())),
        }
    }
}

/// Writes the block in front of the frame, and fills in what depends on the frame.
#[inline(always)]
fn write<const N: usize>(block: &[u8; N], frame: &mut Frame, source_port: u16, plan: &Plan) -> Option<()> {
    let &Plan { len, udp, sums: Sums { ip: sum, udp: udp_sum } } = plan;
    // The UDP header and its payload.
    let udp_len = u16::try_from(frame.len() + N.checked_sub(udp)?).ok()?;
    let ip_total = udp_len.checked_add(20)?;
    let udp_sum = match udp_sum {
        Some(sum) => {
            let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
            // The length is also in the pseudo header.
            let words = Words::default().with_pair(pair(sum, udp_len)).with_pair(pair(source_port, udp_len));
            // Zero would mean "no checksum" (RFC 768).
            match words.with(frame.bytes()).checksum() {
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

/// Calls `put` for each frame; returns a bit for each for which it fails.
#[inline(always)]
fn each(
    frames: &mut [Frame],
    source_port: impl Fn(usize, &Frame) -> u16,
    put: impl Fn(usize, &mut Frame, u16) -> Option<()>,
) -> u64 {
    let (mut i, mut failed) = (0, 0);
    // A loop by index, because it accesses two frames at a time.
    while let Some(frame) = frames.get_mut(i) {
        let port = source_port(i, frame);
        if put(i, frame, port).is_none() {
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
fn udp_sum(header: &[u8], udp: usize, four: bool) -> Option<u16> {
    let addresses = header.get(wire::ETHERNET + if four { 12 } else { 8 }..udp)?;
    let sum = checksum::add16(checksum::add(0, addresses), u16::from(wire::PROTO_UDP));
    let sum = checksum::add(sum, header.get(udp + 2..udp + 4)?);
    Some(!checksum::finish(checksum::add(sum, header.get(udp + wire::UDP..)?)))
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
