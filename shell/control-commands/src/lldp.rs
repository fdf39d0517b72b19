//! `autoattach/*` and `lldp/show`: the LLDP sessions of ports.

use crate::answer::{Answer, unknown};
use crate::session_lists::{sessions, with_headings};
use bridge::lldp::Session;
use ctl::names;
use switch::Switch;

pub(crate) fn execute(switch: &Switch, name: &str, args: &[String]) -> Answer {
    let only = args.first().map(String::as_str);
    match name {
        names::LLDP_SHOW => show(switch, only).into(),
        names::AUTOATTACH_STATUS => list(switch, only, "LLDP", Session::servers),
        names::AUTOATTACH_SHOW_ISID => list(switch, only, "LLDP", Session::services),
        names::AUTOATTACH_STATISTICS => list(switch, only, "Statistics", Session::statistics),
        _ => unknown(name),
    }
}

/// A text about each session of a bridge, or of all bridges. As in Open vSwitch, it is empty if there is no such bridge.
fn list(switch: &Switch, bridge: Option<&str>, heading: &str, text: fn(&Session) -> String) -> Answer {
    let id = bridge.and_then(|name| switch.bridges.get(name)).map(|bridge| bridge.id);
    if bridge.is_some() && id.is_none() {
        return "".into();
    }
    let all =
        sessions(switch, |b, now| b.upcall_translator.lldp.show_bridge(id, now, |session| text(session)));
    all.iter().map(|(name, text)| format!("{heading}: {name}\n{text}")).collect::<String>().into()
}

fn show(switch: &Switch, interface: Option<&str>) -> Result<String, String> {
    let all = sessions(switch, |b, now| b.upcall_translator.lldp.show(interface, now));
    if interface.is_some() && all.is_empty() {
        return Err("no such LLDP object".to_owned());
    }
    Ok(with_headings(&all))
}
