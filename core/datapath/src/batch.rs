//! Batch: the packets that go through the path together, a structure of arrays that the worker owns and reuses.
//!
//! All packets of a batch were received by one port, so the megaflows of one port and one parsing depth apply to all of them.
//! Packets that a port has just received also share all their metadata, which the batch stores once. A [`Packet`] is
//! created from a frame only where an action or the control half needs one.

use crate::packet::{Meta, Packet, Rare};
use crate::popped::{OuterHeaders, PoppedBatch};
use crate::port::{Frame, FrameBatch};
use crate::tracked::{CT_EXT_WORDS, CT_LINE_WORD, Tracked};
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
    pub(crate) key: Option<PacketKey>,
}

/// A packet's key to the depth to which it was parsed: its line, without the words that only wide keys have.
#[derive(Clone, Copy)]
pub(crate) struct PacketKey {
    line: Line,
    tcp_flags: u16,
    depth: Depth,
}

impl From<Packet> for Recirculated {
    fn from(packet: Packet) -> Recirculated {
        Recirculated { packet, key: None }
    }
}

/// A packet for which no megaflow was found.
pub struct Miss {
    /// The packet.
    pub packet: Packet,
    /// A stage found a megaflow for the packet and counted the hit, but the megaflow was removed before the
    /// packet was executed.
    pub counted_hit: bool,
}

/// A batch: the module documentation says what its packets have in common.
pub struct Batch {
    /// The packets.
    pub frames: FrameBatch,
    /// Sum of the frame lengths in bytes.
    pub bytes: u64,
    /// Metadata that all packets share, unless `own` has entries.
    pub common: Meta,
    /// The line that contains only `common`, if the packets were just received by a port.
    pub(crate) base: Option<Line>,
    /// Metadata of each recirculated packet: empty, or one entry for each frame.
    pub own: Vec<Meta>,
    /// The first cache line of each packet's key; only that of the first packet is filled if `shares_key`.
    pub lines: Box<[Line; BATCH]>,
    /// The key words after the line, a column for each word. Only the columns in `words` are filled, and only at
    /// depth `Wide`.
    pub exts: Vec<Column>,
    /// Which words of `exts` are filled, and whether `options` is.
    pub words: Words,
    /// Tunnel options at depth `Wide`; empty if no packet has any.
    pub options: Vec<Option<Box<Options>>>,
    /// TCP flags, for statistics.
    pub tcp_flags: [u16; BATCH],
    /// Hashes for the flow cache.
    pub hashes: [u32; BATCH],
    /// Megaflow index of each packet, or [`NONE`].
    pub found: [u32; BATCH],
    /// The depth to which the packets were parsed.
    pub depth: Depth,
    /// All packets have the same key in the bits that the port's megaflows match, so only one key is stored and
    /// looked up. Either the megaflows match only the port, or the packets do not differ in these bits.
    pub shares_key: bool,
    /// Many packets of the previous batch had other headers than the most frequent ones. Only a hint.
    pub(crate) mixed: bool,
    /// Recirculation ids and hashes of the packets are only in their lines, not in `common`, and their connection
    /// tracking metadata is in `tracked`.
    pub(crate) in_lines: bool,
    /// The lines of all packets are filled to this depth already, so their bytes need not be parsed.
    pub(crate) known_depth: Option<Depth>,
    /// Outer headers of decapsulated packets: empty, or one for each frame.
    pub(crate) outers: OuterHeaders,
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
            shares_key: false,
            mixed: false,
            in_lines: false,
            known_depth: None,
            outers: OuterHeaders::default(),
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

    /// Sets the common metadata for packets that this port has just received. If the port is the same as before,
    /// nothing changes.
    #[inline]
    pub(crate) fn set_received(&mut self, in_port: u32, vlan_limit: u8) {
        let Meta { in_port: before, vlan_limit: limit, .. } = self.common;
        if self.base.is_none() || before != in_port || limit != vlan_limit {
            self.common = Meta { vlan_limit, ..Meta::received(in_port) };
            self.base = Some(self.common.line());
        }
    }

    /// Returns a line that contains only the common metadata.
    #[inline(always)]
    pub(crate) fn base(&self) -> Line {
        self.base.unwrap_or_else(|| self.common.line())
    }

    /// Begins the next pass for the packets that are left in the batch.
    pub(crate) fn begin_next_pass(&mut self) {
        self.base = None;
        self.common.passes += 1;
    }

    /// Adds a recirculated packet. A batch holds either only recirculated packets, or none.
    pub(crate) fn push(&mut self, again: Recirculated) {
        let (Recirculated { packet, key }, i) = (again, self.frames.len() % BATCH);
        match key.filter(|key| i == 0 || self.known_depth == Some(key.depth)) {
            Some(key) => {
                (self.lines[i], self.tcp_flags[i]) = (key.line, key.tcp_flags);
                self.known_depth = Some(key.depth);
            }
            None => self.known_depth = None,
        }
        self.bytes += packet.frame.len() as u64;
        self.frames.push(packet.frame);
        self.own.push(packet.meta);
    }

