//! Parses flows in the syntax of `ovs-ofctl add-flow` and related commands.

use super::action_in::parse_actions;
use super::arguments::{command_of, error, group_value, port_value, table_value, u16_value, u64_value};
use super::protocol::Protocols;
use crate::error::OfError;
use crate::flow_mod::{FlowCommand, FlowMod, TABLE_ALL};
use crate::stats::FlowStatsRequest;
use flow::text::{NameMap, TextError, next_key_value};
use flow::{FieldId, Match};

/// The parts that the text of a flow may have, which depend on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedParts {
    /// `priority`
    pub priority: bool,
    /// `actions`; if allowed, they are required.
    pub actions: bool,
    /// `out_port`
    pub out_port: bool,
    /// Timeouts and flags.
    pub timeouts: bool,
    /// `importance`
    pub importance: bool,
}

impl AllowedParts {
    /// The parts that the command allows.
    pub fn for_command(command: FlowCommand) -> AllowedParts {
        let delete = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        AllowedParts {
            priority: command != FlowCommand::Delete,
            actions: !delete,
            out_port: delete,
            timeouts: !delete,
            importance: command == FlowCommand::Add,
        }
    }

    /// The parts that a filter of `dump-flows` allows.
    pub const FILTER: AllowedParts =
        AllowedParts { priority: false, actions: false, out_port: true, timeouts: false, importance: false };
}

/// A parsed flow.
#[derive(Clone, Debug)]
pub struct ParsedFlow {
    /// The flow mod.
    pub flow: Box<FlowMod>,
    /// The formats that can encode the flow.
    pub usable: Protocols,
    /// The match as it was written, if fields without their prerequisites were removed from the match of `flow`.
    pub written: Option<Box<Match>>,
}

/// Parses a flow mod.
pub fn parse_flow_mod(
    text: &str,
    command: FlowCommand,
    names: &dyn NameMap,
) -> Result<ParsedFlow, TextError> {
    let mut m = Box::new(FlowMod { command, ..FlowMod::default() });
    if matches!(command, FlowCommand::Modify | FlowCommand::ModifyStrict) {
        m.new_cookie = u64::MAX;
    }
    let (usable, written) = parse_into(text, AllowedParts::for_command(command), names, &mut m)?;
    if m.cookie_mask == 0 && m.new_cookie == u64::MAX && command != FlowCommand::Add {
        m.new_cookie = 0;
    }
    Ok(ParsedFlow { flow: m, usable, written })
}

/// Parses a line of a file of flows. The line may begin with a command; the default is to add the flow.
pub fn parse_flow_line(line: &str, names: &dyn NameMap) -> Result<ParsedFlow, TextError> {
    const COMMANDS: [(&str, FlowCommand); 5] = [
        ("add", FlowCommand::Add),
        ("delete", FlowCommand::Delete),
        ("delete_strict", FlowCommand::DeleteStrict),
        ("modify", FlowCommand::Modify),
        ("modify_strict", FlowCommand::ModifyStrict),
    ];
    let (command, flow) = command_of(line, &COMMANDS);
    parse_flow_mod(flow, command.unwrap_or(FlowCommand::Add), names)
}

/// Parses a filter of flow statistics; also returns the formats that can encode it.
pub fn parse_flow_filter(
    text: &str,
    names: &dyn NameMap,
) -> Result<(FlowStatsRequest, Protocols), TextError> {
    let mut m = FlowMod { command: FlowCommand::Delete, ..FlowMod::default() };
    let (mut usable, _) = parse_into(text, AllowedParts::FILTER, names, &mut m)?;
    // Statistics requests contain the table in every format, so formats without table IDs in flow mods are usable, too.
    usable = Protocols(usable.0 | (usable.0 & 10) >> 1);
    let request = FlowStatsRequest {
        matching: m.matching,
        table: m.table,
        cookie: m.cookie,
        cookie_mask: m.cookie_mask,
        out_port: m.out_port,
        out_group: m.out_group,
    };
    Ok((request, usable))
}

