//! Connection tracking metadata of the packets of a batch, kept beside them while they stay in the batch from one pass to the next.
//!
//! State, zone and mark are also in the packets' lines. Label and tuple are written into keys only if megaflows of the port match them.

use crate::packet::{Meta, Rare};
use classifier::megaflow::convert::{CT_LABEL_AT, CT_SIX_AT, CT_TUPLE_AT};
use classifier::megaflow::{Column, Words, bits};
use conntrack::{Known, Metadata, Tuple};
use cpu::Line;

/// The words of a key after its line that contain connection tracking metadata.
pub(crate) const CONNECTION_WORDS: Words = 0b11 << CT_TUPLE_AT | 0b11 << CT_LABEL_AT | 0b1111 << CT_SIX_AT;

/// Metadata of all packets of a batch, or of none if no packet was tracked.
#[derive(Default)]
pub(crate) struct Tracked {
    /// Elements from `len` on are left over from earlier batches.
    known: Vec<Metadata>,
    len: usize,
    pub(crate) unused: UnusedRare,
}

/// Boxes of rare metadata that no packet needs any more, kept for their memory.
#[derive(Default)]
#[allow(clippy::vec_box, reason = "boxes are given to packets and taken back")]
pub(crate) struct UnusedRare(Vec<Box<Rare>>);

/// How many boxes are kept: those of the packets that are recirculated at the same time.
const KEEP_RARE: usize = 256;

impl UnusedRare {
    /// Keeps a box, if there is one.
    #[inline]
    pub(crate) fn keep(&mut self, rare: Option<Box<Rare>>) {
        if let Some(rare) = rare
            && self.0.len() < KEEP_RARE
        {
            self.0.push(rare);
        }
    }

    /// Returns empty rare metadata, in memory that was used before if there is any.
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

    /// Returns the metadata of all `n` packets of a batch, for the caller to fill. `true`: no packet was tracked yet; the values have no
    /// meaning.
    #[inline]
    pub(crate) fn open(&mut self, n: usize) -> (&mut [Metadata], bool) {
        if self.known.len() < n {
            self.known.resize(n, Metadata::default());
        }
        let fresh = self.len == 0;
        if !fresh && self.len < n {
            self.known[self.len..n].fill(Metadata::default());
        }
        self.len = n;
        (&mut self.known[..n], fresh)
    }

    fn known(&self) -> &[Metadata] {
        &self.known[..self.len]
    }

    /// Forgets the connections that were found for these packets, so that the next `ct` looks them up.
    pub(crate) fn forget_connections(&mut self, which: u64) {
        for i in bits(which).take_while(|i| *i < self.len) {
            self.known[i].known = Known::default();
        }
    }

    /// Clears the metadata of these packets of a batch of `n`.
    pub(crate) fn clear_some(&mut self, which: u64, n: usize) {
        if which.trailing_ones() as usize >= n {
            return self.clear();
        }
        for i in bits(which).take_while(|i| *i < self.len) {
            self.known[i] = Metadata::default();
        }
    }

    /// Moves the metadata of packet `from` to place `to`.
    #[inline]
    pub(crate) fn move_to(&mut self, from: usize, to: usize) {
        if from < self.len && to < self.len {
            self.known.swap(from, to);
        }
    }

    /// Copies the metadata of packet `i` into `meta`, for a packet that leaves its batch.
    #[inline]
    pub(crate) fn put(&mut self, i: usize, meta: &mut Meta) {
        let Tracked { known, len, unused } = self;
        let Some(known) = known[..*len].get(i) else { return };
        (meta.ct_state, meta.ct_zone, meta.ct_mark) = (known.state, known.zone, known.mark);
        meta.ct_known = known.known;
        if known.state != 0 {
            let rare = meta.rare.get_or_insert_with(|| unused.take());
            (rare.ct_label, rare.ct_tuple) = (known.label, known.tuple);
        }
    }

    /// Fills those of `words` that contain connection tracking metadata.
    pub(crate) fn fill(&self, columns: &mut [Column], words: Words) {
        let mut put = |at: usize, i: usize, word: u64| {
            if words >> at & 1 != 0
                && let Some(place) = columns.get_mut(at).and_then(|column| column.get_mut(i))
            {
                *place = word;
            }
        };
        for (i, known) in self.known().iter().enumerate() {
            let Tuple { proto, v6, src, dst, tp_src, tp_dst } = known.tuple;
            let ports = u64::from(tp_src) << 48 | u64::from(tp_dst) << 32 | u64::from(proto);
            let (four, six) = match v6 {
                true => (0, [src[0], src[1], dst[0], dst[1]]),
                false => (src[1] << 32 | dst[1] & 0xffff_ffff, [0; 4]),
            };
            let [high, low] = known.label;
            let words =
                [(CT_TUPLE_AT, four), (CT_TUPLE_AT + 1, ports), (CT_LABEL_AT, high), (CT_LABEL_AT + 1, low)];
            words.into_iter().for_each(|(at, word)| put(at, i, word));
            six.into_iter().enumerate().for_each(|(n, word)| put(CT_SIX_AT + n, i, word));
        }
    }
}

/// The word of a line that contains connection tracking metadata.
pub(crate) const CONNECTION_WORD: usize = 5;

/// The [`CONNECTION_WORD`] of a line with this metadata.
#[inline(always)]
fn word(known: &Metadata) -> u64 {
    u64::from(known.state) << 56 | u64::from(known.zone) << 32 | u64::from(known.mark)
}

/// Writes state, zone and mark into the line of a packet.
#[inline(always)]
pub(crate) fn write_line(line: &mut Line, known: &Metadata) {
    line[CONNECTION_WORD] = word(known);
}
