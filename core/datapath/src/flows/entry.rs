//! What is known of one megaflow beside what workers see of it.

use super::Birth;
use crate::program::Program;
use classifier::megaflow::Megaflow;
use dpif::{DpAction, DpFlow, FlowOwner, FlowStats};
use flow::{Flow, PackedFlow};
use std::sync::Arc;
use units::{Ufid, WorkerId};

pub(crate) struct Entry {
    pub(super) ufid: Ufid,
    /// The packet that made it.
    pub(super) key: PackedFlow,
    pub(super) actions: Arc<[DpAction]>,
    pub(super) owner: Arc<dyn FlowOwner>,
    pub(super) total: FlowStats,
    /// By slot of a lane; shorter where later ones have counted nothing.
    pub(super) lanes: Vec<FlowStats>,
    pub(super) birth: Option<Birth>,
    /// Dumps list flows in the order in which they came.
    pub(super) serial: u64,
    /// What it was taken to cost when it came.
    pub(super) bytes: u32,
}

/// A megaflow beside its entry: record, index, lane, the tables that find it by identifier and by key. As measured.
const PER_MEGAFLOW: usize = size_of::<Megaflow<Program>>() + 160;

impl Entry {
    /// Bytes of memory that the megaflow takes, as near as can be told cheaply.
    pub(super) fn footprint(&self) -> usize {
        let actions = self.actions.len() * (size_of::<DpAction>() + size_of::<crate::program::Op>());
        PER_MEGAFLOW + size_of::<Entry>() + self.key.heap() + actions + self.owner.footprint()
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
