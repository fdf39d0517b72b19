//! Engine: the state that the stages of a worker share: buffers, batch, queues, counters. Only the worker's thread
//! uses it.

use crate::batch::{Batch, Recirculated};
use crate::bonds::OwnBonds;
use crate::last_drop::{DropLog, DropPort};
use crate::packet::{Meta, Packet};
use crate::popped::PoppedBatches;
use crate::port::FramePool;
use crate::tally::{SharedTally, Tally};
use dpif::DropReason;
use std::collections::VecDeque;
use std::sync::Arc;
use sync::LaneWriter;
use units::{Millis, WorkerId};

pub(crate) mod bursts;
pub(crate) mod caches;
pub(crate) mod clocks;
pub(crate) mod free_lists;
pub(crate) mod groups;
pub(crate) mod inspection;
pub(crate) mod metering;
pub(crate) mod parking;
pub(crate) mod recent;
pub(crate) mod tracking;
pub(crate) mod view;

use bursts::Bursts;
use caches::Caches;
use clocks::Clocks;
use free_lists::FreeLists;
use inspection::InspectionCounter;
use metering::Scratch;
use parking::Parking;
use tracking::Tracking;
use view::View;

/// Number of free buffers that a worker keeps for reuse.
const KEEP_BUFFERS: usize = 2048;

/// Packets that are processed after their batch.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Packets to be recirculated.
    pub(crate) recirculated: VecDeque<Recirculated>,
    /// Packets of the slow path: their megaflow passes each of them to the control half for translation.
    pub(crate) slow: Vec<Packet>,
    /// A packet of the slow path is being translated and executed. A packet takes the slow path only once: otherwise
    /// a control half that always answers with the slow path would keep the worker busy forever.
    pub(crate) in_slow_path: bool,
}

impl Deferred {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.recirculated.is_empty() && self.slow.is_empty()
    }
}

/// The state that the stages of a worker share.
pub(crate) struct Engine {
    pub(crate) id: WorkerId,
    pub(crate) batch: Batch,
    pub(crate) caches: Caches,
    pub(crate) free_lists: FreeLists,
    pub(crate) lane: LaneWriter,
    pub(crate) pool: FramePool,
    pub(crate) tally: Tally,
    /// Packets dropped in this iteration.
    pub(crate) drops: DropLog,
    pub(crate) deferred: Deferred,
    /// Decapsulated packets, not processed yet.
    pub(crate) popped: PoppedBatches,
    pub(crate) bursts: Bursts,
    /// Time of the present iteration.
    pub(crate) now: Millis,
    pub(crate) view: View,
    /// The bonds of `lb_output`.
    pub(crate) bonds: OwnBonds,
    pub(crate) tracking: Tracking,
    pub(crate) metering: Scratch,
    pub(crate) clocks: Clocks,
    pub(crate) inspection: InspectionCounter,
    /// State for parked misses; `None`: the worker translates all misses itself.
    pub(crate) parking: Option<Box<Parking>>,
    pub(crate) random: fastrand::Rng,
}

impl Engine {
    pub(crate) fn new(
        id: WorkerId,
        lane: LaneWriter,
        published_tally: Arc<SharedTally>,
        tracking: Tracking,
        bonds: OwnBonds,
        tx_queue: usize,
        seed: u64,
    ) -> Engine {
        Engine {
            id,
            batch: Batch::default(),
            caches: Caches::default(),
            free_lists: FreeLists::default(),
            lane,
            pool: FramePool::new(KEEP_BUFFERS),
            tally: Tally::default(),
            drops: DropLog::new(
                id,
                Arc::clone(&published_tally.last_drops),
                Arc::clone(&published_tally.port_drops),
            ),
            deferred: Deferred::default(),
            popped: PoppedBatches::default(),
            bursts: Bursts::new(tx_queue),
            now: Millis(0),
            view: View::default(),
            bonds,
            tracking,
            metering: Scratch::default(),
            clocks: Clocks::default(),
            inspection: InspectionCounter::default(),
            parking: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns whether misses of this iteration may be parked.
    pub(crate) fn has_handler_thread(&self) -> bool {
        self.parking.as_ref().is_some_and(|p| p.has_handler_thread)
    }

    /// Moves the oldest decapsulated packets into the batch, which must be empty, and returns their tunnel port.
    pub(crate) fn next_popped(&mut self) -> Option<u32> {
        let mut popped_batch = self.popped.next()?;
        let port = popped_batch.popped_meta.port;
        self.batch.take_popped(&mut popped_batch);
        self.popped.recycle(popped_batch);
        Some(port)
    }

    /// Returns whether a packet is sampled. `share`: the probability in units of 1/2^32; the maximum means every
    /// packet.
    #[inline]
    pub(crate) fn samples(&mut self, share: u32) -> bool {
        share == u32::MAX || self.random.u32(..) < share
    }

    /// Drops a packet: counts the reason and records the packet.
    pub(crate) fn drop_packet(&mut self, packet: Packet, reason: DropReason) {
        self.tally.count_drops(reason, 1);
        self.drops.ports.count(DropPort::In(packet.meta.in_port), reason, 1);
        let before = self.drops.hold(packet, reason, self.now);
        before.into_iter().for_each(|frame| self.pool.free(frame));
    }

    /// Counts and records the drop of a copy or of an effect of the packet. The packet itself continues.
    #[cold]
    pub(crate) fn drop_part(&mut self, packet: &Packet, reason: DropReason) {
        self.tally.count_drops(reason, 1);
        self.drops.ports.count(DropPort::In(packet.meta.in_port), reason, 1);
        self.drops.log_packet(packet, reason, self.now);
    }

    /// Ends the iteration for drops: records the packet that was dropped last.
    #[inline]
    pub(crate) fn end_drops(&mut self) {
        if let Some(frame) = self.drops.end_iteration(self.now, self.tally.dropped_total()) {
            self.pool.free(frame);
        }
    }

    /// Drops metadata that its packets no longer need, and keeps their `rare` boxes for reuse.
    pub(crate) fn drop_metas(&mut self, metas: &mut Vec<Meta>) {
        metas.drain(..).for_each(|meta| self.batch.recycle_rare(meta.rare));
    }

    /// [Drops](Self::drop_metas) the metadata that each packet of the batch had for itself.
    pub(crate) fn drop_own_metas(&mut self) {
        let mut own = std::mem::take(&mut self.batch.own);
        self.drop_metas(&mut own);
        self.batch.own = own;
    }
}
