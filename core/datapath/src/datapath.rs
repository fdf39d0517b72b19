//! `Datapath`: the interface for the control half and for commands.
//!
//! Any thread may call it; no call waits for a worker.

use crate::bonds::Bonds;
use crate::flows::{AffectedMatches, Credits, FlowContent, FlowLimits, Flows, NewFlow, SPARE, credit};
use crate::locks::lock;
use crate::meter::MeterTable;
use crate::port::TxQueue;
use crate::ports::{MAX_PORT, Port, Ports};
use crate::program::Program;
use crate::shared::{Secrets, Settings, Shared, Tallies};
use crate::stages::StageSample;
use crate::steering::TxQueues;
use crate::tally::{CacheView, Event, Tally};
use crate::upcall_server::UpcallServer;
use crate::upcalls::{Upcalls, Wake};
use crate::worker::Worker;
use classifier::megaflow::{Key, KeyMask, MegaflowTable, Probes};
use conntrack::Conntrack;
use dpif::{
    DpAction, DpFlow, DpStats, FlowOwner, MeterCounts, MeterSpec, Meters, PortStats, Ufids, UpcallHandler,
};
use flow::Flow;
use flowcache::CacheParams;
use reassembly::Reassembly;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use sync::SnapshotCell;
use units::{Millis, PortNo, Ufid, WorkerId};

/// The id of workers that execute packets of the control half. They have no rx queues.
pub const CONTROL_WORKER: WorkerId = WorkerId(u16::MAX);

/// The maximum number of masks of the megaflows of one ingress port, unless [`Config::max_masks`] is another number.
pub const PORT_MASKS: usize = 64;

/// Number of flow indices that are visited each time the publisher's lock is held.
const STEP: u32 = 8192;
/// Assumed memory of a megaflow in bytes, as long as there is none to measure.
const TYPICAL_BYTES: usize = 800;

/// Parameters of a new datapath.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Capacity for megaflows. `set_flow_limits` sets a lower limit.
    pub max_flows: usize,
    /// The maximum number of masks of one ingress port.
    pub max_masks: usize,
    /// Random number, different at each start. All secrets are derived from it.
    pub seed: u64,
    /// Called with the memory of large tables before their first use, to request huge pages.
    pub advise: Option<cpu::Advise>,
}

impl Default for Config {
    fn default() -> Config {
        Config { max_flows: 1 << 22, max_masks: PORT_MASKS, seed: 0, advise: None }
    }
}

/// Why a flow or a port could not be added or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// The flow or port exists already.
    Exists,
    /// The flow or port does not exist.
    NotFound,
    /// A limit is reached, or the port number is out of range.
    LimitReached,
}

/// The datapath; see the module documentation.
pub struct Datapath {
    pub(crate) shared: Arc<Shared>,
    /// Workers without rx queues, for `execute`.
    spare: Mutex<Vec<Worker>>,
    /// The number from which the random seeds of workers are derived.
    random: u64,
}

impl Datapath {
    /// Creates an empty datapath.
    pub fn new(config: &Config) -> Arc<Datapath> {
        // Each use has a separate secret, because users can see ufids, and the receivers of sampled packets can see
        // the effect of random numbers.
        let secret = |purpose| cpu::derive(config.seed, purpose);
        let capacity = config.max_flows + SPARE;
        let (megaflow_table, publisher) = MegaflowTable::new(capacity, config.max_masks, secret(b"megaflow"));
        let shared = Shared {
            megaflow_table,
            secrets: Secrets {
                cache: cpu::Secret::new(secret(b"flow-key")),
                flow_hash: cpu::KeyedHash64::new(secret(b"5-tuples")),
            },
            ports: SnapshotCell::default(),
            handler: SnapshotCell::from_pointee(None),
            settings: Settings::default(),
            meters: MeterTable::default(),
            bonds: Bonds::default(),
            conntrack: Arc::new(Conntrack::new(secret(b"sessions"))),
            reassembly: Arc::new(Reassembly::new(secret(b"fragment"))),
            lookup_differences: AtomicU64::new(0),
            captures: SnapshotCell::default(),
            advise: config.advise,
            view_version: AtomicU64::new(1),
            upcalls: Upcalls::default(),
            flows: Mutex::new(Flows::new(publisher, config.max_flows, Ufids::new(secret(b"flow-ids")))),
            tallies: Mutex::default(),
        };
        let random = secret(b"sampling");
        Arc::new(Datapath { shared: Arc::new(shared), spare: Mutex::new(Vec::new()), random })
    }

