//! Keys of the datapath: one cache line for most packets, four more words by four for the rest.
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
//! Options of a tunnel's header, another 33 words, are in no key: the few packets that have any carry them beside it, and
//! masks name their words as if they followed the others.
//!
//! The packet type is 0 for Ethernet and the ethertype for a packet of layer 3.

use super::lookup::BATCH;
use cpu::{Line, Secret};
use flow::Tlv;

/// Words of an [`Ext`].
pub const EXT_WORDS: usize = 32;

/// What does not fit the line: IPv6 and ND addresses, ARP addresses, MPLS, tunnel, NSH, connection tuple and
/// label.
pub type Ext = [u64; EXT_WORDS];

/// Words of tunnel options: how many bytes there are, and the bytes.
pub const OPTION_WORDS: usize = size_of::<Tlv>() / 8;

/// The options of a tunnel's header. Hardly a packet has any, so keys do not hold them: they stand beside.
pub type Options = [u64; OPTION_WORDS];

/// Words of the line, whose secrets come first.
const LINE_WORDS: usize = size_of::<Line>() / 8;
const _: () = assert!(LINE_WORDS + EXT_WORDS + OPTION_WORDS <= cpu::hash::WORDS);

/// A set of words behind the line: a bit for each of an [`Ext`], and one for all of the options together.
pub type Words = u64;

/// All words behind the line.
pub const ALL_WORDS: Words = (2 << EXT_WORDS) - 1;

/// The set of one word.
#[inline]
fn word_bit(at: u8) -> Words {
    1 << usize::from(at).min(EXT_WORDS)
}

/// One word of an [`Ext`], of all packets of a batch. A batch holds its exts by columns: what looks at one word of all
/// packets, as hashing does, reads memory in order, and words that no megaflow looks at are in no cache line that is read.
pub type Column = [u64; BATCH];

/// All of a key but its line. Words from [`EXT_WORDS`] on are those of the options.
#[derive(Clone, Copy)]
pub struct Rest<'a> {
    /// The words of the ext, `step` places apart. Those that are not there are zero.
    ext: &'a [u64],
    step: usize,
    /// `None`: no options, as if all their words were zero.
    options: Option<&'a Options>,
    /// Which words are filled. The others may be anything.
    pub known: Words,
}

impl<'a> Rest<'a> {
    /// Of a key that was parsed less deeply.
    pub const NONE: Rest<'static> = Rest { ext: &[], step: 1, options: None, known: 0 };

    /// Of a key that was parsed to the end.
    #[inline]
    pub fn new(ext: &'a Ext, options: Option<&'a Options>) -> Rest<'a> {
        Rest { ext, step: 1, options, known: ALL_WORDS }
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
    /// Their exts, a column for each word; none where the packets were parsed less deeply.
    pub exts: &'a [Column],
    /// Of each; none where no packet has any.
    pub options: &'a [Option<Box<Options>>],
    /// Which words are filled, of all.
    pub known: Words,
}

impl<'a> Rests<'a> {
    /// Of packets that were parsed less deeply.
    pub const NONE: Rests<'static> = Rests { exts: &[], options: &[], known: 0 };

    /// That of packet `i`.
    #[inline(always)]
    pub fn of(&self, i: usize) -> Rest<'a> {
        let options = self.options.get(i).and_then(|o| o.as_deref());
        let ext = self.exts.as_flattened().get(i % BATCH..).unwrap_or_default();
        Rest { ext, step: BATCH, options, known: self.known }
    }
}

/// How deep a packet was, or must be, parsed. Each depth fills its fields and those of the depths before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// Metadata alone: the packet is not read.
    #[default]
    Port,
    /// Ethernet and VLAN.
    L2,
    /// Addresses, protocol, TOS, TTL, fragment bits.
    L3,
    /// Ports and TCP flags.
    L4,
    /// Everything, with an [`Ext`].
    Wide,
}

/// A packet's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What most packets have.
    pub line: Line,
    /// The rest; all zero unless `depth` is `Wide`.
    pub ext: Ext,
    /// Tunnel options.
    pub options: Option<Box<Options>>,
    /// How deep the packet was parsed.
    pub depth: Depth,
}

impl Key {
    /// All but the line.
    #[inline]
    pub fn rest(&self) -> Rest<'_> {
        Rest::new(&self.ext, self.options.as_deref())
    }
}

