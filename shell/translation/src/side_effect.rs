//! Side effects of packets that the main thread carries out.

use crate::held_packet::HeldPacket;
use crate::upcall::packet_in::PacketInParts;
use crate::upcall::suspect_megaflow::SuspectMegaflow;
use std::sync::Arc;
use units::Millis;
use xlate::{FinTimeout, LearnedFlow, Solicitation};

/// A side effect of a packet.
pub enum SideEffect {
    /// Add the flow that a `learn` action made; the time is the packet's.
    Learn(Arc<LearnedFlow>, Millis),
    /// Shorten the timeouts of a rule (`fin_timeout`).
    FinTimeout(FinTimeout),
    /// Send a packet-in to controllers.
    PacketIn(Box<PacketInParts>),
    /// Check whether a packet's megaflow is wrong (shadow check).
    Suspect(Box<SuspectMegaflow>),
    /// Request the next hop of a tunnel (ARP, ND).
    Solicit(Arc<Solicitation>),
    /// Send packets whose next hop is now known.
    Release(Vec<HeldPacket>),
}

/// Maximum number of queued side effects. More are dropped and counted.
pub const SIDE_EFFECTS_MAX: usize = 16 * 1024;
