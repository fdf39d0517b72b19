//! Fast path that adds headers over UDP: VXLAN and Geneve.
//!
//! A header is at the end of a block of one or two cache lines. The last 64, 96 or 128 bytes of the block are copied in front of the frame,
//! because a copy of constant length takes a few vector instructions; the bytes before the header are written into unused headroom. For the
//! two most frequent lengths, the first two bytes of the block hold the constant part of the checksum; other headers have length, offset and
//! sums in fields after the block. So the headers to thousands of remote tunnel endpoints use as few cache lines as possible.

use crate::wire::{self, write16};
use packet::checksum::{self, WordSum};
use packet::frame::Frame;
use std::sync::Arc;

/// Bytes of a cache line.
const LINE: usize = 64;
/// While a packet gets its header, the headroom of the packet this many positions later is prefetched: it is probably in no cache, because
/// nothing has accessed it since the buffer was last used.
const AHEAD: usize = 4;
/// Bytes that are copied for a [`HEADER_V4`] header: complete vector registers.
const BLOCK_V4: usize = 64;
/// Bytes that are copied for a [`HEADER_V6`] header: complete vector registers.
const BLOCK_V6: usize = 96;
/// Length of the most frequent header over IPv4: VXLAN, or Geneve without options.
const HEADER_V4: usize = wire::ETHERNET + wire::IPV4 + wire::UDP + wire::VXLAN;
/// Length of the most frequent header over IPv6: VXLAN, or Geneve without options.
const HEADER_V6: usize = wire::ETHERNET + wire::IPV6 + wire::UDP + wire::VXLAN;
const _: () = assert!(wire::VXLAN == wire::GENEVE);
/// Bytes from the total length field of an IPv4 header without options to the UDP header.
const IPV4_LEN_BEFORE_UDP: usize = wire::IPV4 - 2;
/// Bytes from the checksum field of an IPv4 header without options to the UDP header.
const IPV4_CHECKSUM_BEFORE_UDP: usize = wire::IPV4 - 10;
/// Bytes from the payload length field of an IPv6 header to the UDP header.
const IPV6_LEN_BEFORE_UDP: usize = wire::IPV6 - 4;
/// The destination port in a UDP header that is read as one big-endian `u64`: source port, destination port, length, checksum.
const DESTINATION_PORT: u64 = 0xffff_0000_0000;

/// The UDP source port of each frame of a batch.
pub type BatchSourcePorts = [u16; 64];

/// A header of which only lengths, the UDP source port and checksums depend on the packet. Clones share its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastPush(Form);

/// How a header is stored and written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// [`HEADER_V4`] bytes, without a UDP checksum.
    Ipv4(Arc<Ipv4Block>),
    /// [`HEADER_V6`] bytes, with a UDP checksum.
    Ipv6(Arc<Ipv6Block>),
    Generic(Arc<GenericBlock>),
}

/// A cache line with the header at its end. Its first two bytes are the sum of the IPv4 header without its length, so that adding the
/// header reads one cache line. They are written into unused headroom with the rest of the line, which is harmless.
#[derive(Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Ipv4Block([u8; LINE]);

/// Two cache lines with the header at their end. The first two bytes are the constant part of the UDP checksum.
#[derive(Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Ipv6Block([u8; 2 * LINE]);

/// A header of any other length, or with other checksums.
#[derive(Debug, PartialEq, Eq)]
#[repr(C, align(64))]
struct GenericBlock {
    /// The header is at the end of the block.
    block: [u8; 2 * LINE],
    /// Length of the header.
    len: u8,
    /// Offset of the UDP header in the block.
    udp: u8,
    sums: Sums,
}

/// Parts of the checksums that are the same for all packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    /// Sum of the IPv4 header without its length. `None`: the outer header is IPv6.
    ip: Option<u16>,
    /// Sum of everything that the UDP checksum covers, except lengths, source port and inner packet. `None`: no UDP checksum.
    udp: Option<u16>,
}

/// Parameters of [`write()`]. For the most frequent headers, all of them except the sums are constants when the code is compiled.
struct WriteParams {
    len: usize,
    /// Offset of the UDP header in the written block.
    udp: usize,
    sums: Sums,
}

