//! State that the stages of a worker share: buffers, batch, queues, counters. Used by one thread.

use crate::batch::{Batch, Recirculated};
use crate::bonds::OwnBonds;
use crate::capture::Captures;
use crate::last_drop::{DropLog, DropPort};
use crate::meter::{FineClock, Meters};
use crate::packet::{Meta, Packet};
use crate::popped::PoppedBatches;
use crate::port::{Frame, FrameBatch, FramePool};
use crate::ports::Ports;
use crate::residence::Scale;
use crate::stages::{PathStage, StageClock};
use crate::steering::OwnQueues;
use crate::tally::{SharedTally, Tally};
use conntrack::Conntrack;
use dpif::{DropReason, UpcallHandler};
use flowcache::{Cache, Choice};
use reassembly::Reassembly;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use sync::Lane;
use units::{Cycles, Millis, WorkerId};

pub(crate) mod bursts;
pub(crate) mod groups;
pub(crate) mod metering;
pub(crate) mod parking;
pub(crate) mod recent;
pub(crate) mod shadow;

use bursts::{Hold, Queued};
use groups::{Group, Groups};
use metering::Scratch;
use parking::Parking;
use recent::{Recent, RecentByPort, SLOTS};
use shadow::Shadow;

/// The upcall handler, if there is one.
pub(crate) type Handler = Arc<Option<Arc<dyn UpcallHandler>>>;

/// Number of free buffers that a worker keeps.
const KEEP_BUFFERS: usize = 2048;

/// Packets that are processed after their batch.
#[derive(Default)]
pub(crate) struct Later {
    /// To be recirculated.
    pub(crate) recirculated: VecDeque<Recirculated>,
    /// Of the slow path: their megaflow passes each of them to the control half for translation.
    pub(crate) slow: Vec<Packet>,
    /// A packet of the slow path is being translated and executed. It takes the slow path only once: otherwise a control half that always
    /// answers with the slow path would keep the worker busy for ever.
    pub(crate) is_slow: bool,
}

impl Later {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.recirculated.is_empty() && self.slow.is_empty()
    }
}

/// The state that the stages of a worker share.
pub(crate) struct Engine {
    pub(crate) id: WorkerId,
    pub(crate) batch: Batch,
    pub(crate) cache: Cache,
    /// The choice from which `cache` was made.
    pub(crate) choice: Choice,
    /// The last packet of each port and its megaflow.
    pub(crate) recent: RecentByPort,
    /// The groups; taken out while a batch is processed.
    pub(crate) groups: Option<Box<Groups>>,
    pub(crate) lane: Lane,
    pub(crate) pool: FramePool,
    pub(crate) tally: Tally,
    /// Packets dropped in this iteration.
    pub(crate) drops: DropLog,
    pub(crate) later: Later,
    /// Decapsulated packets.
    pub(crate) popped: PoppedBatches,
    /// Frames to send, by port number.
    pub(crate) outputs: Vec<FrameBatch>,
    /// Ports with frames to send, including those with frames that select a QoS queue or with frames held in
    /// a shaper.
    pub(crate) waiting: Vec<u32>,
    /// Ports whose shapers hold frames of this worker: they are served in the next iteration.
    pub(crate) held: Vec<u32>,
    /// Frames to send that select QoS queues, by port number.
    pub(crate) queued: BTreeMap<u32, Queued>,
    pub(crate) hold: Hold,
    pub(crate) tx_queues: OwnQueues,
    /// Time of the present iteration.
    pub(crate) now: Millis,
    /// The version of the snapshots that follow.
    pub(crate) version: u64,
    /// Ports, upcall handler and meters as of the beginning of the iteration.
    pub(crate) ports: Arc<Ports>,
    pub(crate) handler: Handler,
    pub(crate) meters: Arc<Meters>,
    /// The bonds of `lb_output`.
    pub(crate) bonds: OwnBonds,
    pub(crate) conntrack: Arc<Conntrack>,
    /// Cache of the connections of recent packets.
    pub(crate) connections: conntrack::Recent,
    pub(crate) reassembly: Arc<Reassembly<Packet>>,
    pub(crate) metering: Scratch,
    /// The clock of meters.
    pub(crate) fine: FineClock,
    /// Converts cycles to the buckets of the rx queues' histograms.
    pub(crate) residence_scale: Scale,
    /// `Meta::vlan_limit` of received packets.
    pub(crate) vlan_limit: u8,
    pub(crate) shadow: Shadow,
    /// Captures that run.
    pub(crate) captures: Arc<Captures>,
    /// Every look-up is compared with a linear search.
    pub(crate) validate: bool,
    /// Empty lists of packets, kept for their memory.
    pub(crate) lists: Vec<Vec<Packet>>,
    /// Empty groups, kept for their memory.
    pub(crate) groups_free: Vec<Group>,
    /// State for parked misses; `None`: the worker translates all misses itself.
    pub(crate) parking: Option<Box<Parking>>,
    /// Reads the cycle counter; always returns the same if none was set.
    pub(crate) counter: fn() -> Cycles,
    /// Times the stages if requested.
    pub(crate) stages: Option<Box<StageClock>>,
    pub(crate) random: fastrand::Rng,
}

