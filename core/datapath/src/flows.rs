//! The publisher's side of the megaflows: identity, owner and statistics of each. Behind one lock.
//!
//! Statistics live in per-worker lanes that workers write without asking. A *fold* reads them and adds the differences
//! to the totals here; whoever holds the lock collects what owners are to be credited with, and credits them after it
//! has let the lock go, so that an owner may call the datapath.
//!
//! A removed megaflow is folded once more when no worker can count for it any more, so no packet is lost to its rule.

use crate::program::Program;
use classifier::megaflow::{Found, Key, KeyMask, MegaflowPublisher};
use dpif::{DpAction, DpFlow, FlowOwner, FlowStats, Translation, ufid_of};
use flow::Flow;
use std::collections::HashMap;
use std::sync::Arc;
use sync::{Lane, LaneCount, Lanes};
use units::{Millis, Ufid, WorkerId};

mod room;

pub(crate) use room::SPARE;

/// What owners are to be told.
pub(crate) type Credits = Vec<(Arc<dyn FlowOwner>, FlowStats)>;

/// Tells them. Call it without the lock.
pub(crate) fn credit(credits: Credits) {
    for (owner, delta) in credits {
        owner.credit(&delta);
    }
}

/// One lane of counters.
struct LaneSlot {
    worker: WorkerId,
    lanes: Lanes,
}

/// What one lane has counted for one megaflow.
#[derive(Clone, Copy, Default)]
struct Counted {
    seen: LaneCount,
    stats: FlowStats,
}

struct Entry {
    ufid: Ufid,
    key: Flow,
    mask: Flow,
    actions: Arc<[DpAction]>,
    owner: Arc<dyn FlowOwner>,
    total: FlowStats,
    lanes: Vec<Counted>,
    birth: Option<Birth>,
    /// Dumps list flows in the order in which they came.
    serial: u64,
}

/// Whose miss made a flow, and when.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) worker: WorkerId,
    pub(crate) at: Millis,
}

/// What became of a flow that was to be published.
pub(crate) enum Published {
    /// It is there now. With all that is known of it, if the control half wants to hear.
    New(u32, Option<Box<DpFlow>>),
    /// It was there already.
    Known(u32),
}

/// See the module.
pub(crate) struct Flows {
    publisher: MegaflowPublisher<Program>,
    by_ufid: HashMap<Ufid, u32>,
    /// In boxes: a table that grows moves its entries, with the lock held.
    entries: HashMap<u32, Box<Entry>>,
    dying: HashMap<u32, Box<Entry>>,
    /// By slot; `None` once the worker is gone.
    lanes: Vec<Option<LaneSlot>>,
    capacity: usize,
    limit: usize,
    ufid_seed: u64,
    serial: u64,
    /// Where the search for an unused flow goes on.
    hand: u32,
}

impl Flows {
    pub(crate) fn new(publisher: MegaflowPublisher<Program>, capacity: usize, ufid_seed: u64) -> Flows {
        Flows {
            publisher,
            by_ufid: HashMap::new(),
            entries: HashMap::new(),
            dying: HashMap::new(),
            lanes: Vec::new(),
            capacity,
            limit: capacity,
            ufid_seed,
            serial: 0,
            hand: 0,
        }
    }

