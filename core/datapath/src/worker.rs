//! `Worker`: the loop of one poll thread, one turn at a time.
//!
//! A turn receives a burst from each rx queue, takes each through the path, then the recirculated packets, then sends
//! what was collected. It can be run by a thread, or by a main loop between other things (virtual time). It reads no
//! clock: time and cycles are told.

use crate::batch::BATCH;
use crate::datapath::Shared;
use crate::engine::Engine;
use crate::packet::{Meta, Packet};
use crate::path::{execute, receive, run, transmit};
use crate::port::RxQueue;
use crate::program::Program;
use crate::tally::{Event, SharedTally, Tally};
use classifier::megaflow::{Contexts, Megaflow};
use dpif::DropReason;
use flow::Flow;
use flowcache::FlowCache;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sync::Reader;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// Turns between two looks at the size of the cache.
const CACHE_CHECK: u64 = 1024;

/// An rx queue that a worker polls.
struct Rxq {
    port: PortNo,
    id: QueueId,
    queue: Box<dyn RxQueue>,
}

/// See the module.
pub struct Worker {
    shared: Arc<Shared>,
    reader: Reader<Megaflow<Program>>,
    contexts: Contexts,
    engine: Engine,
    rxqs: Vec<Rxq>,
    published: Arc<SharedTally>,
    lane_slot: usize,
    last: Option<(Cycles, bool)>,
    now: Millis,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, id: WorkerId, tx_queue: usize, seed: u64) -> Worker {
        let (lane_slot, lane) = shared.flows().add_lane(id);
        Worker {
            reader: shared.table.reader(),
            contexts: shared.table.contexts(),
            engine: Engine::new(id, lane, tx_queue, seed),
            rxqs: Vec::new(),
            published: shared.add_tally(id),
            lane_slot,
            last: None,
            now: Millis(0),
            shared,
        }
    }

    /// Who it is.
    pub fn id(&self) -> WorkerId {
        self.engine.id
    }

    /// Polls this queue from now on.
    pub fn add_rxq(&mut self, port: PortNo, id: QueueId, queue: Box<dyn RxQueue>) {
        self.rxqs.push(Rxq { port, id, queue });
    }

    /// Stops polling a queue and gives it back. Between turns nothing of it is inside the worker.
    pub fn remove_rxq(&mut self, port: PortNo, id: QueueId) -> Option<Box<dyn RxQueue>> {
        let at = self.rxqs.iter().position(|q| q.port == port && q.id == id)?;
        Some(self.rxqs.remove(at).queue)
    }

    /// The queues it polls.
    pub fn rxqs(&self) -> impl Iterator<Item = (PortNo, QueueId)> {
        self.rxqs.iter().map(|q| (q.port, q.id))
    }

    /// What it counted, up to its last turn.
    pub fn tally(&self) -> &Tally {
        &self.engine.tally
    }

    /// One turn. `cycles` is the counter as the turn begins: what passed since the last one is booked as busy or
    /// idle by what that one found. True if there was any packet.
    pub fn poll(&mut self, now: Millis, cycles: Cycles) -> bool {
        self.begin(now);
        if let Some((before, busy)) = self.last {
            let event = if busy { Event::BusyCycles } else { Event::IdleCycles };
            self.engine.tally.add(event, (cycles - before).0);
        }
        let mut busy = false;
        for q in &mut self.rxqs {
            if receive::stage(&mut *q.queue, q.port.0, &mut self.engine) != 0 {
                busy = true;
                let guard = self.reader.enter();
                run(&self.shared, &guard, self.contexts.of(q.port.0), &mut self.engine, now);
            }
        }
        self.finish(now);
        self.engine.tally.add(Event::Iterations, 1);
        if self.engine.tally.get(Event::Iterations).is_multiple_of(CACHE_CHECK) {
            self.engine.cache.maintain();
        }
        self.last = Some((cycles, busy));
        self.published.store(&self.engine.tally);
        busy
    }

    /// Runs a program on one packet of the control half.
    pub(crate) fn execute(&mut self, packet: &[u8], flow: &Flow, program: &Program, now: Millis) {
        self.begin(now);
        self.engine.tally.add(Event::Created, 1);
        match self.engine.pool.frame_of(packet) {
            None => self.engine.tally.drop(DropReason::NoBuffer, 1),
            Some(frame) => {
                let mut group = self.engine.list();
                let vlan_limit = self.engine.vlan_limit;
                group.push(Packet::new(frame, Meta { vlan_limit, ..Meta::of_flow(flow) }));
                execute::run(&mut self.engine, program, &mut group);
                self.engine.give_back(group);
            }
        }
        self.finish(now);
        self.published.store(&self.engine.tally);
    }

    fn begin(&mut self, now: Millis) {
        self.now = now;
        self.engine.ports = self.shared.ports.load_full();
        self.engine.handler = self.shared.handler.load_full();
        self.engine.vlan_limit = self.shared.vlan_limit.load(Ordering::Relaxed);
    }

    /// Recirculated packets, then transmission. The control half and the ports are let go.
    fn finish(&mut self, now: Millis) {
        while let Some(in_port) = self.engine.recirculated.front().map(|p| p.meta.in_port) {
            while self.engine.batch.len() < BATCH
                && let Some(p) = self.engine.recirculated.pop_front_if(|p| p.meta.in_port == in_port)
            {
                self.engine.batch.push(p);
            }
            let guard = self.reader.enter();
            run(&self.shared, &guard, self.contexts.of(in_port), &mut self.engine, now);
        }
        transmit::flush(&mut self.engine);
        self.engine.pool.flush();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let credits = self.shared.flows().remove_lane(self.lane_slot, self.now);
        crate::flows::credit(credits);
        self.shared.remove_tally(&self.published);
    }
}
