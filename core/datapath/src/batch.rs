//! The packets that go through the path together: a structure of arrays that the worker owns and reuses.
//!
//! All packets of a batch were received by one port, so one context and one parsing depth apply to all of
//! them. Packets that a port has just received also share all their metadata, which the batch stores once. A
//! [`Packet`] is made from a frame only where an action or the control half needs one.

use crate::packet::{Meta, Packet, Rare};
use crate::popped::{Arrived, Outers};
use crate::port::{Frame, FrameBatch};
use crate::tracked::{CONNECTION_WORD, CONNECTION_WORDS, Tracked};
use classifier::megaflow::convert::tlv_of_options;
use classifier::megaflow::{Column, Depth, EXT_WORDS, Options, Rest, Rests, Words, bits};
use cpu::Line;
use flow::{Flow, Tlv};

pub use classifier::megaflow::{BATCH, NONE};

/// How many times a packet may be recirculated.
pub const MAX_PASSES: u8 = 8;

/// A packet to be recirculated.
pub(crate) struct Recirculated {
    pub(crate) packet: Packet,
    /// The packet's key, if its bytes have not changed since the key was read.
    pub(crate) key: Option<Known>,
}

/// The key of a packet at the depth to which it was read, without the words that only wide keys have.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    line: Line,
    tcp_flags: u16,
    depth: Depth,
}

impl From<Packet> for Recirculated {
    fn from(packet: Packet) -> Recirculated {
        Recirculated { packet, key: None }
    }
}

/// A packet that has no megaflow.
pub struct Miss {
    /// The packet.
    pub packet: Packet,
    /// The packet had a megaflow, which was removed since: a stage has already counted it as found.
    pub answered: bool,
}

/// A batch: see the module documentation for what its packets share.
pub struct Batch {
    /// The packets.
    pub frames: FrameBatch,
    /// Sum of the frame lengths in bytes.
    pub bytes: u64,
    /// Metadata that all packets share, unless they have their `own`.
    pub common: Meta,
    /// The line of `common`, if the packets were just received by a port.
    pub(crate) base: Option<Line>,
    /// Metadata of recirculated packets: empty, or one entry for each frame.
    pub own: Vec<Meta>,
    /// The keys of the packets; only the first one is filled if all are `alike`.
    pub lines: Box<[Line; BATCH]>,
    /// The rest of wide keys, a column for each word; filled only at depth `Wide`, and only for the words of
    /// `words`.
    pub exts: Vec<Column>,
    /// Which words of `exts` are filled, and whether `options` is.
    pub words: Words,
    /// Tunnel options at depth `Wide`; empty if no packet has any.
    pub options: Vec<Option<Box<Options>>>,
    /// TCP flags, for statistics.
    pub tcp_flags: [u16; BATCH],
    /// Hashes for the cache.
    pub hashes: [u32; BATCH],
    /// Megaflow index of each packet, or [`NONE`].
    pub found: [u32; BATCH],
    /// The depth to which the packets were parsed.
    pub depth: Depth,
    /// All packets have the same key in the bits that the port's megaflows match, either because these match
    /// only the port or because the packets do not differ there.
    pub alike: bool,
    /// Many packets of the batch before had other headers than the most frequent ones. Only a hint.
    pub(crate) mixed: bool,
    /// Recirculation ids and hashes of the packets are only in their lines, not in `common`, and their connection tracking metadata is in
    /// `tracked`.
    pub(crate) in_lines: bool,
    /// The keys of all packets are known to this depth without parsing their bytes.
    pub(crate) known: Option<Depth>,
    /// Outer headers of decapsulated packets: empty, or one for each frame.
    pub(crate) outers: Outers,
    /// Connection tracking metadata of the packets, if they were tracked in the batch.
    pub(crate) tracked: Tracked,
    /// Packets without a megaflow, for upcalls.
    pub missed: Vec<Miss>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            frames: Vec::with_capacity(BATCH),
            bytes: 0,
            common: Meta::default(),
            base: None,
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
            mixed: false,
            in_lines: false,
            known: None,
            outers: Outers::default(),
            tracked: Tracked::default(),
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

    /// Returns whether the batch has no packets.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Sets the common metadata to that of packets that this port has just received. If it is the same port as before, nothing changes.
    #[inline]
    pub(crate) fn receive(&mut self, in_port: u32, vlan_limit: u8) {
        let Meta { in_port: before, vlan_limit: limit, .. } = self.common;
        if self.base.is_none() || before != in_port || limit != vlan_limit {
            self.common = Meta { vlan_limit, ..Meta::received(in_port) };
            self.base = Some(self.common.line());
        }
    }

    /// The line of a key that contains the common metadata.
    #[inline(always)]
    pub(crate) fn base(&self) -> Line {
        self.base.unwrap_or_else(|| self.common.line())
    }

    /// Begins the next pass of the packets that are left in the batch.
    pub(crate) fn pass_again(&mut self) {
        self.base = None;
        self.common.passes += 1;
    }

