//! Upcalls: the request to translate a packet that matched no megaflow, and the answer.

use crate::{DpAction, DpFlow, DropReason, FlowOwner, NoOwner, Userspace};
use flow::Flow;
use std::sync::Arc;
use units::{Millis, Ufid, WorkerId};

/// A packet that no megaflow matched.
#[derive(Clone, Copy, Debug)]
pub struct Upcall<'a> {
    /// The frame, from its Ethernet header on.
    pub packet: &'a [u8],
    /// All fields of the packet; `in_port` is a datapath number.
    pub flow: &'a Flow,
    /// Time of the upcall.
    pub now: Millis,
    /// The worker that sends it.
    pub worker: WorkerId,
}

/// The answer to an [`Upcall`].
#[derive(Clone)]
pub struct Translation {
    /// Actions for this packet, and for all packets that are equal under `mask`.
    pub actions: Arc<[DpAction]>,
    /// Set if each packet must be translated: the actions of the megaflow, which pass its packets to the control half.
    pub slow_path: Option<Arc<[DpAction]>>,
    /// The bits that the translation consulted. `in_port` and `recirc_id` are always matched.
    pub mask: Box<Flow>,
    /// Whether to install a megaflow. If not, the actions are for this packet only.
    pub install: bool,
    /// The version of the control half's state from which the translation was made; see [`UpcallHandler::is_current`].
    pub version: u64,
    /// Gets the statistics of the packets.
    pub owner: Arc<dyn FlowOwner>,
    /// The number of the translation's set of dependencies, by which the control half finds the megaflows that a change
    /// affects; 0: every change affects the megaflow.
    pub dependency_set: u32,
    /// If the packet could not be translated, the reason for which it is dropped and counted as lost.
    pub error: Option<DropReason>,
}

impl Translation {
    /// An answer that drops the packet and installs no megaflow.
    pub fn failed(reason: DropReason) -> Translation {
        Translation {
            actions: Arc::new([]),
            slow_path: None,
            mask: Box::new(Flow::ONES),
            install: false,
            version: 0,
            owner: Arc::new(NoOwner),
            dependency_set: 0,
            error: Some(reason),
        }
    }

    /// The actions of the megaflow.
    pub fn megaflow_actions(&self) -> &Arc<[DpAction]> {
        self.slow_path.as_ref().unwrap_or(&self.actions)
    }
}

/// The interface of the control half for workers. Called by workers, handler threads and callers of `Datapath::execute`.
pub trait UpcallHandler: Send + Sync {
    /// Translates a packet that no megaflow matches.
    fn miss(&self, upcall: Upcall<'_>) -> Translation;

    /// Translates a packet of a megaflow that passes its packets to the control half ([`Translation::slow_path`]). The
    /// statistics of the megaflow, and so those of its owner, include the packet.
    fn slow_path(&self, upcall: Upcall<'_>) -> Translation {
        self.miss(upcall)
    }

    /// Handles a packet of another `userspace` action. May call `Datapath::execute`.
    fn userspace(&self, packet: &[u8], flow: &Flow, userspace: &Userspace);

    /// Shadow check: translates `packet` again and compares the result with `megaflow`, which the packet matched. The calling
    /// worker waits.
    fn shadow(&self, _packet: &[u8], _flow: &Flow, _megaflow: &DpFlow) {}

    /// Reports that the look-up of `packet` and the naive search found different megaflows. The calling worker waits.
    fn lookups_differ(&self, _packet: &[u8], _found: Option<Ufid>, _naive: Option<Ufid>) {}

    /// Returns whether `flow_added` should be called for new megaflows. Called while the publisher's lock is held.
    fn wants_new_flows(&self) -> bool {
        false
    }

    /// Reports a new megaflow, for the log. No lock is held.
    fn flow_added(&self, _flow: &DpFlow) {}

    /// Returns whether `version` is still the current version of the control half's state. The datapath calls this under the
    /// publisher's lock just before it publishes a megaflow: the revalidation after a later change finds this megaflow.
    fn is_current(&self, version: u64) -> bool;
}
