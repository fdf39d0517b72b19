//! `Worker`: the loop of one PMD thread, one iteration per call.
//!
//! An iteration receives a burst from each rx queue and processes it, then processes the recirculated packets, and
//! finally sends the collected packets. A thread runs iterations in a loop, or the main loop runs them in virtual time.
//! A worker reads no clock of its own: its caller passes the time and a function that reads the cycle counter.
//!
//! **References to shared data.** Ports and upcall handler are snapshots, which a worker keeps from iteration to
//! iteration until `view_version` changes (checked by one load). A worker that will not run its next iteration
//! soon must go idle ([`Worker::go_idle`]), because otherwise the queues of a removed port are not dropped.

use crate::batch::BATCH;
use crate::engine::Engine;
use crate::engine::parking::Parking;
use crate::engine::tracking::Tracking;
use crate::engine::view::Handler;
use crate::last_drop::DropPort;
use crate::packet::{Meta, Packet};
use crate::park::Limits;
use crate::path::{answers, execute, meter, park, receive, run, slow_path, transmit};
use crate::port::{FrameBatch, RX_BURST, RxQueue};
use crate::ports::{Ports, SHARED_RX};
use crate::program::Program;
use crate::rxq::Rxq;
use crate::rxq_backoff::BurstSize;
use crate::shared::Shared;
use crate::stages::{PathStage, Sampler, StageClock, StageTimes};
use crate::tally::{CacheView, Event, SharedTally, Tally};
use crate::upcalls::Wake;
use classifier::megaflow::{Megaflow, MegaflowsByPort};
use dpif::DropReason;
use flow::Flow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sync::Reader;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// Number of iterations between two checks of the flow cache's size. In the same interval, one iteration is timed by
/// stage.
const CACHE_CHECK: u64 = 1024;

/// Number of busy iterations between two publications of the counters: at most some microseconds pass.
const PUBLISH: u64 = 8;

/// An iteration that has ended. Its end time is the start time of the next iteration.
struct Iteration {
    start: Cycles,
    /// The time when the packets of all queues had been executed.
    executed_at: Cycles,
    packets: u64,
    busy: bool,
}

