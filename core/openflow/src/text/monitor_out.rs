//! Prints flow-removed messages and flow monitors.

use super::action_out::actions_text;
use super::flow_out::{duration_text, match_text};
use crate::flow_mod::{FlowRemoved, GROUP_ANY, RemovedReason, TABLE_ALL};
use crate::monitor::{FlowEvent, FlowMonitorRequest, FlowUpdate, MonitorCommand, MonitorFlags};
use flow::text::{NameMap, port_text, table_text};
use std::fmt::Write;
use units::OfPort;

/// Name of a removal reason.
pub(super) fn removed_reason_text(reason: u8) -> String {
    const NAMES: [&str; 6] = ["idle", "hard", "delete", "group_delete", "meter_delete", "eviction"];
    NAMES.get(usize::from(reason)).map_or_else(|| reason.to_string(), |n| (*n).to_owned())
}

fn reason(r: RemovedReason) -> String {
    removed_reason_text(r as u8)
}

pub(super) fn flow_removed_text(r: &FlowRemoved, names: &dyn NameMap) -> String {
    let mut text = format!(" {} reason={}", match_text(&r.matching, r.priority, names), reason(r.reason));
    if r.table != TABLE_ALL {
        let _ = write!(text, " table_id={}", table_text(r.table, names));
    }
    if r.cookie != 0 {
        let _ = write!(text, " cookie:{:#x}", r.cookie);
    }
    let _ = write!(text, " duration{} idle{}", duration_text(r.duration), r.idle_timeout);
    if r.hard_timeout != 0 {
        let _ = write!(text, " hard{}", r.hard_timeout);
    }
    let _ = writeln!(text, " pkts{} bytes{}", r.packets, r.bytes);
    text
}

fn event_text(e: &FlowEvent, names: &dyn NameMap) -> String {
    let mut text = format!(" table={}", table_text(e.table, names));
    if e.idle_timeout != 0 {
        let _ = write!(text, " idle_timeout={}", e.idle_timeout);
    }
    if e.hard_timeout != 0 {
        let _ = write!(text, " hard_timeout={}", e.hard_timeout);
    }
    let cookie = if e.cookie == 0 { "0".to_owned() } else { format!("{:#x}", e.cookie) };
    let _ = write!(text, " cookie={cookie} {}", e.matching.text(names));
    if !e.actions.is_empty() {
        if !text.ends_with(' ') {
            text.push(' ');
        }
        text += "actions=";
        text += &actions_text(&e.actions, names);
    }
    text
}

pub(super) fn flow_update_text(u: &FlowUpdate, names: &dyn NameMap) -> String {
    let text = match u {
        FlowUpdate::Abbreviated(xid) => format!("ABBREV xid={:#x}", xid.0),
        FlowUpdate::Initial(e) => format!("INITIAL{}", event_text(e, names)),
        FlowUpdate::Added(e) => format!("ADDED{}", event_text(e, names)),
        FlowUpdate::Deleted(e, r) => format!("DELETED reason={}{}", reason(*r), event_text(e, names)),
        FlowUpdate::Modified(e) => format!("MODIFIED{}", event_text(e, names)),
    };
    format!("\n event={text}")
}

fn monitor_flags_text(f: &MonitorFlags) -> String {
    super::port_out::flags_text(&[
        (f.initial, "initial"),
        (f.add, "add"),
        (f.removed, "delete"),
        (f.modify, "modify"),
        (f.instructions, "actions"),
        (f.no_abbrev, "no-abbrev"),
        (f.only_own, "own"),
    ])
    .replace(' ', ",")
}

pub(super) fn monitor_request_text(m: &FlowMonitorRequest, names: &dyn NameMap) -> String {
    if m.command == MonitorCommand::Delete {
        return format!("\n id={} command=delete", m.id);
    }
    let mut text = format!("\n id={} flags={}", m.id, monitor_flags_text(&m.flags));
    if m.out_port != OfPort::NONE {
        let _ = write!(text, " out_port={}", port_text(m.out_port, names));
    }
    if m.out_group != 0 && m.out_group != GROUP_ANY {
        let _ = write!(text, " out_group={}", m.out_group);
    }
    if m.table != TABLE_ALL {
        let _ = write!(text, " table={}", table_text(m.table, names));
    }
    let matching = m.matching.text(names);
    if matching.is_empty() { text } else { text + " " + &matching }
}
