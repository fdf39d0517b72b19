//! Flows and flow mods as text.

use super::action_out::actions_text;
use crate::flow_mod::{Duration, FlowCommand, FlowFlags, FlowMod, TABLE_ALL};
use crate::stats::{FlowStats, UNKNOWN};
use flow::Match;
use flow::text::PortNames;
use units::OfPort;

/// `priority=7,tcp,in_port=1`: the priority only where it is not the default.
pub fn match_text(m: &Match, priority: u16, names: &dyn PortNames) -> String {
    let text = m.text(names);
    match (priority, text.as_str()) {
        (0x8000, _) => text,
        (p, "") => format!("priority={p}"),
        (p, text) => format!("priority={p},{text}"),
    }
}

fn duration_text(d: Duration) -> String {
    let millis = d.nsec / 1_000_000;
    let text = match d.nsec {
        0 => format!("{}", d.sec),
        _ => format!("{}.{millis:03}", d.sec),
    };
    // Digits that say nothing are left out, down to the point itself.
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    text + "s"
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

/// One line of `dump-flows`, without the leading space and the newline.
pub fn flow_stats_text(s: &FlowStats, names: &dyn PortNames) -> String {
    let mut text = format!("cookie={:#x}, duration={}, table={}, ", s.cookie, duration_text(s.duration), s.table);
    if s.packets != UNKNOWN {
        text += &format!("n_packets={}, ", s.packets);
    }
    if s.bytes != UNKNOWN {
        text += &format!("n_bytes={}, ", s.bytes);
    }
    if s.idle_timeout != 0 {
        text += &format!("idle_timeout={}, ", s.idle_timeout);
    }
    if s.hard_timeout != 0 {
        text += &format!("hard_timeout={}, ", s.hard_timeout);
    }
    let flags = flags_text(&s.flags);
    text += &flags;
    if s.importance != 0 {
        text += &format!("importance={}, ", s.importance);
    }
    if let Some(age) = s.idle_age {
        text += &format!("idle_age={age}, ");
    }
    if let Some(age) = s.hard_age.filter(|&age| age != s.duration.sec) {
        text += &format!("hard_age={age}, ");
    }
    let matching = match_text(&s.matching, s.priority, names);
    if !matching.is_empty() {
        text += &matching;
        text.push(' ');
    }
    text + "actions=" + &actions_text(&s.actions, names)
}

/// A flow mod as `ovs-ofctl parse-flows` and message dumps print it.
pub fn flow_mod_text(m: &FlowMod, names: &dyn PortNames) -> String {
    let command = match m.command {
        FlowCommand::Add => "ADD",
        FlowCommand::Modify => "MOD",
        FlowCommand::ModifyStrict => "MOD_STRICT",
        FlowCommand::Delete => "DEL",
        FlowCommand::DeleteStrict => "DEL_STRICT",
    };
    let mut text = command.to_owned();
    if m.table != 0 && m.table != TABLE_ALL {
        text += &format!(" table:{}", m.table);
    }
    let matching = match_text(&m.matching, m.priority, names);
    text.push(' ');
    if !matching.is_empty() {
        text += &matching;
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
    if m.out_port != OfPort::NONE {
        text += &format!("out_port:{} ", flow::text::port_text(m.out_port, names));
    }
    text += &flags_text(&m.flags);
    text + "actions=" + &actions_text(&m.actions, names)
}