    /// Sets the handler of upcalls. Until this is called, packets without a megaflow are dropped.
    pub fn set_handler(&self, handler: Arc<dyn UpcallHandler>) {
        self.shared.handler.store(Arc::new(Some(handler)));
        self.shared.changed();
    }

    /// Removes the handler of upcalls: packets without a megaflow are dropped.
    pub fn clear_handler(&self) {
        self.shared.handler.store(Arc::new(None));
        self.shared.changed();
    }

    /// The connections of this datapath.
    pub fn conntrack(&self) -> &Conntrack {
        &self.shared.conntrack
    }

    /// The bonds of `lb_output`.
    pub fn bonds(&self) -> &Bonds {
        &self.shared.bonds
    }

    /// Creates the server of upcalls for one handler thread. While at least one server exists, workers that can park
    /// misses (`Worker::park_misses`) do so.
    pub fn upcall_server(&self) -> UpcallServer {
        UpcallServer::new(Arc::clone(&self.shared))
    }

    /// Sets the function that wakes a sleeping handler. Workers call it when an upcall waits.
    pub fn set_upcall_wake(&self, wake: Wake) {
        self.shared.upcalls.set_wake(wake);
    }

    /// Removes a request from the queue, for tests that answer in another order.
    #[cfg(test)]
    pub(crate) fn next_upcall(&self) -> Option<crate::upcalls::Request> {
        let mut next = Vec::new();
        self.shared.upcalls.take(1, &mut next, &mut Vec::new());
        next.pop()
    }

    /// Number of upcalls that wait for a handler.
    pub fn upcalls_waiting(&self) -> usize {
        self.shared.upcalls.waiting()
    }

    /// Adds a worker. `tx_queue`: index of the tx queue that the worker uses at each port, modulo the port's number of
    /// tx queues.
    pub fn worker(&self, id: WorkerId, tx_queue: usize) -> Worker {
        Worker::new(Arc::clone(&self.shared), id, tx_queue, self.random ^ u64::from(id.0) << 32)
    }

    /// Adds a port with these tx queues. Its rx queues must be added to workers.
    pub fn add_port(&self, no: PortNo, txqs: Vec<Box<dyn TxQueue>>) -> Result<(), PutError> {
        let _one_at_a_time = self.shared.flows();
        let mut ports = Ports::clone(&self.shared.ports.load());
        if no.0 > MAX_PORT {
            return Err(PutError::LimitReached);
        }
        if ports.get(no.0).is_some() {
            return Err(PutError::Exists);
        }
        let port = Port::new(no, txqs);
        let captured = port.captured(&self.shared.captures.load());
        ports.all.insert(no, captured.unwrap_or(port));
        self.shared.ports.store(Arc::new(ports));
        self.shared.changed();
        Ok(())
    }

    /// Removes a port. The caller must have removed its rx queues from their workers before. Its tx queues are
    /// dropped when every worker has begun another iteration or has gone idle (`Worker::go_idle`).
    pub fn del_port(&self, no: PortNo) -> Result<(), PutError> {
        let egress = self.shared.ports.load().get(no.0).and_then(|port| port.egress.clone());
        self.replace_port(no, |_| None)?;
        self.forget_fragments(no);
        egress.iter().for_each(|egress| self.drop_held(no, egress.close()));
        self.forget_drops(no);
        Ok(())
    }

    /// Replaces the tx queues of a port; its counters continue. The old queues are dropped as in `del_port`.
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

    /// Sets the number of workers that send: a port with fewer tx queues shares them among these workers.
    pub fn set_senders(&self, senders: usize) {
        let _one_at_a_time = self.shared.flows();
        let mut ports = self.shared.ports.load_full();
        if ports.senders != senders {
            Arc::make_mut(&mut ports).senders = senders;
            self.shared.ports.store(ports);
            self.shared.changed();
        }
    }

