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
//! The packet type is 0 for Ethernet and the ethertype for a packet of layer 3.

use cpu::Line;

/// Words of an [`Ext`].
pub const EXT_WORDS: usize = 32;

/// What does not fit the line: IPv6 and ND addresses, ARP addresses, MPLS, tunnel, NSH, connection tuple and
/// label.
pub type Ext = [u64; EXT_WORDS];

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// What most packets have.
    pub line: Line,
    /// The rest; all zero unless `depth` is `Wide`.
    pub ext: Ext,
    /// How deep the packet was parsed.
    pub depth: Depth,
}

/// One word of an [`Ext`] that counts.
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
    /// Every bit of the line; with `wide`, of the rest too.
    pub fn exact(wide: bool) -> KeyMask {
        let ext = if wide { &[u64::MAX; EXT_WORDS][..] } else { &[] };
        KeyMask { line: [u64::MAX; 8], ext: ext_words(ext) }
    }

    /// From the line and all words of the rest.
    pub fn new(line: Line, ext: &Ext) -> KeyMask {
        KeyMask { line, ext: ext_words(ext) }
    }

    /// All words of the rest.
    pub fn full_ext(&self) -> Ext {
        let mut ext = [0; EXT_WORDS];
        for w in &self.ext {
            ext[usize::from(w.at) % EXT_WORDS] = w.mask;
        }
        ext
    }

    /// The bits of both.
    pub fn or(&self, other: &KeyMask) -> KeyMask {
        let (mut line, mut ext) = (self.line, self.full_ext());
        line.iter_mut().zip(&other.line).for_each(|(l, m)| *l |= m);
        ext.iter_mut().zip(other.full_ext()).for_each(|(e, m)| *e |= m);
        KeyMask::new(line, &ext)
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
    pub fn hash(&self, line: &Line, ext: &Ext, seed: u32) -> u32 {
        self.hash_ext(cpu::hash_line(line, &self.line, seed), ext)
    }

    /// Adds the words of the rest to a hash of the line.
    #[inline]
    pub fn hash_ext(&self, mut hash: u32, ext: &Ext) -> u32 {
        for w in &self.ext {
            let v = ext[usize::from(w.at) % EXT_WORDS] & w.mask;
            hash = cpu::mix32(hash ^ v as u32, (v >> 32) as u32);
        }
        hash
    }
}

fn ext_words(ext: &[u64]) -> Box<[ExtWord]> {
    let words = ext.iter().enumerate().filter(|(_, m)| **m != 0);
    words.map(|(at, &mask)| ExtWord { at: at as u8, mask, value: 0 }).collect()
}

/// The words that do not describe one packet more than another of its flow: what the cache's hash covers. TOS, TTL,
/// fragment bits, TCP flags and the like differ between packets of one flow.
pub const FLOW_BITS: Line =
    [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0xffff_ffff_ff00_0000, u64::MAX, u64::MAX, 0];