    /// Adds a recirculated packet. A batch holds either only recirculated packets or none.
    pub(crate) fn push(&mut self, again: Recirculated) {
        let (Recirculated { packet, key }, i) = (again, self.frames.len() % BATCH);
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

    /// Returns the key of packet `number` with other metadata; `None` if the key is not known or is a wide
    /// key.
    pub(crate) fn known(&self, number: Option<u8>, meta: &Meta) -> Option<Known> {
        let i = usize::from(number.filter(|_| !self.alike && self.depth < Depth::Wide)?);
        let (line, now) = (self.lines.get(i)?, meta.line());
        let line = [now[0] | line[0] & 0xffff, line[1], line[2], line[3], line[4], now[5], now[6], line[7]];
        Some(Known { line, tcp_flags: self.tcp_flags[i], depth: self.depth })
    }

    /// Returns the key of packet `number` if it was read at the depth of the ports' megaflows.
    #[inline]
    pub(crate) fn key_to_ports(&self, number: Option<u8>) -> Option<(&Line, Rest<'_>)> {
        let i = usize::from(number.filter(|_| !self.alike && self.depth >= Depth::L4)?);
        let rest = if self.depth == Depth::Wide { self.rests().of(i) } else { Rest::NONE };
        Some((self.lines.get(i)?, rest))
    }

    /// Recirculates packet `i` with its key.
    #[inline]
    pub(crate) fn again(&mut self, i: usize, id: u32, dp_hash: Option<u32>) {
        recirculate_line(&mut self.lines[i % BATCH], id, dp_hash);
    }

    /// Returns whether packets whose key changes like this can pass through the path again at once, as a
    /// batch.
    #[inline]
    pub(crate) fn may_go_again(&self, hashed: bool) -> bool {
        let reads_all = !hashed || (self.depth >= Depth::L4 && !self.alike);
        reads_all && self.own.is_empty() && self.common.cut == 0 && self.common.passes < MAX_PASSES
    }

    /// Moves the key of packet `from` to place `to`.
    pub(crate) fn move_key(&mut self, from: usize, to: usize) {
        let (from, to) = (from % BATCH, to % BATCH);
        (self.lines[to], self.tcp_flags[to]) = (self.lines[from], self.tcp_flags[from]);
        self.found[to] = self.found[from];
        self.outers.move_to(from, to);
        self.tracked.move_to(from, to);
        if !self.options.is_empty() {
            self.options.resize_with(BATCH, || None);
            self.options.swap(from, to);
        }
        if self.depth == Depth::Wide {
            for word in bits(self.words).take_while(|word| *word < EXT_WORDS) {
                self.exts[word][to] = self.exts[word][from];
            }
        }
    }

    /// Exchanges the empty batch for decapsulated packets; `arrived` is left without packets.
    pub(crate) fn exchange(&mut self, arrived: &mut Arrived) {
        let Arrived { arrival, frames, outers, options } = arrived;
        (self.base, self.common) = (None, arrival.meta());
        self.bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        std::mem::swap(&mut self.frames, frames);
        std::mem::swap(&mut self.outers, outers);
        std::mem::swap(&mut self.options, options);
        options.clear();
    }

    /// Clears outer headers and connection tracking metadata, when the batch has no packets any more.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.tracked.clear();
        if !self.outers.is_empty() {
            self.outers.clear();
            self.options.clear();
        }
    }

    /// Fills the fields of the outer header of packet `i`.
    pub(crate) fn outer(&self, i: usize, flow: &mut Flow) {
        if let Some(tunnel) = self.outers.get(i) {
            flow.tunnel = *tunnel;
            flow.tlv = self.options.get(i).and_then(|o| o.as_deref()).map_or(Tlv::NONE, tlv_of_options);
        }
    }

    /// Gives each packet its own metadata, if the packets' metadata differ.
    pub(crate) fn spread(&mut self) {
        if self.fill_own() {
            self.in_lines = false;
            self.outers.clear();
        }
    }

    /// Like [`spread`](Self::spread), and keeps what is stored beside the metadata, because some packets stay in the batch
    /// for another pass. Returns false if all packets share their metadata.
    pub(crate) fn fill_own(&mut self) -> bool {
        let differ = self.in_lines || !self.outers.is_empty();
        if differ {
            let mut own = std::mem::take(&mut self.own);
            own.clear();
            own.extend((0..self.len()).map(|i| self.own_meta_of(i)));
            self.own = own;
        }
        differ
    }

    /// Returns the metadata of packet `i`, collected from the common metadata, its line and the arrays beside it.
    #[inline]
    fn own_meta_of(&mut self, i: usize) -> Meta {
        let mut meta = self.common.clone();
        if self.in_lines {
            let line = &self.lines[if self.alike { 0 } else { i % BATCH }];
            (meta.recirc_id, meta.dp_hash) = ((line[0] >> 32) as u32, line[6] as u32);
        }
        if !self.outers.is_empty() {
            meta.rare = self.outers.rare(i, &self.options);
        }
        self.tracked.put(i, &mut meta);
        meta
    }

