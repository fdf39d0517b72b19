//! Builds the bytes of a tunnel header from a tunnel's configuration and the fields of a flow.
//!
//! Fields that differ from packet to packet stay zero: lengths, source port, checksums, sequence numbers. The exception is a UDP checksum
//! that must be computed: it is 0xffff, as in the text of Open vSwitch's `tnl_push` action.

use crate::Kind;
use crate::wire::{self, flag, gre, gtpu, vxlan};
use flow::{Mac, Tunnel};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The part of a tunnel port's configuration that its headers depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderConfig {
    /// GRE: the header has a key.
    pub key: bool,
    /// GRE and GTP-U: the header has a sequence number.
    pub seq: bool,
    /// VXLAN: generic protocol extension.
    pub gpe: bool,
    /// SRv6: the segments of the path, from the tunnel's remote endpoint on. Empty: only the remote endpoint.
    pub segments: Vec<Ipv6Addr>,
    /// SRv6: the outer flow label.
    pub flow_label: FlowLabel,
}

/// Where the flow label of an outer SRv6 header comes from. Until the header is added to a packet, the flow label field of a built header
/// contains the number of this variant, as in Open vSwitch's text of the action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowLabel {
    /// The flow label of the inner packet; 0 if the inner packet is not IPv6.
    #[default]
    Copy = 0,
    /// Zero.
    Zero = 1,
    /// A hash of the inner packet.
    Compute = 2,
}

/// Parameters of [`build()`].
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The kind of tunnel.
    pub kind: Kind,
    /// Ethernet address of the next hop.
    pub dst_mac: Mac,
    /// Ethernet address of the sending device.
    pub src_mac: Mac,
    /// IP address of the local tunnel endpoint.
    pub src: IpAddr,
    /// IP address of the remote tunnel endpoint.
    pub dst: IpAddr,
    /// UDP destination port.
    pub dst_port: u16,
    /// Key, TOS, TTL, flags and other tunnel fields of the flow.
    pub tunnel: &'a Tunnel,
    /// Geneve options, as bytes.
    pub options: &'a [u8],
    /// The type of the inner packet.
    pub packet_type: u32,
    /// The ethertype of the inner packet.
    pub dl_type: u16,
    /// The port's configuration.
    pub config: &'a HeaderConfig,
}

/// Result of [`build()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltHeader {
    /// The outer headers, from the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Tunnel type in the text of the action.
    pub tunnel_type: u32,
}

/// Why a header cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The tunnel endpoints have different address families, or one that the kind of tunnel does not support.
    Family,
    /// The tunnel cannot carry packets of this type.
    PacketType,
    /// The key is longer than its field.
    Key,
    /// The ERSPAN version is neither 1 nor 2.
    Version,
    /// The options are longer than 252 bytes, or their length is not a multiple of four bytes.
    Options,
    /// The path does not start at the remote end.
    Segments,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::Family => {
                "local_ip and remote_ip have different address families, or one that this tunnel type does not support"
            },
            BuildError::PacketType => "the tunnel cannot carry packets of this type",
            BuildError::Key => "the key is too long",
            BuildError::Version => "unknown ERSPAN version",
            BuildError::Options => "the Geneve options are longer than 252 bytes, or not a multiple of 4 bytes",
            BuildError::Segments => "srv6_segs does not begin with remote_ip",
        })
    }
}

/// Maximum length of Geneve options: the length field counts up to 63 words.
const OPTIONS_MAX: usize = 252;
/// Maximum session number of ERSPAN: ten bits.
const ERSPAN_KEY_MAX: u64 = 0x3ff;

/// Builds the outer headers of a tunnel.
pub fn build(request: &Request<'_>) -> Result<BuiltHeader, BuildError> {
    let mut out = Vec::with_capacity(128);
    let payload = match request.kind {
        Kind::Vxlan { gbp } => vxlan_header(request, gbp)?,
        Kind::Geneve => geneve_header(request)?,
        Kind::Gre => gre_header(request)?,
        Kind::Erspan => erspan_header(request)?,
        Kind::Gtpu => gtpu_header(request),
        Kind::Srv6 => srv6_header(request)?,
    };
    let v6 = push_ip(request, &mut out)?;
    if request.kind.is_udp() {
        push_udp(request, &mut out);
    }
    out.extend(payload);
    Ok(BuiltHeader { bytes: out, tunnel_type: request.kind.number(v6) })
}

