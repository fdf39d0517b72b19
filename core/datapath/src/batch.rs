//! The packets that go through the path together: a structure of arrays, owned by the worker and always hot.
//!
//! All packets of a batch came in by one port, so one context and one parsing depth hold for all of them.

use crate::packet::Packet;
use classifier::megaflow::{Depth, EXT_WORDS, Ext};
use cpu::Line;

/// The most packets in a batch.
pub const BATCH: usize = 64;

/// "No megaflow was found."
pub const NONE: u32 = u32::MAX;

/// See the module.
pub struct Batch {
    /// The packets; taken out as they are executed.
    pub packets: Vec<Option<Packet>>,
    /// Their keys.
    pub lines: Box<[Line; BATCH]>,
    /// The rest of their keys; filled only at depth `Wide`.
    pub exts: Vec<Ext>,
    /// TCP flags, for statistics.
    pub tcp_flags: [u16; BATCH],
    /// Hashes for the cache.
    pub hashes: [u32; BATCH],
    /// Megaflow of each, or [`NONE`].
    pub found: [u32; BATCH],
    /// How deep they were parsed.
    pub depth: Depth,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            packets: Vec::with_capacity(BATCH),
            lines: Box::new([[0; 8]; BATCH]),
            exts: Vec::new(),
            tcp_flags: [0; BATCH],
            hashes: [0; BATCH],
            found: [NONE; BATCH],
            depth: Depth::Port,
        }
    }
}

impl Batch {
    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Room for wide keys, once per worker.
    pub(crate) fn widen(&mut self) {
        if self.exts.len() < BATCH {
            self.exts.resize(BATCH, [0; EXT_WORDS]);
        }
    }

    /// A bit for every packet.
    pub(crate) fn all(&self) -> u64 {
        match self.len() {
            0 => 0,
            n => u64::MAX >> (BATCH - n.min(BATCH)),
        }
    }
}