impl FastPush {
    /// Makes the fast form of a header. `udp`: offset of the UDP header in `header`; `partial_sum`: sum of the IPv4 header without its
    /// length, in 32 bits, or `None` if the outer header is IPv6; `has_udp_checksum`: the UDP header has a checksum. Returns `None` if the
    /// header is longer than two cache lines.
    pub(crate) fn new(
        header: &[u8],
        udp: usize,
        partial_sum: Option<u32>,
        has_udp_checksum: bool,
    ) -> Option<FastPush> {
        let mut block = [0; 2 * LINE];
        let at = block.len().checked_sub(header.len())?;
        block[at..].copy_from_slice(header);
        let udp_sum =
            if has_udp_checksum { Some(udp_sum(header, udp, partial_sum.is_some())?) } else { None };
        // The checksum field is zero while the sum is computed.
        block[at + udp + 6..at + udp + 8].fill(0);
        // `finish` folds the sum to 16 bits and complements it; here it is needed without the complement.
        let ip_sum = partial_sum.map(|sum| !checksum::finish(sum));
        let form = match (header.len(), ip_sum, udp_sum) {
            (HEADER_V4, Some(ip_sum), None) => {
                let mut line = *block.last_chunk()?;
                *line.first_chunk_mut()? = ip_sum.to_ne_bytes();
                Form::Ipv4(Arc::new(Ipv4Block(line)))
            }
            (HEADER_V6, None, Some(udp_sum)) => {
                *block.first_chunk_mut()? = udp_sum.to_ne_bytes();
                Form::Ipv6(Arc::new(Ipv6Block(block)))
            }
            (len, ip_sum, udp_sum) => {
                let sums = Sums { ip: ip_sum, udp: udp_sum };
                Form::Generic(Arc::new(GenericBlock { block, len: len as u8, udp: (at + udp) as u8, sums }))
            }
        };
        Some(FastPush(form))
    }

    /// Prefetches the cache lines that adding the header reads.
    #[inline(always)]
    pub fn prefetch(&self) {
        match &self.0 {
            Form::Ipv4(block) => cpu::prefetch_lines(&**block),
            Form::Ipv6(block) => cpu::prefetch_lines(&**block),
            Form::Generic(block) => cpu::prefetch_lines(&**block),
        }
    }

    /// Adds the header to a frame. Returns `None` and changes nothing if the headroom is smaller than the block, or the packet is too long.
    #[inline(always)]
    pub fn push_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        match &self.0 {
            Form::Ipv4(block) => block.push_on(frame, source_port),
            Form::Ipv6(block) => block.push_on(frame, source_port),
            Form::Generic(block) => block.push_on(frame, source_port),
        }
    }

    /// Adds the header to at most 64 frames; `ports`: the source port of each. Returns a bit mask of the frames to which
    /// [`push_on`](Self::push_on) cannot add it.
    #[inline(always)]
    pub fn push_on_all(&self, frames: &mut [Frame], ports: &BatchSourcePorts) -> u64 {
        // The form is matched once, and each loop is compiled for its form.
        match &self.0 {
            Form::Ipv4(block) => each(frames, ports, |_, frame, port| block.push_on(frame, port)),
            Form::Ipv6(block) => each(frames, ports, |_, frame, port| block.push_on(frame, port)),
            Form::Generic(block) => each(frames, ports, |_, frame, port| block.push_on(frame, port)),
        }
    }

    /// [`push_on_all`](Self::push_on_all) with a header for each frame.
    #[inline(always)]
    pub fn push_on_each<'p>(
        frames: &mut [Frame],
        header: impl Fn(usize) -> Option<&'p FastPush>,
        ports: &BatchSourcePorts,
    ) -> u64 {
        each(frames, ports, |i, frame, port| header(i)?.push_on(frame, port))
    }
}

impl Ipv4Block {
    #[inline(always)]
    fn push_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        const UDP: usize = BLOCK_V4 - wire::UDP - wire::VXLAN;
        let ip = Some(u16::from_ne_bytes(*self.0.first_chunk()?));
        let params = WriteParams { len: HEADER_V4, udp: UDP, sums: Sums { ip, udp: None } };
        write::<BLOCK_V4>(&self.0, frame, source_port, &params)
    }
}

impl Ipv6Block {
    #[inline(always)]
    fn push_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        const UDP: usize = BLOCK_V6 - wire::UDP - wire::VXLAN;
        let udp = Some(u16::from_ne_bytes(*self.0.first_chunk()?));
        let params = WriteParams { len: HEADER_V6, udp: UDP, sums: Sums { ip: None, udp } };
        write::<BLOCK_V6>(self.0.last_chunk()?, frame, source_port, &params)
    }
}