/// A worker: see the module documentation.
pub struct Worker {
    shared: Arc<Shared>,
    reader: Reader<Megaflow<Program>>,
    megaflows_by_port: MegaflowsByPort,
    engine: Engine,
    rxqs: Vec<Rxq>,
    /// Rx queues that are not polled at present ([`suspend_polling`](Self::suspend_polling)).
    suspended: BTreeMap<(PortNo, QueueId), Rxq>,
    published_tally: Arc<SharedTally>,
    lane_slot: usize,
    last: Option<Iteration>,
    /// The largest burst of the last iteration, of the queues whose packets could all be parked.
    largest_burst: BurstSize,
    /// Whether the last iteration skipped a queue because of backoff.
    skipped_queue: bool,
    sampler: Option<Sampler>,
    /// The version of the engine's snapshots; 0: the worker has no snapshots.
    snapshot_version: u64,
    /// Empty snapshots, which replace the real ones while the worker is idle ([`go_idle`](Self::go_idle)).
    empty_snapshots: (Arc<Ports>, Handler),
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, id: WorkerId, tx_queue: usize, seed: u64) -> Worker {
        let (lane_slot, lane) = shared.flows().add_lane(id);
        let published_tally = shared.add_tally(id);
        let worker = Worker {
            reader: shared.megaflow_table.reader(),
            megaflows_by_port: shared.megaflow_table.by_port(),
            engine: Engine::new(
                id,
                lane,
                Arc::clone(&published_tally),
                Tracking::new(&shared),
                shared.bonds.for_worker(),
                tx_queue,
                seed,
            ),
            rxqs: Vec::new(),
            suspended: BTreeMap::new(),
            published_tally,
            lane_slot,
            last: None,
            largest_burst: BurstSize::Nothing,
            skipped_queue: false,
            sampler: None,
            snapshot_version: 0,
            empty_snapshots: (Arc::default(), Arc::new(None)),
            shared,
        };
        worker.publish_cache_size();
        worker
    }

    /// The worker's id.
    pub fn id(&self) -> WorkerId {
        self.engine.id
    }

    /// Adds a new rx queue.
    pub fn add_rxq(&mut self, port: PortNo, id: QueueId, queue: Box<dyn RxQueue>) {
        self.take_over(Rxq::new(port, id, queue));
    }

    /// Adds an rx queue that another worker polled, or a new one.
    pub fn take_over(&mut self, rxq: Rxq) {
        // `in_iteration` counts packets of an iteration of the other worker.
        let polled_at =
            if rxq.polled_at == Cycles(0) { (self.engine.clocks.counter)() } else { rxq.polled_at };
        self.rxqs.push(Rxq { in_iteration: 0, polled_at, ..rxq });
    }

    /// Stops polling a queue and returns it. With the last queue of a port, the port's parked packets are dropped; call
    /// [`translate_parked`](Self::translate_parked) before to send them. Packets that wait for a larger burst are sent before the queue
    /// is removed.
    pub fn remove_rxq(&mut self, port: PortNo, id: QueueId) -> Option<Rxq> {
        self.resume_polling(port, id);
        let at = self.rxqs.iter().position(|q| q.port == port && q.id == id)?;
        // Packets of this queue that another worker will send must not overtake those that this worker holds.
        self.send_held();
        let rxq = self.rxqs.remove(at);
        let others = (port, QueueId(0))..=(port, QueueId(u16::MAX));
        if self.rxqs.iter().all(|q| q.port != port) && self.suspended.range(others).next().is_none() {
            park::drop_parked(&mut self.engine, Some(port.0));
            self.publish_tally();
        }
        Some(rxq)
    }

    /// Sets the tx queue.
    pub fn set_tx_queue(&mut self, tx_queue: usize) {
        self.engine.bursts.tx_queues.static_tx_qid = tx_queue;
    }

    /// Enables parking of misses while a thread serves upcalls (`Datapath::upcall_server`). `wake` ends this
    /// worker's sleep when an answer arrives; `counter` reads the counter that is passed to `poll`.
    pub fn park_misses(&mut self, limits: Limits, wake: Wake, counter: fn() -> Cycles) {
        self.engine.clocks.counter = counter;
        self.engine.parking = Some(Box::new(Parking::new(&self.shared, limits, wake)));
    }

    /// Sets the number of cycles per millisecond of the counter that `poll_and_publish` reads, so that meters know the time
    /// to a microsecond.
    pub fn set_cycles_per_ms(&mut self, cycles_per_ms: u64) {
        self.engine.clocks.set_cycles_per_ms(cycles_per_ms);
        self.snapshot_version = 0;
    }

    /// Translates and sends all parked packets of this port inline (`SHARED_RX`: of all ports). Call it between
    /// iterations, before a queue of the port is handed over.
    pub fn translate_parked(&mut self, port: PortNo, now: Millis) {
        let port = (port != SHARED_RX).then_some(port.0);
        self.begin(now);
        let guard = self.reader.enter();
        park::translate_parked(&self.shared, &guard, &mut self.engine, port, now);
        drop(guard);
        self.finish(now, None);
        self.publish_tally();
    }

    /// Returns whether packets are parked.
    pub fn has_parked(&self) -> bool {
        self.engine.parking.as_ref().is_some_and(|p| !p.park.is_empty())
    }

    /// The rx queues of the worker, including those whose polling is suspended.
    pub fn rxqs(&self) -> impl Iterator<Item = (PortNo, QueueId)> {
        self.rxqs.iter().map(|q| (q.port, q.id)).chain(self.suspended.keys().copied())
    }

    /// Stops polling the queues for which `selects` returns true, until polling is resumed. The caller must
    /// learn by other means when they have packets.
    pub fn suspend_polling(&mut self, selects: impl Fn(PortNo, QueueId) -> bool) {
        let selected = self.rxqs.extract_if(.., |q| selects(q.port, q.id));
        self.suspended.extend(selected.map(|q| ((q.port, q.id), q)));
    }

    /// As [`suspend_polling`](Self::suspend_polling), but only queues that delivered nothing in the last
    /// iteration. So queues that delivered packets still get their share of the cycles of that iteration.
    pub fn suspend_idle(&mut self, selects: impl Fn(PortNo, QueueId) -> bool) {
        let is_idle = |q: &Rxq| q.in_iteration == 0 && !q.backoff.is_waiting();
        let idle = self.rxqs.extract_if(.., |q| is_idle(q) && selects(q.port, q.id));
        self.suspended.extend(idle.map(|q| ((q.port, q.id), q)));
    }

    /// Resumes polling of a queue.
    pub fn resume_polling(&mut self, port: PortNo, id: QueueId) {
        self.rxqs.extend(self.suspended.remove(&(port, id)));
    }

    /// Resumes polling of all queues.
    pub fn resume_all(&mut self) {
        self.rxqs.extend(std::mem::take(&mut self.suspended).into_values());
    }

    /// The worker's counters, up to its last iteration.
    pub fn tally(&self) -> &Tally {
        &self.engine.tally
    }

    /// Runs one iteration in virtual time: no cycles pass during the iteration.
    pub fn poll(&mut self, now: Millis, cycles: Cycles) -> bool {
        self.poll_and_publish(now, || cycles)
    }

    /// Runs one iteration and publishes the counters. `counter` reads the cycle counter. The cycles since the
    /// previous iteration began are counted as busy or idle, depending on whether that iteration was busy
    /// ([`Event::BusyIterations`]); the cycles of a queue's packets are counted for the queue. Returns true if this iteration was busy.
    #[inline]
    pub fn poll_and_publish(&mut self, now: Millis, counter: impl Fn() -> Cycles) -> bool {
        let busy = self.iterate(now, counter(), counter);
        self.publish_tally();
        busy
    }

    /// As `poll_and_publish`, for a thread that runs one iteration after the other. `start` is the counter at the beginning
    /// of the iteration; the caller passes it because reading the counter takes longer than checking for packets.
    /// Only one in [`PUBLISH`] busy iterations publishes the counters, because publishing is a noticeable part of the
    /// work for a small burst. Idle iterations, sleeps and [`go_idle`](Self::go_idle) always publish them.
    #[inline]
    pub fn poll_publishing_rarely(
        &mut self,
        now: Millis,
        start: Cycles,
        counter: impl Fn() -> Cycles,
    ) -> bool {
        let busy = self.iterate(now, start, counter);
        if !busy || self.engine.tally.get(Event::Iterations).is_multiple_of(PUBLISH) {
            self.publish_tally();
        }
        busy
    }

    #[inline]
    fn publish_tally(&self) {
        self.published_tally.store(&self.engine.tally);
    }

    #[inline]
    fn iterate(&mut self, now: Millis, start: Cycles, counter: impl Fn() -> Cycles) -> bool {
        self.begin(now);
        self.engine.clocks.fine.begin_iteration(now, start);
        if let Some(iteration) = self.last.take() {
            self.account_cycles(iteration, start);
        }
        let (mut packets, mut at) = (0, start);
        let mut answered = park::begin(&self.shared, &mut self.engine);
        if answered {
            let guard = self.reader.enter();
            answers::stage(&self.shared, &guard, &mut self.engine, now);
            at = counter();
        }
        let (before, mut largest_burst, mut skipped_queue) = (self.largest_burst, BurstSize::Nothing, false);
        for q in &mut self.rxqs {
            if q.backoff.skips(before) {
                (q.in_iteration, skipped_queue) = (0, true);
                continue;
            }
            self.engine.clocks.end_stage(PathStage::Overhead);
            let polled_before = std::mem::replace(&mut q.polled_at, at);
            q.in_iteration = receive::stage(q, &mut self.engine) as u64;
            self.engine.clocks.end_stage(PathStage::Receive);
            if q.in_iteration != 0 {
                packets += q.in_iteration;
                let guard = self.reader.enter();
                let in_port = self.engine.batch.common.in_port;
                run(&self.shared, &guard, &mut self.megaflows_by_port, in_port, &mut self.engine, now);
                drop(guard);
                if let Some(parking) = &mut self.engine.parking {
                    let burst_size = BurstSize::of(q.in_iteration);
                    parking.budget.received(
                        q.in_iteration,
                        burst_size == BurstSize::FullBurst,
                        &mut q.miss_share,
                    );
                    let overflow = std::mem::take(&mut parking.overflow);
                    q.backoff.polled(q.in_iteration, overflow);
                    largest_burst = if overflow == 0 { largest_burst.max(burst_size) } else { largest_burst };
                }
                let end = counter();
                q.load.burst(q.in_iteration, end - at);
                q.load.count_residence(
                    q.in_iteration,
                    end - polled_before,
                    self.engine.clocks.residence_scale,
                );
                at = end;
            } else {
                at = counter();
            }
        }
        (self.largest_burst, self.skipped_queue) = (largest_burst, skipped_queue);
        self.finish(now, Some(at));
        answered |= park::send_upcalls(&self.shared, &mut self.engine);
        self.engine.tally.add(Event::Iterations, 1);
        let phase = self.engine.tally.get(Event::Iterations) % CACHE_CHECK;
        if phase < 2 {
            self.check(phase == 0, packets, now);
        }
        let busy = packets != 0 || answered || skipped_queue || self.holds_frames();
        self.engine.tally.add(Event::BusyIterations, u64::from(busy));
        self.last = Some(Iteration { start, executed_at: at, packets, busy });
        busy
    }

    /// Called after every 1,024th iteration (`first` is true) and after the iteration that follows it. The first call
    /// maintains the cache and begins to time an iteration by stage; the second call ends that sample.
    #[cold]
    fn check(&mut self, first: bool, packets: u64, now: Millis) {
        if first {
            self.engine.caches.cache.maintain(now);
            self.publish_cache_size();
        }
        if let Some(sampler) = &mut self.sampler {
            match first {
                true => sampler.begin(&mut self.engine.clocks.stages),
                false => sampler.end(&mut self.engine.clocks.stages, packets),
            }
            self.published_tally.store_stages(&sampler.sample);
        }
    }

    /// Times one iteration in 1,024 by stage with this clock, for `Datapath::worker_stages`.
    pub fn sample_stages(&mut self, clock: fn() -> u64) {
        self.sampler = Some(Sampler::new(clock));
    }

    /// Times each stage of the next iterations by this clock. Reading the clock takes time, too.
    pub fn time_stages(&mut self, clock: fn() -> u64) {
        self.engine.clocks.stages = Some(Box::new(StageClock::new(clock)));
    }

    /// The time of each stage since [`time_stages`](Self::time_stages).
    pub fn stage_times(&self) -> StageTimes {
        self.engine.clocks.stages.as_ref().map_or_else(Default::default, |clock| clock.times)
    }

    /// Returns whether this worker must serve a port with QoS: its shaper holds frames, or frames that select
    /// a QoS queue wait for a larger burst. Then the worker must not sleep.
    pub fn holds_frames(&self) -> bool {
        transmit::holds(&self.engine)
    }

    /// The largest number of packets that a queue delivered in the last iteration. At least a full burst if a queue
    /// was skipped or frames [are held](Self::holds_frames), because then the worker must not sleep.
    pub fn most_in_iteration(&self) -> u64 {
        let minimum = if self.skipped_queue || self.holds_frames() { RX_BURST as u64 } else { 0 };
        self.rxqs.iter().map(|q| q.in_iteration).max().unwrap_or(0).max(minimum)
    }

    /// Number of packets of the last iteration.
    pub fn packets_in_iteration(&self) -> u64 {
        self.rxqs.iter().map(|q| q.in_iteration).sum()
    }

    /// Asks all devices to report when frames arrive (`on`), or to stop. Returns false if some device cannot.
    pub fn arm(&mut self, on: bool) -> bool {
        let mut all = true;
        for q in &mut self.rxqs {
            all &= q.queue.arm(on);
        }
        all
    }

    /// For each queue that delivered packets in the last iteration: the number of packets, and how many more packets
    /// wait in a guest's ring, if known.
    pub fn bursts(&mut self) -> impl Iterator<Item = (u64, Option<u32>)> {
        self.rxqs.iter_mut().filter(|q| q.in_iteration != 0).map(|q| (q.in_iteration, q.queue.waiting()))
    }

    /// Sends the packets that are held back for a larger burst (`Datapath::set_tx_flush_interval`). Call it before a sleep.
    pub fn send_held(&mut self) {
        transmit::end_iteration(&mut self.engine, None);
    }

    /// Records a sleep after the last iteration: its cycles are neither busy nor idle.
    pub fn slept(&mut self, cycles: Cycles) {
        self.engine.tally.add(Event::SleepIterations, 1);
        self.engine.tally.add(Event::SleepCycles, cycles.0);
        if let Some(clock) = &mut self.engine.clocks.stages {
            clock.restart();
        }
        self.publish_tally();
        if let Some(iteration) = &mut self.last {
            iteration.start.0 += cycles.0;
            iteration.executed_at.0 += cycles.0;
        }
    }

    /// Records that a device has ended a sleep: the waiting packets arrived just before this time.
    pub fn woken(&mut self, now: Cycles) {
        self.rxqs.iter_mut().for_each(|q| q.polled_at = now);
    }

    /// Counts the cycles of the previous iteration, which end at the start of the next one.
    #[inline]
    fn account_cycles(&mut self, iteration: Iteration, next: Cycles) {
        let event = if iteration.busy { Event::BusyCycles } else { Event::IdleCycles };
        let passed = (next - iteration.start).0;
        self.engine.tally.add(event, passed);
        if let Some(parking) = &mut self.engine.parking {
            parking.budget.earn(passed);
        }
        if iteration.packets == 0 {
            return;
        }
        // The cycles of recirculation and sending are divided among the queues by their number of packets.
        let sending = (next - iteration.executed_at).0;
        for q in self.rxqs.iter().filter(|q| q.in_iteration != 0) {
            let share = if q.in_iteration == iteration.packets {
                sending
            } else {
                sending * q.in_iteration / iteration.packets
            };
            q.load.add(Cycles(share));
        }
    }

    /// Executes a program on a packet of the control half.
    pub(crate) fn execute(&mut self, packet: &[u8], flow: &Flow, program: &Program, now: Millis) {
        self.begin(now);
        self.engine.tally.add(Event::Created, 1);
        match self.engine.pool.frame_of(packet) {
            None => {
                let (meta, drop_port) = (Meta::of_flow(flow), DropPort::In(flow.in_port));
                self.engine.tally.count_drops(DropReason::NoBuffer, 1);
                self.engine.drops.ports.count(drop_port, DropReason::NoBuffer, 1);
                self.engine.drops.log_bytes(packet, &meta, DropReason::NoBuffer, drop_port, now);
            }
            Some(frame) => {
                let mut group = self.engine.free_lists.packet_list();
                let vlan_limit = self.engine.view.vlan_limit;
                group.push(Packet::new(frame, Meta { vlan_limit, ..Meta::of_flow(flow) }));
                execute::run(&mut self.engine, program, &mut group);
                self.engine.free_lists.return_list(group);
            }
        }
        self.finish(now, None);
        self.go_idle();
        self.publish_tally();
    }

    /// Drops frames that are not in a batch and were queued to be sent by this port.
    pub(crate) fn drop_all(&mut self, port: PortNo, mut frames: FrameBatch, reason: DropReason) {
        self.engine.tally.count_drops(reason, frames.len() as u64);
        self.engine.drops.ports.count(DropPort::Out(port.0), reason, frames.len() as u64);
        self.engine.drops.ports.list();
        self.engine.pool.free_all(&mut frames);
        self.publish_tally();
    }

    /// Executes a program on a received packet with unfinished offloads.
    #[cfg(test)]
    pub(crate) fn execute_with_offload(
        &mut self,
        bytes: &[u8],
        offload: packet::offload::Offload,
        program: &Program,
    ) {
        self.begin(Millis(0));
        self.engine.tally.add(Event::Created, 1);
        let mut frame = self.engine.pool.frame_of(bytes).unwrap();
        frame.set_offload(offload);
        let mut group = vec![Packet::new(frame, Meta::received(1))];
        execute::run(&mut self.engine, program, &mut group);
        self.finish(Millis(0), None);
    }

    #[inline]
    fn begin(&mut self, now: Millis) {
        self.engine.now = now;
        let version = self.shared.view_version.load(Ordering::Acquire);
        if version != self.snapshot_version {
            self.refresh_snapshots(version);
        }
    }

    #[cold]
    fn refresh_snapshots(&mut self, version: u64) {
        self.snapshot_version = version;
        let Engine { view, inspection, drops, bursts, clocks, caches, .. } = &mut self.engine;
        view.refresh(version, &self.shared);
        let settings = &self.shared.settings;
        inspection.set(settings.shadow_check.load(Ordering::Relaxed), view.captures.captures_any_rx());
        drops.refresh(&view.captures);
        let hold = u64::from(settings.tx_flush_interval_us.load(Ordering::Relaxed));
        bursts.hold.cycles = hold * clocks.fine.per_ms / 1000;
        if caches.choose(*settings.flow_cache.load_full(), self.shared.advise) {
            self.publish_cache_size();
        }
    }

    fn publish_cache_size(&self) {
        let cache = &self.engine.caches.cache;
        let (address, table) = cache.largest_table();
        self.published_tally.store_cache(CacheView {
            entries: cache.capacity() as u64,
            bytes: cache.bytes() as u64,
            address: address as u64,
            table: table as u64,
        });
    }

    /// Releases the references to ports and upcall handler until the next iteration, and sends all held packets. Call
    /// it between iterations if the worker will sleep or must acknowledge a change of ports.
    pub fn go_idle(&mut self) {
        self.send_held();
        self.publish_tally();
        self.snapshot_version = 0;
        self.engine.view.ports = Arc::clone(&self.empty_snapshots.0);
        self.engine.view.handler = Arc::clone(&self.empty_snapshots.1);
    }

    /// The port of the packets to process next: first recirculated packets, then decapsulated packets.
    fn next_recirculated(&self) -> Option<u32> {
        let recirculated = self.engine.deferred.recirculated.front().map(|a| a.packet.meta.in_port);
        recirculated.or_else(|| self.engine.popped.first_port())
    }

    /// Processes recirculated packets and packets of the slow path, then sends all packets that must not be held
    /// longer.
    #[inline]
    fn finish(&mut self, now: Millis, at: Option<Cycles>) {
        if !(self.engine.deferred.is_empty() && self.engine.popped.is_empty()) {
            self.run_recirculated(now);
        }
        self.engine.clocks.end_stage(PathStage::Overhead);
        meter::settle(&mut self.engine);
        transmit::end_iteration(&mut self.engine, at);
        self.engine.end_drops();
        self.engine.pool.flush();
        if self.engine.bursts.hold.needs_return {
            self.return_buffers();
        }
        self.engine.clocks.end_stage(PathStage::Transmit);
    }

    /// Releases the leases of the tails of received frames, because no frame needs its tail any more. Code that keeps
    /// frames for longer than an iteration has copied their tails; the tails of frames that wait to be sent are
    /// copied here.
    #[inline(never)]
    fn return_buffers(&mut self) {
        if !self.engine.bursts.waiting.is_empty() {
            self.engine.bursts.copy_tails();
        }
        self.engine.bursts.hold.needs_return = false;
        for q in self.rxqs.iter_mut().filter(|q| q.needs_return) {
            q.needs_return = !q.queue.return_buffers();
            debug_assert!(!q.needs_return, "a frame outlives its iteration without its tail");
            self.engine.bursts.hold.needs_return |= q.needs_return;
        }
    }

    /// Processes recirculated packets and packets of the slow path.
    #[inline(never)]
    fn run_recirculated(&mut self, now: Millis) {
        loop {
            slow_path::translate_all(&mut self.engine, now);
            let Some(in_port) = self.next_recirculated() else { return };
            while self.engine.batch.len() < BATCH
                && let Some(again) =
                    self.engine.deferred.recirculated.pop_front_if(|a| a.packet.meta.in_port == in_port)
            {
                self.engine.batch.push(again);
            }
            let guard = self.reader.enter();
            run(&self.shared, &guard, &mut self.megaflows_by_port, in_port, &mut self.engine, now);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.send_held();
        park::drop_parked(&mut self.engine, None);
        self.publish_tally();
        let credits = self.shared.flows().remove_lane(self.lane_slot, self.engine.now);
        crate::flows::credit(credits);
        self.shared.remove_tally(&self.published_tally);
    }
}
