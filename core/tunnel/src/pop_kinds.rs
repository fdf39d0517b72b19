//! Parsers of the tunnel headers after IP and UDP.

use crate::popped::{ParserState, PopError, Popped};
use crate::wire::{self, flag, gre as gre_bit, gtpu as gtpu_bit, layer_3, vxlan as vxlan_bit};
use packet::checksum;

fn word(data: &[u8], at: usize) -> Result<u32, PopError> {
    let bytes = data.get(at..).and_then(|b| b.first_chunk()).ok_or(PopError::Short)?;
    Ok(u32::from_be_bytes(*bytes))
}

/// The packet type of an inner packet with this ethertype.
fn packet_type_of(ethertype: u16) -> u32 {
    if ethertype == wire::ETHERTYPE_TEB { wire::ETHERNET_FRAME } else { layer_3(ethertype) }
}

pub(crate) fn vxlan(mut r: ParserState<'_>, gbp: bool) -> Result<Popped<'_>, PopError> {
    let (mut first, vni) = (word(r.data, 0)?, word(r.data, 4)?);
    let mut packet_type = wire::ETHERNET_FRAME;
    if first & vxlan_bit::P != 0 {
        if first & vxlan_bit::O != 0 {
            return Err(PopError::Flags);
        }
        let next =
            wire::VXLAN_NEXT.iter().find(|(n, _)| *n == first as u8).ok_or(PopError::InnerPacketType)?;
        packet_type = packet_type_of(next.1);
        first &= !vxlan_bit::GPE_USED;
    } else if gbp && first & vxlan_bit::G != 0 {
        r.tunnel.gbp_id = first as u16;
        r.tunnel.gbp_flags = ((first & vxlan_bit::GBP_FLAGS) >> 16) as u8;
        first &= !(vxlan_bit::G | vxlan_bit::GBP_FLAGS | 0xffff);
    }
    if first != vxlan_bit::I || vni & 0xff != 0 {
        return Err(PopError::Flags);
    }
    (r.tunnel.tun_id, r.tunnel.flags) = (u64::from(vni >> 8), r.tunnel.flags | flag::KEY);
    r.finish(wire::VXLAN, packet_type)
}

pub(crate) fn geneve(mut r: ParserState<'_>) -> Result<Popped<'_>, PopError> {
    let (first, vni) = (word(r.data, 0)?, word(r.data, 4)?);
    if first >> 30 != 0 {
        return Err(PopError::Version);
    }
    if first as u16 != wire::ETHERTYPE_TEB {
        return Err(PopError::InnerPacketType);
    }
    let len = wire::GENEVE + (first >> 24 & 0x3f) as usize * 4;
    let options = r.data.get(wire::GENEVE..len).ok_or(PopError::Short)?;
    if !are_options_complete(options) {
        return Err(PopError::Options);
    }
    let oam = if first & 0x80_0000 != 0 { flag::OAM } else { 0 };
    (r.tunnel.tun_id, r.tunnel.flags) = (u64::from(vni >> 8), r.tunnel.flags | flag::KEY | oam);
    Ok(Popped { options, ..r.finish(len, wire::ETHERNET_FRAME)? })
}

/// Returns whether Geneve options are well-formed: each is complete, and no bytes are left over.
pub(crate) fn are_options_complete(mut options: &[u8]) -> bool {
    while !options.is_empty() {
        let &[_, _, _, words, ..] = options else { return false };
        let Some(rest) = options.get(4 + usize::from(words & 0x1f) * 4..) else { return false };
        options = rest;
    }
    true
}

pub(crate) fn gre(mut r: ParserState<'_>) -> Result<Popped<'_>, PopError> {
    let first = word(r.data, 0)?;
    let (flags, ethertype) = ((first >> 16) as u16, first as u16);
    if flags & !(gre_bit::CSUM | gre_bit::KEY | gre_bit::SEQ) != 0 {
        return Err(PopError::Flags);
    }
    if ethertype < wire::ETHERTYPE_MIN {
        return Err(PopError::InnerPacketType);
    }
    let mut len = 4;
    if flags & gre_bit::CSUM != 0 {
        if checksum::checksum(r.data) != 0 {
            return Err(PopError::Checksum);
        }
        r.tunnel.flags |= flag::CSUM;
        len += 4;
    }
    if flags & gre_bit::KEY != 0 {
        r.tunnel.tun_id = u64::from(word(r.data, len)?);
        r.tunnel.flags |= flag::KEY;
        len += 4;
    }
    if flags & gre_bit::SEQ != 0 {
        len += 4;
    }
    r.finish(len, packet_type_of(ethertype))
}

pub(crate) fn erspan(mut r: ParserState<'_>) -> Result<Popped<'_>, PopError> {
    let first = word(r.data, 0)?;
    let (flags, ethertype) = ((first >> 16) as u16, first as u16);
    if flags != gre_bit::SEQ {
        return Err(PopError::Flags);
    }
    if !matches!(ethertype, wire::ETHERTYPE_ERSPAN_1 | wire::ETHERTYPE_ERSPAN_2) {
        return Err(PopError::Protocol);
    }
    let (session, md) = (word(r.data, 8)?, word(r.data, 12)?);
    let t = &mut r.tunnel;
    (t.tun_id, t.flags) = (u64::from(session & 0x3ff), t.flags | flag::KEY);
    t.erspan_ver = (session >> 28) as u8;
    match t.erspan_ver {
        1 => {
            t.erspan_idx = md;
            r.finish(16, wire::ETHERNET_FRAME)
        }
        2 => {
            let last = word(r.data, 16)?;
            r.tunnel.erspan_dir = (last >> 3 & 1) as u8;
            r.tunnel.erspan_hwid = (last >> 4 & 0x3f) as u8;
            r.finish(20, wire::ETHERNET_FRAME)
        }
        _ => Err(PopError::Version),
    }
}

/// Returns the length of a GTP-U header with its extension headers, which 5G uses for each packet (3GPP TS 29.281, 5.1 and 5.2).
/// Open vSwitch does not skip extension headers.
fn gtpu_len(data: &[u8], flags: u8) -> Result<usize, PopError> {
    if flags & (gtpu_bit::E | gtpu_bit::S | gtpu_bit::PN) == 0 {
        return Ok(wire::GTPU);
    }
    let mut len = wire::GTPU + wire::GTPU_OPTIONAL;
    let byte = |at: usize| data.get(at).copied().ok_or(PopError::Short);
    // The last byte of the optional part and of each extension header is the type of the next one. Each is at least four bytes long,
    // so the loop ends with the data.
    while flags & gtpu_bit::E != 0 && byte(len - 1)? != 0 {
        match byte(len)? {
            0 => return Err(PopError::Options),
            words => len += usize::from(words) * 4,
        }
    }
    Ok(len)
}

/// Reads a GTP-U header. `frame_len`: the length of the frame. A message that carries no packet is returned as the complete frame, with the
/// outer headers.
pub(crate) fn gtpu(mut r: ParserState<'_>, frame_len: usize) -> Result<Popped<'_>, PopError> {
    let (first, teid) = (word(r.data, 0)?, word(r.data, 4)?);
    let t = &mut r.tunnel;
    (t.gtpu_flags, t.gtpu_msgtype) = ((first >> 24) as u8, (first >> 16) as u8);
    t.tun_id = u64::from(teid);
    if t.gtpu_msgtype != gtpu_bit::G_PDU {
        let tunnel = r.tunnel;
        return Ok(Popped { tunnel, options: &[], packet_type: 0, header: 0, end: frame_len });
    }
    let len = gtpu_len(r.data, t.gtpu_flags)?;
    let packet_type = match r.data.get(len).map(|b| b >> 4) {
        Some(4) => layer_3(wire::ETHERTYPE_IPV4),
        Some(6) => layer_3(wire::ETHERTYPE_IPV6),
        _ => return Err(PopError::InnerPacketType),
    };
    r.finish(len, packet_type)
}

pub(crate) fn srv6(r: ParserState<'_>) -> Result<Popped<'_>, PopError> {
    let &[next, words, kind, left, ..] = r.data else { return Err(PopError::Short) };
    if kind != wire::ROUTING_SRV6 {
        return Err(PopError::Protocol);
    }
    if left != 0 {
        return Err(PopError::Segments);
    }
    let packet_type = match next {
        wire::PROTO_IPV4 => layer_3(wire::ETHERTYPE_IPV4),
        wire::PROTO_IPV6 => layer_3(wire::ETHERTYPE_IPV6),
        _ => return Err(PopError::InnerPacketType),
    };
    r.finish(usize::from(words) * 8 + 8, packet_type)
}
