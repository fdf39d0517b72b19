//! `stp/*` and `rstp/*`: spanning trees of bridges.

use crate::answer::{Answer, unknown};
use bridge::spanning_tree::Protocol;
use ctl::names;
use switch::Switch;

pub(crate) fn execute(switch: &Switch, name: &str, args: &[String]) -> Answer {
    let bridge = args.first().map(String::as_str);
    match name {
        names::STP_SHOW => show(switch, Protocol::Stp, bridge).into(),
        names::RSTP_SHOW => show(switch, Protocol::Rstp, bridge).into(),
        names::STP_TCN => change_topology(switch, Protocol::Stp, bridge).into(),
        names::RSTP_TCN => change_topology(switch, Protocol::Rstp, bridge).into(),
        _ => unknown(name),
    }
}

fn no_such(protocol: Protocol) -> String {
    match protocol {
        Protocol::Stp => "no such stp object".to_owned(),
        Protocol::Rstp => "No such RSTP object".to_owned(),
    }
}

fn show(switch: &Switch, protocol: Protocol, bridge: Option<&str>) -> Result<String, String> {
    let mut all: Vec<(String, String)> = switch
        .datapaths
        .with_bridges()
        .flat_map(|b| b.upcall_translator.trees.show(protocol, bridge))
        .collect();
    if bridge.is_some() && all.is_empty() {
        return Err(no_such(protocol));
    }
    all.sort();
    Ok(all.into_iter().map(|(_, text)| text).collect())
}

fn change_topology(switch: &Switch, protocol: Protocol, bridge: Option<&str>) -> Result<String, String> {
    let now = switch.clock.now();
    let change = |b: &switch::Backer| b.upcall_translator.trees.change_topology(protocol, bridge, now);
    let any = switch.datapaths.with_bridges().fold(false, |any, b| any | change(b));
    if bridge.is_some() && !any { Err(no_such(protocol)) } else { Ok("OK".to_owned()) }
}
