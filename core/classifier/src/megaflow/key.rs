//! Keys of the datapath: one cache line with the fields of most packets (the *line*), and four more cache lines for rarer
//! fields (the *ext*).
//!
//! Layout of the line (most significant part of each word first):
//!
//! | word | contents |
//! |---|---|
//! | 0 | recirc_id 32, in_port 16, outer VLAN TCI 16 |
//! | 1 | dl_dst 48, dl_type 16 |
//! | 2 | dl_src 48, inner VLAN TCI 16 |
//! | 3 | nw_src 32, nw_dst 32 |
//! | 4 | tp_src 16, tp_dst 16, nw_proto 8, nw_tos 8, nw_ttl 8, nw_frag 8 |
//! | 5 | ct_state 8, 0 8, ct_zone 16, ct_mark 32 |
//! | 6 | pkt_mark 32, dp_hash 32 |
//! | 7 | tcp_flags 16, outer TPID 16, inner TPID 16, packet type 16 |
//!
//! The options of a tunnel header are another 33 words. Few packets have options, so they are stored beside the key. In
//! masks, the words of the options are numbered as if they followed the words of the ext.
//!
//! The packet type is 0 for Ethernet and the ethertype for a packet of layer 3.

use cpu::{Line, Secret};
use flow::Tlv;

/// Maximum number of packets in a batch.
pub const BATCH: usize = 64;

/// Number of words of an [`Ext`].
pub const EXT_WORDS: usize = 32;

/// Fields that are not in the line: IPv6 and ND addresses, ARP addresses, MPLS, tunnel, NSH, connection tuple and
/// label.
pub type Ext = [u64; EXT_WORDS];

/// Number of words of tunnel options: their length in bytes, then the bytes.
pub const OPTION_WORDS: usize = size_of::<Tlv>() / 8;

/// The options of a tunnel header. Few packets have any, so they are stored beside keys.
pub type Options = [u64; OPTION_WORDS];

/// Number of words of the line. The first secrets of the hash are for these words.
const LINE_WORDS: usize = size_of::<Line>() / 8;
const _: () = assert!(LINE_WORDS + EXT_WORDS + OPTION_WORDS <= cpu::hash::WORDS);

/// A set of words after the line: a bit for each word of an [`Ext`], and one bit for all words of the options.
pub type Words = u64;

/// All words after the line.
pub const ALL_WORDS: Words = (2 << EXT_WORDS) - 1;

/// The set that contains one word.
#[inline]
fn word_bit(at: u8) -> Words {
    1 << usize::from(at).min(EXT_WORDS)
}

/// One word of an [`Ext`] for all packets of a batch. A batch stores its exts by columns, so that an operation on one word
/// of all packets, such as hashing, reads memory in order, and words that no megaflow matches cause no cache misses.
pub type Column = [u64; BATCH];

/// A key without its line: ext and options. Words from [`EXT_WORDS`] on are words of the options.
#[derive(Clone, Copy)]
pub struct Rest<'a> {
    /// Contains the words of the ext, at a distance of `step` elements. Missing words are zero.
    ext: &'a [u64],
    /// 1 for a single ext, [`BATCH`] for the columns of a batch.
    step: usize,
    /// The options; `None` means that all their words are zero.
    options: Option<&'a Options>,
    /// The words that are filled. Other words have undefined values.
    pub filled: Words,
}

impl<'a> Rest<'a> {
    /// The rest of a key that was parsed to a lower depth than `Wide`.
    pub const NONE: Rest<'static> = Rest { ext: &[], step: 1, options: None, filled: 0 };

    /// The rest of a key that was parsed completely.
    #[inline]
    pub fn new(ext: &'a Ext, options: Option<&'a Options>) -> Rest<'a> {
        Rest { ext, step: 1, options, filled: ALL_WORDS }
    }

    /// One word.
    #[inline(always)]
    pub fn word(&self, at: u8) -> u64 {
        match usize::from(at) {
            at @ ..EXT_WORDS => self.ext.get(at * self.step).map_or(0, |word| *word),
            at => self.options.map_or(0, |o| o[(at - EXT_WORDS) % OPTION_WORDS]),
        }
    }
}

