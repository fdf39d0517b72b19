//! Connections of a batch's packets: what `ct` has found out about each, while the packets stay in the batch from one pass to
//! the next.
//!
//! State, zone and mark are in the packets' lines, too. Label and tuple are written into keys only where megaflows of the port
//! look at them.

use crate::packet::{Meta, Rare};
use classifier::megaflow::convert::{CT_LABEL_AT, CT_SIX_AT, CT_TUPLE_AT};
use classifier::megaflow::{Column, Words};
use conntrack::{Metadata, Tuple};
use cpu::Line;

/// The words of a key behind its line that are filled from here.
pub(crate) const CONNECTION_WORDS: Words = 0b11 << CT_TUPLE_AT | 0b11 << CT_LABEL_AT | 0b1111 << CT_SIX_AT;

/// Of each packet of a batch, or of none.
#[derive(Default)]
pub(crate) struct Tracked {
    /// What lies behind the first `len` is of earlier batches.
    known: Vec<Metadata>,
    len: usize,
}

impl Tracked {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Of all `n` packets of a batch, which the caller fills; `true`: none was tracked yet, whatever is there.
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

    /// Takes what is known of packet `from` to place `to`.
    #[inline]
    pub(crate) fn move_to(&mut self, from: usize, to: usize) {
        if from < self.len && to < self.len {
            self.known.swap(from, to);
        }
    }

    /// Writes it into the metadata of a packet that leaves its batch. `rare` gives memory for what few packets have.
    #[inline]
    pub(crate) fn put(&self, i: usize, meta: &mut Meta, rare: impl FnOnce() -> Box<Rare>) {
        let Some(known) = self.known().get(i) else { return };
        (meta.ct_state, meta.ct_zone, meta.ct_mark) = (known.state, known.zone, known.mark);
        meta.ct_known = known.known;
        if known.state != 0 {
            let rare = meta.rare.get_or_insert_with(rare);
            (rare.ct_label, rare.ct_tuple) = (known.label, known.tuple);
        }
    }

    /// Fills those of `words` that are filled from here.
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

/// Word 5 of the line of a packet of which this is known.
#[inline(always)]
fn word(known: &Metadata) -> u64 {
    u64::from(known.state) << 56 | u64::from(known.zone) << 32 | u64::from(known.mark)
}

/// Writes state, zone and mark into the line of a packet.
#[inline(always)]
pub(crate) fn write_line(line: &mut Line, known: &Metadata) {
    line[5] = word(known);
}
