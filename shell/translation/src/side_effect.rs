//! What a packet causes in the main loop besides being forwarded.

use crate::held_packet::HeldPacket;
use crate::upcall::packet_in::PacketInParts;
use crate::upcall::suspect::Suspect;
use std::sync::Arc;
use units::Millis;
use xlate::{FinTimeout, LearnedFlow, Solicitation};

/// Something for the main loop, caused by a packet.
pub enum SideEffect {
    /// Put the flow that a `learn` action made, of a packet of this time.
    Learn(Arc<LearnedFlow>, Millis),
    /// Shorten a rule's timeouts.
    FinTimeout(FinTimeout),
    /// Send a packet to controllers.
    PacketIn(Box<PacketInParts>),
    /// Look whether a megaflow is wrong.
    Suspect(Box<Suspect>),
    /// Ask for a next hop of tunnels.
    Solicit(Arc<Solicitation>),
    /// Send packets whose next hop is known now.
    Release(Vec<HeldPacket>),
}

/// How many side effects may wait. What packets cause beyond that is lost, and counted.
pub const SIDE_EFFECTS_MAX: usize = 16 * 1024;
