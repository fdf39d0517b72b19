//! A packet as it is offered to captures.

use crate::drop_port::DropPort;
use crate::packet::Meta;
use dpif::DropReason;
use units::Ufid;

/// Where a packet is offered to captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The port received the packet, and the packet was looked up.
    Rx,
    /// The port's device is about to get the packet.
    Tx,
    /// The packet was dropped for this reason after the port received it.
    DroppedIn(DropReason),
    /// The packet was dropped for this reason instead of being sent by the port.
    DroppedOut(DropReason),
}

/// A packet that is offered to captures.
pub(crate) struct Offered<'a> {
    pub(crate) side: Side,
    pub(crate) port: u32,
    pub(crate) bytes: &'a [u8],
    pub(crate) meta: &'a Meta,
    /// The megaflow that the packet hit, if known.
    pub(crate) megaflow: Option<Ufid>,
    /// The packet had no megaflow.
    pub(crate) upcall: bool,
}

impl Side {
    /// Returns the side for a drop.
    pub(crate) fn dropped(drop_port: DropPort, reason: DropReason) -> Side {
        match drop_port {
            DropPort::In(_) => Side::DroppedIn(reason),
            DropPort::Out(_) => Side::DroppedOut(reason),
        }
    }

    /// Returns why the packet was dropped, if it was.
    pub fn reason(self) -> Option<DropReason> {
        match self {
            Side::Rx | Side::Tx => None,
            Side::DroppedIn(reason) | Side::DroppedOut(reason) => Some(reason),
        }
    }

    /// Returns whether the port has received the packet, rather than sent it.
    pub fn is_inbound(self) -> bool {
        matches!(self, Side::Rx | Side::DroppedIn(_))
    }
}