    /// Returns the key of packet `number`, with other metadata. `None` if the key is not valid for this packet or is
    /// a wide key.
    pub(crate) fn key_of(&self, number: Option<u8>, meta: &Meta) -> Option<PacketKey> {
        let i = usize::from(number.filter(|_| !self.shares_key && self.depth < Depth::Wide)?);
        let (line, now) = (self.lines.get(i)?, meta.line());
        let line = [now[0] | line[0] & 0xffff, line[1], line[2], line[3], line[4], now[5], now[6], line[7]];
        Some(PacketKey { line, tcp_flags: self.tcp_flags[i], depth: self.depth })
    }

    /// Returns the key of packet `number`, if the packet was parsed at least to layer 4, so that the key has its ports.
    #[inline]
    pub(crate) fn key_to_ports(&self, number: Option<u8>) -> Option<(&Line, Rest<'_>)> {
        let i = usize::from(number.filter(|_| !self.shares_key && self.depth >= Depth::L4)?);
        let rest = if self.depth == Depth::Wide { self.rests().of(i) } else { Rest::NONE };
        Some((self.lines.get(i)?, rest))
    }

    /// Recirculates packet `i`: writes the recirculation id and the hash into its key.
    #[inline]
    pub(crate) fn recirculate_key(&mut self, i: usize, id: u32, dp_hash: Option<u32>) {
        recirculate_line(&mut self.lines[i % BATCH], id, dp_hash);
    }

    /// Returns whether packets that are recirculated can stay in the batch and be looked up again at once. `hashed`:
    /// they are also hashed.
    #[inline]
    pub(crate) fn may_recirculate_in_place(&self, hashed: bool) -> bool {
        let reads_all = !hashed || (self.depth >= Depth::L4 && !self.shares_key);
        reads_all && self.own.is_empty() && self.common.cut == 0 && self.common.passes < MAX_PASSES
    }

