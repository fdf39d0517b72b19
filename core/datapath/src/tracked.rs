//! Connection tracking metadata of the packets of a batch, kept in an array while they stay in the batch from one
//! pass to the next.
//!
//! State, zone and mark are also in the first cache line of each packet's key. Label and tuple are written into keys
//! only if megaflows of the port match them.

use crate::packet::{Meta, Rare};
use classifier::megaflow::convert::{CT_IPV6_AT, CT_LABEL_AT, CT_TUPLE_AT};
use classifier::megaflow::{Column, Words, bits};
use conntrack::{EarlierLookUp, Metadata, Tuple};
use cpu::Line;

/// The words of a key after its line that contain connection tracking metadata.
pub(crate) const CT_EXT_WORDS: Words = 0b11 << CT_TUPLE_AT | 0b11 << CT_LABEL_AT | 0b1111 << CT_IPV6_AT;

/// Metadata of all packets of a batch, or of none if no packet was tracked.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Metadata by packet. Elements from `len` on are left over from earlier batches.
    metadata: Vec<Metadata>,
    len: usize,
    pub(crate) free_rare: RareFreeList,
}

/// Free list of boxes for rarely needed metadata, to avoid an allocation per packet.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "boxes are given to packets and taken back")]
pub(crate) struct RareFreeList(Vec<Box<Rare>>);

/// Maximum number of boxes that are kept: enough for the packets that are recirculated at the same time.
const KEEP_RARE: usize = 256;

impl RareFreeList {
    /// Keeps a box, if there is one.
    #[inline]
    pub(crate) fn keep(&mut self, rare: Option<Box<Rare>>) {
        if let Some(rare) = rare
            && self.0.len() < KEEP_RARE
        {
            self.0.push(rare);
        }
    }

    /// Returns empty rare metadata, in a reused box if possible.
    #[inline]
    pub(crate) fn take(&mut self) -> Box<Rare> {
        let Some(mut rare) = self.0.pop() else { return Box::default() };
        *rare = Rare::default();
        rare
    }
}

impl Tracked {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the metadata of all `n` packets of a batch, for the caller to fill, and whether no packet was tracked
    /// yet: then all values are left over from earlier batches.
    #[inline]
    pub(crate) fn metadata_of(&mut self, n: usize) -> (&mut [Metadata], bool) {
        if self.metadata.len() < n {
            self.metadata.resize(n, Metadata::default());
        }
        let fresh = self.len == 0;
        if !fresh && self.len < n {
            self.metadata[self.len..n].fill(Metadata::default());
        }
        self.len = n;
        (&mut self.metadata[..n], fresh)
    }

    fn metadata(&self) -> &[Metadata] {
        &self.metadata[..self.len]
    }

    /// Forgets the connections that were found for these packets, so that the next `ct` looks them up. Bit i: packet
    /// i.
    pub(crate) fn forget_connections(&mut self, packets: u64) {
        for i in bits(packets).take_while(|i| *i < self.len) {
            self.metadata[i].earlier = EarlierLookUp::default();
        }
    }

    /// Clears the metadata of these packets of a batch of `n`. Bit i: packet i.
    pub(crate) fn clear_some(&mut self, packets: u64, n: usize) {
        if packets.trailing_ones() as usize >= n {
            return self.clear();
        }
        for i in bits(packets).take_while(|i| *i < self.len) {
            self.metadata[i] = Metadata::default();
        }
    }

    /// Swaps the metadata of packets `from` and `to`.
    #[inline]
    pub(crate) fn swap(&mut self, from: usize, to: usize) {
        if from < self.len && to < self.len {
            self.metadata.swap(from, to);
        }
    }

    /// Copies the metadata of packet `i` into `meta`, for a packet that leaves its batch.
    #[inline]
    pub(crate) fn copy_to(&mut self, i: usize, meta: &mut Meta) {
        let Tracked { metadata, len, free_rare } = self;
        let Some(own) = metadata[..*len].get(i) else { return };
        (meta.ct_state, meta.ct_zone, meta.ct_mark) = (own.state, own.zone, own.mark);
        meta.ct_earlier = own.earlier;
        if own.state != 0 {
            let rare = meta.rare.get_or_insert_with(|| free_rare.take());
            (rare.ct_label, rare.ct_tuple) = (own.label, own.tuple);
        }
    }

    /// Writes connection tracking metadata into the columns of keys that `words` selects.
    pub(crate) fn fill(&self, columns: &mut [Column], words: Words) {
        let mut put = |at: usize, i: usize, word: u64| {
            if words >> at & 1 != 0
                && let Some(slot) = columns.get_mut(at).and_then(|column| column.get_mut(i))
            {
                *slot = word;
            }
        };
        for (i, own) in self.metadata().iter().enumerate() {
            let Tuple { proto, v6, src, dst, tp_src, tp_dst } = own.tuple;
            let ports = u64::from(tp_src) << 48 | u64::from(tp_dst) << 32 | u64::from(proto);
            let (ipv4, ipv6) = match v6 {
                true => (0, [src[0], src[1], dst[0], dst[1]]),
                false => (src[1] << 32 | dst[1] & 0xffff_ffff, [0; 4]),
            };
            let [high, low] = own.label;
            let words =
                [(CT_TUPLE_AT, ipv4), (CT_TUPLE_AT + 1, ports), (CT_LABEL_AT, high), (CT_LABEL_AT + 1, low)];
            words.into_iter().for_each(|(at, word)| put(at, i, word));
            ipv6.into_iter().enumerate().for_each(|(n, word)| put(CT_IPV6_AT + n, i, word));
        }
    }
}

/// Index of the word of a line that contains state, zone and mark.
pub(crate) const CT_LINE_WORD: usize = 5;

/// Returns this word of a line for this metadata.
#[inline(always)]
fn word(metadata: &Metadata) -> u64 {
    u64::from(metadata.state) << 56 | u64::from(metadata.zone) << 32 | u64::from(metadata.mark)
}

/// Writes state, zone and mark into the line of a packet.
#[inline(always)]
pub(crate) fn write_line(line: &mut Line, metadata: &Metadata) {
    line[CT_LINE_WORD] = word(metadata);
}
