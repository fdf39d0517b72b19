//! Reasons of faults.

use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// Why a session reports a fault; empty if there is no fault.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Faults: u8 {
        /// No remote point is left: no message has arrived from any of them.
        const RECV = 1 << 0;
        /// A remote point receives no messages (remote defect indication).
        const RDI = 1 << 1;
        /// A message is from another maintenance association.
        const MAID = 1 << 2;
        /// A message has our own identifier.
        const LOOPBACK = 1 << 3;
        /// There are more remote points than a session can have.
        const OVERFLOW = 1 << 4;
        /// A command forced the fault.
        const OVERRIDE = 1 << 5;
    }
}

/// Names of the faults, in the order of output.
const NAMES: [(Faults, &str); 6] = [
    (Faults::RECV, "recv"),
    (Faults::RDI, "rdi"),
    (Faults::MAID, "maid"),
    (Faults::LOOPBACK, "loopback"),
    (Faults::OVERFLOW, "overflow"),
    (Faults::OVERRIDE, "override"),
];

impl Faults {
    /// The names of the reasons.
    pub fn names(self) -> Vec<&'static str> {
        NAMES.iter().filter(|(fault, _)| self.contains(*fault)).map(|(_, name)| *name).collect()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" "))
    }
}
