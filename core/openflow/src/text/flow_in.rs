//! Flows from text: what `ovs-ofctl add-flow` and the others take.

use super::action_in::parse_actions;
use super::arguments::{error, u8_value, u16_value, u64_value};
use crate::flow_mod::{FlowCommand, FlowMod, GROUP_ANY};
use crate::stats::FlowStatsRequest;
use flow::text::{PortNames, TextError, next_key_value, port_from_text};
use flow::Match;
use units::OfPort;

/// Which parts a flow's text may have; it depends on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowText {
    /// `priority`
    pub priority: bool,
    /// `actions`, which then has to be there.
    pub actions: bool,
    /// `out_port`, `out_group`
    pub out: bool,
    /// Timeouts, flags, importance.
    pub timeouts: bool,
}

impl FlowText {
    /// What a command's flow may say.
    pub fn of(command: FlowCommand) -> FlowText {
        let (strict, delete) = match command {
            FlowCommand::Add | FlowCommand::Modify => (true, false),
            FlowCommand::ModifyStrict => (true, false),
            FlowCommand::Delete => (false, true),
            FlowCommand::DeleteStrict => (true, true),
        };
        FlowText { priority: strict, actions: !delete, out: delete, timeouts: !delete }
    }

    /// A filter of `dump-flows`.
    pub const FILTER: FlowText = FlowText { priority: false, actions: false, out: true, timeouts: false };
}

/// A flow mod from text.
pub fn parse_flow_mod(text: &str, command: FlowCommand, names: &dyn PortNames) -> Result<FlowMod, TextError> {
    let table = if matches!(command, FlowCommand::Add) { 0 } else { crate::flow_mod::TABLE_ALL };
    let mut m = FlowMod { command, table, ..FlowMod::default() };
    if matches!(command, FlowCommand::Modify | FlowCommand::ModifyStrict) {
        m.new_cookie = u64::MAX;
    }
    parse_into(text, FlowText::of(command), names, &mut m)?;
    Ok(m)
}

/// A filter of flow statistics from text.
pub fn parse_flow(text: &str, names: &dyn PortNames) -> Result<FlowStatsRequest, TextError> {
    let mut m = FlowMod::default();
    parse_into(text, FlowText::FILTER, names, &mut m)?;
    Ok(FlowStatsRequest {
        matching: m.matching,
        table: m.table,
        cookie: m.cookie,
        cookie_mask: m.cookie_mask,
        out_port: m.out_port,
        out_group: m.out_group,
    })
}

fn parse_into(text: &str, allowed: FlowText, names: &dyn PortNames, m: &mut FlowMod) -> Result<(), TextError> {
    let (fields, actions) = split_actions(text);
    match (allowed.actions, actions) {
        (true, None) => return error("must specify an action"),
        (true, Some(actions)) => m.actions = parse_actions(actions, names)?,
        // Actions in the text of a deletion say nothing.
        (false, _) => {}
    }
    let mut matching = Match::CATCHALL;
    let mut rest = fields;
    while let Some((key, value)) = next_key_value(&mut rest) {
        if setting(key, value, allowed, names, m)? {
            continue;
        }
        match matching.parse_key(key, value, names) {
            Some(result) => {
                result?;
            }
            None if value.is_empty() => return error(format!("field {key} missing value")),
            None => return error(format!("unknown keyword {key}")),
        }
    }
    check_cookies(m)?;
    matching.require_ethernet();
    m.matching = matching;
    Ok(())
}

/// The text before `actions=` and the text after it.
fn split_actions(text: &str) -> (&str, Option<&str>) {
    let mut from = 0;
    while let Some(at) = text[from..].find("action").map(|i| i + from) {
        let after = text[at + "action".len()..].trim_start_matches('s');
        let before = text[..at].chars().next_back();
        if let Some(actions) = after.strip_prefix('=')
            && before.is_none_or(|c| c == ',' || c.is_whitespace())
        {
            return (&text[..at], Some(actions));
        }
        from = at + "action".len();
    }
    (text, None)
}

/// What belongs to the flow but not to its match. False: the key is none of these.
fn setting(key: &str, value: &str, allowed: FlowText, names: &dyn PortNames, m: &mut FlowMod) -> Result<bool, TextError> {
    let flags = &mut m.flags;
    match key {
        "send_flow_rem" if allowed.timeouts => flags.send_flow_rem = true,
        "check_overlap" if allowed.timeouts => flags.check_overlap = true,
        "reset_counts" if allowed.timeouts => flags.reset_counts = true,
        "no_packet_counts" if allowed.timeouts => flags.no_pkt_counts = true,
        "no_byte_counts" if allowed.timeouts => flags.no_byt_counts = true,
        // Old dumps may be fed back: their counters say nothing here.
        "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
        "allow_hidden_fields" => {}
        "table" => m.table = u8_value(value, key)?,
        "priority" if allowed.priority => m.priority = u16_value(value, key)?,
        "idle_timeout" if allowed.timeouts => m.idle_timeout = u16_value(value, key)?,
        "hard_timeout" if allowed.timeouts => m.hard_timeout = u16_value(value, key)?,
        "importance" if allowed.timeouts => m.importance = u16_value(value, key)?,
        "cookie" => cookie(value, m)?,
        "out_port" if allowed.out => {
            let port = port_from_text(value, names);
            m.out_port = port.map_or_else(|| error(format!("{value} is not a valid OpenFlow port")), Ok)?;
        }
        "out_group" if allowed.out => {
            m.out_group = if value == "any" { GROUP_ANY } else { super::arguments::u32_value(value)? };
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `cookie=V` sets, `cookie=V/M` selects.
fn cookie(value: &str, m: &mut FlowMod) -> Result<(), TextError> {
    let selects = matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    match value.split_once('/') {
        Some((v, mask)) => {
            if m.command == FlowCommand::Add && m.table != crate::flow_mod::TABLE_ALL {
                return error("cannot set cookie (with mask) in an add");
            }
            m.cookie = u64_value(v)?;
            m.cookie_mask = if mask == "-1" { u64::MAX } else { u64_value(mask)? };
        }
        None if selects => return error("cookie must have a mask"),
        None => {
            m.new_cookie = u64_value(value)?;
            if m.new_cookie == u64::MAX {
                return error("cookie may not be 0xffffffffffffffff: it is reserved");
            }
            m.modify_cookie = m.command != FlowCommand::Add;
        }
    }
    Ok(())
}

fn check_cookies(m: &FlowMod) -> Result<(), TextError> {
    let sets = matches!(m.command, FlowCommand::Add) && m.cookie_mask != 0 && m.out_port == OfPort::NONE;
    if sets && m.table != crate::flow_mod::TABLE_ALL {
        return error("cannot set cookie (with mask) in an add");
    }
    Ok(())
}