/// The rests of the keys of a batch.
#[derive(Clone, Copy)]
pub struct Rests<'a> {
    /// The exts, a column for each word; empty if the packets were parsed to a lower depth than `Wide`.
    pub exts: &'a [Column],
    /// Options of each packet; empty if no packet has any.
    pub options: &'a [Option<Box<Options>>],
    /// The words that are filled in all rests.
    pub filled: Words,
}

impl<'a> Rests<'a> {
    /// The rests of packets that were parsed to a lower depth than `Wide`.
    pub const NONE: Rests<'static> = Rests { exts: &[], options: &[], filled: 0 };

    /// The rest of packet `i`.
    #[inline(always)]
    pub fn of(&self, i: usize) -> Rest<'a> {
        let options = self.options.get(i).and_then(|o| o.as_deref());
        let ext = self.exts.as_flattened().get(i % BATCH..).unwrap_or_default();
        Rest { ext, step: BATCH, options, filled: self.filled }
    }
}

/// How deep a packet was parsed or must be parsed. Each depth includes the fields of the depths before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// Metadata only: the packet's bytes are not read.
    #[default]
    Port,
    /// Ethernet and VLAN.
    L2,
    /// Addresses, protocol, TOS, TTL, fragment bits.
    L3,
    /// Ports and TCP flags.
    L4,
    /// All fields, including those of the [`Ext`].
    Wide,
}

/// A packet's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The fields that most packets have.
    pub line: Line,
    /// The rarer fields; all zero unless `depth` is `Wide`.
    pub ext: Ext,
    /// Tunnel options.
    pub options: Option<Box<Options>>,
    /// The depth to which the packet was parsed.
    pub depth: Depth,
}

impl Key {
    /// The key without its line.
    #[inline]
    pub fn rest(&self) -> Rest<'_> {
        Rest::new(&self.ext, self.options.as_deref())
    }
}

/// One word of a [`Rest`] that is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestWord {
    /// Index of the word.
    pub at: u8,
    /// The matched bits.
    pub mask: u64,
    /// The values of the matched bits; zero in a [`KeyMask`].
    pub value: u64,
}

/// The bits of a key that are matched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyMask {
    /// Bits of the line.
    pub line: Line,
    /// The matched words of the rest, in order.
    pub ext: Box<[RestWord]>,
}

/// Bits of the line that depth L2 fills in addition to those of `Port`.
const L2_BITS: Line = [0xffff, u64::MAX, u64::MAX, 0, 0, 0, 0, 0x0000_ffff_ffff_0000];
/// Bits of the line that depth L3 fills in addition to those of L2.
const L3_BITS: Line = [0, 0, 0, u64::MAX, 0xffff_ffff, 0, 0, 0];
/// Bits of the line that depth L4 fills in addition to those of L3.
const L4_BITS: Line = [0, 0, 0, 0, 0xffff_ffff_0000_0000, 0, 0, 0xffff_0000_0000_0000];

/// Bits of the line that are equal for all packets of one kind: metadata, VLAN tags, Ethernet type, fragment bits.
pub const KIND_BITS: Line = [u64::MAX, 0xffff, 0xffff, 0, 0xff, u64::MAX, u64::MAX, 0x0000_ffff_ffff_ffff];

impl KeyMask {
    /// A mask of every bit of the line; also of every bit of the ext if this mask matches words after the line, and of every bit
    /// of the options if this mask matches options.
    pub fn exact(&self) -> KeyMask {
        let words = match self.ext.last() {
            None => 0,
            Some(w) if usize::from(w.at) < EXT_WORDS => EXT_WORDS,
            Some(_) => EXT_WORDS + OPTION_WORDS,
        };
        let every = |at| RestWord { at: at as u8, mask: u64::MAX, value: 0 };
        KeyMask { line: [u64::MAX; 8], ext: (0..words).map(every).collect() }
    }

    /// Makes a mask from the masks of the line, the ext and the options.
    pub fn new(line: Line, ext: &Ext, options: Option<&Options>) -> KeyMask {
        let mut words = Vec::new();
        let parts = [(0, &ext[..]), (EXT_WORDS, options.map_or(&[][..], |o| &o[..]))];
        for (first, part) in parts {
            flow::for_each_set_word(part, |i, mask| {
                words.push(RestWord { at: (first + i) as u8, mask, value: 0 })
            });
        }
        KeyMask { line, ext: words.into() }
    }

    /// The matched words of the rest.
    pub fn words(&self) -> Words {
        self.ext.iter().fold(0, |words, w| words | word_bit(w.at))
    }