    /// At most this many megaflows from now on.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(self.capacity);
    }

    /// A lane for a new worker, and its slot.
    pub(crate) fn add_lane(&mut self, worker: WorkerId) -> (usize, Lane) {
        let (lane, lanes) = Lane::new(self.capacity + SPARE);
        let slot = self.lanes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        });
        self.lanes[slot] = Some(LaneSlot { worker, lanes });
        (slot, lane)
    }

    /// The worker is gone: its counts stay in the totals.
    pub(crate) fn remove_lane(&mut self, slot: usize, now: Millis) -> Credits {
        let credits = self.fold(now);
        if let Some(lane) = self.lanes.get_mut(slot) {
            *lane = None;
        }
        for entry in self.entries.values_mut().chain(self.dying.values_mut()) {
            if let Some(counted) = entry.lanes.get_mut(slot) {
                *counted = Counted::default();
            }
        }
        credits
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn mask_count(&self) -> usize {
        self.publisher.mask_count()
    }

    /// The identifier that the flow has, or would get.
    pub(crate) fn ufid(&self, key: &Flow, mask: &Flow) -> Ufid {
        ufid_of(key, mask, self.ufid_seed)
    }

    /// The identifier of the flow at an index.
    pub(crate) fn ufid_at(&self, index: u32) -> Option<Ufid> {
        self.entries.get(&index).map(|e| e.ufid)
    }

    /// Publishes `key & mask`. If it is there already, nothing changes. `None`: no room.
    pub(crate) fn publish(
        &mut self,
        flow: &Flow,
        key: &Key,
        translation: &Translation,
        birth: Birth,
        shown: bool,
    ) -> Option<Published> {
        // Another worker may have published it since this one looked.
        if let Some(index) = self.publisher.find(flow.in_port, key) {
            return Some(Published::Known(index));
        }
        let before = self.entries.len();
        let Translation { mask, actions, owner, .. } = translation;
        let index = self.insert(flow, key, mask, actions, owner, Some(birth))?;
        if self.entries.len() == before {
            return Some(Published::Known(index));
        }
        let entry = self.entries.get(&index)?;
        Some(Published::New(index, shown.then(|| Box::new(show(entry, entry.total, None)))))
    }

    /// As `publish`, whether or not another megaflow covers the packet.
    pub(crate) fn insert(
        &mut self,
        flow: &Flow,
        key: &Key,
        mask: &Flow,
        actions: &Arc<[DpAction]>,
        owner: &Arc<dyn FlowOwner>,
        birth: Option<Birth>,
    ) -> Option<u32> {
        if self.entries.len() >= self.limit {
            return None;
        }
        let mask = self.publisher.bounded_mask(flow.in_port, KeyMask::from_flow(mask));
        let program = Program::compile(actions);
        match self.publisher.insert(flow.in_port, key, &mask, program) {
            Found::Full => None,
            Found::Same(index) => Some(index),
            Found::New(index) => {
                let mask = mask.to_flow();
                let ufid = self.ufid(flow, &mask);
                let (actions, owner) = (Arc::clone(actions), Arc::clone(owner));
                let total = FlowStats::default();
                self.serial += 1;
                let (key, serial) = (*flow, self.serial);
                let entry =
                    Entry { ufid, key, mask, actions, owner, total, lanes: Vec::new(), birth, serial };
                self.by_ufid.insert(ufid, index);
                self.entries.insert(index, Box::new(entry));
                Some(index)
            }
        }
    }

    /// Gives a flow other actions, and another owner; its statistics go on.
    pub(crate) fn modify(
        &mut self,
        ufid: Ufid,
        actions: Arc<[DpAction]>,
        owner: Option<Arc<dyn FlowOwner>>,
    ) -> bool {
        let Some(&old) = self.by_ufid.get(&ufid) else { return false };
        let Some(new) = self.publisher.replace(old, Program::compile(&actions)) else { return false };
        let Some(mut entry) = self.entries.remove(&old) else { return false };
        // Packets counted under the old index until its readers are gone are credited to the old owner.
        let rest = Entry {
            ufid,
            key: entry.key,
            mask: entry.mask,
            actions: Arc::clone(&entry.actions),
            owner: Arc::clone(&entry.owner),
            total: FlowStats::default(),
            lanes: entry.lanes.clone(),
            birth: entry.birth,
            serial: entry.serial,
        };
        self.dying.insert(old, Box::new(rest));
        entry.lanes.iter_mut().for_each(|c| c.seen = LaneCount::default());
        entry.actions = actions;
        if let Some(owner) = owner {
            entry.owner = owner;
        }
        self.entries.insert(new, entry);
        self.by_ufid.insert(ufid, new);
        true
    }

    /// Gives a flow another owner; what it has counted until now is the old one's. Readers do not notice.
    pub(crate) fn set_owner(
        &mut self,
        ufid: Ufid,
        owner: Arc<dyn FlowOwner>,
        now: Millis,
        credits: &mut Credits,
    ) -> bool {
        let Some(&index) = self.by_ufid.get(&ufid) else { return false };
        let Some(entry) = self.entries.get_mut(&index) else { return false };
        fold_entry(&self.lanes, index, entry, now, credits);
        entry.owner = owner;
        true
    }

    /// Removes a flow and tells what it had counted.
    pub(crate) fn remove(&mut self, ufid: Ufid) -> Option<DpFlow> {
        let index = self.by_ufid.remove(&ufid)?;
        self.publisher.remove(index);
        let entry = self.entries.remove(&index)?;
        let flow = show(&entry, entry.total, None);
        self.dying.insert(index, entry);
        Some(flow)
    }

    /// Removes all flows.
    pub(crate) fn flush(&mut self) {
        for index in std::mem::take(&mut self.by_ufid).into_values() {
            self.publisher.remove(index);
            if let Some(entry) = self.entries.remove(&index) {
                self.dying.insert(index, entry);
            }
        }
    }

    /// Brings the totals of one flow up to date.
    pub(crate) fn fold_one(&mut self, ufid: Ufid, now: Millis, credits: &mut Credits) {
        if let Some(index) = self.by_ufid.get(&ufid)
            && let Some(entry) = self.entries.get_mut(index)
        {
            fold_entry(&self.lanes, *index, entry, now, credits);
        }
    }

    /// Brings the totals up to date.
    pub(crate) fn fold(&mut self, now: Millis) -> Credits {
        let mut credits = Vec::new();
        for (&index, entry) in self.entries.iter_mut().chain(&mut self.dying) {
            fold_entry(&self.lanes, index, entry, now, &mut credits);
        }
        credits
    }

    /// Frees what no worker sees any more, after a last fold.
    pub(crate) fn reclaim(&mut self, now: Millis, credits: &mut Credits) {
        let Flows { publisher, dying, lanes, .. } = self;
        publisher.reclaim(|index| {
            if let Some(mut entry) = dying.remove(&index) {
                fold_entry(lanes, index, &mut entry, now, credits);
            }
            lanes.iter().flatten().for_each(|l| l.lanes.clear(index));
        });
    }

    /// Puts the subtables that are hit most first.
    pub(crate) fn rank(&mut self) {
        self.publisher.rank();
    }

    /// One flow with its totals.
    pub(crate) fn get(&self, ufid: Ufid) -> Option<DpFlow> {
        let entry = self.entries.get(self.by_ufid.get(&ufid)?)?;
        Some(show(entry, entry.total, None))
    }

    /// The flow at an index, if it came of a translation.
    pub(crate) fn translated(&self, index: u32) -> Option<DpFlow> {
        let entry = self.entries.get(&index).filter(|e| e.birth.is_some())?;
        Some(show(entry, entry.total, None))
    }

    fn in_order(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.values().map(|e| &**e).collect();
        entries.sort_unstable_by_key(|e| e.serial);
        entries
    }

    /// All flows with their totals.
    pub(crate) fn dump(&self) -> Vec<DpFlow> {
        self.in_order().into_iter().map(|e| show(e, e.total, None)).collect()
    }

    /// Each flow under each worker whose lane counted a packet of it; where none did, under the worker whose packet
    /// made it, and those put by hand under `fallback`.
    pub(crate) fn dump_by_worker(&self, fallback: WorkerId) -> Vec<DpFlow> {
        let mut out = Vec::new();
        for entry in self.in_order() {
            let before = out.len();
            for (slot, counted) in self.lanes.iter().zip(&entry.lanes) {
                if let Some(slot) = slot
                    && counted.stats.packets != 0
                {
                    out.push(show(entry, counted.stats, Some(slot.worker)));
                }
            }
            if out.len() == before {
                let worker = entry.birth.map_or(fallback, |b| b.worker);
                out.push(show(entry, entry.total, Some(worker)));
            }
        }
        out
    }
}

