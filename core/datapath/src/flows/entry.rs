//! The publisher's data of one megaflow. Workers do not read it.

use crate::program::{Op, Program};
use crate::rewrite::Rewrite;
use classifier::megaflow::Megaflow;
use dpif::{DpAction, DpFlow, FlowOwner, FlowStats};
use flow::{Flow, PackedFlow};
use std::sync::Arc;
use units::{Millis, Ufid, WorkerId};

/// The worker whose miss caused a flow, and the time of the miss.
#[derive(Clone, Copy)]
pub(crate) struct MissOrigin {
    pub(crate) worker: WorkerId,
    pub(crate) at: Millis,
}

pub(crate) struct Entry {
    pub(super) ufid: Ufid,
    /// The flow of the packet that caused it.
    pub(super) key: PackedFlow,
    pub(super) actions: Arc<[DpAction]>,
    pub(super) owner: Arc<dyn FlowOwner>,
    pub(super) total: FlowStats,
    /// Counts by lane slot; `None` or missing for a worker that has counted nothing.
    pub(super) lanes: Vec<Option<FlowStats>>,
    pub(super) miss_origin: Option<MissOrigin>,
    /// Increases with each new flow. Dumps list flows in this order.
    pub(super) serial: u64,
    /// Estimated memory in bytes at the time when the flow was added.
    pub(super) bytes: u32,
}

/// Memory of a megaflow in bytes besides its entry: record, index, lane, and hash table entries by identifier and by
/// key. The 176 bytes are measured.
const PER_MEGAFLOW: usize = size_of::<Megaflow<Program>>() + 176;

impl Entry {
    /// Adds what the lane in this slot has counted.
    pub(super) fn count(&mut self, lane_slot: usize, worker: WorkerId, delta: &FlowStats) {
        if self.lanes.len() <= lane_slot {
            self.lanes.reserve_exact(lane_slot + 1 - self.lanes.len());
            self.lanes.resize(lane_slot + 1, None);
        }
        match &mut self.lanes[lane_slot] {
            Some(counted) => counted.add(delta),
            none if self.miss_origin.is_some_and(|b| b.worker != worker) => {
                *none = Some(without_first(delta))
            }
            none => *none = Some(*delta),
        }
    }

    /// Estimates the bytes of memory of the megaflow.
    pub(super) fn footprint(&self) -> usize {
        let actions = self.actions.len() * (size_of::<DpAction>() + size_of::<Op>());
        // A list with a `set` has one rewrite; few lists have two.
        let set = self.actions.iter().any(|action| matches!(action, DpAction::Set(_)));
        let rewrite = usize::from(set) * (size_of::<Rewrite>() + size_of::<Op>());
        PER_MEGAFLOW + size_of::<Entry>() + self.key.heap() + actions + rewrite + self.owner.footprint()
    }

    pub(super) fn describe(&self, mask: Flow, stats: FlowStats, worker: Option<WorkerId>) -> DpFlow {
        DpFlow {
            key: self.key.unpack(),
            mask,
            actions: Arc::clone(&self.actions),
            stats,
            ufid: self.ufid,
            created: self.miss_origin.map(|b| b.at),
            worker,
            owner: Arc::clone(&self.owner),
        }
    }
}

/// Counts as a dump by worker shows them: without the first packet. In Open vSwitch each worker has its own megaflow
/// and does not count the packet that created it. The length of the first of several packets is assumed to be their
/// mean length.
fn without_first(delta: &FlowStats) -> FlowStats {
    match delta.packets {
        0 | 1 => FlowStats::default(),
        n => FlowStats { packets: n - 1, bytes: delta.bytes - delta.bytes / n, ..*delta },
    }
}
