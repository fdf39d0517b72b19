//! `Datapath`: what the control half and the commands call.
//!
//! Any thread may call it; no call waits for a worker.

use crate::flows::{Concerns, Credits, FlowContent, FlowLimits, Flows, NewFlow, SPARE, credit};
use crate::last_drop::LastDrop;
use crate::meter::Bank;
use crate::port::TxQueue;
use crate::ports::{MAX_PORT, Port, Ports};
use crate::program::Program;
use crate::server::UpcallServer;
use crate::shared::{Shared, Tallies, lock};
use crate::steering::TxQueues;
use crate::tally::{CacheView, Event, Tally};
use crate::upcalls::{Upcalls, Wake};
use crate::worker::Worker;
use classifier::megaflow::{Key, KeyMask, MegaflowTable, Probes};
use conntrack::Conntrack;
use dpif::{
    DpAction, DpFlow, DpStats, DropReason, FlowOwner, MeterCounts, MeterSpec, Meters, PortStats, Ufids,
    UpcallHandler,
};
use flow::Flow;
use flowcache::Choice;
use reassembly::Reassembly;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use sync::Snapshot;
use units::{Millis, PortNo, Ufid, WorkerId};

/// The worker that packets of the control half, and flows nobody has used, are shown under.
pub const OUTSIDE: WorkerId = WorkerId(u16::MAX);

/// Flows that are looked at in one go with the publisher's lock held.
const STEP: u32 = 8192;
/// What a megaflow is taken to cost where there is none.
const TYPICAL_BYTES: usize = 800;

/// What a datapath is made with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The most megaflows that can have a number; what bounds them is `set_flow_limits`.
    pub max_flows: usize,
    /// The most masks of one ingress port.
    pub max_masks: usize,
    /// Random, and new at each start.
    pub seed: u64,
    /// Told of tables of huge pages before they are used.
    pub advise: Option<cpu::Advise>,
}

impl Default for Config {
    fn default() -> Config {
        Config { max_flows: 1 << 22, max_masks: 64, seed: 0, advise: None }
    }
}

/// Why a flow or a port could not be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// It is there already.
    Exists,
    /// It is not there.
    NotFound,
    /// No room, or a port number out of range.
    NoRoom,
}

/// See the module.
pub struct Datapath {
    pub(crate) shared: Arc<Shared>,
    /// Workers without rx queues, for `execute`.
    spare: Mutex<Vec<Worker>>,
    /// What the random numbers of workers begin with.
    random: u64,
}

impl Datapath {
    /// An empty datapath.
    pub fn new(config: &Config) -> Arc<Datapath> {
        // Each use has a secret of its own: ufids are shown, and random numbers are seen by those they choose packets of.
        let secret = |purpose| cpu::derive(config.seed, purpose);
        let capacity = config.max_flows + SPARE;
        let (table, publisher) = MegaflowTable::new(capacity, config.max_masks, secret(b"megaflow"));
        let shared = Shared {
            table,
            cache_secret: cpu::Secret::new(secret(b"flow-key")),
            tuple_secret: cpu::Chain::new(secret(b"5-tuples")),
            ports: Snapshot::default(),
            handler: Snapshot::from_pointee(None),
            vlan_limit: AtomicU8::new(0),
            meters: Bank::default(),
            conntrack: Arc::new(Conntrack::new(secret(b"sessions"))),
            reassembly: Arc::new(Reassembly::new(secret(b"fragment"))),
            shadow_check: AtomicU32::new(0),
            validate: AtomicBool::new(false),
            lookup_differences: AtomicU64::new(0),
            tx_hold: AtomicU32::new(0),
            flow_cache: Snapshot::default(),
            advise: config.advise,
            version: AtomicU64::new(1),
            upcalls: Upcalls::default(),
            flows: Mutex::new(Flows::new(publisher, config.max_flows, Ufids::new(secret(b"flow-ids")))),
            tallies: Mutex::default(),
        };
        let random = secret(b"sampling");
        Arc::new(Datapath { shared: Arc::new(shared), spare: Mutex::new(Vec::new()), random })
    }

    /// Who answers upcalls. Until it is called, packets without a megaflow are lost.
    pub fn set_handler(&self, handler: Arc<dyn UpcallHandler>) {
        self.shared.handler.store(Arc::new(Some(handler)));
        self.shared.changed();
    }

    /// Nobody answers upcalls any more: packets without a megaflow are lost.
    pub fn clear_handler(&self) {
        self.shared.handler.store(Arc::new(None));
        self.shared.changed();
    }

