//! Flows: the publisher's side of the megaflows: identity, owner and statistics of each. One lock protects all of it.
//!
//! Each worker counts in a lane of its own, without a lock. A *fold* reads the lanes and adds the differences since
//! the last fold to the totals here. The thread that holds the lock collects the statistics with which owners are to
//! be credited. It credits them after it has released the lock, because an owner may call the datapath.
//!
//! A removed megaflow is folded once more when no worker can count packets for it any more, so that its rule is
//! credited with every packet.

use crate::action::hash;
use crate::program::Program;
use crate::rewrite::SharedPrograms;
use classifier::megaflow::{InsertResult, Key, KeyMask, Megaflow, MegaflowPublisher};
use cpu::prehashed::ByHash;
use dpif::{DpAction, DpFlow, FlowOwner, FlowStats, Translation, Ufids};
use flow::{Flow, PackedFlow};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use sync::LaneWriter;
use units::{Millis, Ufid, WorkerId};

mod affected;
mod affected_matches;
mod credits;
mod entries;
mod entry;
mod eviction;
mod fold;
mod limits;
mod worker_lane;

pub use affected_matches::AffectedMatches;
pub(crate) use credits::{Credits, credit};
use entries::Entries;
use entry::Entry;
pub(crate) use entry::MissOrigin;
pub(crate) use limits::{FlowLimits, SPARE};
use worker_lane::WorkerLane;

/// The half of an identifier by which flows are found. Of two flows with the same half, the second one is not
/// installed; among millions of flows this is very unlikely.
fn half(ufid: Ufid) -> u64 {
    ufid.0 as u64
}

/// A flow to be published. Everything that can be prepared without the lock is prepared.
pub(crate) struct NewFlow<'a> {
    in_port: u32,
    key: &'a Key,
    /// The flow of the packet that caused it.
    packed: PackedFlow,
    mask: KeyMask,
    program: Program,
    actions: &'a Arc<[DpAction]>,
    owner: &'a Arc<dyn FlowOwner>,
    dependency_set: u32,
    miss_origin: Option<MissOrigin>,
}

impl<'a> NewFlow<'a> {
    /// `miss_origin`: the worker whose miss caused the flow; `None` if no miss caused it.
    pub(crate) fn new(
        flow: &Flow,
        key: &'a Key,
        content: FlowContent<'a>,
        miss_origin: Option<MissOrigin>,
    ) -> NewFlow<'a> {
        let FlowContent { mask, actions, owner, dependency_set } = content;
        let (mask, program) = (KeyMask::from_flow(mask), Program::compile_for(actions, flow, mask));
        let packed = PackedFlow::from(flow);
        NewFlow {
            in_port: flow.in_port,
            key,
            packed,
            mask,
            program,
            actions,
            owner,
            dependency_set,
            miss_origin,
        }
    }

    /// Creates the flow from a translated miss.
    pub(crate) fn of_miss(
        flow: &Flow,
        key: &'a Key,
        translation: &'a Translation,
        miss_origin: MissOrigin,
    ) -> NewFlow<'a> {
        let Translation { mask, owner, dependency_set, .. } = translation;
        let actions = translation.megaflow_actions();
        NewFlow::new(
            flow,
            key,
            FlowContent { mask, actions, owner, dependency_set: *dependency_set },
            Some(miss_origin),
        )
    }

    /// Returns when the packet that caused the flow arrived.
    pub(crate) fn at(&self) -> Millis {
        self.miss_origin.map_or(Millis::NEVER, |miss_origin| miss_origin.at)
    }
}

/// Result of publishing a flow.
pub(crate) enum PublishResult {
    /// The flow was added at this index. The description is `Some` if the control half requested it.
    New(u32, Option<Box<DpFlow>>),
    /// The flow existed already.
    Existing(u32),
}

/// The content of a flow: mask, actions, owner and dependency set.
pub(crate) struct FlowContent<'a> {
    pub(crate) mask: &'a Flow,
    pub(crate) actions: &'a Arc<[DpAction]>,
    pub(crate) owner: &'a Arc<dyn FlowOwner>,
    pub(crate) dependency_set: u32,
}

