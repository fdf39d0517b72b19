//! What the stages of a worker share: buffers, batch, queues, counters. One thread's own.

use crate::batch::Batch;
use crate::packet::Packet;
use crate::path::transmit::{self, TX_BURST};
use crate::port::{FrameBatch, FramePool};
use crate::ports::Ports;
use crate::tally::Tally;
use dpif::{DropReason, UpcallHandler};
use flowcache::Unified;
use std::collections::VecDeque;
use std::sync::Arc;
use sync::Lane;
use units::WorkerId;

/// The control half, if it is there.
pub(crate) type Handler = Arc<Option<Arc<dyn UpcallHandler>>>;

/// How many free buffers a worker keeps.
const KEEP_BUFFERS: usize = 2048;

/// See the module.
pub(crate) struct Engine {
    pub(crate) id: WorkerId,
    pub(crate) batch: Batch,
    pub(crate) cache: Unified,
    pub(crate) lane: Lane,
    pub(crate) pool: FramePool,
    pub(crate) tally: Tally,
    /// Packets to go through the path again.
    pub(crate) recirculated: VecDeque<Packet>,
    /// Frames to be sent, by port number.
    pub(crate) outputs: Vec<FrameBatch>,
    /// The ports that have some.
    pub(crate) waiting: Vec<u32>,
    /// Which tx queue this worker uses.
    pub(crate) tx_queue: usize,
    /// Ports and control half, as they were when the poll began.
    pub(crate) ports: Arc<Ports>,
    pub(crate) handler: Handler,
    /// `Meta::vlan_limit` of packets that come in.
    pub(crate) vlan_limit: u8,
    /// An empty list for receive.
    pub(crate) frames: FrameBatch,
    lists: Vec<Vec<Packet>>,
    random: u64,
}

impl Engine {
    pub(crate) fn new(id: WorkerId, lane: Lane, tx_queue: usize, seed: u64) -> Engine {
        Engine {
            id,
            batch: Batch::default(),
            cache: Unified::default(),
            lane,
            pool: FramePool::new(KEEP_BUFFERS),
            tally: Tally::default(),
            recirculated: VecDeque::new(),
            outputs: Vec::new(),
            waiting: Vec::new(),
            tx_queue,
            ports: Arc::default(),
            handler: Arc::new(None),
            vlan_limit: 0,
            frames: Vec::new(),
            lists: Vec::new(),
            random: seed | 1,
        }
    }

    /// An empty list of packets, whose memory was used before.
    pub(crate) fn list(&mut self) -> Vec<Packet> {
        self.lists.pop().unwrap_or_default()
    }

    /// Takes a list back; its packets must have been consumed.
    pub(crate) fn give_back(&mut self, list: Vec<Packet>) {
        debug_assert!(list.is_empty());
        self.lists.push(list);
    }

    /// The packet ends here, for a reason that is counted.
    pub(crate) fn drop_packet(&mut self, packet: Packet, reason: DropReason) {
        self.tally.drop(reason, 1);
        self.pool.free(packet.frame);
    }

    /// Puts a packet in the port's burst.
    pub(crate) fn send(&mut self, port: u32, packet: Packet) {
        if self.ports.get(port).is_none() {
            return self.drop_packet(packet, DropReason::InvalidPort);
        }
        let at = port as usize;
        if self.outputs.len() <= at {
            self.outputs.resize_with(at + 1, Vec::new);
        }
        if self.outputs[at].is_empty() && !self.waiting.contains(&port) {
            self.waiting.push(port);
        }
        self.outputs[at].push(packet.frame);
        if self.outputs[at].len() >= TX_BURST {
            transmit::send(self, port);
        }
    }

    /// A number for `sample` (xorshift64*, Vigna 2016): even, not secret.
    pub(crate) fn random(&mut self) -> u32 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}
