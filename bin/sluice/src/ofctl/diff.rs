//! `replace-flows` and `diff-flows`: compare two sets of flows.

use super::change::{WINDOW, send};
use super::context::Context;
use super::fail::{Fail, print};
use super::flow_file::{self, lines};
use super::query::{fetch_flows, open_for_dump};
use super::requests::Requests;
use flow::text::NameMap;
use openflow::Action;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, TABLE_ALL};
use openflow::message::Body;
use openflow::stats::{FlowStats, FlowStatsRequest};
use openflow::text::{Protocols, actions_text, match_text, parse_flow_mod};
use std::collections::BTreeMap;

/// Identifies a flow. Flows with equal keys in the two sets are compared with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowKey {
    table: u8,
    /// Reversed, so that the highest priority comes first.
    priority: std::cmp::Reverse<u16>,
    matching: String,
}

/// A flow in one of the two sets.
#[derive(Clone)]
struct SideFlow {
    flow: FlowMod,
    actions: String,
}

impl SideFlow {
    fn equals(&self, other: &SideFlow) -> bool {
        let numbers =
            |v: &SideFlow| (v.flow.new_cookie, v.flow.idle_timeout, v.flow.hard_timeout, v.flow.importance);
        numbers(self) == numbers(other) && self.actions == other.actions
    }
}

type Table = BTreeMap<FlowKey, [Option<SideFlow>; 2]>;

fn insert(table: &mut Table, flow: FlowMod, side: usize, names: &dyn NameMap) {
    let matching = flow.matching.text(names);
    let key = FlowKey { table: flow.table, priority: std::cmp::Reverse(flow.priority), matching };
    let actions = actions_text(&flow.actions, names);
    table.entry(key).or_default()[side] = Some(SideFlow { flow, actions });
}

fn from_file(table: &mut Table, file: &str, side: usize, names: &dyn NameMap) -> Result<Protocols, Fail> {
    let text = flow_file::read(file).map_err(|e| Fail::Message(format!("{file}: open ({e})")))?;
    let mut usable = Protocols::ANY;
    for (number, line) in lines(&text) {
        let parsed = parse_flow_mod(line, FlowCommand::Add, names);
        let parsed = parsed.map_err(|e| Fail::Message(format!("{file}:{number}: {}", e.0)))?;
        usable &= parsed.usable;
        let mut m = *parsed.flow;
        if m.table == TABLE_ALL {
            m.table = 0;
        }
        insert(table, m, side, names);
    }
    Ok(usable)
}

fn as_flow_mod(s: FlowStats) -> FlowMod {
    FlowMod {
        table: s.table,
        priority: s.priority,
        new_cookie: s.cookie,
        idle_timeout: s.idle_timeout,
        hard_timeout: s.hard_timeout,
        importance: s.importance,
        matching: s.matching,
        actions: s.actions,
        ..FlowMod::default()
    }
}

/// `replace-flows`
pub fn replace(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let names = cx.names_to_accept(&args[0])?;
    let mut table = Table::new();
    let usable = from_file(&mut table, &args[1], 0, &*names)?;
    let mut conn = open_for_dump(cx, &args[0], usable | without_table(usable))?;
    for s in fetch_flows(cx, &mut conn, FlowStatsRequest::default())? {
        insert(&mut table, as_flow_mod(s), 1, &*names);
    }
    let (mut deletions, mut additions) = (Vec::new(), Vec::new());
    for versions in table.into_values() {
        match versions {
            [None, Some(gone)] => {
                let command = FlowCommand::DeleteStrict;
                deletions.push(FlowMod { command, actions: Vec::<Action>::new(), ..gone.flow });
            }
            [Some(new), old] if cx.settings.readd || !old.as_ref().is_some_and(|o| o.equals(&new)) => {
                let flags = FlowFlags { send_flow_rem: new.flow.flags.send_flow_rem, ..FlowFlags::default() };
                additions.push(FlowMod { flags, ..new.flow });
            }
            _ => {}
        }
    }
    // Bits 0 to 3 are the formats of OpenFlow 1.0. A format without table IDs can express only flows of table 0; the next
    // bit is the same format with table IDs.
    if conn.protocol.0 & 15 != 0
        && !conn.protocol.has_table_id()
        && deletions.iter().chain(&additions).any(|m| m.table != 0)
    {
        conn.set_protocol(cx, Protocols(conn.protocol.0 << 1))?;
    }
    let mods = deletions.into_iter().chain(additions);
    let bodies = mods.map(|m| Body::FlowMod(Box::new(FlowMod { modify_cookie: true, ..m })));
    let mut requests = Requests::from_bodies(conn.format(), bodies);
    send(cx, &mut conn, &args[0], &mut requests, WINDOW)
}

/// The OpenFlow 1.0 formats without table IDs that correspond to the usable formats with table IDs. Dumps of flows are
/// equal in both formats.
fn without_table(usable: Protocols) -> Protocols {
    Protocols((usable.0 & 10) >> 1)
}

fn read(cx: &mut Context, table: &mut Table, source: &str, side: usize) -> Result<(), Fail> {
    let is_file = source.starts_with('/') || source.starts_with('.');
    if is_file || (!source.contains(':') && std::fs::metadata(source).is_ok_and(|m| m.is_file())) {
        return from_file(table, source, side, &flow::text::NoNames).map(|_| ());
    }
    let mut conn = open_for_dump(cx, source, Protocols::ANY)?;
    for s in fetch_flows(cx, &mut conn, FlowStatsRequest::default())? {
        insert(table, as_flow_mod(s), side, &flow::text::NoNames);
    }
    Ok(())
}

fn line(v: &SideFlow, names: &dyn NameMap) -> String {
    let m = &v.flow;
    let mut text = if m.table == 0 { String::new() } else { format!("table={} ", m.table) };
    text += &match_text(&m.matching, m.priority, names);
    if m.new_cookie != 0 {
        text += &format!(" cookie={:#x}", m.new_cookie);
    }
    for (name, value) in
        [("idle_timeout", m.idle_timeout), ("hard_timeout", m.hard_timeout), ("importance", m.importance)]
    {
        if value != 0 {
            text += &format!(" {name}={value}");
        }
    }
    text + " actions=" + &v.actions + "\n"
}

/// `diff-flows`
pub fn diff(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut table = Table::new();
    read(cx, &mut table, &args[0], 0)?;
    read(cx, &mut table, &args[1], 1)?;
    let mut text = String::new();
    for [a, b] in table.values() {
        if let (Some(a), Some(b)) = (a, b)
            && a.equals(b)
        {
            continue;
        }
        for (sign, version) in [('-', a), ('+', b)] {
            if let Some(v) = version {
                text += &format!("{sign}{}", line(v, &flow::text::NoNames));
            }
        }
    }
    print(&text)?;
    if text.is_empty() { Ok(()) } else { Err(Fail::ExitStatus(2)) }
}
