//! Prints features, configuration, roles, bundles and tunnel option maps.

use super::group_out::old_action_bits_text;
use super::monitor_out::removed_reason_text;
use super::port_out::{bits_text, flags_text, ports_text};
use crate::message::Hello;
use crate::session::*;
use crate::stats::Desc;
use crate::table::{TableConfig, TableMiss};
use crate::version::Version;
use flow::text::{NameMap, hex, table_text};
use std::fmt::Write;

pub(super) fn features_text(f: &SwitchFeatures) -> String {
    let mut text =
        format!(" dpid:{:016x}\nn_tables:{}, n_buffers:{}", f.datapath_id, f.n_tables, f.n_buffers);
    if f.auxiliary_id != 0 {
        let _ = write!(text, ", auxiliary_id:{}", f.auxiliary_id);
    }
    let c = &f.capabilities;
    let names = flags_text(&[
        (c.flow_stats, "FLOW_STATS"),
        (c.table_stats, "TABLE_STATS"),
        (c.port_stats, "PORT_STATS"),
        (c.stp, "STP"),
        (c.group_stats, "GROUP_STATS"),
        (c.ip_reasm, "IP_REASM"),
        (c.queue_stats, "QUEUE_STATS"),
        (c.arp_match_ip, "ARP_MATCH_IP"),
        (c.port_blocked, "PORT_BLOCKED"),
        (c.bundles, "BUNDLES"),
        (c.flow_monitoring, "FLOW_MONITORING"),
    ]);
    let _ = writeln!(text, "\ncapabilities: {names}");
    if f.actions != 0 {
        let _ = writeln!(text, "actions: {}", old_action_bits_text(f.actions));
    }
    text + &ports_text(&f.ports)
}

/// Name of a fragment handling mode.
pub fn frag_mode_name(mode: FragMode) -> &'static str {
    match mode {
        FragMode::Normal => "normal",
        FragMode::Drop => "drop",
        FragMode::Reassemble => "reassemble",
        FragMode::NxMatch => "nx-match",
    }
}

/// The fragment handling mode with this name.
pub fn frag_mode_from_name(name: &str) -> Option<FragMode> {
    let all = [FragMode::Normal, FragMode::Drop, FragMode::Reassemble, FragMode::NxMatch];
    all.into_iter().find(|m| frag_mode_name(*m).eq_ignore_ascii_case(name))
}

pub(super) fn config_text(c: &SwitchConfig) -> String {
    let ttl = if c.invalid_ttl_to_controller == Some(true) { " invalid_ttl_to_controller" } else { "" };
    format!(" frags={}{ttl} miss_send_len={}\n", frag_mode_name(c.frag), c.miss_send_len)
}

pub(super) fn desc_text(d: &Desc) -> String {
    format!(
        "\nManufacturer: {}\nHardware: {}\nSoftware: {}\nSerial Num: {}\nDP Description: {}\n",
        d.manufacturer, d.hardware, d.software, d.serial, d.datapath
    )
}

pub(super) fn hello_text(h: &Hello) -> String {
    // Print versions that the codec does not know, too.
    let known = (1..32u8).filter(|byte| h.versions.0 & 1 << byte != 0);
    let list: Vec<String> = known.map(|byte| format!("{byte:#04x}")).collect();
    format!("\n version bitmap: {}", list.join(", "))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::NoChange => "nochange",
        Role::Equal => "equal",
        Role::Primary => "primary",
        Role::Secondary => "secondary",
    }
}

fn role_and_generation(role: Role, generation: Option<u64>) -> String {
    let generation = generation.map(|g| format!(" generation_id={g}")).unwrap_or_default();
    format!(" role={}{generation}", role_name(role))
}

pub(super) fn role_text(r: &RoleContent) -> String {
    role_and_generation(r.role, r.generation_id.filter(|g| *g != u64::MAX))
}

pub(super) fn role_status_text(r: &RoleStatus) -> String {
    let reason = match r.reason {
        0 => "primary_request",
        1 => "configuration_changed",
        2 => "experimenter_data_changed",
        _ => "(unknown)",
    };
    let generation = Some(r.generation_id).filter(|g| *g != u64::MAX);
    format!("{} reason={reason}", role_and_generation(r.role, generation))
}

