//! The packets that go through the path together: a structure of arrays, owned by the worker and always hot.
//!
//! All packets of a batch came in by one port, so one context and one parsing depth hold for all of them. Packets
//! fresh from a port also share all their metadata, which is then here once; a [`Packet`] is made of a frame only where
//! an action or the control half needs one.

use crate::packet::{Meta, Packet};
use crate::port::{Frame, FrameBatch};
use classifier::megaflow::{Depth, EXT_WORDS, Ext, Options, Rests, Words, bits};
use cpu::Line;

pub use classifier::megaflow::{BATCH, NONE};

/// A packet that is to go through the path again.
pub(crate) struct Again {
    pub(crate) packet: Packet,
    /// Its key, if its bytes have not changed since that was read.
    pub(crate) key: Option<Known>,
}

/// The key of a packet as deep as it was read, without what only wide keys have.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    line: Line,
    tcp_flags: u16,
    depth: Depth,
}

impl From<Packet> for Again {
    fn from(packet: Packet) -> Again {
        Again { packet, key: None }
    }
}

/// A packet that has no megaflow.
pub struct Miss {
    /// The packet.
    pub packet: Packet,
    /// It had one, which was removed since: a stage has counted it as found.
    pub answered: bool,
}

/// See the module.
pub struct Batch {
    /// The packets.
    pub frames: FrameBatch,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Metadata of each packet, unless it has its own.
    pub common: Meta,
    /// Metadata of packets that have been through the path before: none, or one for each frame.
    pub own: Vec<Meta>,
    /// Their keys; only the first where they are `alike`.
    pub lines: Box<[Line; BATCH]>,
    /// The rest of their keys; filled only at depth `Wide`, and then no more than `words`.
    pub exts: Vec<Ext>,
    /// Which words of `exts` are filled, and whether options are.
    pub words: Words,
    /// Their tunnel options, at depth `Wide`; none where no packet has any.
    pub options: Vec<Option<Box<Options>>>,
    /// TCP flags, for statistics.
    pub tcp_flags: [u16; BATCH],
    /// Hashes for the cache.
    pub hashes: [u32; BATCH],
    /// Megaflow of each, or [`NONE`].
    pub found: [u32; BATCH],
    /// How deep they were parsed.
    pub depth: Depth,
    /// All have the same key, as far as the megaflows of the port look: at nothing but the port, or at nothing in which
    /// these packets differ.
    pub alike: bool,
    /// The keys of all packets are known, as deep as this, without a look at their bytes.
    pub(crate) known: Option<Depth>,
    /// The packets that the control half is to be asked about.
    pub missed: Vec<Miss>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            frames: Vec::with_capacity(BATCH),
            bytes: 0,
            common: Meta::default(),
            own: Vec::new(),
            lines: Box::new([[0; 8]; BATCH]),
            exts: Vec::new(),
            words: 0,
            options: Vec::new(),
            tcp_flags: [0; BATCH],
            hashes: [0; BATCH],
            found: [NONE; BATCH],
            depth: Depth::Port,
            alike: false,
            known: None,
            missed: Vec::new(),
        }
    }
}

impl Batch {
    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds a packet that has been through the path before. All of a batch have, or none.
    pub(crate) fn push(&mut self, again: Again) {
        let (Again { packet, key }, i) = (again, self.frames.len() % BATCH);
        match key.filter(|key| i == 0 || self.known == Some(key.depth)) {
            Some(key) => {
                (self.lines[i], self.tcp_flags[i]) = (key.line, key.tcp_flags);
                self.known = Some(key.depth);
            }
            None => self.known = None,
        }
        self.bytes += packet.frame.len() as u64;
        self.frames.push(packet.frame);
        self.own.push(packet.meta);
    }

    /// The key of packet `number` with other metadata; `None`: it is not known, or has more than a line.
    pub(crate) fn known(&self, number: Option<u8>, meta: &Meta) -> Option<Known> {
        let i = usize::from(number.filter(|_| !self.alike && self.depth < Depth::Wide)?);
        let (line, now) = (self.lines.get(i)?, meta.line());
        let line = [now[0] | line[0] & 0xffff, line[1], line[2], line[3], line[4], now[5], now[6], line[7]];
        Some(Known { line, tcp_flags: self.tcp_flags[i], depth: self.depth })
    }

    /// The line of packet `number`, if it was read as deep as the ports.
    pub(crate) fn line_to_ports(&self, number: Option<u8>) -> Option<&Line> {
        let i = usize::from(number.filter(|_| !self.alike && self.depth >= Depth::L4)?);
        self.lines.get(i)
    }

    /// Metadata of packet `i`.
    #[inline]
    pub(crate) fn meta(&self, i: usize) -> &Meta {
        self.own.get(i).unwrap_or(&self.common)
    }

    /// The packet that `frame`, the next one taken out of the batch, belongs to.
    #[inline(always)]
    pub(crate) fn packet(&mut self, i: usize, frame: Frame) -> Packet {
        let own = self.own.get_mut(i).map(std::mem::take);
        Packet::new(frame, own.unwrap_or_else(|| self.common.clone()))
    }

    /// All packets are Ethernet, and none is to be cut.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |meta: &Meta| meta.cut == 0 && meta.packet_type == 0;
        if self.own.is_empty() { plain(&self.common) } else { self.own.iter().all(plain) }
    }

    /// Room for wide keys, once per worker.
    pub(crate) fn widen(&mut self) {
        if self.exts.len() < BATCH {
            self.exts.resize(BATCH, [0; EXT_WORDS]);
        }
    }

    /// All of wide keys but their lines.
    #[inline(always)]
    pub(crate) fn rests(&self) -> Rests<'_> {
        Rests { exts: &self.exts, options: &self.options, known: self.words }
    }

    /// How many keys there are: packets, or 1 if all have the same.
    #[inline]
    pub(crate) fn keys(&self) -> usize {
        if self.alike { 1 } else { self.len() }
    }

    /// A bit for every key.
    #[inline]
    pub(crate) fn all(&self) -> u64 {
        match self.keys() {
            0 => 0,
            n => u64::MAX >> (BATCH - n.min(BATCH)),
        }
    }
}

/// Notes the megaflows of those of `n` packets whose bit is set.
#[inline(always)]
pub(crate) fn note(found: &mut [u32; BATCH], n: usize, hits: u64, indices: &[u32; BATCH]) {
    if hits.count_ones() as usize == n {
        found[..n].copy_from_slice(&indices[..n]);
    } else {
        bits(hits).for_each(|i| found[i % BATCH] = indices[i % BATCH]);
    }
}