    /// The connections of this datapath.
    pub fn conntrack(&self) -> &Conntrack {
        &self.shared.conntrack
    }

    /// One thread's right to answer upcalls: while there is one, workers that can park (`Worker::park_misses`) do.
    pub fn upcall_server(&self) -> UpcallServer {
        UpcallServer::new(Arc::clone(&self.shared))
    }

    /// What wakes a thread that serves: called, by workers too, when there is something to serve.
    pub fn set_upcall_wake(&self, wake: Wake) {
        self.shared.upcalls.set_wake(wake);
    }

    /// A request, for tests that answer in an order of their own.
    #[cfg(test)]
    pub(crate) fn next_upcall(&self) -> Option<crate::upcalls::Request> {
        let mut next = Vec::new();
        self.shared.upcalls.next(1, &mut next, &mut Vec::new());
        next.pop()
    }

    /// How many upcalls wait to be served.
    pub fn upcalls_waiting(&self) -> usize {
        self.shared.upcalls.waiting()
    }

    /// A worker. `tx_queue` says which tx queue of every port it uses (modulo how many the port has).
    pub fn worker(&self, id: WorkerId, tx_queue: usize) -> Worker {
        Worker::new(Arc::clone(&self.shared), id, tx_queue, self.random ^ u64::from(id.0) << 32)
    }

    /// Adds a port that sends by these queues. Its rx queues are given to workers.
    pub fn add_port(&self, no: PortNo, txqs: Vec<Box<dyn TxQueue>>) -> Result<(), PutError> {
        let _one_at_a_time = self.shared.flows();
        let mut ports = Ports::clone(&self.shared.ports.load());
        if no.0 > MAX_PORT {
            return Err(PutError::NoRoom);
        }
        if ports.get(no.0).is_some() {
            return Err(PutError::Exists);
        }
        ports.all.insert(no, Port::new(no, txqs));
        self.shared.ports.store(Arc::new(ports));
        self.shared.changed();
        Ok(())
    }

    /// Removes a port. Its rx queues must have been taken from their workers before. Its tx queues are dropped when
    /// the last worker has taken another turn, or rests.
    pub fn del_port(&self, no: PortNo) -> Result<(), PutError> {
        let egress = self.shared.ports.load().get(no.0).and_then(|port| port.egress.clone());
        self.replace_port(no, |_| None)?;
        self.forget_fragments(no);
        egress.iter().for_each(|egress| self.drop_held(egress.close()));
        lock(&self.shared.tallies).there.iter().for_each(|(_, t)| t.last_drops.forget(no.0));
        Ok(())
    }

    /// Gives a port other tx queues; its counters stay. The old ones are dropped as by `del_port`.
    pub fn set_tx_queues(&self, no: PortNo, txqs: Vec<Box<dyn TxQueue>>) -> Result<(), PutError> {
        self.replace_port(no, |port| Some(port.with_queues(txqs)))
    }

    pub(crate) fn replace_port(
        &self,
        no: PortNo,
        new: impl FnOnce(&Port) -> Option<Port>,
    ) -> Result<(), PutError> {
        let _one_at_a_time = self.shared.flows();
        let mut ports = Ports::clone(&self.shared.ports.load());
        let old = ports.get(no.0).ok_or(PutError::NotFound)?;
        match new(old) {
            Some(port) => ports.all.insert(no, port),
            None => ports.all.remove(&no),
        }
        self.shared.ports.store(Arc::new(ports));
        self.shared.changed();
        Ok(())
    }

    /// So many workers send: a port that has fewer tx queues shares them out among those that do.
    pub fn set_senders(&self, senders: usize) {
        let _one_at_a_time = self.shared.flows();
        let mut ports = self.shared.ports.load_full();
        if ports.senders != senders {
            Arc::make_mut(&mut ports).senders = senders;
            self.shared.ports.store(ports);
            self.shared.changed();
        }
    }

    /// Packets say by which of a port's tx queues they go; else the worker that sends them does. Whether that is new.
    pub fn set_tx_hash(&self, no: PortNo, by_hash: bool) -> bool {
        let same = |p: &Arc<Port>| p.is_by_hash() == by_hash;
        let known = self.shared.ports.load().get(no.0).is_none_or(same);
        !known && self.replace_port(no, |port| Some(port.steered(by_hash))).is_ok()
    }

    /// Calls `f` with a worker that has no rx queues.
    pub(crate) fn outside(&self, f: impl FnOnce(&mut Worker)) {
        let spare = lock(&self.spare).pop();
        let mut worker = spare.unwrap_or_else(|| self.worker(OUTSIDE, 0));
        f(&mut worker);
        lock(&self.spare).push(worker);
    }