    /// Moves the key of packet `from` to index `to`, and swaps their metadata.
    pub(crate) fn move_key(&mut self, from: usize, to: usize) {
        let (from, to) = (from % BATCH, to % BATCH);
        (self.lines[to], self.tcp_flags[to]) = (self.lines[from], self.tcp_flags[from]);
        self.found[to] = self.found[from];
        self.outers.swap(from, to);
        self.tracked.swap(from, to);
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

    /// Moves decapsulated packets into the batch, which must be empty. `popped_batch` is left without packets.
    pub(crate) fn take_popped(&mut self, popped_batch: &mut PoppedBatch) {
        let PoppedBatch { popped_meta, frames, outers, options } = popped_batch;
        (self.base, self.common) = (None, popped_meta.meta());
        self.bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        std::mem::swap(&mut self.frames, frames);
        std::mem::swap(&mut self.outers, outers);
        std::mem::swap(&mut self.options, options);
        options.clear();
    }

    /// Clears outer headers and connection tracking metadata. Called when the batch has no packets any more.
    #[inline]
    pub(crate) fn clear_side_data(&mut self) {
        self.tracked.clear();
        if !self.outers.is_empty() {
            self.outers.clear();
            self.options.clear();
        }
    }

    /// Copies the outer header of packet `i` into `flow`.
    pub(crate) fn fill_outer(&self, i: usize, flow: &mut Flow) {
        if let Some(tunnel) = self.outers.get(i) {
            flow.tunnel = *tunnel;
            flow.tlv = self.options.get(i).and_then(|o| o.as_deref()).map_or(Tlv::NONE, tlv_of_options);
        }
    }

    /// Stores the metadata of each packet in `own`, if the packets' metadata differ.
    pub(crate) fn spread_metadata(&mut self) {
        if self.fill_own() {
            self.in_lines = false;
            self.outers.clear();
        }
    }

    /// As [`spread_metadata`](Self::spread_metadata), but keeps the arrays in which metadata was stored before,
    /// because some packets stay in the batch for another pass. Returns false if all packets share their metadata.
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

    /// Returns the metadata of packet `i`, collected from the common metadata, the packet's line, and the arrays of
    /// outer headers and connection tracking metadata.
    #[inline]
    fn own_meta_of(&mut self, i: usize) -> Meta {
        let mut meta = self.common.clone();
        if self.in_lines {
            let line = &self.lines[if self.shares_key { 0 } else { i % BATCH }];
            (meta.recirc_id, meta.dp_hash) = ((line[0] >> 32) as u32, line[6] as u32);
        }
        if !self.outers.is_empty() {
            meta.rare = self.outers.rare(i, &self.options);
        }
        self.tracked.copy_to(i, &mut meta);
        meta
    }

    /// Keeps a box of rare metadata for reuse.
    #[inline]
    pub(crate) fn recycle_rare(&mut self, rare: Option<Box<Rare>>) {
        self.tracked.free_rare.keep(rare);
    }

    /// Returns empty rare metadata, in a reused box if possible.
    #[inline]
    pub(crate) fn new_rare(&mut self) -> Box<Rare> {
        self.tracked.free_rare.take()
    }

    /// Copies the shared key to each packet, if the packets share one.
    pub(crate) fn unshare_key(&mut self) {
        if std::mem::take(&mut self.shares_key) {
            let n = self.len().min(BATCH);
            let (first, rest) = self.lines.split_at_mut(1);
            rest[..n.saturating_sub(1)].fill(first[0]);
        }
    }

    /// Writes labels and tuples of connections into the keys, if megaflows of the port match them.
    #[inline]
    pub(crate) fn fill_connections(&mut self) {
        if self.depth == Depth::Wide && self.words & CT_EXT_WORDS != 0 {
            self.tracked.fill(&mut self.exts, self.words);
        }
    }

    /// Clears the connection tracking metadata of these packets. Bit i: packet i.
    pub(crate) fn clear_tracking(&mut self, packets: u64) {
        let (n, keys) = (self.len(), self.key_bits());
        self.tracked.clear_some(packets, n);
        bits(packets & keys).for_each(|i| self.lines[i % BATCH][CT_LINE_WORD] = 0);
        if self.depth == Depth::Wide {
            for word in bits(self.words & CT_EXT_WORDS) {
                bits(packets & keys).for_each(|i| self.exts[word][i % BATCH] = 0);
            }
        }
    }

    /// Returns the metadata of packet `i`. It must be in `common` or `own` (see
    /// [`spread_metadata`](Self::spread_metadata)).
    #[inline]
    pub(crate) fn meta(&self, i: usize) -> &Meta {
        self.own.get(i).unwrap_or(&self.common)
    }

    /// Makes a packet of `frame`, which was taken out of the batch at index `i`.
    #[inline(always)]
    pub(crate) fn packet(&mut self, i: usize, frame: Frame) -> Packet {
        let own = self.own.get_mut(i).map(std::mem::take);
        Packet::new(frame, own.unwrap_or_else(|| self.own_meta_of(i)))
    }

    /// Returns whether all packets are Ethernet, none will be truncated, and none selects a QoS queue.
    #[inline]
    pub(crate) fn needs_only_frames(&self) -> bool {
        let plain = |meta: &Meta| meta.cut == 0 && meta.packet_type | meta.skb_priority == 0;
        if self.own.is_empty() { plain(&self.common) } else { self.own.iter().all(plain) }
    }

    /// Allocates the columns of wide keys, once per worker.
    pub(crate) fn widen(&mut self) {
        if self.exts.len() < EXT_WORDS {
            self.exts.resize(EXT_WORDS, [0; BATCH]);
        }
    }

    /// Sets these words of all keys to zero. They must be filled next.
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

    /// Returns all parts of wide keys except their lines.
    #[inline(always)]
    pub(crate) fn rests(&self) -> Rests<'_> {
        Rests { exts: &self.exts, options: &self.options, filled: self.words }
    }

    /// Records that no megaflow was found for the keys whose bit is set.
    pub(crate) fn set_missing(&mut self, keys: u64) {
        bits(keys).for_each(|i| self.found[i % BATCH] = NONE);
    }

    /// Number of keys: one per packet, or 1 if all packets have the same key.
    #[inline]
    pub(crate) fn keys(&self) -> usize {
        if self.shares_key { 1 } else { self.len() }
    }

    /// Returns a bit set with a bit for each key.
    #[inline]
    pub(crate) fn key_bits(&self) -> u64 {
        match self.keys() {
            0 => 0,
            n => u64::MAX >> (BATCH - n.min(BATCH)),
        }
    }
}

/// Changes the recirculation id and the hash in a key, for the next pass.
#[inline(always)]
pub(crate) fn recirculate_line(line: &mut Line, id: u32, dp_hash: Option<u32>) {
    line[0] = line[0] & 0xffff_ffff | u64::from(id) << 32;
    if let Some(dp_hash) = dp_hash {
        line[6] = line[6] & !0xffff_ffff | u64::from(dp_hash);
    }
}

/// Stores the megaflow of each of the first `n` packets whose bit in `hits` is set.
#[inline(always)]
pub(crate) fn store_found(found: &mut [u32; BATCH], n: usize, hits: u64, indices: &[u32; BATCH]) {
    if hits.count_ones() as usize == n {
        found[..n].copy_from_slice(&indices[..n]);
    } else {
        bits(hits).for_each(|i| found[i % BATCH] = indices[i % BATCH]);
    }
}
