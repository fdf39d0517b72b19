//! Bridge identifiers.

use flow::Mac;
use std::fmt;

/// Number of bits of a MAC address.
const MAC_BITS: u32 = 48;

/// A bridge identifier (IEEE 802.1D-2004 §9.2.5): 16 bits of priority, then a MAC address. The bridge with the lowest identifier becomes the root.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeIdentifier(pub u64);

impl BridgeIdentifier {
    /// The identifier of a bridge.
    pub fn new(priority: u16, mac: Mac) -> BridgeIdentifier {
        BridgeIdentifier(u64::from(priority) << MAC_BITS | mac.to_u64())
    }

    /// The priority.
    pub fn priority(self) -> u16 {
        (self.0 >> MAC_BITS) as u16
    }

    /// The MAC address.
    pub fn mac(self) -> Mac {
        Mac::from_u64(self.0)
    }

    /// The text in STP's columns: priority and address in hexadecimal, such as `8000.002320000001`.
    pub fn stp_text(self) -> String {
        format!("{:04x}.{:012x}", self.priority(), self.mac().to_u64())
    }

    /// The text in RSTP's columns, in which the priority is divided into priority and system id extension, such as `8.000.002320000001`.
    pub fn rstp_text(self) -> String {
        let priority = self.priority();
        format!("{:x}.{:03x}.{:012x}", priority >> 12, priority & 0xfff, self.mac().to_u64())
    }
}

impl fmt::Debug for BridgeIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stp_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_texts() {
        let id = BridgeIdentifier::new(0x8123, Mac([0, 0x23, 0x20, 0, 0, 1]));
        assert_eq!((id.priority(), id.mac()), (0x8123, Mac([0, 0x23, 0x20, 0, 0, 1])));
        assert_eq!(
            (id.stp_text(), id.rstp_text()),
            ("8123.002320000001".into(), "8.123.002320000001".into())
        );
    }
}
