//! Parses flow monitors: the argument of `ovs-ofctl monitor` after `watch:`.

use super::arguments::{error, group_value, port_value, table_value};
use super::protocol::Protocols;
use crate::monitor::{FlowMonitorRequest, MonitorFlags};
use flow::text::{NameMap, TextError, next_key_value};

/// Parses a monitor, which gets the number `id`; also returns the formats that can encode the monitor. By default a monitor
/// reports all changes of all flows, with actions; the text restricts that.
pub fn parse_flow_monitor(
    text: &str,
    id: u32,
    names: &dyn NameMap,
) -> Result<(FlowMonitorRequest, Protocols), TextError> {
    let flags = MonitorFlags {
        initial: true,
        add: true,
        removed: true,
        modify: true,
        instructions: true,
        no_abbrev: false,
        only_own: true,
    };
    let mut m = FlowMonitorRequest { id, flags, ..FlowMonitorRequest::default() };
    let mut usable = Protocols::ANY;
    let mut rest = text;
    while let Some((key, value)) = next_key_value(&mut rest) {
        if let Some(left_out) = key.strip_prefix('!').and_then(|name| flag(&mut m.flags, name)) {
            *left_out = false;
            continue;
        }
        match m.matching.parse_key(key, value, names) {
            Some(result) => usable &= Protocols::of_usable(result?),
            None if value.is_empty() => return error(format!("{text}: field {key} missing value")),
            None => setting(&mut m, (key, value), text, names)?,
        }
        if (usable & Protocols::OF10).is_empty() {
            return error(format!("{key}: match field is not supported for flow monitor"));
        }
    }
    Ok((m, usable))
}

/// The flag that `!NAME` clears.
fn flag<'a>(flags: &'a mut MonitorFlags, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "initial" => &mut flags.initial,
        "add" => &mut flags.add,
        "delete" => &mut flags.removed,
        "modify" => &mut flags.modify,
        "actions" => &mut flags.instructions,
        "abbrev" => &mut flags.no_abbrev,
        "own" => &mut flags.only_own,
        _ => return None,
    })
}

/// Parses a setting that is not part of the match.
fn setting(
    m: &mut FlowMonitorRequest,
    (key, value): (&str, &str),
    text: &str,
    names: &dyn NameMap,
) -> Result<(), TextError> {
    match key {
        "table" => m.table = table_value(value, names)?,
        "out_port" => m.out_port = port_value(value, names)?,
        "out_group" => m.out_group = group_value(value)?,
        _ => return error(format!("{text}: unknown keyword {key}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::text::NoNames;

    fn shown(text: &str) -> String {
        match parse_flow_monitor(text, 1, &NoNames) {
            Ok((m, _)) => crate::text::monitor_out::monitor_request_text(&m, &NoNames),
            Err(e) => e.0,
        }
    }

    #[test]
    fn parses_monitors() {
        assert_eq!(shown(""), "\n id=1 flags=initial,add,delete,modify,actions,own");
        assert_eq!(
            shown("!initial,!own,table=3,out_port=LOCAL,tcp"),
            "\n id=1 flags=add,delete,modify,actions out_port=LOCAL table=3 tcp"
        );
        assert_eq!(shown("nonsense"), "nonsense: field nonsense missing value");
        assert_eq!(shown("a=b"), "a=b: unknown keyword a");
        assert_eq!(shown("reg16=5"), "\n id=1 flags=initial,add,delete,modify,actions,own reg16=0x5");
    }
}
