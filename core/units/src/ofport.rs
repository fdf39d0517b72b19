//! OpenFlow port numbers.

use std::fmt;

/// An OpenFlow port number in its 16-bit form (OpenFlow 1.0 §5.2.1). The reserved ports of OpenFlow 1.1 and later (0xffffff00 and up) are
/// the same numbers with the upper 16 bits set; the wire codec converts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfPort(pub u16);

impl OfPort {
    /// The first number above the numbers of ordinary ports.
    pub const MAX: OfPort = OfPort(0xff00);
    /// No output in the action set (OpenFlow 1.5 `OFPP_UNSET`).
    pub const UNSET: OfPort = OfPort(0xfff7);
    /// The ingress port.
    pub const IN_PORT: OfPort = OfPort(0xfff8);
    /// Processing by the flow tables; only in a packet-out.
    pub const TABLE: OfPort = OfPort(0xfff9);
    /// Processing as by a learning switch.
    pub const NORMAL: OfPort = OfPort(0xfffa);
    /// All ports except the ingress port and ports with flooding disabled.
    pub const FLOOD: OfPort = OfPort(0xfffb);
    /// All ports except the ingress port.
    pub const ALL: OfPort = OfPort(0xfffc);
    /// The controllers.
    pub const CONTROLLER: OfPort = OfPort(0xfffd);
    /// The bridge's local port.
    pub const LOCAL: OfPort = OfPort(0xfffe);
    /// No port; in a filter: any port.
    pub const NONE: OfPort = OfPort(0xffff);

    /// Returns whether this is the number of an ordinary port, which a device can have.
    pub fn is_ordinary(self) -> bool {
        self.0 != 0 && self < OfPort::MAX
    }

    /// The number in 32-bit form (OpenFlow 1.1 and later).
    pub fn to_u32(self) -> u32 {
        if self < OfPort::MAX { u32::from(self.0) } else { 0xffff_0000 | u32::from(self.0) }
    }

    /// Converts from the 32-bit form. `None`: a number from 0xff00 to 0xfffffeff, which is not valid.
    pub fn from_u32(v: u32) -> Option<OfPort> {
        match v {
            0..=0xfeff => Some(OfPort(v as u16)),
            0xffff_ff00..=u32::MAX => Some(OfPort(v as u16)),
            _ => None,
        }
    }

    /// The name of a reserved port in the text syntax.
    pub fn reserved_name(self) -> Option<&'static str> {
        Some(match self {
            OfPort::UNSET => "UNSET",
            OfPort::IN_PORT => "IN_PORT",
            OfPort::TABLE => "TABLE",
            OfPort::NORMAL => "NORMAL",
            OfPort::FLOOD => "FLOOD",
            OfPort::ALL => "ALL",
            OfPort::CONTROLLER => "CONTROLLER",
            OfPort::LOCAL => "LOCAL",
            OfPort::NONE => "ANY",
            _ => return None,
        })
    }

    /// The reserved port with this name, in upper or lower case. `NONE` and `ANY` are the same port.
    pub fn from_reserved_name(name: &str) -> Option<OfPort> {
        const NAMES: [(&str, OfPort); 10] = [
            ("UNSET", OfPort::UNSET),
            ("IN_PORT", OfPort::IN_PORT),
            ("TABLE", OfPort::TABLE),
            ("NORMAL", OfPort::NORMAL),
            ("FLOOD", OfPort::FLOOD),
            ("ALL", OfPort::ALL),
            ("CONTROLLER", OfPort::CONTROLLER),
            ("LOCAL", OfPort::LOCAL),
            ("NONE", OfPort::NONE),
            ("ANY", OfPort::NONE),
        ];
        NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, p)| *p)
    }
}

impl fmt::Display for OfPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reserved_name() {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_numbers_of_reserved_ports() {
        assert_eq!(OfPort::LOCAL.to_u32(), 0xffff_fffe);
        assert_eq!(OfPort::from_u32(0xffff_fff8), Some(OfPort::IN_PORT));
        assert_eq!(OfPort::from_u32(0xff00), None);
        assert_eq!(OfPort::from_u32(65279), Some(OfPort(65279)));
    }
}
