//! The implementations of the look-up in subtables, and which of them is in force (`dpif-netdev/subtable-lookup-prio-set`).
//!
//! `generic` is the one there is; `autovalidator` compares every look-up of it with a naive one, and tells what differs.

use crate::handler::Handler;
use crate::switch::Switch;
use runtime::log::Level;
use runtime::{Module, RateLimit};
use units::Ufid;

static LOG: Module = Module::new("dpif_lookup_autovalidator");
static LIMIT: RateLimit = RateLimit::new(1, 5);
static IMPLS: Module = Module::new("dpif_netdev_lookup");
static NETDEV: Module = Module::new("dpif_netdev");

const AUTOVALIDATOR: &str = "autovalidator";
const GENERIC: &str = "generic";

/// Their priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookups {
    autovalidator: u8,
    generic: u8,
}

impl Default for Lookups {
    fn default() -> Lookups {
        Lookups { autovalidator: 0, generic: 1 }
    }
}

impl Lookups {
    /// Look-ups are compared. Of equal ones the first in the list is in force.
    pub fn validate(self) -> bool {
        self.autovalidator >= self.generic
    }

    /// With another priority; `None`: there is no such implementation.
    fn with(mut self, name: &str, priority: u8) -> Option<Lookups> {
        match name {
            AUTOVALIDATOR => self.autovalidator = priority,
            GENERIC => self.generic = priority,
            _ => return None,
        }
        Some(self)
    }

    /// `used`: subtables that there are.
    fn text(self, used: usize) -> String {
        let line = |name, in_force, priority| {
            format!("  {name} (Use count: {}, Priority: {priority})\n", if in_force { used } else { 0 })
        };
        let validate = self.validate();
        "Available dpcls implementations:\n".to_owned()
            + &line(AUTOVALIDATOR, validate, self.autovalidator)
            + &line(GENERIC, !validate, self.generic)
    }
}

/// A priority as the peer reads it: the digits that a text begins with. `None`: beyond 255, or less than none.
fn number(text: &str) -> Option<u8> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    match &text[..end] {
        "" if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit()) => None,
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

impl Switch {
    /// `dpif-netdev/subtable-lookup-info-get`.
    pub(crate) fn show_lookups(&self) -> String {
        let made = self.hand_made.values().map(|m| &m.backer);
        let (mut used, mut differences) = (0, 0);
        for backer in self.backers.values().chain(made) {
            used += backer.datapath.subtables().1;
            differences += backer.datapath.lookup_differences();
        }
        let text = self.lookups.text(used);
        if differences == 0 { text } else { text + &format!("Look-ups that differed: {differences}\n") }
    }

    /// `dpif-netdev/subtable-lookup-prio-set`.
    pub(crate) fn set_lookups(&mut self, args: &[String]) -> Result<String, String> {
        let [name, priority] = args else {
            return Err("error, subtable lookup function not found\n".to_owned());
        };
        let Some(priority) = number(priority) else {
            return Err("error converting priority, use integer in range 0-255\n".to_owned());
        };
        let Some(lookups) = self.lookups.with(name, priority) else {
            runtime::warn!(IMPLS, "Subtable function '{name}' not found, failed to set priority");
            return Err("error, subtable lookup function not found\n".to_owned());
        };
        runtime::info!(IMPLS, "Subtable function '{name}' set priority to {priority}");
        let changed = lookups.validate() != self.lookups.validate();
        self.lookups = lookups;
        let (mut ports, mut subtables) = (0, 0);
        let made = self.hand_made.values().map(|m| &m.backer);
        for backer in self.backers.values().chain(made).filter(|_| changed) {
            backer.datapath.set_validate(lookups.validate());
            let there = backer.datapath.subtables();
            ports += there.0;
            subtables += there.1;
        }
        let text =
            format!("Lookup priority change affected {ports} dpcls ports and {subtables} subtables.\n");
        runtime::info!(NETDEV, "{}", text.trim_end());
        Ok(text)
    }
}

impl Handler {
    /// A worker's look-up of a packet differed from the naive one.
    pub(crate) fn tell_lookups(&self, packet: &[u8], found: Option<Ufid>, naive: Option<Ufid>) {
        let text = |ufid: Option<Ufid>| ufid.map_or("nothing".to_owned(), dpif::text::ufid_text);
        let hex: String = packet.iter().map(|b| format!("{b:02x}")).collect();
        runtime::log_rl!(
            LOG,
            LIMIT,
            Level::Err,
            "{}: look-up found {}, the naive one {}: {hex}",
            self.name,
            text(found),
            text(naive)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read_as_the_peer_reads_them() {
        assert_eq!(["4", "255", "12x", "abc", ""].map(number), [4, 255, 12, 0, 0].map(Some));
        assert_eq!(["256", "-1", "300x"].map(number), [None; 3]);
    }

    #[test]
    fn the_highest_priority_is_in_force() {
        let lookups = Lookups::default();
        assert!(!lookups.validate());
        assert!(lookups.with("autovalidator", 1).unwrap().validate());
        assert!(!lookups.with("autovalidator", 3).unwrap().with("generic", 4).unwrap().validate());
        assert!(lookups.with("avx512_gather", 3).is_none());
        assert_eq!(
            lookups.with("autovalidator", 2).unwrap().text(7),
            "Available dpcls implementations:\n  autovalidator (Use count: 7, Priority: 2)\n  \
             generic (Use count: 0, Priority: 1)\n"
        );
    }
}