    /// Sets whether the tx queue of this port is selected by a hash of the packet instead of by the worker that
    /// sends. Returns whether this is a change.
    pub fn set_tx_hash(&self, no: PortNo, by_hash: bool) -> bool {
        let same = |p: &Arc<Port>| p.is_by_hash() == by_hash;
        let known = self.shared.ports.load().get(no.0).is_none_or(same);
        !known && self.replace_port(no, |port| Some(port.steered(by_hash))).is_ok()
    }

    /// Calls `f` with a worker that has no rx queues.
    pub(crate) fn with_control_worker(&self, f: impl FnOnce(&mut Worker)) {
        let spare = lock(&self.spare).pop();
        let mut worker = spare.unwrap_or_else(|| self.worker(CONTROL_WORKER, 0));
        f(&mut worker);
        lock(&self.spare).push(worker);
    }

    /// Returns which workers use each tx queue of a port.
    pub fn tx_queues(&self, no: PortNo, now: Millis) -> Option<TxQueues> {
        let ports = self.shared.ports.load();
        let port = ports.get(no.0)?;
        let mode = port.tx_mode(ports.senders);
        Some(TxQueues { mode, users: port.users.by_queue(port.txqs.len(), now) })
    }

    /// Statistics of a port.
    pub fn port_stats(&self, no: PortNo) -> Option<PortStats> {
        Some(self.shared.ports.load().get(no.0)?.stats())
    }

    /// Packets that the rate limits of a port dropped: its ingress policer and its egress QoS. Cheaper than `port_stats`.
    pub fn port_limit_drops(&self, no: PortNo) -> u64 {
        self.shared.ports.load().get(no.0).map_or(0, |port| port.limit_drops())
    }

    /// Numbers of all ports, ascending.
    pub fn ports(&self) -> Vec<PortNo> {
        self.shared.ports.load().iter().map(|p| p.no).collect()
    }

    /// The identifier of `key & mask`.
    pub fn ufid(&self, key: &Flow, mask: &Flow) -> Ufid {
        self.shared.flows().ufid(&Key::from_flow(key), &KeyMask::from_flow(mask))
    }