const PACKET_IN_REASONS: [&str; 6] =
    ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
const PORT_REASONS: [&str; 3] = ["add", "delete", "modify"];
const ROLE_REASONS: [&str; 3] = ["primary_request", "configuration_changed", "experimenter_data_changed"];
const REQUEST_REASONS: [&str; 2] = ["group_mod_request", "meter_mod_request"];

fn async_reason(kind: usize, bit: u32) -> String {
    let from = |names: &[&str]| names.get(bit as usize).map_or_else(|| bit.to_string(), |n| (*n).to_owned());
    match kind {
        // The internal reasons 6 and 7 have no name in this message.
        0 if bit >= 6 => String::new(),
        0 => from(&PACKET_IN_REASONS),
        1 => from(&PORT_REASONS),
        2 => removed_reason_text(bit as u8),
        3 => from(&ROLE_REASONS),
        4 => match bit {
            3 => "vacancy_down".to_owned(),
            4 => "vacancy_up".to_owned(),
            n => n.to_string(),
        },
        _ => from(&REQUEST_REASONS),
    }
}

pub(super) fn async_text(a: &AsyncConfig) -> String {
    let kinds = [
        ("PACKET_IN", a.packet_in),
        ("PORT_STATUS", a.port_status),
        ("FLOW_REMOVED", a.flow_removed),
        ("ROLE_STATUS", a.role_status),
        ("TABLE_STATUS", a.table_status),
        ("REQUESTFORWARD", a.request_forward),
    ];
    let mut text = String::new();
    for (side, label) in ["primary", "secondary"].into_iter().enumerate() {
        let _ = writeln!(text, "\n {label}:");
        for (kind, (name, masks)) in kinds.iter().enumerate() {
            let _ = write!(text, "{name:>16}:");
            let mask = masks[side].unwrap_or(0);
            for bit in (0..32).filter(|bit| mask & 1 << bit != 0) {
                let reason = async_reason(kind, bit);
                if !reason.is_empty() {
                    let _ = write!(text, " {reason}");
                }
            }
            text += if mask == 0 { " (off)\n" } else { "\n" };
        }
    }
    text
}

const BUNDLE_FLAGS: [&str; 2] = ["atomic", "ordered"];

pub(super) fn bundle_control_text(b: &BundleControl) -> String {
    let kind = match b.kind {
        BundleControlType::OpenRequest => "OPEN_REQUEST",
        BundleControlType::OpenReply => "OPEN_REPLY",
        BundleControlType::CloseRequest => "CLOSE_REQUEST",
        BundleControlType::CloseReply => "CLOSE_REPLY",
        BundleControlType::CommitRequest => "COMMIT_REQUEST",
        BundleControlType::CommitReply => "COMMIT_REPLY",
        BundleControlType::DiscardRequest => "DISCARD_REQUEST",
        BundleControlType::DiscardReply => "DISCARD_REPLY",
    };
    let flags = bits_text(b.flags.into(), &BUNDLE_FLAGS);
    format!("\n bundle_id={} type={kind} flags={flags}", hex(b.bundle.into()))
}

/// Prints the head of a bundle-add message; the added message follows.
pub(super) fn bundle_add_text(b: &BundleAdd) -> String {
    format!("\n bundle_id={} flags={}\n", hex(b.bundle.into()), bits_text(b.flags.into(), &BUNDLE_FLAGS))
}

fn tlv_table_text(maps: &[TlvMap]) -> String {
    let mut text =
        " mapping table:\n  class  type  length  match field\n ------  ----  ------  --------------"
            .to_owned();
    for m in maps {
        let (class, kind) = (hex(m.class.into()), hex(m.kind.into()));
        let _ = write!(text, "\n {class:>6}  {kind:>4}  {:>6}  tun_metadata{}", m.len, m.index);
    }
    text
}

pub(super) fn tlv_mod_text(m: &TlvTableMod) -> String {
    match m {
        TlvTableMod::Add(maps) => format!("\n ADD{}", tlv_table_text(maps)),
        TlvTableMod::Delete(maps) => format!("\n DEL{}", tlv_table_text(maps)),
        TlvTableMod::Clear => "\n CLEAR".to_owned(),
    }
}