fn parse_into(
    text: &str,
    allowed: AllowedParts,
    names: &dyn NameMap,
    m: &mut FlowMod,
) -> Result<(Protocols, Option<Box<Match>>), TextError> {
    let (fields, actions) = if allowed.actions { split_actions(text) } else { (text, None) };
    if allowed.actions && actions.is_none() {
        return error("must specify an action");
    }
    let mut usable = Protocols::ANY;
    let mut rest = fields;
    while let Some((key, value)) = next_key_value(&mut rest) {
        if flag(key, allowed, m, &mut usable) {
            continue;
        }
        match m.matching.parse_key(key, value, names) {
            Some(result) => usable &= Protocols::of_usable(result?),
            None if value.is_empty() => return error(format!("field {key} missing value")),
            None => setting(key, value, (allowed, names), m, &mut usable)?,
        }
    }
    let matching = &mut m.matching;
    // If the packet type is in the Ethertype name space, the Ethernet type of the match must be equal to it.
    let kind = matching.flow.packet_type;
    if (matching.mask.packet_type, kind >> 16) == (u32::MAX, 1) && matching.get(FieldId::EthType).1 != 0 {
        matching.set(FieldId::EthType, u128::from(kind as u16));
    }
    // Remove fields without their prerequisites, as a switch would.
    let written = matching.normalized();
    // The matches of OpenFlow 1.0 and 1.1 have no IPv6 fields and no ECN. Fields that only IPv6 has have
    // excluded these formats above; protocol, TOS and ports must be excluded here, because IPv4 has the same
    // fields. Open vSwitch claims that 1.1 has ECN, and then omits it when encoding.
    let mask = &matching.mask;
    let has_ip_fields = mask.nw_proto != 0 || mask.nw_tos != 0 || mask.tp_src != 0 || mask.tp_dst != 0;
    if matching.flow.dl_type == 0x86dd && has_ip_fields || matching.get(FieldId::IpEcn).1 != 0 {
        usable &= Protocols::NXM_OXM;
    }
    if let Some(actions) = actions {
        m.actions = parse_actions(actions, names)?;
        usable &= Protocols::of_actions(&m.actions);
        match Protocols::of_actions_on_match(&m.actions, &m.matching, m.table) {
            Ok(set) if !(usable & set).is_empty() => usable &= set,
            Ok(_) => return inconsistent(OfError::BacMatchInconsistent),
            Err(e) => return inconsistent(e),
        }
    }
    Ok((usable, written))
}

fn inconsistent<T>(e: OfError) -> Result<T, TextError> {
    error(format!("actions are invalid with specified match ({e})"))
}

/// Splits the text at the first "action" into the part before and the text of the actions.
pub(super) fn split_actions(text: &str) -> (&str, Option<&str>) {
    let starts = text.match_indices('a').map(|(at, _)| at);
    match starts.into_iter().find(|at| text[*at..].starts_with("action")) {
        Some(at) => (&text[..at], text[at..].split_once('=').map(|(_, actions)| actions)),
        None => (text, None),
    }
}

/// Parses a keyword without a value. Returns false if `key` is not such a keyword.
fn flag(key: &str, allowed: AllowedParts, m: &mut FlowMod, usable: &mut Protocols) -> bool {
    let f = &mut m.flags;
    let since = match key {
        "allow_hidden_fields" | "no_readonly_table" => return true,
        _ if !allowed.timeouts => return false,
        "send_flow_rem" => {
            f.send_flow_rem = true;
            Protocols::ANY
        }
        "check_overlap" => {
            f.check_overlap = true;
            Protocols::ANY
        }
        "reset_counts" => {
            f.reset_counts = true;
            Protocols::OXM
        }
        "no_packet_counts" => {
            f.no_pkt_counts = true;
            Protocols::OF13_UP
        }
        "no_byte_counts" => {
            f.no_byt_counts = true;
            Protocols::OF13_UP
        }
        _ => return false,
    };
    *usable &= since;
    true
}

/// Parses a setting that is not part of the match.
fn setting(
    key: &str,
    value: &str,
    (allowed, names): (AllowedParts, &dyn NameMap),
    m: &mut FlowMod,
    usable: &mut Protocols,
) -> Result<(), TextError> {
    match key {
        // Ignored, so that the output of `dump-flows` can be parsed.
        "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
        "table" => {
            m.table = table_value(value, names)?;
            if m.table != TABLE_ALL {
                *usable &= Protocols::WITH_TABLE;
            }
        }
        "priority" if allowed.priority => m.priority = u16_value(value, key)?,
        "idle_timeout" if allowed.timeouts => m.idle_timeout = u16_value(value, key)?,
        "hard_timeout" if allowed.timeouts => m.hard_timeout = u16_value(value, key)?,
        "importance" if allowed.importance => m.importance = u16_value(value, key)?,
        "cookie" => cookie(value, m, usable)?,
        "out_port" if allowed.out_port => m.out_port = port_value(value, names)?,
        "out_group" if allowed.out_port => {
            *usable &= Protocols::OF11_UP;
            m.out_group = group_value(value)?;
        }
        _ => return error(format!("unknown keyword {key}")),
    }
    Ok(())
}

/// Parses a cookie: `cookie=V` sets the cookie of the flow, `cookie=V/M` selects flows by cookie.
fn cookie(value: &str, m: &mut FlowMod, usable: &mut Protocols) -> Result<(), TextError> {
    match value.split_once('/') {
        Some(_) if m.command == FlowCommand::Add => return error("flow additions cannot use a cookie mask"),
        Some((v, mask)) => {
            m.cookie = u64_value(v)?;
            m.cookie_mask = u64_value(mask)?;
            if m.cookie_mask != 0 {
                *usable &= Protocols::NXM_OF11_UP;
            }
        }
        None if matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict) => {
            return error(format!(
                "cannot set cookie (to match on a cookie, specify a mask, e.g. cookie={value}/-1)"
            ));
        }
        None => {
            m.new_cookie = u64_value(value)?;
            m.modify_cookie = true;
        }
    }
    Ok(())
}