    /// The mask of ext and options in full form.
    pub fn full_rest(&self) -> (Ext, Options) {
        full_rest(self.ext.iter().map(|w| (w.at, w.mask)))
    }

    /// Union of both masks.
    pub fn or(&self, other: &KeyMask) -> KeyMask {
        let (mut line, (mut ext, mut options)) = (self.line, self.full_rest());
        let (other_ext, other_options) = other.full_rest();
        line.iter_mut().zip(&other.line).for_each(|(l, m)| *l |= m);
        ext.iter_mut().zip(other_ext).for_each(|(e, m)| *e |= m);
        options.iter_mut().zip(other_options).for_each(|(o, m)| *o |= m);
        KeyMask::new(line, &ext, Some(&options))
    }

    /// The depth to which packets must be parsed for this mask.
    pub fn depth(&self) -> Depth {
        let any = |bits: &Line| self.line.iter().zip(bits).any(|(m, b)| m & b != 0);
        if !self.ext.is_empty() {
            Depth::Wide
        } else if any(&L4_BITS) {
            Depth::L4
        } else if any(&L3_BITS) {
            Depth::L3
        } else if any(&L2_BITS) {
            Depth::L2
        } else {
            Depth::Port
        }
    }

    /// Returns whether only [`KIND_BITS`] are matched.
    pub fn is_by_kind(&self) -> bool {
        self.ext.is_empty() && self.line.iter().zip(KIND_BITS).all(|(m, kind)| m & !kind == 0)
    }

    /// Hash of the matched bits of a key.
    #[inline]
    pub fn hash(&self, line: &Line, rest: Rest<'_>, secret: &Secret) -> u32 {
        if self.ext.is_empty() {
            return cpu::hash_line(line, &self.line, secret);
        }
        secret.reduce(self.add_rest(cpu::sum_line(line, &self.line, secret), rest, secret))
    }

    /// Computes the [`hash`](Self::hash) of each packet of a batch. Writes as many hashes as there are lines.
    #[inline(always)]
    pub fn hash_all(&self, lines: &[Line], rests: Rests<'_>, secret: &Secret, hashes: &mut [u32; BATCH]) {
        if self.ext.is_empty() {
            return cpu::hash_lines(lines, &self.line, secret, hashes);
        }
        let mut sums = [0; BATCH];
        let sums = &mut sums[..lines.len().min(BATCH)];
        cpu::sum_lines(lines, &self.line, secret, sums);
        for w in &self.ext {
            let place = (secret, LINE_WORDS + usize::from(w.at));
            match rests.exts.get(usize::from(w.at)) {
                Some(column) => cpu::add_column(column, w.mask, place, sums),
                None => {
                    let words: Column = std::array::from_fn(|i| rests.of(i).word(w.at));
                    cpu::add_column(&words, w.mask, place, sums);
                }
            }
        }
        cpu::reduce_sums(sums, secret, hashes);
    }

    /// Adds the words of the rest to the sum of a line.
    #[inline(always)]
    fn add_rest(&self, sum: u64, rest: Rest<'_>, secret: &Secret) -> u64 {
        let term = |w: &RestWord| secret.term(LINE_WORDS + usize::from(w.at), rest.word(w.at) & w.mask);
        self.ext.iter().map(term).fold(sum, u64::wrapping_add)
    }
}

/// Ext and options in full form, from the words that are not zero.
pub(super) fn full_rest(words: impl Iterator<Item = (u8, u64)>) -> (Ext, Options) {
    let mut all = [0; EXT_WORDS + OPTION_WORDS];
    for (at, word) in words {
        all[usize::from(at) % (EXT_WORDS + OPTION_WORDS)] = word;
    }
    let (mut ext, mut options) = ([0; EXT_WORDS], [0; OPTION_WORDS]);
    ext.copy_from_slice(&all[..EXT_WORDS]);
    options.copy_from_slice(&all[EXT_WORDS..]);
    (ext, options)
}

/// The bits of the line that are equal in all packets of a flow. Caches that do not know the masks hash these bits. TOS, TTL,
/// fragment bits, TCP flags and the like are left out, because they differ between packets of one flow.
pub const FLOW_BITS: Line =
    [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0xffff_ffff_ff00_0000, u64::MAX, u64::MAX, 0];
