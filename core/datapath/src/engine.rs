//! State that the stages of a worker share: buffers, batch, queues, counters. Used by one thread.

use crate::batch::{Again, Batch};
use crate::bonds::OwnBonds;
use crate::last_drop::DropLog;
use crate::meter::{FineClock, Meters};
use crate::packet::{Meta, Packet};
use crate::path::frames::Group;
use crate::path::group::Groups;
use crate::path::meter::Scratch;
use crate::path::park::Parking;
use crate::path::recent::{PLACES, Recent, RecentByPort};
use crate::path::shadow::Shadow;
use crate::path::transmit::{self, Hold, Queued, TX_BURST};
use crate::popped::PoppedBatches;
use crate::port::{Frame, FrameBatch, FramePool};
use crate::ports::Ports;
use crate::stages::{PathStage, StageClock};
use crate::steering::Taken;
use crate::tally::{Event, SharedTally, Tally};
use conntrack::Conntrack;
use dpif::{DropReason, UpcallHandler};
use flowcache::{Cache, Choice};
use reassembly::Reassembly;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use sync::Lane;
use units::{Cycles, Millis, WorkerId};

/// The upcall handler, if there is one.
pub(crate) type Handler = Arc<Option<Arc<dyn UpcallHandler>>>;

/// Number of free buffers that a worker keeps.
const KEEP_BUFFERS: usize = 2048;

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
    /// Packets to be recirculated.
    pub(crate) recirculated: VecDeque<Again>,
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
    /// The index of this worker's tx queues.
    pub(crate) tx_queue: usize,
    /// The tx queues that the worker has taken of ports with fewer tx queues than workers.
    pub(crate) taken: Taken,
    /// The burst of a port whose packets select the tx queue by hash, split by tx queue.
    pub(crate) parts: Vec<FrameBatch>,
    /// Time of the present iteration.
    pub(crate) now: Millis,
    /// Ports, upcall handler and meters as of the beginning of the iteration.
    pub(crate) ports: Arc<Ports>,
    pub(crate) handler: Handler,
    pub(crate) meters: Arc<Meters>,
    /// The bonds of `lb_output`.
    pub(crate) bonds: OwnBonds,
    pub(crate) conntrack: Arc<Conntrack>,
    pub(crate) reassembly: Arc<Reassembly<Packet>>,
    pub(crate) metering: Scratch,
    /// The clock of meters.
    pub(crate) fine: FineClock,
    /// `Meta::vlan_limit` of received packets.
    pub(crate) vlan_limit: u8,
    pub(crate) shadow: Shadow,
    /// Every look-up is compared with a linear search.
    pub(crate) validate: bool,
    /// Empty lists of packets, kept for their memory.
    pub(crate) lists: Vec<Vec<Packet>>,
    /// Empty groups, kept for their memory.
    pub(crate) groups_free: Vec<Group>,
    /// For misses that leave the worker; `None`: it translates all of them.
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
            recent: [Recent::default(); PLACES],
            groups: None,
            lane,
            pool: FramePool::new(KEEP_BUFFERS),
            tally: Tally::default(),
            drops: DropLog::new(id, Arc::clone(&published.last_drops)),
            recirculated: VecDeque::new(),
            popped: PoppedBatches::default(),
            outputs: Vec::new(),
            waiting: Vec::new(),
            held: Vec::new(),
            queued: BTreeMap::new(),
            hold: Hold::default(),
            tx_queue,
            taken: Taken::default(),
            parts: Vec::new(),
            now: Millis(0),
            ports: Arc::default(),
            handler: Arc::new(None),
            meters: Arc::new(Meters::new_sync()),
            bonds,
            conntrack,
            reassembly,
            metering: Scratch::default(),
            fine: FineClock::default(),
            vlan_limit: 0,
            shadow: Shadow::default(),
            validate: false,
            parking: None,
            counter: || Cycles(0),
            lists: Vec::new(),
            groups_free: Vec::new(),
            stages: None,
            random: fastrand::Rng::with_seed(seed),
        }
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

    /// Drops a packet: counts the reason and records the packet.
    pub(crate) fn drop_packet(&mut self, packet: Packet, reason: DropReason) {
        self.tally.drop(reason, 1);
        let before = self.drops.hold(packet, reason, self.now);
        before.into_iter().for_each(|frame| self.pool.free(frame));
    }

    /// Counts and records the drop of a copy or of an effect of the packet, which itself continues.
    #[cold]
    pub(crate) fn drop_part(&mut self, packet: &Packet, reason: DropReason) {
        self.tally.drop(reason, 1);
        self.drops.packet(packet, reason, self.now);
    }

    /// Adds a copy of a frame to the port's burst.
    #[inline]
    pub(crate) fn send_copy(&mut self, frame: &Frame, port: u32) {
        self.tally.add(Event::Created, 1);
        match self.pool.copy_of(frame) {
            Some(copy) => self.send(port, copy),
            None => self.no_copy(frame, port),
        }
    }

    /// Adds a copy of each frame of a batch to the port's burst.
    pub(crate) fn send_copies(&mut self, frames: &[Frame], port: u32) {
        if self.output(port).is_none() {
            return frames.iter().for_each(|frame| self.send_copy(frame, port));
        }
        self.tally.add(Event::Created, frames.len() as u64);
        let (mut failed, at) = (0, port as usize);
        for frame in frames {
            match self.pool.copy_of(frame) {
                Some(copy) => self.outputs[at].push(copy),
                None => failed += 1,
            }
        }
        if failed != 0 {
            frames.iter().take(failed).for_each(|frame| self.no_copy(frame, port));
        }
        if self.outputs[at].len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    #[cold]
    fn no_copy(&mut self, frame: &Frame, port: u32) {
        self.tally.drop(DropReason::NoBuffer, 1);
        self.drops.unsent(frame.bytes(), DropReason::NoBuffer, port, self.now);
    }

    /// Ends the iteration and records the packet that was dropped last.
    #[inline]
    pub(crate) fn end_drops(&mut self) {
        if let Some(frame) = self.drops.end_iteration(self.now, self.tally.dropped_total()) {
            self.pool.free(frame);
        }
    }

    /// Drops frames for a port that does not exist.
    #[cold]
    fn no_port(&mut self, port: u32, frames: impl Iterator<Item = Frame>) {
        for frame in frames {
            self.tally.drop(DropReason::InvalidPort, 1);
            self.drops.unsent(frame.bytes(), DropReason::InvalidPort, port, self.now);
            self.pool.free(frame);
        }
    }

    /// Adds a frame to the port's burst.
    #[inline(always)]
    pub(crate) fn send(&mut self, port: u32, frame: Frame) {
        match self.outputs.get_mut(port as usize) {
            Some(output) if (1..TX_BURST - 1).contains(&output.len()) => output.push(frame),
            _ => self.send_at_end(port, frame),
        }
    }

    /// [`send`](Self::send) for the first or the last frame of a burst.
    #[inline(never)]
    fn send_at_end(&mut self, port: u32, frame: Frame) {
        let Some(output) = self.output(port) else { return self.no_port(port, std::iter::once(frame)) };
        output.push(frame);
        if output.len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    /// Adds these frames to the port's burst; there are at most about two bursts of them.
    pub(crate) fn send_each(&mut self, port: u32, frames: impl Iterator<Item = Frame>) {
        match self.output(port) {
            Some(output) => output.extend(frames),
            None => return self.no_port(port, frames),
        }
        if self.outputs[port as usize].len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    /// Adds all these frames to the port's burst.
    pub(crate) fn send_all(&mut self, port: u32, frames: &mut FrameBatch) {
        let Some(output) = self.output(port) else { return self.no_port(port, frames.drain(..)) };
        if output.is_empty() {
            std::mem::swap(output, frames);
        } else {
            output.append(frames);
        }
        if output.len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    /// Returns the burst of a port to which a frame will be added; `None` if there is no such port.
    #[inline]
    fn output(&mut self, port: u32) -> Option<&mut FrameBatch> {
        let at = port as usize;
        if self.outputs.get(at).is_none_or(Vec::is_empty) {
            self.begin_burst(port)?;
        }
        self.outputs.get_mut(at)
    }

    /// Prepares a port's burst for its first frame.
    fn begin_burst(&mut self, port: u32) -> Option<()> {
        self.ports.get(port)?;
        if self.outputs.len() <= port as usize {
            self.outputs.resize_with(port as usize + 1, Vec::new);
        }
        if !self.waiting.contains(&port) {
            self.waiting.push(port);
        }
        Some(())
    }

    /// Drops the metadata of packets that are gone, and keeps the memory of rare metadata.
    pub(crate) fn drop_metas(&mut self, metas: &mut Vec<Meta>) {
        metas.drain(..).for_each(|meta| self.batch.keep_rare(meta.rare));
    }
}
