//! Prints groups.

use super::action_out::actions_text;
use super::flow_out::duration_text;
use super::port_out::bits_text;
use crate::flow_mod::GROUP_ANY;
use crate::group::*;
use crate::version::Version;
use flow::text::{NameMap, port_text};
use units::OfPort;

/// Prints a group's number, `all` or `any`.
pub(super) fn group_name(group: u32) -> String {
    match group {
        GROUP_ALL => "all".to_owned(),
        GROUP_ANY => "any".to_owned(),
        n => n.to_string(),
    }
}

fn type_name(kind: GroupType) -> &'static str {
    match kind {
        GroupType::All => "all",
        GroupType::Select => "select",
        GroupType::Indirect => "indirect",
        GroupType::FastFailover => "ff",
    }
}

/// Prints a bucket number, which exists in 1.5 and in Nicira's form for 1.0.
fn bucket_id_text(label: &str, id: u32, version: Version) -> String {
    if !matches!(version, Version::V10 | Version::V15) {
        return String::new();
    }
    let id = match id {
        BUCKET_FIRST => "first".to_owned(),
        BUCKET_LAST => "last".to_owned(),
        BUCKET_ALL => "all".to_owned(),
        n => n.to_string(),
    };
    format!("{label}{id},")
}

fn bucket_text(b: &Bucket, kind: GroupType, version: Version, names: &dyn NameMap) -> String {
    let mut text = format!("bucket={}", bucket_id_text("bucket_id:", b.id, version));
    if b.weight != u16::from(kind == GroupType::Select) {
        text += &format!("weight:{},", b.weight);
    }
    if b.watch_port != OfPort::NONE {
        text += &format!("watch_port:{},", port_text(b.watch_port, names));
    }
    if b.watch_group != GROUP_ANY {
        text += &format!("watch_group:{},", b.watch_group);
    }
    text + "actions=" + &actions_text(&b.actions, names)
}

fn selection_text(s: &Selection) -> String {
    if s.method.is_empty() {
        return String::new();
    }
    let mut text = format!(",selection_method={}", s.method);
    if s.param != 0 {
        text += &format!(",selection_method_param={}", s.param);
    }
    let fields: Vec<String> = s
        .fields
        .iter()
        .map(|(f, mask)| {
            let name = f.info().name;
            match mask & f.ones() == f.ones() {
                true => name.to_owned(),
                false => format!("{name}={}", f.format(*mask, None, &flow::text::NoNames)),
            }
        })
        .collect();
    match fields.as_slice() {
        [] => text,
        [one] => text + ",fields=" + one,
        several => text + ",fields(" + &several.join(",") + ")",
    }
}

fn body_text(
    head: String,
    (kind, buckets, selection): (GroupType, &[Bucket], &Selection),
    version: Version,
    names: &dyn NameMap,
) -> String {
    let buckets: Vec<String> = buckets.iter().map(|b| bucket_text(b, kind, version, names)).collect();
    let text = format!("{head}{},{}", selection_text(selection), buckets.join(","));
    text.trim_end_matches(',').to_owned()
}

/// Prints a group's description.
pub fn group_desc_text(g: &GroupDesc, version: Version, names: &dyn NameMap) -> String {
    let head = format!("group_id={},type={}", g.group, type_name(g.kind));
    body_text(head, (g.kind, &g.buckets, &g.selection), version, names)
}

pub(super) fn group_mod_text(m: &GroupMod, version: Version, names: &dyn NameMap) -> String {
    let command = match m.command {
        GroupCommand::Add => "ADD",
        GroupCommand::Modify => "MOD",
        GroupCommand::AddOrModify => "ADD_OR_MOD",
        GroupCommand::Delete => "DEL",
        GroupCommand::InsertBucket => "INSERT_BUCKET",
        GroupCommand::RemoveBucket => "REMOVE_BUCKET",
    };
    let about_buckets = matches!(m.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket);
    let mut head = format!("\n {command} ");
    if about_buckets {
        head += &bucket_id_text("command_bucket_id:", m.command_bucket, version);
    }
    head += &format!("group_id={}", m.group);
    if !about_buckets {
        head += &format!(",type={}", type_name(m.kind));
    }
    body_text(head, (m.kind, &m.buckets, &m.selection), version, names)
}

