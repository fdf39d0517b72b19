//! Prints the header of `tnl_push` as text, by parsing its bytes.

use super::tunnel_key::{Options, geneve_text};
use crate::action::TunnelPush;
use flow::Mac;
use flow::text::address::ipv6_addr;
use flow::text::hex;
use packet::ether::{Ethernet, TypeField};
use packet::{Ipv4, Ipv6, Udp};
use std::net::Ipv4Addr;

// Tunnel types (`OVS_VPORT_TYPE_*`), as the text prints them.
const GRE: u32 = 3;
const VXLAN: u32 = 4;
const GENEVE: u32 = 5;
const ERSPAN: u32 = 107;
const IP6ERSPAN: u32 = 108;
const IP6GRE: u32 = 109;
const GTPU: u32 = 110;
const SRV6: u32 = 112;

/// The text `header(size=..,type=..,eth(..),..)`. Headers beyond the end of the bytes are left out.
pub(super) fn header_text(push: &TunnelPush) -> String {
    let bytes = &push.header.0;
    let mut parts = vec![format!("size={}", bytes.len()), format!("type={}", push.tunnel_type)];
    let _ = layers(push.tunnel_type, bytes, &mut parts);
    format!("header({})", parts.join(","))
}

fn layers(kind: u32, bytes: &[u8], parts: &mut Vec<String>) -> Option<()> {
    let (eth, rest) = Ethernet::parse(bytes)?;
    let (dl_type, rest) = TypeField::parse(rest)?;
    let dl_type = dl_type.value();
    let (src, dst) = (Mac(eth.src()), Mac(eth.dst()));
    parts.push(format!("eth(dst={dst},src={src},dl_type={dl_type:#06x})"));
    let l4 = if dl_type == 0x0800 { ipv4(rest, parts)? } else { ipv6(rest, parts)? };
    match kind {
        VXLAN => {
            let (flags, vni) = words(udp(l4, parts)?)?;
            parts.push(format!("vxlan(flags={flags:#x},vni={:#x})", vni >> 8));
        }
        GENEVE => {
            let data = udp(l4, parts)?;
            let (first, vni) = words(data)?;
            let oam = if first & 0x80_0000 != 0 { "oam," } else { "" };
            let critical = if first & 0x40_0000 != 0 { "crit," } else { "" };
            let len = (first >> 24 & 0x3f) as usize * 4;
            let options = match data.get(8..8 + len) {
                Some(o) if len > 0 => {
                    format!(
                        ",options({})",
                        geneve_text(Options { bytes: o, mask: None, show_empty: false }, true)
                    )
                }
                _ => String::new(),
            };
            parts.push(format!("geneve({oam}{critical}vni={:#x}{options})", vni >> 8));
        }
        GRE | IP6GRE => parts.push(gre(l4)?),
        ERSPAN | IP6ERSPAN => parts.push(erspan(l4)?),
        GTPU => {
            let (first, teid) = words(udp(l4, parts)?)?;
            let (flags, message) = (first >> 24, first >> 16 & 0xff);
            parts.push(format!("gtpu(flags=0x{flags:x},msgtype={message},teid=0x{teid:x})"));
        }
        SRV6 => parts.push(srv6(l4)?),
        _ => {}
    }
    Some(())
}

fn ipv4<'a>(data: &'a [u8], parts: &mut Vec<String>) -> Option<&'a [u8]> {
    let (ip, rest) = Ipv4::parse(data)?;
    let (src, dst) = (Ipv4Addr::from(ip.src()), Ipv4Addr::from(ip.dst()));
    let offset = u16::from_be_bytes([*data.get(6)?, *data.get(7)?]);
    let tos = hex(ip.tos().into());
    parts.push(format!(
        "ipv4(src={src},dst={dst},proto={},tos={tos},ttl={},frag=0x{offset:x})",
        ip.proto(),
        ip.ttl()
    ));
    Some(rest)
}

fn ipv6<'a>(data: &'a [u8], parts: &mut Vec<String>) -> Option<&'a [u8]> {
    let (ip, rest) = Ipv6::parse(data)?;
    let text = |a: [u8; 16]| ipv6_addr(u128::from_be_bytes(a));
    parts.push(format!(
        "ipv6(src={},dst={},label={},proto={},tclass=0x{:x},hlimit={})",
        text(ip.src()),
        text(ip.dst()),
        ip.label(),
        ip.next_header(),
        ip.traffic_class(),
        ip.hop_limit()
    ));
    Some(rest)
}

fn udp<'a>(data: &'a [u8], parts: &mut Vec<String>) -> Option<&'a [u8]> {
    let (udp, rest) = Udp::parse(data)?;
    parts.push(format!("udp(src={},dst={},csum=0x{:x})", udp.src(), udp.dst(), udp.checksum()));
    Some(rest)
}

fn words(data: &[u8]) -> Option<(u32, u32)> {
    let (first, rest) = data.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*first), u32::from_be_bytes(*rest.first_chunk::<4>()?)))
}

/// The text of an ERSPAN header, which follows the base header and the sequence number of GRE (8 bytes).
fn erspan(data: &[u8]) -> Option<String> {
    let (session, index) = words(data.get(8..)?)?;
    let (version, id) = (session >> 28, session & 0x3ff);
    if version == 1 {
        return Some(format!("erspan(ver=1,sid=0x{id:x},idx=0x{index:x})"));
    }
    let (_, last) = words(data.get(12..)?)?;
    let (dir, hardware) = (last >> 3 & 1, last >> 4 & 0x3f);
    Some(format!("erspan(ver={version},sid=0x{id:x},dir={dir},hwid=0x{hardware:x})"))
}

/// The text of a segment routing header, which contains the segments in reverse order.
fn srv6(data: &[u8]) -> Option<String> {
    let (&[_, _, _, left, last, ..], rest) = data.split_first_chunk::<8>()?;
    let segments = rest.get(..(usize::from(last) + 1) * 16)?.as_chunks::<16>().0;
    let text = |s: &[u8; 16]| ipv6_addr(u128::from_be_bytes(*s));
    let list: Vec<String> = segments.iter().rev().map(text).collect();
    Some(format!("srv6(segments_left={left},segs({}))", list.join(",")))
}

fn gre(data: &[u8]) -> Option<String> {
    let (&[f0, f1, p0, p1], mut rest) = data.split_first_chunk::<4>()?;
    let flags = u16::from_be_bytes([f0, f1]);
    let mut out = format!("gre((flags=0x{flags:x},proto=0x{:x})", u16::from_be_bytes([p0, p1]));
    for (bit, name) in [(0x8000, "csum"), (0x2000, "key"), (0x1000, "seq")] {
        if flags & bit != 0 {
            let (word, after) = rest.split_first_chunk::<4>()?;
            let word = u32::from_be_bytes(*word);
            let value = if name == "csum" { word >> 16 } else { word };
            out.push_str(&format!(",{name}=0x{value:x}"));
            rest = after;
        }
    }
    out.push(')');
    Some(out)
}
