//! The implementations of the subtable look-up, and which one is in use (`dpif-netdev/subtable-lookup-prio-set`).
//!
//! `generic` is the only real implementation; `autovalidator` compares each result of `generic` with a linear search
//! and logs differences.

const AUTOVALIDATOR: &str = "autovalidator";
const GENERIC: &str = "generic";

/// The priorities of the implementations.
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
    /// Whether `autovalidator` is in use: at equal priority the first implementation in the list is chosen.
    pub fn uses_autovalidator(self) -> bool {
        self.autovalidator >= self.generic
    }

    /// A copy with another priority of one implementation. `None`: there is no such implementation.
    pub fn with(mut self, name: &str, priority: u8) -> Option<Lookups> {
        match name {
            AUTOVALIDATOR => self.autovalidator = priority,
            GENERIC => self.generic = priority,
            _ => return None,
        }
        Some(self)
    }

    /// The text of the command. `used`: number of subtables.
    pub fn text(self, used: usize) -> String {
        let line = |name, in_force, priority| {
            format!("  {name} (Use count: {}, Priority: {priority})\n", if in_force { used } else { 0 })
        };
        let uses_autovalidator = self.uses_autovalidator();
        "Available dpcls implementations:\n".to_owned()
            + &line(AUTOVALIDATOR, uses_autovalidator, self.autovalidator)
            + &line(GENERIC, !uses_autovalidator, self.generic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_is_in_force() {
        let lookups = Lookups::default();
        assert!(!lookups.uses_autovalidator());
        assert!(lookups.with("autovalidator", 1).unwrap().uses_autovalidator());
        assert!(!lookups.with("autovalidator", 3).unwrap().with("generic", 4).unwrap().uses_autovalidator());
        assert!(lookups.with("avx512_gather", 3).is_none());
        assert_eq!(
            lookups.with("autovalidator", 2).unwrap().text(7),
            "Available dpcls implementations:\n  autovalidator (Use count: 7, Priority: 2)\n  \
             generic (Use count: 0, Priority: 1)\n"
        );
    }
}