/// One word of a [`Rest`] that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtWord {
    /// Which word.
    pub at: u8,
    /// Which bits.
    pub mask: u64,
    /// Their values; zero in a mask.
    pub value: u64,
}

/// Which bits of a key count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyMask {
    /// Bits of the line.
    pub line: Line,
    /// Words of the rest that count, in order.
    pub ext: Box<[ExtWord]>,
}

/// Bits of the line that a depth fills, beyond those of the depth before.
const L2_BITS: Line = [0xffff, u64::MAX, u64::MAX, 0, 0, 0, 0, 0x0000_ffff_ffff_0000];
const L3_BITS: Line = [0, 0, 0, u64::MAX, 0xffff_ffff, 0, 0, 0];
const L4_BITS: Line = [0, 0, 0, 0, 0xffff_ffff_0000_0000, 0, 0, 0xffff_0000_0000_0000];

/// Bits of the line that packets of one kind have in common: metadata, VLAN tags, Ethernet type, fragment bits.
pub const KIND_BITS: Line = [u64::MAX, 0xffff, 0xffff, 0, 0xff, u64::MAX, u64::MAX, 0x0000_ffff_ffff_ffff];

impl KeyMask {
    /// Every bit of the line, and of what else this mask looks at: the rest, options.
    pub fn exact(&self) -> KeyMask {
        let words = match self.ext.last() {
            None => 0,
            Some(w) if usize::from(w.at) < EXT_WORDS => EXT_WORDS,
            Some(_) => EXT_WORDS + OPTION_WORDS,
        };
        let every = |at| ExtWord { at: at as u8, mask: u64::MAX, value: 0 };
        KeyMask { line: [u64::MAX; 8], ext: (0..words).map(every).collect() }
    }

    /// From the line and all words of the rest.
    pub fn new(line: Line, rest: Rest<'_>) -> KeyMask {
        let all = (0..(EXT_WORDS + OPTION_WORDS) as u8).map(|at| (at, rest.word(at)));
        let words = all.filter(|(_, mask)| *mask != 0).map(|(at, mask)| ExtWord { at, mask, value: 0 });
        KeyMask { line, ext: words.collect() }
    }

    /// The words of the rest that count.
    pub fn words(&self) -> Words {
        self.ext.iter().fold(0, |words, w| words | word_bit(w.at))
    }

    /// All words of the rest.
    pub fn full_rest(&self) -> (Ext, Options) {
        full_rest(self.ext.iter().map(|w| (w.at, w.mask)))
    }

    /// The bits of both.
    pub fn or(&self, other: &KeyMask) -> KeyMask {
        let (mut line, (mut ext, mut options)) = (self.line, self.full_rest());
        let (other_ext, other_options) = other.full_rest();
        line.iter_mut().zip(&other.line).for_each(|(l, m)| *l |= m);
        ext.iter_mut().zip(other_ext).for_each(|(e, m)| *e |= m);
        options.iter_mut().zip(other_options).for_each(|(o, m)| *o |= m);
        KeyMask::new(line, Rest::new(&ext, Some(&options)))
    }

    /// How deep a packet must be parsed for this mask.
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

    /// Nothing but [`KIND_BITS`] counts.
    pub fn is_by_kind(&self) -> bool {
        self.ext.is_empty() && self.line.iter().zip(KIND_BITS).all(|(m, kind)| m & !kind == 0)
    }

    /// Hash of the bits of a key that count.
    #[inline]
    pub fn hash(&self, line: &Line, rest: Rest<'_>, secret: &Secret) -> u32 {
        if self.ext.is_empty() {
            return cpu::hash_line(line, &self.line, secret);
        }
        secret.reduce(self.add_rest(cpu::sum_line(line, &self.line, secret), rest, secret))
    }

    /// [`hash`](Self::hash) of a batch. Writes as many hashes as there are lines.
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
        let term = |w: &ExtWord| secret.term(LINE_WORDS + usize::from(w.at), rest.word(w.at) & w.mask);
        self.ext.iter().map(term).fold(sum, u64::wrapping_add)
    }
}

/// Words at their places.
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

/// The words that do not describe one packet more than another of its flow: what the cache's hash covers. TOS, TTL,
/// fragment bits, TCP flags and the like differ between packets of one flow.
pub const FLOW_BITS: Line =
    [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0xffff_ffff_ff00_0000, u64::MAX, u64::MAX, 0];