/// All megaflows, as the publisher sees them.
pub(crate) struct Flows {
    publisher: MegaflowPublisher<Program>,
    rewrites: SharedPrograms,
    /// Index by half of the identifier. Two flows with the same half never exist at the same time.
    by_ufid: ByHash<u64, u32>,
    entries: Entries,
    /// Owners of removed flows for which workers may still count packets, by index.
    removed_owners: HashMap<u32, Arc<dyn FlowOwner>>,
    /// Lanes by slot; `None` after the slot's worker was removed.
    lanes: Vec<Option<WorkerLane>>,
    capacity: usize,
    limits: FlowLimits,
    /// Estimated memory of all flows in bytes.
    bytes: usize,
    ufids: Ufids,
    serial: u64,
    /// Index at which the search for an unused flow continues (CLOCK).
    clock_hand: u32,
}

impl Flows {
    pub(crate) fn new(publisher: MegaflowPublisher<Program>, capacity: usize, ufids: Ufids) -> Flows {
        Flows {
            publisher,
            rewrites: SharedPrograms::default(),
            by_ufid: ByHash::default(),
            entries: Entries::default(),
            removed_owners: HashMap::new(),
            lanes: Vec::new(),
            capacity,
            limits: FlowLimits { flows: capacity, bytes: usize::MAX },
            bytes: 0,
            ufids,
            serial: 0,
            clock_hand: 0,
        }
    }

    /// Sets the limits of the number of megaflows and of their memory.
    pub(crate) fn set_flow_limits(&mut self, limits: FlowLimits) {
        self.limits = FlowLimits { flows: limits.flows.min(self.capacity), bytes: limits.bytes };
    }

    pub(crate) fn limits(&self) -> FlowLimits {
        self.limits
    }

