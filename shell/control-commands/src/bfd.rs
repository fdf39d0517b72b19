//! `bfd/*`: BFD sessions.

use crate::answer::{Answer, unknown};
use crate::forced_sessions::force;
use crate::session_lists::{sessions, with_headings};
use ctl::names;
use switch::Switch;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match (name, args) {
        (names::BFD_SHOW, [interface]) => show_one(switch, interface).into(),
        (names::BFD_SHOW, _) => show_all(switch).into(),
        (names::BFD_SET_FORWARDING, [interface, word]) => {
            set_forwarding(switch, Some(interface), word).into()
        }
        (names::BFD_SET_FORWARDING, [word]) => set_forwarding(switch, None, word).into(),
        _ => unknown(name),
    }
}

fn show_one(switch: &Switch, interface: &str) -> Result<String, String> {
    let found =
        sessions(switch, |b, now| b.upcall_translator.bfd.show(Some(interface), now)).into_iter().next();
    found.map(|(_, text)| text).ok_or_else(|| "no such bfd object".to_owned())
}

fn show_all(switch: &Switch) -> String {
    with_headings(&sessions(switch, |b, now| b.upcall_translator.bfd.show(None, now)))
}

fn set_forwarding(switch: &Switch, interface: Option<&String>, word: &str) -> Result<String, String> {
    force(switch, interface, word, "no such BFD object", |backer, name, forced, now| {
        backer.upcall_translator.bfd.force_forwarding(name, forced, now)
    })
}
