//! Prints flows and flow mods.

use super::action_out::actions_text;
use crate::flow_mod::{Duration, FlowCommand, FlowFlags, FlowMod, NO_BUFFER};
use crate::stats::{FlowStats, UNKNOWN};
use crate::version::Version;
use flow::Match;
use flow::text::{NameMap, table_text};
use units::OfPort;

/// Prints a match, e.g. `priority=7,tcp,in_port=1`; the priority only if it is not the default.
pub fn match_text(m: &Match, priority: u16, names: &dyn NameMap) -> String {
    let text = m.text(names);
    match (priority, text.as_str()) {
        (0x8000, _) => text,
        (p, "") => format!("priority={p}"),
        (p, text) => format!("priority={p},{text}"),
    }
}

/// Prints seconds with three decimals, or with more if the duration is not a number of milliseconds.
pub(super) fn duration_text(d: Duration) -> String {
    match d.nsec {
        0 => format!("{}s", d.sec),
        n if n % 1_000_000 == 0 => format!("{}.{:03}s", d.sec, n / 1_000_000),
        n => format!("{}.{}s", d.sec, format!("{n:09}").trim_end_matches('0')),
    }
}

fn flags_text(f: &FlowFlags) -> String {
    let names = [
        (f.send_flow_rem, "send_flow_rem"),
        (f.check_overlap, "check_overlap"),
        (f.reset_counts, "reset_counts"),
        (f.no_pkt_counts, "no_packet_counts"),
        (f.no_byt_counts, "no_byte_counts"),
    ];
    names.iter().filter(|(on, _)| *on).map(|(_, name)| format!("{name} ")).collect()
}

/// Prints a line of `dump-flows`, without the leading space and the newline.
pub fn flow_stats_text(s: &FlowStats, names: &dyn NameMap) -> String {
    let table = table_text(s.table, names);
    let head = format!("cookie={:#x}, duration={}, table={table}, ", s.cookie, duration_text(s.duration));
    let counter = |name: &str, v: u64| match v {
        UNKNOWN => format!("{name}=?, "),
        v => format!("{name}={v}, "),
    };
    let counters = counter("n_packets", s.packets) + &counter("n_bytes", s.bytes);
    let mut ages = String::new();
    if let Some(age) = s.idle_age {
        ages += &format!("idle_age={age}, ");
    }
    if let Some(age) = s.hard_age.filter(|&age| age != s.duration.sec) {
        ages += &format!("hard_age={age}, ");
    }
    flow_text(s, (&(head + &counters), &ages), names)
}

/// Prints a flow without counters and times. The table is printed only if it is not 0 or has a name.
pub fn flow_stats_text_short(s: &FlowStats, names: &dyn NameMap) -> String {
    let cookie = if s.cookie == 0 { String::new() } else { format!("cookie={:#x}, ", s.cookie) };
    let is_first = s.table == 0 && names.table_name(0).is_none();
    let table = if is_first { String::new() } else { format!("table={}, ", table_text(s.table, names)) };
    flow_text(s, (&(cookie + &table), ""), names)
}

fn flow_text(s: &FlowStats, (head, ages): (&str, &str), names: &dyn NameMap) -> String {
    let mut text = head.to_owned();
    if s.idle_timeout != 0 {
        text += &format!("idle_timeout={}, ", s.idle_timeout);
    }
    if s.hard_timeout != 0 {
        text += &format!("hard_timeout={}, ", s.hard_timeout);
    }
    text += &flags_text(&s.flags);
    if s.importance != 0 {
        text += &format!("importance={}, ", s.importance);
    }
    text += ages;
    text += &match_text(&s.matching, s.priority, names);
    if !text.is_empty() && !text.ends_with(' ') {
        text.push(' ');
    }
    text + "actions=" + &actions_text(&s.actions, names)
}

/// Prints a flow mod as `ovs-ofctl parse-flows` does.
pub fn flow_mod_text(m: &FlowMod, names: &dyn NameMap) -> String {
    let command = match m.command {
        FlowCommand::Add => "ADD",
        FlowCommand::Modify => "MOD",
        FlowCommand::ModifyStrict => "MOD_STRICT",
        FlowCommand::Delete => "DEL",
        FlowCommand::DeleteStrict => "DEL_STRICT",
    };
    let mut text = command.to_owned();
    if m.table != 0 || names.table_name(0).is_some() {
        text += &format!(" table:{}", table_text(m.table, names));
    }
    text.push(' ');
    text += &match_text(&m.matching, m.priority, names);
    if !text.ends_with(' ') {
        text.push(' ');
    }
    if m.new_cookie != 0 && m.new_cookie != u64::MAX {
        text += &format!("cookie:{:#x} ", m.new_cookie);
    }
    if m.cookie_mask != 0 {
        text += &format!("cookie:{:#x}/{:#x} ", m.cookie, m.cookie_mask);
    }
    for (name, value) in [("idle", m.idle_timeout), ("hard", m.hard_timeout), ("importance", m.importance)] {
        if value != 0 {
            text += &format!("{name}:{value} ");
        }
    }
    if m.buffer_id != NO_BUFFER {
        text += &format!("buf:{:#x} ", m.buffer_id);
    }
    if m.out_port != OfPort::NONE {
        text += &format!("out_port:{} ", flow::text::port_text(m.out_port, names));
    }
    text += &flags_text(&m.flags);
    text + "actions=" + &actions_text(&m.actions, names)
}

/// Prints a flow mod of a message; omits flags that early versions do not have.
pub(super) fn flow_mod_message_text(m: &FlowMod, version: Version, names: &dyn NameMap) -> String {
    if version <= Version::V11 && m.flags.reset_counts {
        let flags = FlowFlags { reset_counts: false, ..m.flags };
        return flow_mod_text(&FlowMod { flags, ..m.clone() }, names);
    }
    flow_mod_text(m, names)
}
