//! Template of a tunnel header: adds the header to packets and fills in the fields that differ from packet to packet.
//!
//! The header is copied into headroom in front of the packet; lengths, source port, checksums and sequence numbers are written into the
//! copy. The sum of the IPv4 header without its length is precomputed.

use crate::fast_push::FastPush;
use crate::wire::{self, gre, gtpu, write16};
use crate::{FlowLabel, Kind};
use packet::checksum;
use packet::frame::Frame;

/// Header fields that differ from packet to packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerPacket {
    /// UDP source port, from a hash of the inner packet.
    pub source_port: u16,
    /// Sequence number, for tunnels that number packets.
    pub seq: u32,
    /// Timestamp in units of 100 µs, for ERSPAN version 2.
    pub timestamp: u32,
    /// Hash of the inner packet; its lower 20 bits become the flow label if that is computed (SRv6).
    pub hash: u32,
}

/// The headers after the outer IP header, and which of their fields differ from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encapsulation {
    Udp { checksum: bool },
    Gtpu { checksum: bool, seq: bool },
    Gre { checksum: bool, seq: Option<usize> },
    Erspan { timestamp: bool },
    Srv6 { label: FlowLabel },
}

/// A tunnel header to add to packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    header: Box<[u8]>,
    /// Offset of the end of the IP header.
    l4: usize,
    /// Sum of the IPv4 header without its length. `None`: the outer header is IPv6.
    sum: Option<u32>,
    encapsulation: Encapsulation,
    /// The same header in a form that is faster to add. `None`: the header has no such form.
    fast_push: Option<FastPush>,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn write32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

impl Template {
    /// Makes a template from a built header. `None`: the bytes are not a header of this tunnel type.
    pub fn new(header: &[u8], tunnel_type: u32) -> Option<Template> {
        let kind = Kind::of_number(tunnel_type)?;
        let (l4, sum) = match be16(header, 12)? {
            wire::ETHERTYPE_IPV4 => {
                let l4 = wire::ETHERNET + wire::IPV4;
                (l4, Some(checksum::add(0, header.get(wire::ETHERNET..l4)?)))
            }
            wire::ETHERTYPE_IPV6 => (wire::ETHERNET + wire::IPV6, None),
            _ => return None,
        };
        let encapsulation = encapsulation_of(kind, header.get(l4..)?, header)?;
        let fast_push = match encapsulation {
            Encapsulation::Udp { checksum } => FastPush::new(header, l4, sum, checksum),
            _ => None,
        };
        Some(Template { header: header.into(), l4, sum, encapsulation, fast_push })
    }

    /// Length of the header in bytes.
    pub fn len(&self) -> usize {
        self.header.len()
    }

    /// Always false: a header has bytes.
    pub fn is_empty(&self) -> bool {
        self.header.is_empty()
    }

    /// Returns whether the header has a sequence number.
    pub fn has_sequence_number(&self) -> bool {
        match self.encapsulation {
            Encapsulation::Gtpu { seq, .. } => seq,
            Encapsulation::Gre { seq, .. } => seq.is_some(),
            Encapsulation::Erspan { .. } => true,
            Encapsulation::Udp { .. } | Encapsulation::Srv6 { .. } => false,
        }
    }

    /// Returns whether the header needs a hash of the inner packet, for its source port or flow label.
    pub fn needs_hash(&self) -> bool {
        match self.encapsulation {
            Encapsulation::Udp { .. } | Encapsulation::Gtpu { .. } => true,
            Encapsulation::Srv6 { label } => label == FlowLabel::Compute,
            Encapsulation::Gre { .. } | Encapsulation::Erspan { .. } => false,
        }
    }

    /// Adds the header to a frame. `None`: there is not enough headroom, or the packet exceeds the maximum IP length; in the second case
    /// the frame may have grown by the header.
    #[inline(always)]
    pub fn push_on(&self, frame: &mut Frame, each: &PerPacket) -> Option<()> {
        if let Some(fast_push) = &self.fast_push
            && fast_push.push_on(frame, each.source_port).is_some()
        {
            return Some(());
        }
        self.push_on_general(frame, each)
    }

    /// The same header in a form that is faster to add. It adds headers only to frames with enough headroom; for other frames call
    /// [`push_on`](Self::push_on).
    #[inline(always)]
    pub fn fast_push(&self) -> Option<&FastPush> {
        self.fast_push.as_ref()
    }

    #[inline(never)]
    fn push_on_general(&self, frame: &mut Frame, each: &PerPacket) -> Option<()> {
        frame.push_front(self.len())?;
        self.write(frame.bytes_mut(), each)
    }