    /// Keeps rare metadata that no packet needs any more, for the next one.
    #[inline]
    pub(crate) fn keep_rare(&mut self, rare: Option<Box<Rare>>) {
        self.tracked.unused.keep(rare);
    }

    /// Returns empty rare metadata.
    #[inline]
    pub(crate) fn new_rare(&mut self) -> Box<Rare> {
        self.tracked.unused.take()
    }

    /// Gives each packet a key of its own, if they shared one.
    pub(crate) fn tell_apart(&mut self) {
        if std::mem::take(&mut self.alike) {
            let n = self.len().min(BATCH);
            let (first, rest) = self.lines.split_at_mut(1);
            rest[..n.saturating_sub(1)].fill(first[0]);
        }
    }

    /// Writes labels and tuples of connections into keys, if megaflows of the port match them.
    #[inline]
    pub(crate) fn fill_connections(&mut self) {
        if self.depth == Depth::Wide && self.words & CONNECTION_WORDS != 0 {
            self.tracked.fill(&mut self.exts, self.words);
        }
    }

    /// Clears the connection tracking metadata of these packets.
    pub(crate) fn clear_tracking(&mut self, which: u64) {
        let (n, keys) = (self.len(), self.all());
        self.tracked.clear_some(which, n);
        bits(which & keys).for_each(|i| self.lines[i % BATCH][CONNECTION_WORD] = 0);
        if self.depth == Depth::Wide {
            for word in bits(self.words & CONNECTION_WORDS) {
                bits(which & keys).for_each(|i| self.exts[word][i % BATCH] = 0);
            }
        }
    }

    /// Metadata of packet `i`, if they are [spread](Self::spread).
    #[inline]
    pub(crate) fn meta(&self, i: usize) -> &Meta {
        self.own.get(i).unwrap_or(&self.common)
    }

    /// Makes the packet of `frame`, which is the next frame taken out of the batch.
    #[inline(always)]
    pub(crate) fn packet(&mut self, i: usize, frame: Frame) -> Packet {
        let own = self.own.get_mut(i).map(std::mem::take);
        Packet::new(frame, own.unwrap_or_else(|| self.own_meta_of(i)))
    }

    /// Returns whether all packets are Ethernet, none is to be truncated, and none selects a QoS queue.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |meta: &Meta| meta.cut == 0 && meta.packet_type | meta.skb_priority == 0;
        if self.own.is_empty() { plain(&self.common) } else { self.own.iter().all(plain) }
    }

    /// Allocates the columns of wide keys, once per worker.
    pub(crate) fn widen(&mut self) {
        if self.exts.len() < EXT_WORDS {
            self.exts.resize(EXT_WORDS, [0; BATCH]);
        }
    }

    /// Sets these words of all keys to zero. They are the words that will be filled next.
    pub(crate) fn clear(&mut self, words: Words) {
        self.widen();
        if self.outers.is_empty() {
            self.options.clear();
        }
        self.words = words;
        let n = self.len().min(BATCH);
        for word in bits(words).take_while(|word| *word < EXT_WORDS) {
            self.exts[word][..n].fill(0);
        }
    }

    /// Returns everything of wide keys except their lines.
    #[inline(always)]
    pub(crate) fn rests(&self) -> Rests<'_> {
        Rests { exts: &self.exts, options: &self.options, known: self.words }
    }

    /// Records that no megaflow was found for the keys in this bit set.
    pub(crate) fn set_missing(&mut self, keys: u64) {
        bits(keys).for_each(|i| self.found[i % BATCH] = NONE);
    }

    /// Number of keys: one per packet, or 1 if all packets have the same key.
    #[inline]
    pub(crate) fn keys(&self) -> usize {
        if self.alike { 1 } else { self.len() }
    }

    /// Returns a bit for each key.
    #[inline]
    pub(crate) fn all(&self) -> u64 {
        match self.keys() {
            0 => 0,
            n => u64::MAX >> (BATCH - n.min(BATCH)),
        }
    }
}

/// Changes a key for its next pass.
#[inline(always)]
pub(crate) fn recirculate_line(line: &mut Line, id: u32, dp_hash: Option<u32>) {
    line[0] = line[0] & 0xffff_ffff | u64::from(id) << 32;
    if let Some(dp_hash) = dp_hash {
        line[6] = line[6] & !0xffff_ffff | u64::from(dp_hash);
    }
}

/// Stores the megaflows of those of the first `n` packets whose bit is set.
#[inline(always)]
pub(crate) fn note(found: &mut [u32; BATCH], n: usize, hits: u64, indices: &[u32; BATCH]) {
    if hits.count_ones() as usize == n {
        found[..n].copy_from_slice(&indices[..n]);
    } else {
        bits(hits).for_each(|i| found[i % BATCH] = indices[i % BATCH]);
    }
}
