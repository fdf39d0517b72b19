//! `bfd/*`: sessions of BFD.

use super::{Answer, unknown};
use crate::switch::Switch;

pub(super) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match (name, args) {
        ("bfd/show", [interface]) => show_one(switch, interface).into(),
        ("bfd/show", _) => show_all(switch).into(),
        ("bfd/set-forwarding", [interface, word]) => set_forwarding(switch, Some(interface), word).into(),
        ("bfd/set-forwarding", [word]) => set_forwarding(switch, None, word).into(),
        _ => unknown(name),
    }
}

fn show_one(switch: &Switch, interface: &str) -> Result<String, String> {
    let now = switch.clock.now();
    let found = switch.backers.values().flat_map(|b| b.handler.bfd.show(Some(interface), now)).next();
    found.map(|(_, text)| text).ok_or_else(|| "no such bfd object".to_owned())
}

fn show_all(switch: &Switch) -> String {
    let now = switch.clock.now();
    let mut all: Vec<(String, String)> =
        switch.backers.values().flat_map(|b| b.handler.bfd.show(None, now)).collect();
    all.sort();
    all.iter().map(|(name, text)| format!("---- {name} ----\n{text}")).collect()
}

fn set_forwarding(switch: &Switch, interface: Option<&String>, word: &str) -> Result<String, String> {
    let answer = match word.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        "normal" => None,
        _ => return Err("unknown fault string".to_owned()),
    };
    let now = switch.clock.now();
    let set = |b: &crate::backer::Backer| {
        b.handler.bfd.force_forwarding(interface.map(String::as_str), answer, now)
    };
    let any = switch.backers.values().fold(false, |any, b| any | set(b));
    match any || interface.is_none() {
        true => Ok("OK".to_owned()),
        false => Err("no such BFD object".to_owned()),
    }
}