    /// Writes the header into the first bytes of `packet`, which are reserved for it, and fills in lengths, checksums and sequence numbers.
    /// `None`: the packet is shorter than the header, or exceeds the maximum IP length.
    pub fn write(&self, packet: &mut [u8], each: &PerPacket) -> Option<()> {
        let l4_len = u16::try_from(packet.len().checked_sub(self.l4)?).ok()?;
        let inner_label = inner_label(packet.get(self.len()..)?);
        packet.get_mut(..self.len())?.copy_from_slice(&self.header);
        match self.sum {
            Some(sum) => {
                let total = l4_len.checked_add(wire::IPV4 as u16)?;
                write16(packet, wire::ETHERNET + 2, total);
                write16(packet, wire::ETHERNET + 10, checksum::finish(checksum::add16(sum, total)));
            }
            None => write16(packet, wire::ETHERNET + 4, l4_len),
        }
        match self.encapsulation {
            Encapsulation::Udp { checksum } => self.finish_udp(packet, l4_len, each, checksum),
            Encapsulation::Gtpu { checksum, seq } => {
                let message = self.l4 + wire::UDP;
                write16(packet, message + 2, l4_len - (wire::UDP + wire::GTPU) as u16);
                if seq {
                    write16(packet, message + wire::GTPU, each.seq as u16);
                }
                self.finish_udp(packet, l4_len, each, checksum);
            }
            Encapsulation::Gre { checksum, seq } => {
                if let Some(at) = seq {
                    write32(packet, self.l4 + at, each.seq);
                }
                if checksum {
                    let sum = checksum::checksum(&packet[self.l4..]);
                    write16(packet, self.l4 + 4, sum);
                }
            }
            Encapsulation::Erspan { timestamp } => {
                write32(packet, self.l4 + 4, each.seq);
                if timestamp {
                    write32(packet, self.l4 + 12, each.timestamp);
                }
            }
            Encapsulation::Srv6 { label } => self.write_label(packet, label, inner_label, each.hash),
        }
        Some(())
    }

    /// Fills in source port, length and checksum of the UDP header. `len`: length of the UDP datagram.
    fn finish_udp(&self, packet: &mut [u8], len: u16, each: &PerPacket, checksum: bool) {
        write16(packet, self.l4, each.source_port);
        write16(packet, self.l4 + 4, len);
        if checksum {
            write16(packet, self.l4 + 6, 0);
            let pseudo = self.pseudo(packet, len);
            let sum = checksum::finish(checksum::add(pseudo, &packet[self.l4..]));
            // Zero would mean "no checksum" (RFC 768).
            write16(packet, self.l4 + 6, if sum == 0 { 0xffff } else { sum });
        }
    }

    /// The partial sum of the UDP pseudo header.
    fn pseudo(&self, packet: &[u8], len: u16) -> u32 {
        let addresses = if self.sum.is_some() { wire::ETHERNET + 12 } else { wire::ETHERNET + 8 };
        let sum = checksum::add(0, &packet[addresses..self.l4]);
        checksum::add16(checksum::add16(sum, u16::from(wire::PROTO_UDP)), len)
    }

    fn write_label(&self, packet: &mut [u8], source: FlowLabel, inner: u32, hash: u32) {
        let label = match source {
            FlowLabel::Copy => inner,
            FlowLabel::Zero => 0,
            FlowLabel::Compute => hash & 0xf_ffff,
        };
        let Some(first) = packet.get(wire::ETHERNET..).and_then(|b| b.first_chunk::<4>()) else { return };
        let first = u32::from_be_bytes(*first) & !0xf_ffff | label;
        write32(packet, wire::ETHERNET, first);
    }
}

/// The flow label of an IPv6 packet; 0 for other packets.
fn inner_label(packet: &[u8]) -> u32 {
    let first = packet.first_chunk().map_or(0, |b| u32::from_be_bytes(*b));
    if first >> 28 == 6 { first & 0xf_ffff } else { 0 }
}

/// Finds out from the bytes of a built header which fields differ from packet to packet. `l4`: the bytes after the IP header. `None`: `l4`
/// is too short.
fn encapsulation_of(kind: Kind, l4: &[u8], header: &[u8]) -> Option<Encapsulation> {
    let udp = |header_len: usize| {
        (l4.len() >= wire::UDP + header_len).then(|| be16(l4, 6)).flatten().map(|c| c != 0)
    };
    Some(match kind {
        Kind::Vxlan { .. } => Encapsulation::Udp { checksum: udp(wire::VXLAN)? },
        Kind::Geneve => Encapsulation::Udp { checksum: udp(wire::GENEVE)? },
        Kind::Gtpu => {
            let checksum = udp(wire::GTPU)?;
            let seq = l4[wire::UDP] & gtpu::S != 0;
            (!seq || l4.len() >= wire::UDP + wire::GTPU + wire::GTPU_OPTIONAL)
                .then_some(Encapsulation::Gtpu { checksum, seq })?
        }
        Kind::Gre => {
            let flags = be16(l4, 0)?;
            let words = [gre::CSUM, gre::KEY, gre::SEQ].iter().filter(|bit| flags & **bit != 0).count();
            let seq = (flags & gre::SEQ != 0).then_some(words * 4);
            (l4.len() >= 4 + words * 4)
                .then_some(Encapsulation::Gre { checksum: flags & gre::CSUM != 0, seq })?
        }
        Kind::Erspan => {
            let timestamp = be16(l4, 2)? == wire::ETHERTYPE_ERSPAN_2;
            (l4.len() >= if timestamp { 20 } else { 16 }).then_some(Encapsulation::Erspan { timestamp })?
        }
        Kind::Srv6 => {
            // The flow label field of a built header contains the number of the `FlowLabel` variant (see there).
            let label = match u32::from_be_bytes(*header.get(wire::ETHERNET..)?.first_chunk()?) & 0xf_ffff {
                0 => FlowLabel::Copy,
                1 => FlowLabel::Zero,
                _ => FlowLabel::Compute,
            };
            (l4.len() >= wire::SRH).then_some(Encapsulation::Srv6 { label })?
        }
    })
}