impl Engine {
    pub(crate) fn new(
        id: WorkerId,
        lane: Lane,
        published: Arc<SharedTally>,
        (conntrack, reassembly, bonds): (Arc<Conntrack>, Arc<Reassembly<Packet>>, OwnBonds),
        tx_queue: usize,
        seed: u64,
    ) -> Engine {
        Engine {
            id,
            batch: Batch::default(),
            cache: Cache::default(),
            choice: Choice::default(),
            recent: [Recent::default(); SLOTS],
            groups: None,
            lane,
            pool: FramePool::new(KEEP_BUFFERS),
            tally: Tally::default(),
            drops: DropLog::new(id, Arc::clone(&published.last_drops), Arc::clone(&published.port_drops)),
            later: Later::default(),
            popped: PoppedBatches::default(),
            outputs: Vec::new(),
            waiting: Vec::new(),
            held: Vec::new(),
            queued: BTreeMap::new(),
            hold: Hold::default(),
            tx_queues: OwnQueues { first: tx_queue, ..OwnQueues::default() },
            now: Millis(0),
            version: 0,
            ports: Arc::default(),
            handler: Arc::new(None),
            meters: Arc::new(Meters::new_sync()),
            bonds,
            conntrack,
            connections: conntrack::Recent::default(),
            reassembly,
            metering: Scratch::default(),
            fine: FineClock::default(),
            residence_scale: Scale::default(),
            vlan_limit: 0,
            shadow: Shadow::default(),
            captures: Arc::default(),
            validate: false,
            parking: None,
            counter: || Cycles(0),
            lists: Vec::new(),
            groups_free: Vec::new(),
            stages: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns whether misses of this iteration may be parked.
    pub(crate) fn is_served(&self) -> bool {
        self.parking.as_ref().is_some_and(|p| p.served)
    }

    /// Ends a stage, for the stage clock.
    #[inline]
    pub(crate) fn end_stage(&mut self, stage: PathStage) {
        if let Some(clock) = &mut self.stages {
            clock.end(stage);
        }
    }

    /// Returns an empty list of packets from the kept ones.
    pub(crate) fn list(&mut self) -> Vec<Packet> {
        self.lists.pop().unwrap_or_default()
    }

    /// Takes a list back; its packets must have been consumed.
    pub(crate) fn give_back(&mut self, list: Vec<Packet>) {
        debug_assert!(list.is_empty());
        self.lists.push(list);
    }

    /// Makes the oldest decapsulated packets the batch, which must be empty, and returns their tunnel port.
    pub(crate) fn next_popped(&mut self) -> Option<u32> {
        let mut arrived = self.popped.next()?;
        let port = arrived.arrival.port;
        self.batch.exchange(&mut arrived);
        self.popped.give_back(arrived);
        Some(port)
    }

    /// Returns whether a packet is sampled. `share`: of how many packets in 1/2^32; the maximum means all.
    #[inline]
    pub(crate) fn samples(&mut self, share: u32) -> bool {
        share == u32::MAX || self.random.u32(..) < share
    }

    /// Drops a packet: counts the reason and records the packet.
    pub(crate) fn drop_packet(&mut self, packet: Packet, reason: DropReason) {
        self.tally.drop(reason, 1);
        self.drops.ports.count(DropPort::In(packet.meta.in_port), reason, 1);
        let before = self.drops.hold(packet, reason, self.now);
        before.into_iter().for_each(|frame| self.pool.free(frame));
    }

    /// Counts and records the drop of a copy or of an effect of the packet, which itself continues.
    #[cold]
    pub(crate) fn drop_part(&mut self, packet: &Packet, reason: DropReason) {
        self.tally.drop(reason, 1);
        self.drops.ports.count(DropPort::In(packet.meta.in_port), reason, 1);
        self.drops.packet(packet, reason, self.now);
    }

    /// Ends the iteration and records the packet that was dropped last.
    #[inline]
    pub(crate) fn end_drops(&mut self) {
        if let Some(frame) = self.drops.end_iteration(self.now, self.tally.dropped_total()) {
            self.pool.free(frame);
        }
    }

    /// Copies the tails of frames that wait to be sent.
    pub(crate) fn complete_waiting(&self) {
        let queued = self.queued.values().flat_map(|queued| &queued.frames);
        self.outputs.iter().flatten().chain(queued).for_each(Frame::complete);
    }

    /// Drops the metadata of packets that are gone, and keeps the memory of rare metadata.
    pub(crate) fn drop_metas(&mut self, metas: &mut Vec<Meta>) {
        metas.drain(..).for_each(|meta| self.batch.keep_rare(meta.rare));
    }

    /// [Drops](Self::drop_metas) the metadata that packets of the batch had for themselves.
    pub(crate) fn drop_own_metas(&mut self) {
        let mut own = std::mem::take(&mut self.batch.own);
        self.drop_metas(&mut own);
        self.batch.own = own;
    }
}