    /// Who sends by which tx queue of a port.
    pub fn tx_queues(&self, no: PortNo, now: Millis) -> Option<TxQueues> {
        let ports = self.shared.ports.load();
        let port = ports.get(no.0)?;
        let mode = port.tx_mode(ports.senders);
        Some(TxQueues { mode, users: port.users.by_queue(port.txqs.len(), now) })
    }

    /// What the datapath counted at a port.
    pub fn port_stats(&self, no: PortNo) -> Option<PortStats> {
        Some(self.shared.ports.load().get(no.0)?.stats())
    }

    /// The numbers of all ports, ascending.
    pub fn ports(&self) -> Vec<PortNo> {
        self.shared.ports.load().iter().map(|p| p.no).collect()
    }

    /// The identifier of `key & mask`.
    pub fn ufid(&self, key: &Flow, mask: &Flow) -> Ufid {
        self.shared.flows().ufid(&Key::from_flow(key), &KeyMask::from_flow(mask))
    }

    /// Puts a flow by hand.
    pub fn flow_put(
        &self,
        key: &Flow,
        mask: &Flow,
        actions: Arc<[DpAction]>,
        owner: Arc<dyn FlowOwner>,
    ) -> Result<Ufid, PutError> {
        let content = FlowContent { mask, actions: &actions, owner: &owner, dependency_set: 0 };
        let wide = Key::from_flow(key);
        let new = NewFlow::new(key, &wide, content, None);
        let mut flows = self.shared.flows();
        let before = flows.len();
        let index = flows.insert(new).ok_or(PutError::NoRoom)?;
        if flows.len() == before {
            return Err(PutError::Exists);
        }
        flows.ufid_at(index).ok_or(PutError::NoRoom)
    }

    /// Gives a flow other actions (and another owner, with what was consulted for it). No packet misses meanwhile.
    pub fn flow_modify(
        &self,
        ufid: Ufid,
        actions: Arc<[DpAction]>,
        owner: Option<(Arc<dyn FlowOwner>, u32)>,
        now: Millis,
    ) -> Result<(), PutError> {
        let found = self.with_credits(|flows, credits| flows.modify(ufid, actions, owner, now, credits));
        found.then_some(()).ok_or(PutError::NotFound)
    }

    /// Gives a flow another owner, with what was consulted for it, and leaves the rest as it is: no reader and no cache
    /// notices.
    pub fn flow_set_owner(
        &self,
        ufid: Ufid,
        owner: (Arc<dyn FlowOwner>, u32),
        now: Millis,
    ) -> Result<(), PutError> {
        let found = self.with_credits(|flows, credits| flows.set_owner(ufid, owner, now, credits));
        found.then_some(()).ok_or(PutError::NotFound)
    }

    /// Removes a flow; what it had counted.
    pub fn flow_del(&self, ufid: Ufid, now: Millis) -> Option<DpFlow> {
        self.with_credits(|flows, credits| {
            flows.fold_one(ufid, now, credits);
            flows.remove(ufid)
        })
    }

    /// Removes all flows.
    pub fn flow_flush(&self, now: Millis) {
        self.with_credits(|flows, credits| {
            flows.flush();
            flows.reclaim(now, credits);
        });
    }

    /// One flow, its statistics up to date.
    pub fn flow_get(&self, ufid: Ufid, now: Millis) -> Option<DpFlow> {
        self.with_credits(|flows, credits| {
            flows.fold_one(ufid, now, credits);
            flows.get(ufid)
        })
    }

    /// The number of what was consulted for a flow (`Translation::dependency_set`).
    pub fn flow_dependency_set(&self, ufid: Ufid) -> Option<u32> {
        self.shared.flows().dependency_set(ufid)
    }

    /// All flows, their statistics up to date.
    pub fn flow_dump(&self, now: Millis) -> Vec<DpFlow> {
        self.with_credits(|flows, credits| {
            *credits = flows.fold(now);
            flows.dump()
        })
    }

    /// All flows, each under every worker that has counted a packet of it; under `fallback` where none has.
    pub fn flow_dump_by_worker(&self, fallback: WorkerId, now: Millis) -> Vec<DpFlow> {
        self.with_credits(|flows, credits| {
            *credits = flows.fold(now);
            flows.dump_by_worker(fallback)
        })
    }

