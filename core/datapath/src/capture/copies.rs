//! The copies of a capture that wait for its reader, in queues.
//!
//! Usually each thread writes to a queue of its own. Each queue has a lock. The reader holds the lock only to exchange
//! two vectors; a writer tries the lock a few times, and then counts the packet as lost.

use super::offered::Side;
use crate::locks::try_lock_spinning;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use units::{Nanos, Ufid};

/// Number of queues. If there are more threads, some share a queue.
const QUEUES: usize = 16;
/// How many times a writer tries to take the lock: less than a microsecond.
const TRIES: usize = 32;

/// Memory in bytes that a packet uses besides its kept bytes.
pub const OVERHEAD: usize = std::mem::size_of::<Record>();
/// A captured packet, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the packet was offered to the capture.
    pub at: Nanos,
    /// Where the packet was offered to the capture.
    pub side: Side,
    /// The datapath port number of the port.
    pub port: u32,
    /// Length of the packet in bytes.
    pub len: u32,
    /// Number of the packet's bytes that were kept.
    pub kept: u32,
    /// Recirculation id of the pass.
    pub recirc_id: u32,
    /// Result of the `hash` action; 0: none.
    pub dp_hash: u32,
    /// The packet begins with an IP header rather than an Ethernet header.
    pub is_l3: bool,
    /// The megaflow that the packet hit, if known.
    pub megaflow: Option<Ufid>,
    /// The packet had no megaflow: an upcall was needed.
    pub upcall: bool,
}

/// Captured packets, the oldest first.
#[derive(Debug, Default)]
pub struct Copies {
    /// Records, each with the offset of its bytes in `bytes`.
    records: Vec<(Record, usize)>,
    bytes: Vec<u8>,
}

impl Copies {
    /// The packets with their kept bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        self.records.iter().map(|(record, at)| (record, &self.bytes[*at..*at + record.kept as usize]))
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

#[derive(Default)]
struct CopyQueue {
    records: Vec<Record>,
    bytes: Vec<u8>,
}

pub(super) struct CopyQueues {
    queues: [Mutex<CopyQueue>; QUEUES],
    /// Memory in use by all queues, in bytes, including the overhead of each packet.
    held: AtomicUsize,
    most: usize,
}

impl CopyQueues {
    pub(super) fn new(most: usize) -> CopyQueues {
        CopyQueues { queues: Default::default(), held: AtomicUsize::new(0), most }
    }

    /// Adds a packet. Returns false if there is no memory left, or if the queue is locked.
    pub(super) fn put(&self, queue: usize, record: Record, kept: &[u8]) -> bool {
        let need = kept.len() + OVERHEAD;
        if self.held.fetch_add(need, Ordering::Relaxed) + need <= self.most
            && let Some(mut queue) = try_lock_spinning(&self.queues[queue % QUEUES], TRIES)
        {
            queue.records.push(record);
            queue.bytes.extend_from_slice(kept);
            return true;
        }
        self.held.fetch_sub(need, Ordering::Relaxed);
        false
    }

    /// Removes and returns all packets. Their memory counts as free from now on; the reader must bound the memory
    /// that it holds.
    pub(super) fn take(&self) -> Copies {
        let mut out = Copies::default();
        for queue in &self.queues {
            let CopyQueue { records, mut bytes } =
                std::mem::take(&mut *queue.lock().unwrap_or_else(PoisonError::into_inner));
            let mut at = out.bytes.len();
            out.records.extend(records.into_iter().map(|record| {
                let place = at;
                at += record.kept as usize;
                (record, place)
            }));
            out.bytes.append(&mut bytes);
        }
        out.records.sort_by_key(|(record, _)| record.at);
        self.held.fetch_sub(out.bytes.len() + out.records.len() * OVERHEAD, Ordering::Relaxed);
        out
    }
}
