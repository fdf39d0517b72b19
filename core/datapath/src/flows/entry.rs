//! The publisher's data of one megaflow, which workers do not read.

use super::Birth;
use crate::program::{Op, Program};
use crate::rewrite::Rewrite;
use classifier::megaflow::Megaflow;
use dpif::{DpAction, DpFlow, FlowOwner, FlowStats};
use flow::{Flow, PackedFlow};
use std::sync::Arc;
use units::{Ufid, WorkerId};

pub(crate) struct Entry {
    pub(super) ufid: Ufid,
    /// The packet that caused it.
    pub(super) key: PackedFlow,
    pub(super) actions: Arc<[DpAction]>,
    pub(super) owner: Arc<dyn FlowOwner>,
    pub(super) total: FlowStats,
    /// By slot of a lane; `None`, or absent, for a worker that has counted nothing.
    pub(super) lanes: Vec<Option<FlowStats>>,
    pub(super) birth: Option<Birth>,
    /// Dumps list flows in the order in which they were added.
    pub(super) serial: u64,
    /// The estimate of its memory when it was added.
    pub(super) bytes: u32,
}

/// A megaflow beside its entry: record, index, lane, the tables that find it by identifier and by key. As measured.
const PER_MEGAFLOW: usize = size_of::<Megaflow<Program>>() + 176;

impl Entry {
    /// Adds what the lane of this slot has counted.
    pub(super) fn count(&mut self, place: usize, worker: WorkerId, delta: &FlowStats) {
        if self.lanes.len() <= place {
            self.lanes.reserve_exact(place + 1 - self.lanes.len());
            self.lanes.resize(place + 1, None);
        }
        match &mut self.lanes[place] {
            Some(counted) => counted.add(delta),
            none if self.birth.is_some_and(|b| b.worker != worker) => *none = Some(without_first(delta)),
            none => *none = Some(*delta),
        }
    }

    /// A cheap estimate of the bytes of memory that the megaflow takes.
    pub(super) fn footprint(&self) -> usize {
        let actions = self.actions.len() * (size_of::<DpAction>() + size_of::<Op>());
        // A list with a `set` has a rewrite for it; few lists have two.
        let set = self.actions.iter().any(|action| matches!(action, DpAction::Set(_)));
        let rewrite = usize::from(set) * (size_of::<Rewrite>() + size_of::<Op>());
        PER_MEGAFLOW + size_of::<Entry>() + self.key.heap() + actions + rewrite + self.owner.footprint()
    }

    pub(super) fn show(&self, mask: Flow, stats: FlowStats, worker: Option<WorkerId>) -> DpFlow {
        DpFlow {
            key: self.key.unpack(),
            mask,
            actions: Arc::clone(&self.actions),
            stats,
            ufid: self.ufid,
            created: self.birth.map(|b| b.at),
            worker,
            owner: Arc::clone(&self.owner),
        }
    }
}

/// What a worker's dump shows of its counts: without its first packet of the megaflow. In the peer each worker has a megaflow of its
/// own, and the packet that creates it is not counted. The length of the first of several packets that are folded together is
/// assumed to be their mean.
fn without_first(delta: &FlowStats) -> FlowStats {
    match delta.packets {
        0 | 1 => FlowStats::default(),
        n => FlowStats { packets: n - 1, bytes: delta.bytes - delta.bytes / n, ..*delta },
    }
}