/// Appends Ethernet and IP headers; returns true for IPv6.
fn push_ip(request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, BuildError> {
    let t = request.tunnel;
    let proto = match request.kind {
        Kind::Srv6 => wire::PROTO_ROUTING,
        kind if kind.is_udp() => wire::PROTO_UDP,
        _ => wire::PROTO_GRE,
    };
    out.extend(request.dst_mac.0);
    out.extend(request.src_mac.0);
    match (request.src, request.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) if request.kind != Kind::Srv6 => {
            let fragment: u16 = if t.flags & flag::DF != 0 { 0x4000 } else { 0 };
            out.extend(wire::ETHERTYPE_IPV4.to_be_bytes());
            out.extend([0x45, t.ip_tos, 0, 0, 0, 0]);
            out.extend(fragment.to_be_bytes());
            out.extend([t.ip_ttl, proto, 0, 0]);
            out.extend(src.octets());
            out.extend(dst.octets());
            Ok(false)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let label = if request.kind == Kind::Srv6 { request.config.flow_label as u32 } else { 0 };
            let first = 6 << 28 | u32::from(t.ip_tos) << 20 | label;
            out.extend(wire::ETHERTYPE_IPV6.to_be_bytes());
            out.extend(first.to_be_bytes());
            out.extend([0, 0, proto, t.ip_ttl]);
            out.extend(src.octets());
            out.extend(dst.octets());
            Ok(true)
        }
        _ => Err(BuildError::Family),
    }
}

fn push_udp(request: &Request<'_>, out: &mut Vec<u8>) {
    let checksum: u16 = if request.tunnel.flags & flag::CSUM != 0 { 0xffff } else { 0 };
    out.extend([0, 0]);
    out.extend(request.dst_port.to_be_bytes());
    out.extend([0, 0]);
    out.extend(checksum.to_be_bytes());
}

/// The ethertype of an inner packet of this type.
fn ethertype_of(packet_type: u32) -> Result<u16, BuildError> {
    match (packet_type >> 16, packet_type as u16) {
        (0, 0) => Ok(wire::ETHERTYPE_TEB),
        (1, ethertype) => Ok(ethertype),
        _ => Err(BuildError::PacketType),
    }
}

/// The second 32-bit word of a VXLAN or Geneve header: the VNI and a reserved byte.
fn vni_word(request: &Request<'_>) -> [u8; 4] {
    ((request.tunnel.tun_id as u32) << 8).to_be_bytes()
}

fn vxlan_header(request: &Request<'_>, gbp: bool) -> Result<Vec<u8>, BuildError> {
    let t = request.tunnel;
    let mut first = vxlan::I;
    if request.config.gpe {
        let ethertype = ethertype_of(request.packet_type)?;
        let next = wire::VXLAN_NEXT.iter().find(|(_, e)| *e == ethertype).ok_or(BuildError::PacketType)?;
        first |= vxlan::P | u32::from(next.0);
    } else if request.packet_type != wire::ETHERNET_FRAME {
        return Err(BuildError::PacketType);
    } else if gbp && (t.gbp_id, t.gbp_flags) != (0, 0) {
        first |= vxlan::G | u32::from(t.gbp_flags) << 16 & vxlan::GBP_FLAGS | u32::from(t.gbp_id);
    }
    Ok([first.to_be_bytes(), vni_word(request)].concat())
}

fn geneve_header(request: &Request<'_>) -> Result<Vec<u8>, BuildError> {
    let options = request.options;
    if options.len() > OPTIONS_MAX || !options.len().is_multiple_of(4) {
        return Err(BuildError::Options);
    }
    if request.packet_type != wire::ETHERNET_FRAME {
        return Err(BuildError::PacketType);
    }
    let oam: u8 = if request.tunnel.flags & flag::OAM != 0 { 0x80 } else { 0 };
    let critical: u8 = if has_critical(options) { 0x40 } else { 0 };
    let mut out = vec![(options.len() / 4) as u8, oam | critical];
    out.extend(wire::ETHERTYPE_TEB.to_be_bytes());
    out.extend(vni_word(request));
    out.extend(options);
    Ok(out)
}

