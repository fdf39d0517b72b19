//! Encapsulation of a message in Ethernet, and the filter for frames of a session.

use super::message::Message;
use flow::Mac;
use packet::ethertype;

/// Ethertype of messages.
pub const ETHERTYPE: u16 = 0x8902;

/// Destination address of messages on maintenance level 0 (IEEE 802.1ag 8.13.10).
const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x30]);
/// Destination address of messages in extended mode.
const EXTENDED_DESTINATION: Mac = Mac([0x01, 0x23, 0x20, 0x00, 0x00, 0x30]);
const VLAN_MASK: u16 = 0x0fff;
const PRIORITY_SHIFT: u16 = 13;

/// Selects, together with the Ethertype, the frames of a port that belong to the port's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Destination address.
    pub eth_dst: Mac,
    /// The tunnel key must be 0.
    pub check_tnl_key: bool,
}

impl Filter {
    /// The filter of a session. `extended`: whether the session uses extended mode.
    pub fn new(extended: bool, check_tnl_key: bool) -> Filter {
        Filter { eth_dst: destination(extended), check_tnl_key }
    }
}

fn destination(extended: bool) -> Mac {
    if extended { EXTENDED_DESTINATION } else { DESTINATION }
}

/// The frame of a message from a port with MAC address `mac`. The frame has a VLAN tag if `vlan` or `priority` is not
/// 0.
pub(super) fn frame(message: &Message, extended: bool, mac: Mac, vlan: u16, priority: u8) -> Vec<u8> {
    let tag = vlan & VLAN_MASK | u16::from(priority) << PRIORITY_SHIFT;
    let mut frame = Vec::new();
    frame.extend(destination(extended).0);
    frame.extend(mac.0);
    if tag != 0 {
        frame.extend(ethertype::VLAN.to_be_bytes());
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(ETHERTYPE.to_be_bytes());
    frame.extend(message.encode());
    frame
}
