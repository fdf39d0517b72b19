//! Prints packets, packet-ins and packet-outs.

use super::action_out::{actions_text, dotted_hex};
use super::hex::hex_dump;
use crate::packet_io::{PacketIn, PacketInReason, PacketOut};
use flow::Flow;
use flow::extract::extract;
use flow::text::{NameMap, flow_text, table_text};
use std::fmt::Write;

// Protocols whose checksum is printed: IP protocol, minimum length of the header, and offset of the checksum, in bytes.
const TCP: (u8, usize, usize) = (6, 20, 16);
const UDP: (u8, usize, usize) = (17, 8, 6);
const ICMP: (u8, usize, usize) = (1, 8, 2);
const ICMPV6: (u8, usize, usize) = (58, 4, 2);
const SCTP: u8 = 132;

/// Prints a packet's headers in one line.
pub fn packet_text(data: &[u8], packet_type: u32) -> String {
    let mut flow = Flow { packet_type, ..Flow::ZERO };
    let layers = extract(data, flow::flow::VLANS_MAX, &mut flow);
    let mut text = flow_text(&flow, &flow::text::NoNames);
    let end = data.len().saturating_sub(layers.l2_pad);
    let l4 = layers.l4.and_then(|at| data.get(at..end)).unwrap_or_default();
    let names = [(TCP, "tcp_csum"), (UDP, "udp_csum"), (ICMP, "icmp_csum"), (ICMPV6, "icmp6_csum")];
    for ((proto, len, at), name) in names {
        if flow.nw_proto == proto && l4.len() >= len {
            let _ = write!(text, " {name}:{:x}", u16::from_be_bytes([l4[at], l4[at + 1]]));
        }
    }
    if let (SCTP, Some(&[a, b, c, d])) = (flow.nw_proto, l4.get(8..12).and_then(|s| s.first_chunk())) {
        let _ = write!(text, " sctp_csum:{:x}", u32::from_be_bytes([a, b, c, d]));
    }
    text + "\n"
}

fn reason_text(reason: PacketInReason) -> &'static str {
    match reason {
        PacketInReason::NoMatch | PacketInReason::ExplicitMiss | PacketInReason::ImplicitMiss => "no_match",
        PacketInReason::Action => "action",
        PacketInReason::InvalidTtl => "invalid_ttl",
        PacketInReason::ActionSet => "action_set",
        PacketInReason::Group => "group",
        PacketInReason::PacketOut => "packet_out",
    }
}

pub(super) fn packet_in_text(p: &PacketIn, names: &dyn NameMap, verbosity: u8) -> String {
    let mut text = String::new();
    if p.table != 0 || names.table_name(0).is_some() {
        let _ = write!(text, " table_id={}", table_text(p.table, names));
    }
    if p.cookie != u64::MAX {
        let _ = write!(text, " cookie={:#x}", p.cookie);
    }
    let (metadata, reason, len) = (p.metadata.text(names), reason_text(p.reason), p.packet.len());
    let _ = write!(text, " total_len={} {metadata} (via {reason}) data_len={len}", p.total_len);
    let total = p.total_len as usize;
    if p.buffer_id == crate::flow_mod::NO_BUFFER {
        text += " (unbuffered)";
        if total != len {
            text += " (***total_len != data_len***)";
        }
    } else {
        let _ = write!(text, " buffer={:#010x}", p.buffer_id);
        if total < len {
            text += " (***total_len < data_len***)";
        }
    }
    text.push('\n');
    if !p.userdata.is_empty() {
        let _ = writeln!(text, " userdata={}", dotted_hex(&p.userdata));
    }
    if verbosity > 0 {
        text += &packet_text(&p.packet, p.metadata.flow.packet_type);
    }
    if verbosity > 2 {
        text += &hex_dump(&p.packet, false);
    }
    text
}

pub(super) fn packet_out_text(p: &PacketOut, names: &dyn NameMap, verbosity: u8) -> String {
    let mut text = format!(" {} actions={}", p.metadata.text(names), actions_text(&p.actions, names));
    if p.buffer_id != crate::flow_mod::NO_BUFFER {
        return text + &format!(" buffer={:#010x}", p.buffer_id);
    }
    let _ = write!(text, " data_len={}", p.packet.len());
    if verbosity > 0 && !p.packet.is_empty() {
        text.push('\n');
        text += &packet_text(&p.packet, p.metadata.flow.packet_type);
    }
    if verbosity > 2 {
        text += &hex_dump(&p.packet, false);
    }
    text
}