pub(super) fn group_stats_text(s: &GroupStats) -> String {
    let mut text = format!("\n group_id={},", s.group);
    if s.duration.sec != u32::MAX {
        text += &format!("duration={},", duration_text(s.duration));
    }
    text += &format!("ref_count={},packet_count={},byte_count={}", s.ref_count, s.packets, s.bytes);
    for (i, (packets, bytes)) in s.buckets.iter().enumerate().filter(|(_, (packets, _))| *packets != u64::MAX)
    {
        text += &format!(",bucket{i}:packet_count={packets},byte_count={bytes}");
    }
    text
}

/// Action names by number in OpenFlow 1.1 and later, in the order in which tools print them.
const ACTIONS: [(u32, &str); 21] = [
    (0, "output"),
    (22, "group"),
    (25, "set_field"),
    (1, "set_vlan_vid"),
    (2, "set_vlan_pcp"),
    (18, "strip_vlan"),
    (17, "push_vlan"),
    (3, "mod_dl_src"),
    (4, "mod_dl_dst"),
    (5, "mod_nw_src"),
    (6, "mod_nw_dst"),
    (7, "mod_nw_tos"),
    (8, "mod_nw_ecn"),
    (23, "mod_nw_ttl"),
    (9, "mod_tp_src"),
    (10, "mod_tp_dst"),
    (24, "dec_ttl"),
    (13, "set_mpls_label"),
    (14, "set_mpls_tc"),
    (15, "set_mpls_ttl"),
    (16, "dec_mpls_ttl"),
];
/// The actions that tools print after all others.
const LATE_ACTIONS: [(u32, &str); 3] = [(19, "push_mpls"), (20, "pop_mpls"), (21, "set_queue")];

/// Prints a set of actions of OpenFlow 1.1 and later.
pub(super) fn action_bits_text(bits: u32) -> String {
    let all = ACTIONS.iter().chain(&LATE_ACTIONS);
    let names: Vec<&str> = all.filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| *name).collect();
    if names.is_empty() { "<none>".to_owned() } else { names.join(" ") }
}

pub(super) fn group_features_text(f: &GroupFeatures, version: Version) -> String {
    let mut text =
        format!("\n Group table:\n    Types:  {:#x}\n    Capabilities:  {:#x}\n", f.types, f.capabilities);
    let names = ["all", "select", "indirect", "fast failover"];
    for (i, name) in names.iter().enumerate().filter(|(i, _)| f.types & 1 << i != 0) {
        let names = if version == Version::V10 { old_action_bits_text } else { action_bits_text };
        let (max, actions) = (f.max_groups[i], names(f.actions[i]));
        let max = if max == 0 { "0".to_owned() } else { format!("{max:#x}") };
        text += &format!("    {name} group:\n       max_groups={max}\n       actions: {actions}\n");
    }
    text
}

/// Prints a set of actions of OpenFlow 1.0.
pub(super) fn old_action_bits_text(bits: u32) -> String {
    const NAMES: [(u32, &str); 12] = [
        (0, "output"),
        (11, "enqueue"),
        (1, "set_vlan_vid"),
        (2, "set_vlan_pcp"),
        (3, "strip_vlan"),
        (4, "mod_dl_src"),
        (5, "mod_dl_dst"),
        (6, "mod_nw_src"),
        (7, "mod_nw_dst"),
        (8, "mod_nw_tos"),
        (9, "mod_tp_src"),
        (10, "mod_tp_dst"),
    ];
    let sorted: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
    let moved = NAMES.iter().enumerate().fold(0, |set, (i, (bit, _))| set | (bits >> bit & 1) << i);
    bits_text(moved, &sorted)
}