    /// Calls `f` for some indices of flows after others, until it has been called for all: nobody else waits for long.
    fn in_steps<T>(&self, mut f: impl FnMut(&mut Flows, &mut Credits, Range<u32>) -> T) -> Vec<T> {
        let (mut from, mut out) = (0, Vec::new());
        while from < self.flow_end() {
            let to = from + STEP;
            out.push(self.with_credits(|flows, credits| f(flows, credits, from..to.min(flows.end()))));
            from = to;
        }
        out
    }

    /// Indices of flows are below.
    pub fn flow_end(&self) -> u32 {
        self.shared.flows().end()
    }

    /// Flows that came of translations, of some indices, for a walk over all of them in steps.
    pub fn flows_at(&self, range: Range<u32>) -> Vec<DpFlow> {
        let flows = self.shared.flows();
        flows.all_translated(range.start..range.end.min(flows.end()))
    }

    /// The flows that a change concerns, of some indices. A flow that is published meanwhile is not found, unless its translation was older.
    pub fn flows_concerned(&self, concerns: &Concerns, range: Range<u32>) -> Vec<DpFlow> {
        let flows = self.shared.flows();
        flows.concerned(concerns, range.start..range.end.min(flows.end()))
    }

    /// The sets of dependencies that flows have (`Translation::dependency_set`).
    pub fn dependency_sets(&self) -> HashSet<u32> {
        self.in_steps(|flows, _, range| flows.dependency_sets(range).collect::<HashSet<u32>>())
            .into_iter()
            .flatten()
            .collect()
    }

    /// Removes the flows that no packet has used since then; how many.
    pub fn expire(&self, then: Millis, now: Millis) -> usize {
        self.in_steps(|flows, credits, range| flows.expire(range, then, now, credits)).into_iter().sum()
    }

    /// The same for the flows of some indices, for a walk over all of them in steps.
    pub fn expire_at(&self, range: Range<u32>, then: Millis, now: Millis) -> usize {
        self.with_credits(|flows, credits| {
            flows.expire(range.start..range.end.min(flows.end()), then, now, credits)
        })
    }

    /// Limits the number of megaflows and their bytes from now on. Existing megaflows stay. When a limit is reached, a new
    /// megaflow evicts one that was not used for long.
    pub fn set_flow_limits(&self, flows: usize, bytes: usize) {
        self.shared.flows().set_flow_limits(FlowLimits { flows, bytes });
    }

    /// How many megaflows the limits allow, if new ones are as large as the present ones.
    pub fn flow_capacity(&self) -> usize {
        let flows = self.shared.flows();
        let (limits, n) = (flows.limits(), flows.len());
        let each = flows.bytes().checked_div(n).unwrap_or(TYPICAL_BYTES);
        limits.flows.min(limits.bytes / each.max(1))
    }

    /// Bytes of memory that flows take, as near as can be told.
    pub fn flow_bytes(&self) -> usize {
        self.shared.flows().bytes()
    }

    /// How many VLAN tags of a packet are looked at from now on (0: as many as a flow has room for). Flows made under another
    /// limit do not fit any more: the caller removes them.
    pub fn set_vlan_limit(&self, limit: u8) {
        self.shared.vlan_limit.store(limit, Ordering::Relaxed);
        self.shared.changed();
    }

    /// Of packets that megaflows answer, one of so many is shown to the control half from now on; 0: none.
    pub fn set_shadow_check(&self, every: u32) {
        if self.shared.shadow_check.swap(every, Ordering::Relaxed) != every {
            self.shared.changed();
        }
    }

    /// Workers compare every look-up with a naive one from now on, or no more.
    pub fn set_validate(&self, validate: bool) {
        if self.shared.validate.swap(validate, Ordering::Relaxed) != validate {
            self.shared.changed();
        }
    }

    /// Look-ups that differed from naive ones.
    pub fn lookup_differences(&self) -> u64 {
        self.shared.lookup_differences.load(Ordering::Relaxed)
    }

    /// How many ports have megaflows, and how many subtables those have together.
    pub fn subtables(&self) -> (usize, usize) {
        self.shared.table.subtables()
    }

    /// How far megaflows lie from where their hashes say.
    pub fn probes(&self) -> Probes {
        self.shared.table.probes()
    }

    /// Workers that know the time (`Worker::set_tick`) hold packets to send so many microseconds for more of their port to
    /// come, from now on; 0: to the end of a turn.
    pub fn set_tx_hold(&self, micros: u32) {
        if self.shared.tx_hold.swap(micros, Ordering::Relaxed) != micros {
            self.shared.changed();
        }
    }

    /// Workers use this cache from now on; each begins with an empty one, unless it has that kind already.
    pub fn set_flow_cache(&self, choice: Choice) {
        if **self.shared.flow_cache.load() != choice {
            self.shared.flow_cache.store(Arc::new(choice));
            self.shared.changed();
        }
    }

