//! Tests whether a packet can match both a megaflow and a given match, to find the megaflows that a table change affects.

use super::convert::{ext_of, line_of};
use super::key::{KeyMask, full_rest};
use super::table::Megaflow;
use flow::{Flow, Match};

/// The word of the line that distinguishes most megaflows: the IPv4 or ARP addresses.
const ADDRESSES: usize = 3;

/// A match on packets, converted to the words of keys. Fields that keys do not have are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    line: Box<[Word]>,
    ext: Box<[Word]>,
    /// Mask and value of the addresses; zero if they are not matched.
    addresses: (u64, u64),
}

/// A megaflow's match on the address word. A search scans the address matches of all megaflows (16 bytes each), which excludes
/// most megaflows without reading their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressMatch {
    value: u64,
    mask: u64,
}

impl AddressMatch {
    /// Returns false if the address word alone shows that no packet can match both the megaflow and the pattern.
    #[inline]
    pub fn may_overlap(&self, pattern: &Pattern) -> bool {
        let (mask, value) = pattern.addresses;
        (self.value ^ value) & self.mask & mask == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    at: u8,
    mask: u64,
    value: u64,
}

impl From<&Match> for Pattern {
    fn from(m: &Match) -> Pattern {
        let (mask, value) = (line_of(&m.mask), line_of(&m.flow));
        Pattern {
            line: words(&mask, &value),
            ext: words(&ext_of(&m.mask), &ext_of(&m.flow)),
            addresses: (mask[ADDRESSES], value[ADDRESSES]),
        }
    }
}

fn words(masks: &[u64], values: &[u64]) -> Box<[Word]> {
    let all = masks.iter().zip(values).enumerate().filter(|(_, (mask, _))| **mask != 0);
    all.map(|(at, (&mask, &value))| Word { at: at as u8, mask, value: value & mask }).collect()
}

impl<P> Megaflow<P> {
    /// Returns whether some packet may match both the megaflow and the pattern.
    pub fn overlaps(&self, pattern: &Pattern) -> bool {
        let line = |w: &Word| {
            let at = usize::from(w.at) % self.line.len();
            (self.line[at] ^ w.value) & self.mask[at] & w.mask == 0
        };
        let ext = |w: &Word| {
            let own = self.ext.iter().find(|own| own.at == w.at);
            own.is_none_or(|own| (own.value ^ w.value) & own.mask & w.mask == 0)
        };
        pattern.line.iter().all(line) && pattern.ext.iter().all(ext)
    }

    /// The megaflow's match on the address word.
    pub fn address_match(&self) -> AddressMatch {
        AddressMatch { value: self.line[ADDRESSES], mask: self.mask[ADDRESSES] }
    }

    /// The bits that the megaflow matches.
    pub fn mask(&self) -> Flow {
        let (ext, options) = full_rest(self.ext.iter().map(|w| (w.at, w.mask)));
        KeyMask::new(self.mask, &ext, Some(&options)).to_flow()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{InsertResult, Key, MegaflowTable};
    use super::*;

    fn on(set: impl Fn(&mut Flow, &mut Flow)) -> Match {
        let (mut value, mut mask) = (Flow::ZERO, Flow::ZERO);
        set(&mut value, &mut mask);
        Match::new(&value, &mask)
    }

    #[test]
    fn only_bits_that_both_match_keep_them_apart() {
        let (_table, mut publisher) = MegaflowTable::new(10, 10, 1);
        let key =
            Flow { in_port: 1, nw_dst: 0x0a00_0001, nw_src: 5, ipv6_label: 3, tp_dst: 80, ..Flow::ZERO };
        let mask = Flow { nw_dst: 0xffff_ff00, ipv6_label: u32::MAX, tp_dst: 0xffff, ..Flow::ZERO };
        let mask = KeyMask::from_flow(&mask);
        let InsertResult::New(index) = publisher.insert(1, &Key::from_flow(&key), &mask, ()) else {
            panic!()
        };
        let megaflow = publisher.get(index).unwrap();
        assert_eq!(megaflow.mask(), mask.to_flow());
        let overlaps = |m: Match| {
            let pattern = Pattern::from(&m);
            assert!(megaflow.address_match().may_overlap(&pattern) || !megaflow.overlaps(&pattern));
            megaflow.overlaps(&pattern)
        };
        assert!(overlaps(Match::CATCHALL));
        assert!(overlaps(on(|v, m| (v.nw_dst, m.nw_dst) = (0x0a00_0002, u32::MAX))));
        assert!(!overlaps(on(|v, m| (v.nw_dst, m.nw_dst) = (0x0a00_0102, u32::MAX))));
        assert!(overlaps(on(|v, m| (v.nw_src, m.nw_src) = (6, u32::MAX))));
        assert!(!overlaps(on(|v, m| (v.ipv6_label, m.ipv6_label) = (4, u32::MAX))));
        assert!(!overlaps(on(|v, m| (v.tp_dst, m.tp_dst) = (81, u16::MAX))));
        let other = on(|v, m| (v.nw_dst, m.nw_dst) = (0x0a00_0102, u32::MAX));
        assert!(!megaflow.address_match().may_overlap(&Pattern::from(&other)));
    }
}