    /// Adds a flow that no translation created (`dpctl/add-flow`).
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
        let index = flows.insert(new).ok_or(PutError::LimitReached)?;
        if flows.len() == before {
            return Err(PutError::Exists);
        }
        flows.ufid_at(index).ok_or(PutError::LimitReached)
    }

    /// Replaces the actions, the owner and the dependency set of a flow. Meanwhile no packet misses.
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

    /// Replaces the owner and the dependency set of a flow. For workers and caches nothing changes.
    pub fn flow_set_owner(
        &self,
        ufid: Ufid,
        owner: (Arc<dyn FlowOwner>, u32),
        now: Millis,
    ) -> Result<(), PutError> {
        let found = self.with_credits(|flows, credits| flows.set_owner(ufid, owner, now, credits));
        found.then_some(()).ok_or(PutError::NotFound)
    }

    /// Removes a flow and returns it with its final statistics.
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

    /// Returns a flow with current statistics.
    pub fn flow_get(&self, ufid: Ufid, now: Millis) -> Option<DpFlow> {
        self.with_credits(|flows, credits| {
            flows.fold_one(ufid, now, credits);
            flows.get(ufid)
        })
    }

    /// Returns the number of a flow's dependency set (`Translation::dependency_set`).
    pub fn flow_dependency_set(&self, ufid: Ufid) -> Option<u32> {
        self.shared.flows().dependency_set(ufid)
    }

    /// Returns all flows with current statistics.
    pub fn flow_dump(&self, now: Millis) -> Vec<DpFlow> {
        self.with_credits(|flows, credits| {
            *credits = flows.fold(now);
            flows.dump()
        })
    }

    /// Returns all flows. A flow is listed under the worker whose miss caused it and under each worker that has counted
    /// a packet of it; a flow without such a worker is listed under `fallback`.
    pub fn flow_dump_by_worker(&self, fallback: WorkerId, now: Millis) -> Vec<DpFlow> {
        self.with_credits(|flows, credits| {
            *credits = flows.fold(now);
            flows.dump_by_worker(fallback)
        })
    }

    /// Calls `f` for consecutive ranges of indices and releases the lock between them, so that other threads
    /// do not wait long.
    fn in_steps<T>(&self, mut f: impl FnMut(&mut Flows, &mut Credits, Range<u32>) -> T) -> Vec<T> {
        let (mut from, mut out) = (0, Vec::new());
        while from < self.flow_end() {
            let to = from + STEP;
            out.push(self.with_credits(|flows, credits| f(flows, credits, from..to.min(flows.end()))));
            from = to;
        }
        out
    }

    /// Exclusive upper bound of the flow indices.
    pub fn flow_end(&self) -> u32 {
        self.shared.flows().end()
    }

    /// Returns the flows in a range of indices that translations created, for a walk over all flows in steps.
    pub fn flows_at(&self, range: Range<u32>) -> Vec<DpFlow> {
        let flows = self.shared.flows();
        flows.all_translated(range.start..range.end.min(flows.end()))
    }

    /// Returns the flows in a range of indices that a change affects. A flow that is published during the call is
    /// found only if its translation is older than the change.
    pub fn affected_flows(&self, matches: &AffectedMatches, range: Range<u32>) -> Vec<DpFlow> {
        let flows = self.shared.flows();
        flows.affected(matches, range.start..range.end.min(flows.end()))
    }

    /// Returns the dependency sets of all flows (`Translation::dependency_set`).
    pub fn dependency_sets(&self) -> HashSet<u32> {
        self.in_steps(|flows, _, range| flows.dependency_sets(range).collect::<HashSet<u32>>())
            .into_iter()
            .flatten()
            .collect()
    }

    /// Removes the flows that no packet has used since `then`, and returns their number.
    pub fn expire(&self, then: Millis, now: Millis) -> usize {
        self.in_steps(|flows, credits, range| flows.expire(range, then, now, credits)).into_iter().sum()
    }

    /// As `expire` for a range of indices, for a walk over all flows in steps.
    pub fn expire_at(&self, range: Range<u32>, then: Millis, now: Millis) -> usize {
        self.with_credits(|flows, credits| {
            flows.expire(range.start..range.end.min(flows.end()), then, now, credits)
        })
    }

    /// Sets the limits of the number of megaflows and of their memory in bytes. Existing megaflows stay. At a limit,
    /// a new megaflow evicts one that has been unused for long.
    pub fn set_flow_limits(&self, flows: usize, bytes: usize) {
        self.shared.flows().set_flow_limits(FlowLimits { flows, bytes });
    }

    /// Number of megaflows that the limits allow, if the average size of the present megaflows stays the same.
    pub fn flow_capacity(&self) -> usize {
        let flows = self.shared.flows();
        let (limits, n) = (flows.limits(), flows.len());
        let each = flows.bytes().checked_div(n).unwrap_or(TYPICAL_BYTES);
        limits.flows.min(limits.bytes / each.max(1))
    }

    /// Estimated memory of all flows in bytes.
    pub fn flow_bytes(&self) -> usize {
        self.shared.flows().bytes()
    }

    /// Sets how many VLAN tags are parsed (0: as many as a flow can hold). Flows that were created under another
    /// limit become wrong, so the caller must remove them.
    pub fn set_vlan_limit(&self, limit: u8) {
        self.shared.settings.vlan_limit.store(limit, Ordering::Relaxed);
        self.shared.changed();
    }

    /// Sets the interval of the shadow check: one in `every` packets that hit a megaflow is passed to the control
    /// half; 0: none.
    pub fn set_shadow_check(&self, every: u32) {
        if self.shared.settings.shadow_check.swap(every, Ordering::Relaxed) != every {
            self.shared.changed();
        }
    }

    /// Sets whether workers compare every look-up with a linear search.
    pub fn set_validate(&self, validate: bool) {
        if self.shared.settings.validate.swap(validate, Ordering::Relaxed) != validate {
            self.shared.changed();
        }
    }

    /// Number of look-ups that differed from the linear search.
    pub fn lookup_differences(&self) -> u64 {
        self.shared.lookup_differences.load(Ordering::Relaxed)
    }

    /// Number of ports that have megaflows, and the sum of their subtables.
    pub fn subtables(&self) -> (usize, usize) {
        self.shared.megaflow_table.subtables()
    }

    /// The port whose megaflows have the most masks, and the number of these masks. With [`PORT_MASKS`] masks, new
    /// megaflows of the port match exactly.
    pub fn most_masks(&self) -> Option<(PortNo, usize)> {
        self.shared.megaflow_table.most_masks().map(|(port, masks)| (PortNo(port), masks))
    }

    /// Statistics of the distances of megaflows from their home slots in the hash tables.
    pub fn probes(&self) -> Probes {
        self.shared.megaflow_table.probes()
    }

    /// Sets for how many microseconds workers that know the time (`Worker::set_cycles_per_ms`) hold packets, so that more
    /// packets for the same port are sent with them; 0: until the end of the iteration.
    pub fn set_tx_flush_interval(&self, micros: u32) {
        if self.shared.settings.tx_flush_interval_us.swap(micros, Ordering::Relaxed) != micros {
            self.shared.changed();
        }
    }

    /// Sets the kind of flow cache. A worker whose cache is of another kind starts with an empty cache.
    pub fn set_flow_cache(&self, choice: CacheParams) {
        if **self.shared.settings.flow_cache.load() != choice {
            self.shared.settings.flow_cache.store(Arc::new(choice));
            self.shared.changed();
        }
    }

    /// The kind of flow cache that workers use.
    pub fn flow_cache(&self) -> CacheParams {
        **self.shared.settings.flow_cache.load()
    }

    /// State of a worker's flow cache; all zero if the worker does not exist or has not run yet.
    pub fn worker_cache(&self, id: WorkerId) -> CacheView {
        let tallies = lock(&self.shared.tallies);
        tallies.present.iter().find(|(w, _)| *w == id).map(|(_, t)| t.cache()).unwrap_or_default()
    }

    /// Times of a worker's stages, measured in one iteration of 1,024; all zero if the worker does not exist.
    pub fn worker_stages(&self, id: WorkerId) -> StageSample {
        let tallies = lock(&self.shared.tallies);
        tallies.present.iter().find(|(w, _)| *w == id).map(|(_, t)| t.stages()).unwrap_or_default()
    }

    /// Number of flows.
    pub fn flow_count(&self) -> usize {
        self.shared.flows().len()
    }

    /// Folds statistics, credits owners, frees removed flows and ranks subtables. Call it about once a second, and
    /// before the statistics of owners are reported.
    pub fn maintain(&self, now: Millis) {
        self.tidy(now);
        self.in_steps(|flows, credits, range| flows.fold_range(range, now, credits));
    }

    /// Frees removed flows and ranks subtables.
    pub fn tidy(&self, now: Millis) {
        self.shared.upcalls.free_unneeded();
        self.with_credits(|flows, credits| {
            flows.reclaim(now, credits);
            flows.rank();
        });
    }

    /// Frees removed flows. Call it after many removals; `maintain` does this too.
    pub fn reclaim(&self, now: Millis) {
        self.with_credits(|flows, credits| flows.reclaim(now, credits));
    }

    fn with_credits<R>(&self, f: impl FnOnce(&mut Flows, &mut Credits) -> R) -> R {
        let mut credits = Vec::new();
        let result = f(&mut self.shared.flows(), &mut credits);
        credit(credits);
        result
    }

    /// Executes actions on a packet of the control half (a packet-out, or a packet of the slow path). `flow` provides
    /// its metadata. When this returns, recirculation, its upcalls and transmission are complete.
    pub fn execute(&self, packet: &[u8], flow: &Flow, actions: &[DpAction], now: Millis) {
        self.with_control_worker(|worker| worker.execute(packet, flow, &Program::compile(actions), now));
    }

    /// Totals since the counters in `zero`.
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
        }
    }

    /// Sum of the counters of all workers, including removed ones.
    pub fn tally(&self) -> Tally {
        let Tallies { present, removed_workers, .. } = &*lock(&self.shared.tallies);
        let mut sum = *removed_workers;
        present.iter().for_each(|(_, t)| sum.merge(&t.load()));
        sum
    }

    /// Counters of one worker (`pmd-stats-show`); all zero if the worker does not exist.
    pub fn worker_tally(&self, id: WorkerId) -> Tally {
        let mut sum = Tally::default();
        let tallies = lock(&self.shared.tallies);
        tallies.present.iter().filter(|(w, _)| *w == id).for_each(|(_, t)| sum.merge(&t.load()));
        sum
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