    /// Which cache workers use.
    pub fn flow_cache(&self) -> Choice {
        **self.shared.flow_cache.load()
    }

    /// The cache of one worker; all zero if the worker is not there, or has not looked yet.
    pub fn worker_cache(&self, id: WorkerId) -> CacheView {
        let tallies = lock(&self.shared.tallies);
        tallies.there.iter().find(|(w, _)| *w == id).map(|(_, t)| t.cache()).unwrap_or_default()
    }

    /// Number of flows.
    pub fn flow_count(&self) -> usize {
        self.shared.flows().len()
    }

    /// Folds statistics and credits owners, frees what was removed, ranks subtables. To be called about once a second,
    /// and before a reply that shows what owners were credited with.
    pub fn maintain(&self, now: Millis) {
        self.tidy(now);
        self.in_steps(|flows, credits, range| flows.fold_range(range, now, credits));
    }

    /// Frees what was removed, ranks subtables.
    pub fn tidy(&self, now: Millis) {
        self.shared.upcalls.tidy();
        self.with_credits(|flows, credits| {
            flows.reclaim(now, credits);
            flows.rank();
        });
    }

    /// Frees what was removed. To be called after many removals; `maintain` does it, too.
    pub fn reclaim(&self, now: Millis) {
        self.with_credits(|flows, credits| flows.reclaim(now, credits));
    }

    fn with_credits<R>(&self, f: impl FnOnce(&mut Flows, &mut Credits) -> R) -> R {
        let mut credits = Vec::new();
        let result = f(&mut self.shared.flows(), &mut credits);
        credit(credits);
        result
    }

    /// Runs actions on a packet of the control half: a packet-out, or what the slow path made. `flow` gives its
    /// metadata. Recirculation and its upcalls happen before it returns, and so do the transmissions.
    pub fn execute(&self, packet: &[u8], flow: &Flow, actions: &[DpAction], now: Millis) {
        self.outside(|worker| worker.execute(packet, flow, &Program::compile(actions), now));
    }

    /// Totals since the counters were as in `zero`.
    pub fn stats(&self, zero: &Tally) -> DpStats {
        let t = self.tally().since(zero);
        let flows = self.shared.flows();
        DpStats {
            hit: t.get(Event::CacheHit) + t.get(Event::MegaflowHit),
            missed: t.get(Event::Missed) + t.get(Event::Lost),
            lost: t.get(Event::Lost),
            n_flows: flows.len() as u64,
            mask_hit: t.get(Event::MasksVisited),
            n_masks: flows.mask_count() as u64,
            cache_hit: t.get(Event::CacheHit),
        }
    }

    /// The counters of all workers together, those that are gone included.
    pub fn tally(&self) -> Tally {
        let Tallies { there, gone } = &*lock(&self.shared.tallies);
        let mut sum = *gone;
        there.iter().for_each(|(_, t)| sum.merge(&t.load()));
        sum
    }

    /// The counters of one worker (`pmd-stats-show`); all zero if it is not there.
    pub fn worker_tally(&self, id: WorkerId) -> Tally {
        let mut sum = Tally::default();
        let tallies = lock(&self.shared.tallies);
        tallies.there.iter().filter(|(w, _)| *w == id).for_each(|(_, t)| sum.merge(&t.load()));
        sum
    }

    /// Packets that were dropped a moment ago, the newest first. Workers that are gone have forgotten theirs.
    pub fn last_drops(&self) -> Vec<LastDrop> {
        let tallies = lock(&self.shared.tallies);
        let mut all: Vec<LastDrop> = tallies.there.iter().flat_map(|(_, t)| t.last_drops.all()).collect();
        all.sort_by_key(|last| std::cmp::Reverse(last.order()));
        all
    }

    /// Dropped packets by reason; reasons without a drop are left out.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let tally = self.tally();
        DropReason::ALL.iter().map(|&r| (r, tally.dropped(r))).filter(|(_, n)| *n != 0).collect()
    }
}

impl Meters for Datapath {
    fn allocate(&self) -> Option<u32> {
        self.shared.meters.allocate()
    }

    fn set(&self, id: u32, spec: &MeterSpec, now: Millis) {
        self.shared.meters.put(id, spec, now);
        self.shared.changed();
    }

    fn counts(&self, id: u32) -> MeterCounts {
        self.shared.meters.counts(id)
    }

    fn release(&self, id: u32) {
        self.shared.meters.release(id);
        self.shared.changed();
    }
}
