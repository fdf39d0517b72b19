//! The list of the parts of Open vSwitch that this version does not implement.
//!
//! A setting that needs a part names it in its entry (`Effect::NotBuilt`). Interface types are listed here, and the
//! switch checks OpenFlow actions. This list is the source of the `error` and `status` columns of rows, log messages,
//! problems reported by `sluice doctor`, docs/not-built.md and the row "not yet" of the README. When a part is
//! implemented, it is removed here, and the compiler then shows what else has to be removed.

use crate::settings::{self, Effect, Setting};

/// A part that is not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Its name, usable as the subject of a sentence.
    pub name: &'static str,
    /// What happens instead.
    pub instead: &'static str,
    /// The interface types that need it.
    pub kinds: &'static [&'static str],
    /// The OpenFlow actions that need it, as text.
    pub actions: &'static [&'static str],
}

const fn part(name: &'static str, instead: &'static str) -> Part {
    Part { name, instead, kinds: &[], actions: &[] }
}

/// Declares the parts as constants, and lists them in this order.
macro_rules! parts {
    ($($name:ident = $value:expr;)*) => {
        $(
            #[allow(missing_docs, reason = "its field `name` says it")]
            pub const $name: Part = $value;
        )*
        /// All parts.
        pub const ALL: &[Part] = &[$($name),*];
    };
}

parts! {
    TUNNELS = Part {
        kinds: &["bareudp", "lisp", "stt"],
        ..part("bareudp, LISP and STT tunnels", "the port is not made")
    };
    IPSEC = part("encryption of tunnels by IPsec", "packets leave as they are, not encrypted");
    SFLOW = part("sFlow", "nothing is sampled or reported");
    NETFLOW = part("NetFlow", "nothing is reported");
    IPFIX = Part {
        actions: &["sample(...)"],
        ..part("IPFIX", "nothing is sampled or reported; the action does nothing")
    };
    STP = part("spanning tree", "ports always forward: a loop is not broken");
    RSTP = part("rapid spanning tree", "ports always forward: a loop is not broken");
    SNOOPING = part("multicast snooping", "multicast is flooded");
    CFM = part("CFM", "no heartbeats are sent, and none are expected");
    LLDP = part("LLDP", "no messages are sent, and received ones are taken for ordinary frames");
    AUTO_ATTACH = part("auto-attach", "nothing is announced");
    IN_BAND = part("in-band control", "controllers are reached by the host's own routes");
    HW_OFFLOAD = part("hardware offload", "all packets are forwarded in software");
    REPRESENTORS = part("configuration of representors", "the function keeps its address");
}

impl Part {
    /// `tunnels are …` or `LACP is …`, followed by what happens instead.
    pub fn why(&self) -> String {
        format!("{}; {}", self.missing(), self.instead)
    }

    /// The sentence that the part is not implemented.
    pub fn missing(&self) -> String {
        let verb = if self.name.ends_with('s') && self.name != SFLOW.name { "are" } else { "is" };
        format!("{} {verb} not built yet", self.name)
    }

    /// The settings that need the part.
    pub fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        let part = *self;
        settings::all().filter(move |s| s.effect == Effect::NotBuilt(part))
    }
}

/// The part that an interface type needs.
pub fn of_kind(kind: &str) -> Option<Part> {
    ALL.iter().find(|part| part.kinds.contains(&kind)).copied()
}

/// The text of docs/not-built.md.
pub fn markdown() -> String {
    let mut out = "# What is not built\n\n\
        What Open vSwitch has and this version has not, what asks for it, and what happens instead. A row of the database that\n\
        asks for one says so in its `error` or `status` column, in the log and in `sluice doctor`; a flow that asks for one is\n\
        logged when it is added. Made by `sluice settings --not-built`.\n\n\
        | part | asked for by | what happens instead |\n|---|---|---|\n"
        .to_owned();
    for part in ALL {
        let settings = part.settings().map(|s| format!("`{}`", s.place()));
        let kinds = part.kinds.iter().map(|kind| format!("`type={kind}`"));
        let actions = part.actions.iter().map(|action| format!("`{action}`"));
        let asked: Vec<String> = settings.chain(kinds).chain(actions).collect();
        out += &format!("| {} | {} | {} |\n", part.name, asked.join(", "), part.instead);
    }
    out
}

/// The row of the README.
pub fn readme_row() -> String {
    let names: Vec<&str> = ALL.iter().map(|part| part.name).collect();
    format!(
        "| not yet | {}: a row that asks for one says so in its `error` or `status` column, in the log and in `sluice doctor`; \
         a flow, in the log ([what happens instead](docs/not-built.md)) |",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_listed_once_and_needed_by_something() {
        for part in ALL {
            let asked = part.settings().count() + part.kinds.len() + part.actions.len();
            assert!(asked > 0, "{}: nothing asks for it", part.name);
            assert_eq!(ALL.iter().filter(|p| p.name == part.name).count(), 1, "{}", part.name);
        }
        assert_eq!(TUNNELS.missing(), "bareudp, LISP and STT tunnels are not built yet");
        assert_eq!(CFM.missing(), "CFM is not built yet");
        assert_eq!(of_kind("bareudp"), Some(TUNNELS));
        assert_eq!(of_kind("gre"), None);
        assert_eq!(of_kind("internal"), None);
    }

    #[test]
    fn the_documents_match_the_list() {
        let page = include_str!("../../../docs/not-built.md");
        assert!(
            page == markdown(),
            "docs/not-built.md is old: sluice settings --not-built > docs/not-built.md"
        );
        let readme = include_str!("../../../README.md");
        let row = readme.lines().find(|line| line.starts_with("| not yet |"));
        assert_eq!(row, Some(readme_row().as_str()), "the README's row is old");
    }
}