/// Returns whether an option is critical: the first bit of its type is set, so the receiver must understand it.
fn has_critical(mut options: &[u8]) -> bool {
    while let &[_, _, kind, words, ..] = options {
        if kind & 0x80 != 0 {
            return true;
        }
        options = options.get(4 + usize::from(words & 0x1f) * 4..).unwrap_or(&[]);
    }
    false
}

fn gre_header(request: &Request<'_>) -> Result<Vec<u8>, BuildError> {
    let ethertype = ethertype_of(request.packet_type)?;
    let csum = request.tunnel.flags & flag::CSUM != 0;
    let parts = [(csum, gre::CSUM), (request.config.key, gre::KEY), (request.config.seq, gre::SEQ)];
    let flags = parts.iter().filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | bit);
    let mut out = flags.to_be_bytes().to_vec();
    out.extend(ethertype.to_be_bytes());
    for (_, bit) in parts.into_iter().filter(|(on, _)| *on) {
        let word = if bit == gre::KEY { request.tunnel.tun_id as u32 } else { 0 };
        out.extend(word.to_be_bytes());
    }
    Ok(out)
}

fn erspan_header(request: &Request<'_>) -> Result<Vec<u8>, BuildError> {
    let t = request.tunnel;
    if t.tun_id > ERSPAN_KEY_MAX {
        return Err(BuildError::Key);
    }
    if request.packet_type != wire::ETHERNET_FRAME {
        return Err(BuildError::PacketType);
    }
    let ethertype = match t.erspan_ver {
        1 => wire::ETHERTYPE_ERSPAN_1,
        2 => wire::ETHERTYPE_ERSPAN_2,
        _ => return Err(BuildError::Version),
    };
    let mut out = gre::SEQ.to_be_bytes().to_vec();
    out.extend(ethertype.to_be_bytes());
    out.extend([0; 4]);
    out.extend((u32::from(t.erspan_ver) << 28 | t.tun_id as u32).to_be_bytes());
    if t.erspan_ver == 1 {
        out.extend(t.erspan_idx.to_be_bytes());
    } else {
        // Timestamp and security group, then hardware ID (six bits) and direction (one bit).
        let last = u16::from(t.erspan_hwid & 0x3f) << 4 | u16::from(t.erspan_dir & 1) << 3;
        out.extend([0; 6]);
        out.extend(last.to_be_bytes());
    }
    Ok(out)
}

fn gtpu_header(request: &Request<'_>) -> Vec<u8> {
    let t = request.tunnel;
    let flags = if t.gtpu_flags == 0 { gtpu::FLAGS } else { t.gtpu_flags };
    let message = if t.gtpu_msgtype == 0 { gtpu::G_PDU } else { t.gtpu_msgtype };
    let seq = request.config.seq;
    let mut out = vec![if seq { flags | gtpu::S } else { flags }, message, 0, 0];
    out.extend((t.tun_id as u32).to_be_bytes());
    if seq {
        out.extend([0; wire::GTPU_OPTIONAL]);
    }
    out
}

fn srv6_header(request: &Request<'_>) -> Result<Vec<u8>, BuildError> {
    let IpAddr::V6(dst) = request.dst else { return Err(BuildError::Family) };
    let next = match request.dl_type {
        wire::ETHERTYPE_IPV4 => wire::PROTO_IPV4,
        wire::ETHERTYPE_IPV6 => wire::PROTO_IPV6,
        _ => return Err(BuildError::PacketType),
    };
    let alone = [dst];
    let segments = if request.config.segments.is_empty() { &alone[..] } else { &request.config.segments };
    let n = u8::try_from(segments.len()).ok().filter(|n| *n <= u8::MAX / 2).ok_or(BuildError::Segments)?;
    if segments.first() != Some(&dst) {
        return Err(BuildError::Segments);
    }
    let mut out = vec![next, 2 * n, wire::ROUTING_SRV6, n - 1, n - 1, 0, 0, 0];
    // The header lists the last segment first.
    segments.iter().rev().for_each(|s| out.extend(s.octets()));
    Ok(out)
}