fn show(entry: &Entry, stats: FlowStats, worker: Option<WorkerId>) -> DpFlow {
    DpFlow {
        key: entry.key,
        mask: entry.mask,
        actions: Arc::clone(&entry.actions),
        stats,
        ufid: entry.ufid,
        created: entry.birth.map(|b| b.at),
        worker,
        owner: Arc::clone(&entry.owner),
    }
}

fn fold_entry(lanes: &[Option<LaneSlot>], index: u32, entry: &mut Entry, now: Millis, credits: &mut Credits) {
    entry.lanes.resize(lanes.len(), Counted::default());
    let mut sum = FlowStats::default();
    for (slot, counted) in lanes.iter().zip(&mut entry.lanes) {
        let Some(slot) = slot else { continue };
        let read = slot.lanes.read(index);
        let packets = read.packets_since(&counted.seen);
        if packets == 0 {
            continue;
        }
        let ago = (now.0 as u32).wrapping_sub(read.used);
        // A worker may be a little ahead of who folds.
        let ago = if ago > u32::MAX / 2 { 0 } else { ago };
        let delta = FlowStats {
            packets,
            bytes: read.bytes_since(&counted.seen),
            used: Some(Millis(now.0.saturating_sub(u64::from(ago)))),
            tcp_flags: read.tcp_flags,
        };
        counted.seen = read;
        counted.stats.add(&delta);
        sum.add(&delta);
    }
    if sum.packets != 0 {
        entry.total.add(&sum);
        credits.push((Arc::clone(&entry.owner), sum));
    }
}