    /// Adds a lane for a new worker. Returns the lane's slot, too.
    pub(crate) fn add_lane(&mut self, worker: WorkerId) -> (usize, LaneWriter) {
        let (lane, lanes) = LaneWriter::new(self.capacity + SPARE);
        let slot = self.lanes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        });
        self.lanes[slot] = Some(WorkerLane::new(worker, lanes));
        (slot, lane)
    }

    /// Removes the lane of a worker. Its counts stay in the totals.
    pub(crate) fn remove_lane(&mut self, slot: usize, now: Millis) -> Credits {
        let credits = self.fold(now);
        if let Some(lane) = self.lanes.get_mut(slot) {
            *lane = None;
        }
        for entry in self.entries.iter_mut() {
            if let Some(counted) = entry.lanes.get_mut(slot) {
                *counted = None;
            }
        }
        credits
    }

    pub(crate) fn mask_count(&self) -> usize {
        self.publisher.mask_count()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Exclusive upper bound of the indices of flows.
    pub(crate) fn end(&self) -> u32 {
        self.entries.end()
    }

    /// Returns the identifier of a flow with this key and mask.
    pub(crate) fn ufid(&self, key: &Key, mask: &KeyMask) -> Ufid {
        let line = key.line.iter().zip(&mask.line).map(|(k, m)| (*k, *m));
        let rest = mask.ext.iter().map(|word| (usize::from(word.at), key.rest().word(word.at), word.mask));
        let line_words = key.line.len();
        let words = line.enumerate().map(|(i, (k, m))| (i, k, m));
        self.ufids.of(words.chain(rest.map(|(i, k, m)| (line_words + i, k, m))))
    }

    /// The identifier of the flow at an index.
    pub(crate) fn ufid_at(&self, index: u32) -> Option<Ufid> {
        self.entries.get(index).map(|e| e.ufid)
    }

    fn index_of(&self, ufid: Ufid) -> Option<u32> {
        let index = *self.by_ufid.get(&half(ufid))?;
        (self.ufid_at(index) == Some(ufid)).then_some(index)
    }

    /// Publishes a flow. Nothing changes if a megaflow for its packets exists already. Returns `None` if a limit is
    /// reached. `describe`: the control half has requested a description of the flow.
    pub(crate) fn publish(&mut self, new: NewFlow<'_>, describe: bool) -> Option<PublishResult> {
        // Another worker may have published a megaflow for the packet after this worker's look-up.
        if let Some(index) = self.publisher.find(new.in_port, new.key) {
            return Some(PublishResult::Existing(index));
        }
        if self.is_full() {
            return None;
        }
        let before = self.entries.len();
        let index = self.insert(new)?;
        if self.entries.len() == before {
            return Some(PublishResult::Existing(index));
        }
        Some(PublishResult::New(index, describe.then(|| self.describe(index).map(Box::new)).flatten()))
    }

    /// As `publish`, but adds the flow even if another megaflow matches the packet, or if the limit of the number of
    /// flows is reached: for flows that commands add.
    pub(crate) fn insert(&mut self, new: NewFlow<'_>) -> Option<u32> {
        if self.is_memory_full() {
            return None;
        }
        let at = new.at();
        let NewFlow { in_port, key, packed, mask, mut program, actions, owner, dependency_set, miss_origin } =
            new;
        program.share(&mut self.rewrites);
        let mask = self.publisher.bounded_mask(in_port, mask);
        let ufid = self.ufid(key, &mask);
        if self.by_ufid.get(&half(ufid)).is_some_and(|other| self.ufid_at(*other) != Some(ufid)) {
            return None;
        }
        program.ufid = ufid;
        let hashes = program.hashes();
        let found = self.publisher.insert(in_port, key, &mask, program);
        if hashes {
            self.publisher.require_parsing(in_port, hash::depth_of(key.line[1] as u16));
        }
        match found {
            InsertResult::Full => None,
            InsertResult::Same(index) => Some(index),
            InsertResult::New(index) => {
                self.serial += 1;
                let mut entry = Box::new(Entry {
                    ufid,
                    key: packed,
                    actions: Arc::clone(actions),
                    owner: Arc::clone(owner),
                    total: FlowStats::default(),
                    lanes: Vec::new(),
                    miss_origin,
                    serial: self.serial,
                    bytes: 0,
                });
                entry.bytes = entry.footprint() as u32;
                self.bytes += entry.bytes as usize;
                self.by_ufid.insert(half(ufid), index);
                self.store_entry(index, entry, at, dependency_set);
                Some(index)
            }
        }
    }

    /// Replaces the actions and the owner of a flow. Its statistics continue.
    pub(crate) fn modify(
        &mut self,
        ufid: Ufid,
        actions: Arc<[DpAction]>,
        owner: Option<(Arc<dyn FlowOwner>, u32)>,
        now: Millis,
        credits: &mut Credits,
    ) -> bool {
        let Some(old) = self.index_of(ufid) else { return false };
        self.fold_index(old, now, credits);
        let Some(key) = self.entries.get(old).map(|entry| entry.key.unpack()) else { return false };
        let mut program = Program::compile_for(&actions, &key, &self.mask(old));
        program.share(&mut self.rewrites);
        program.ufid = ufid;
        if program.hashes() {
            self.publisher.require_parsing(key.in_port, hash::depth_of(key.dl_type));
        }
        let Some(new) = self.publisher.replace(old, program) else { return false };
        let (used, mut dependency_set) = (self.entries.used(old), self.entries.dependency_set(old));
        let Some(mut entry) = self.entries.remove(old) else { return false };
        // Until the readers of the old index are gone, packets that are counted there are credited to the old owner.
        self.removed_owners.insert(old, Arc::clone(&entry.owner));
        entry.actions = actions;
        if let Some((owner, consulted)) = owner {
            (entry.owner, dependency_set) = (owner, consulted);
        }
        self.store_entry(new, entry, used, dependency_set);
        self.by_ufid.insert(half(ufid), new);
        true
    }

    /// Stores the entry of a published megaflow.
    fn store_entry(&mut self, index: u32, entry: Box<Entry>, used: Millis, dependency_set: u32) {
        let address_match = self.publisher.get(index).map(Megaflow::address_match).unwrap_or_default();
        self.entries.insert(index, entry, used, dependency_set, address_match);
    }

    /// Replaces the owner of a flow. Packets that were counted before are credited to the old owner. For readers
    /// nothing changes.
    pub(crate) fn set_owner(
        &mut self,
        ufid: Ufid,
        (owner, dependency_set): (Arc<dyn FlowOwner>, u32),
        now: Millis,
        credits: &mut Credits,
    ) -> bool {
        let Some(index) = self.index_of(ufid) else { return false };
        self.fold_index(index, now, credits);
        let Some(entry) = self.entries.get_mut(index) else { return false };
        entry.owner = owner;
        self.entries.set_dependency_set(index, dependency_set);
        true
    }

    /// Removes a flow and returns it with its statistics.
    pub(crate) fn remove(&mut self, ufid: Ufid) -> Option<DpFlow> {
        let index = self.index_of(ufid)?;
        let flow = self.describe(index);
        self.unpublish(index);
        flow
    }

    /// Removes a flow from the table that workers read.
    fn unpublish(&mut self, index: u32) {
        self.publisher.remove(index);
        if let Some(entry) = self.entries.remove(index) {
            self.by_ufid.remove(&half(entry.ufid));
            self.bytes -= entry.bytes as usize;
            self.removed_owners.insert(index, entry.owner);
        }
    }

    /// Removes all flows.
    pub(crate) fn flush(&mut self) {
        for index in std::mem::take(&mut self.by_ufid).into_values() {
            self.unpublish(index);
        }
    }

    /// Removes the flows in a range of indices that no packet has used since `then`, and returns their number.
    pub(crate) fn expire(
        &mut self,
        range: Range<u32>,
        then: Millis,
        now: Millis,
        credits: &mut Credits,
    ) -> usize {
        self.fold_range(range.clone(), now, credits);
        let unused: Vec<u32> = self.entries.unused_since(range, then).collect();
        unused.iter().for_each(|index| self.unpublish(*index));
        unused.len()
    }

    /// Brings the totals of one flow up to date.
    pub(crate) fn fold_one(&mut self, ufid: Ufid, now: Millis, credits: &mut Credits) {
        if let Some(index) = self.index_of(ufid) {
            self.fold_index(index, now, credits);
        }
    }

    /// Frees removed flows that no worker can see any more, after a last fold.
    pub(crate) fn reclaim(&mut self, now: Millis, credits: &mut Credits) {
        let mut freed = Vec::new();
        self.publisher.reclaim(|index| freed.push(index));
        for index in freed {
            self.fold_index(index, now, credits);
            self.removed_owners.remove(&index);
            self.lanes.iter_mut().flatten().for_each(|lane| lane.clear(index));
        }
    }

    /// Sorts subtables so that the subtables with the most hits come first.
    pub(crate) fn rank(&mut self) {
        self.publisher.rank();
    }

    /// Returns a flow with its totals.
    pub(crate) fn get(&self, ufid: Ufid) -> Option<DpFlow> {
        self.describe(self.index_of(ufid)?)
    }

    /// Returns the flow at an index, if a translation created it.
    pub(crate) fn translated(&self, index: u32) -> Option<DpFlow> {
        self.entries.get(index)?.miss_origin?;
        self.describe(index)
    }

    /// Returns the flows in a range of indices that translations created.
    pub(crate) fn all_translated(&self, range: Range<u32>) -> Vec<DpFlow> {
        self.entries.existing(range).filter_map(|index| self.translated(index)).collect()
    }

    /// Returns the dependency set of a flow.
    pub(crate) fn dependency_set(&self, ufid: Ufid) -> Option<u32> {
        self.index_of(ufid).map(|index| self.entries.dependency_set(index))
    }

    /// Returns the dependency sets of the flows in a range of indices.
    pub(crate) fn dependency_sets(&self, range: Range<u32>) -> impl Iterator<Item = u32> {
        self.entries.existing(range).map(|index| self.entries.dependency_set(index))
    }

    fn describe(&self, index: u32) -> Option<DpFlow> {
        let entry = self.entries.get(index)?;
        Some(entry.describe(self.mask(index), entry.total, None))
    }

    fn mask(&self, index: u32) -> Flow {
        self.publisher.get(index).map_or(Flow::ZERO, |m| m.mask())
    }

    fn in_order(&self) -> Vec<(u32, &Entry)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(_, e)| e.serial);
        entries
    }

    /// All flows with their totals.
    pub(crate) fn dump(&self) -> Vec<DpFlow> {
        self.in_order().into_iter().filter_map(|(index, _)| self.describe(index)).collect()
    }

    /// Lists each flow under the worker whose packet caused it and under each worker that has counted a packet for
    /// it. Flows that a command added and that are unused are listed under `fallback`.
    pub(crate) fn dump_by_worker(&self, fallback: WorkerId) -> Vec<DpFlow> {
        let mut out = Vec::new();
        for (index, entry) in self.in_order() {
            let (before, mask) = (out.len(), self.mask(index));
            let counted = entry.lanes.iter().copied().chain(std::iter::repeat(None));
            for (lane, counted) in self.lanes.iter().zip(counted) {
                let Some(lane) = lane else { continue };
                let missed_here = entry.miss_origin.is_some_and(|origin| origin.worker == lane.worker);
                if let Some(stats) = counted.or(missed_here.then(FlowStats::default)) {
                    out.push(entry.describe(mask, stats, Some(lane.worker)));
                }
            }
            if out.len() == before {
                let worker = entry.miss_origin.map_or(fallback, |b| b.worker);
                out.push(entry.describe(mask, entry.total, Some(worker)));
            }
        }
        out
    }
}