impl GenericBlock {
    #[inline(always)]
    fn push_on(&self, frame: &mut Frame, source_port: u16) -> Option<()> {
        let &GenericBlock { ref block, len, udp, sums } = self;
        let params = |udp| WriteParams { len: len.into(), udp, sums };
        match usize::from(udp).checked_sub(LINE) {
            Some(udp) if usize::from(len) <= LINE => {
                write::<LINE>(block.last_chunk()?, frame, source_port, &params(udp))
            }
            _ => write::<{ 2 * LINE }>(block, frame, source_port, &params(udp.into())),
        }
    }
}

/// Writes the block in front of the frame and fills in the fields that depend on the frame.
#[inline(always)]
fn write<const N: usize>(
    block: &[u8; N],
    frame: &mut Frame,
    source_port: u16,
    params: &WriteParams,
) -> Option<()> {
    let &WriteParams { len, udp, sums: Sums { ip: ip_sum, udp: udp_sum } } = params;
    // Length of the UDP header and its payload.
    let udp_len = u16::try_from(frame.len() + N.checked_sub(udp)?).ok()?;
    let ip_total = udp_len.checked_add(wire::IPV4 as u16)?;
    let udp_sum = match udp_sum {
        Some(sum) => {
            let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
            // The length is also in the pseudo header.
            let words =
                WordSum::default().with_pair(pair(sum, udp_len)).with_pair(pair(source_port, udp_len));
            // Zero would mean "no checksum" (RFC 768).
            match words.with(frame.bytes()).checksum() {
                0 => u16::MAX,
                sum => sum,
            }
        }
        None => 0,
    };
    let udp_template = u64::from_be_bytes(*block.get(udp..)?.first_chunk()?);
    frame.put_front::<N>(len, |head| {
        *head = *block;
        match ip_sum {
            Some(ip_sum) => {
                write16(head, udp.wrapping_sub(IPV4_LEN_BEFORE_UDP), ip_total);
                write16(
                    head,
                    udp.wrapping_sub(IPV4_CHECKSUM_BEFORE_UDP),
                    checksum::finish_two(ip_sum, ip_total),
                );
            }
            None => write16(head, udp.wrapping_sub(IPV6_LEN_BEFORE_UDP), udp_len),
        }
        let ports = udp_template & DESTINATION_PORT | u64::from(source_port) << 48;
        let udp_header = ports | u64::from(udp_len) << 16 | u64::from(udp_sum);
        if let Some(place) = head.get_mut(udp..).and_then(|head| head.first_chunk_mut()) {
            *place = udp_header.to_be_bytes();
        }
    })
}

/// Calls `push` for each frame. Returns a bit mask of the frames for which it fails.
#[inline(always)]
fn each(
    frames: &mut [Frame],
    ports: &BatchSourcePorts,
    push: impl Fn(usize, &mut Frame, u16) -> Option<()>,
) -> u64 {
    let (mut i, mut failed) = (0, 0);
    // A loop by index, because it accesses two frames at a time.
    while let Some(frame) = frames.get_mut(i) {
        if push(i, frame, ports[i % ports.len()]).is_none() {
            failed |= 1 << (i % 64);
        }
        if let Some(ahead) = frames.get(i + AHEAD) {
            ahead.prefetch_line(-1);
        }
        i += 1;
    }
    failed
}

/// The part of the UDP checksum that is the same for all packets: addresses, protocol, destination port and tunnel header.
/// `is_ipv4`: the outer header is IPv4.
fn udp_sum(header: &[u8], udp: usize, is_ipv4: bool) -> Option<u16> {
    let addresses = header.get(wire::ETHERNET + if is_ipv4 { 12 } else { 8 }..udp)?;
    let sum = checksum::add16(checksum::add(0, addresses), u16::from(wire::PROTO_UDP));
    let sum = checksum::add(sum, header.get(udp + 2..udp + 4)?);
    Some(!checksum::finish(checksum::add(sum, header.get(udp + wire::UDP..)?)))
}

/// Adds `n` to the identification of an outer IPv4 header that was just added to a frame, and updates the header's checksum. Does nothing
/// for IPv6, which has no identification. Called for the second and later segments of a packet that was segmented before the header was
/// added; `n` is the number of the segment, counted from 0.
pub fn add_to_id(frame: &mut [u8], n: u16) {
    const IP: usize = wire::ETHERNET;
    let Some(header) = frame.get_mut(..IP + wire::IPV4).filter(|header| header[12..15] == [8, 0, 0x45])
    else {
        return;
    };
    let be16 = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (id, sum) = (be16(IP + 4), be16(IP + 10));
    let new = id.wrapping_add(n);
    header[IP + 4..IP + 6].copy_from_slice(&new.to_be_bytes());
    header[IP + 10..IP + 12].copy_from_slice(&checksum::update16(sum, id, new).to_be_bytes());
}