pub(super) fn tlv_reply_text(r: &TlvTableReply) -> String {
    let used: u32 = r.maps.iter().map(|m| u32::from(m.len)).sum();
    format!(
        "\n max option space={} max fields={}\n allocated option space={used}\n\n{}",
        r.max_space,
        r.max_fields,
        tlv_table_text(&r.maps)
    )
}

pub(super) fn table_mod_text(t: &TableConfig, version: Version, names: &dyn NameMap) -> String {
    let mut text = match t.table {
        0xff => " table_id: ALL_TABLES".to_owned(),
        n => format!(" table_id={}", table_text(n, names)),
    };
    let miss = match t.miss {
        TableMiss::Default => None,
        TableMiss::Controller => Some("controller"),
        TableMiss::Continue => Some("continue"),
        TableMiss::Drop => Some("drop"),
    };
    if let Some(miss) = miss {
        let _ = write!(text, ", flow_miss_config={miss}");
    }
    let on = |set| if set { "on" } else { "off" };
    if let (Some(set), true) = (t.eviction, version >= Version::V14) {
        let _ = write!(text, ", eviction={}", on(set));
    }
    if let Some(bits) = t.eviction_flags {
        let _ = write!(text, "eviction_flags={}", super::table_out::eviction_flags_text(Some(bits)));
    }
    if let (Some(set), true) = (t.vacancy_events, version >= Version::V14) {
        let _ = write!(text, ", vacancy={}", on(set));
        if set {
            let v = t.vacancy.unwrap_or_default();
            let _ = write!(text, " vacancy:{},{}", v.down, v.up);
        }
    }
    text
}

/// Prints a connection filter without its zone. `None`: the filter matches all connections.
pub fn ct_flush_text(f: &CtFlush) -> Option<String> {
    let mark = f.mark.map(|(value, mask)| (u128::from(value), u128::from(mask)));
    let parts = [("mark", mark, u32::MAX.into()), ("labels", f.labels, u128::MAX)];
    let masked: String = parts.into_iter().filter_map(masked_text).collect();
    let CtFlush { original, reply, ip_proto, .. } = f;
    if masked.is_empty() && *ip_proto == 0 && [original, reply].into_iter().all(is_any) {
        return None;
    }
    let given = [original.src, original.dst, reply.src, reply.dst];
    let v4 = given.into_iter().flatten().any(|address| address.is_ipv4());
    let [original, reply] = [original, reply].map(|t| tuple_text(t, v4, *ip_proto));
    Some(format!("{masked}'{original},ct_nw_proto={ip_proto}' '{reply}'"))
}

fn masked_text((name, value, all): (&str, Option<(u128, u128)>, u128)) -> Option<String> {
    let (value, mask) = value.filter(|(_, mask)| *mask != 0)?;
    let mask = if mask == all { String::new() } else { format!("/{}", hex(mask)) };
    Some(format!("{name}={}{mask} ", hex(value)))
}

fn is_any(t: &CtTuple) -> bool {
    let no_port = |port: Option<u16>| port.unwrap_or(0) == 0;
    t.src.is_none() && t.dst.is_none() && no_port(t.src_port) && no_port(t.dst_port)
}

fn tuple_text(t: &CtTuple, v4: bool, proto: u8) -> String {
    let family = if v4 { "nw" } else { "ipv6" };
    let address = |a: Option<std::net::IpAddr>| a.map_or("::".to_owned(), |a| a.to_string());
    let ends = format!("ct_{family}_src={},ct_{family}_dst={}", address(t.src), address(t.dst));
    match proto {
        1 | 58 => {
            let (kind, code) = (t.icmp_type.unwrap_or(0), t.icmp_code.unwrap_or(0));
            format!("{ends},icmp_id={},icmp_type={kind},icmp_code={code}", t.icmp_id.unwrap_or(0))
        }
        _ => format!("{ends},ct_tp_src={},ct_tp_dst={}", t.src_port.unwrap_or(0), t.dst_port.unwrap_or(0)),
    }
}
