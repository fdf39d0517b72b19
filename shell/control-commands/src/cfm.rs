//! `cfm/*`: CFM sessions.

use crate::answer::{Answer, unknown};
use crate::forced_sessions::force;
use crate::session_lists::{sessions, with_headings};
use ctl::names;
use switch::Switch;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match (name, args) {
        (names::CFM_SHOW, [interface]) => show(switch, Some(interface)).into(),
        (names::CFM_SHOW, _) => show(switch, None).into(),
        (names::CFM_SET_FAULT, [interface, word]) => set_fault(switch, Some(interface), word).into(),
        (names::CFM_SET_FAULT, [word]) => set_fault(switch, None, word).into(),
        _ => unknown(name),
    }
}

fn show(switch: &Switch, interface: Option<&str>) -> Result<String, String> {
    let all = sessions(switch, |b, now| b.upcall_translator.cfm.show(interface, now));
    if interface.is_some() && all.is_empty() {
        return Err("no such CFM object".to_owned());
    }
    Ok(with_headings(&all))
}

fn set_fault(switch: &Switch, interface: Option<&String>, word: &str) -> Result<String, String> {
    force(switch, interface, word, "no such CFM object", |backer, name, forced, now| {
        backer.upcall_translator.cfm.force_fault(name, forced, now)
    })
}
