//! A packet without a megaflow goes to the control half; actions and a mask come back.

use crate::{DpAction, DpFlow, DropReason, FlowOwner, NoOwner, Userspace};
use flow::Flow;
use std::sync::Arc;
use units::{Millis, Ufid, WorkerId};

/// A packet that no megaflow matched.
#[derive(Clone, Copy, Debug)]
pub struct Upcall<'a> {
    /// The frame, from its Ethernet header on.
    pub packet: &'a [u8],
    /// All its fields; `in_port` is a datapath number.
    pub flow: &'a Flow,
    /// Now.
    pub now: Millis,
    /// Who asks.
    pub worker: WorkerId,
}

/// The answer to an [`Upcall`].
#[derive(Clone)]
pub struct Translation {
    /// What to do with this packet, and with all that agree with it under `mask`.
    pub actions: Arc<[DpAction]>,
    /// The bits that the translation looked at. `in_port` and `recirc_id` are matched whether or not it says so.
    pub mask: Box<Flow>,
    /// Make it a megaflow. Without it the actions are for this packet alone.
    pub install: bool,
    /// The state of the control half that it was made from; see [`UpcallHandler::is_current`].
    pub version: u64,
    /// Who is credited for the packets.
    pub owner: Arc<dyn FlowOwner>,
    /// The number of its dependencies, by which the control half finds the megaflows that a change concerns; 0: every change does.
    pub dependency_set: u32,
    /// The packet could not be translated: it is dropped for this reason, and counted as lost.
    pub error: Option<DropReason>,
}

impl Translation {
    /// The packet is dropped and no megaflow is made.
    pub fn failed(reason: DropReason) -> Translation {
        Translation {
            actions: Arc::new([]),
            mask: Box::new(Flow::ONES),
            install: false,
            version: 0,
            owner: Arc::new(NoOwner),
            dependency_set: 0,
            error: Some(reason),
        }
    }
}

/// The control half, as a worker sees it. Called by any worker thread, and by who calls `Datapath::execute`.
pub trait UpcallHandler: Send + Sync {
    /// Translates a packet that no megaflow matches.
    fn miss(&self, upcall: Upcall<'_>) -> Translation;

    /// Takes a packet from a `userspace` action. It may call `Datapath::execute`.
    fn userspace(&self, packet: &[u8], flow: &Flow, userspace: &Userspace);

    /// Compares: `packet` would be translated to what `megaflow`, which answered it, says. Called by a worker, which waits.
    fn shadow(&self, _packet: &[u8], _flow: &Flow, _megaflow: &DpFlow) {}

    /// The look-up of `packet` found one megaflow, or none, and a naive one found another. Called by a worker, which waits.
    fn lookups_differ(&self, _packet: &[u8], _found: Option<Ufid>, _naive: Option<Ufid>) {}

    /// Whether it wants to be told of new megaflows just now. The datapath asks under the publisher's lock.
    fn hears_of_flows(&self) -> bool {
        false
    }

    /// A translation has become a megaflow. No lock is held. For the log; most handlers do not care.
    fn flow_added(&self, _flow: &DpFlow) {}

    /// No change of the control half since `version` asks for another translation. The datapath calls it under the
    /// publisher's lock just before it publishes: a change that comes later finds the megaflow in its sweep.
    fn is_current(&self, version: u64) -> bool;
}
