//! The IOTLB of a guest with an IOMMU: the translations that the front-end has sent.
//!
//! The driver of such a guest (`VIRTIO_F_ACCESS_PLATFORM`) gives the device I/O virtual addresses (IOVA). The front-end translates them to
//! addresses in its own address space. The switch keeps translations until the front-end invalidates them. If one is missing, the switch
//! requests it by a message and continues when the front-end has sent it.
//!
//! An [`Iotlb`] is not changed while a ring uses it: the serving thread changes a copy, and gives it to each ring under the ring's lock
//! ([`crate::device`]).
//!
//! Source: vhost-user specification, "IOMMU support".

use crate::ring::RingError;

/// Maximum number of translations of one guest; DPDK's library has the same limit. 2,048 pages of 4 KB are the buffers of four queue pairs
/// with rings of 256 descriptors.
pub(crate) const ENTRIES_MAX: usize = 2048;

/// Bytes of the smallest page that IOMMUs translate. Translations are requested for such pages.
pub(crate) const PAGE: u64 = 4096;

/// Kinds of access to memory, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(u8);

impl Access {
    /// `VHOST_ACCESS_RO`
    pub const READ: Access = Access(1);
    /// `VHOST_ACCESS_WO`
    pub const WRITE: Access = Access(2);
    /// `VHOST_ACCESS_RW`
    pub const BOTH: Access = Access(3);

    /// The access with this value in a message; `None`: there is no such value.
    pub fn from_bits(bits: u8) -> Option<Access> {
        (1..=3).contains(&bits).then_some(Access(bits))
    }

    /// The value in a message.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether every access in `other` is one of these.
    #[inline]
    pub fn includes(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// The accesses in either.
    pub fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// A range of I/O virtual addresses, from the first to the last, so that it may end at the end of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IovaRange {
    pub first: u64,
    pub last: u64,
}

impl IovaRange {
    /// All addresses.
    pub const ALL: IovaRange = IovaRange { first: 0, last: u64::MAX };

    /// The range of `size` bytes; `None`: it is empty or wraps around.
    pub fn new(first: u64, size: u64) -> Option<IovaRange> {
        let last = first.checked_add(size.checked_sub(1)?)?;
        Some(IovaRange { first, last })
    }

    pub fn overlaps(self, other: IovaRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    #[inline]
    pub fn contains(self, address: u64) -> bool {
        (self.first..=self.last).contains(&address)
    }
}

/// One translation. It is within one region of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    range: IovaRange,
    /// The front-end's address of the first byte.
    user: u64,
    access: Access,
}

impl Entry {
    /// The part of the entry from `first` to `last`, which are in its range.
    fn part(&self, first: u64, last: u64) -> Entry {
        Entry { range: IovaRange { first, last }, user: self.user + (first - self.range.first), ..*self }
    }
}

/// The translations of one guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Iotlb {
    /// In the order of their addresses, without overlaps; at most [`ENTRIES_MAX`].
    entries: Vec<Entry>,
    /// Index of the entry that is evicted next.
    next_victim: usize,
}

impl Iotlb {
    /// Adds a translation, which replaces the older ones of the same addresses. If there are too many entries, another one is evicted.
    ///
    /// The caller has checked that the bytes at `user` are in one region of the guest's memory.
    pub fn insert(&mut self, range: IovaRange, user: u64, access: Access) {
        self.cut_out(range);
        let at = self.entries.partition_point(|entry| entry.range.first < range.first);
        self.entries.insert(at, Entry { range, user, access });
        self.evict(Some(range));
    }

    /// Removes the translations of these addresses.
    pub fn remove(&mut self, range: IovaRange) {
        self.cut_out(range);
        self.evict(None);
    }

    /// Removes the translations to memory for which `is_mapped` is false. It gets an address of the front-end and the number of bytes.
    pub fn retain(&mut self, is_mapped: impl Fn(u64, u64) -> bool) {
        self.entries.retain(|e| is_mapped(e.user, (e.range.last - e.range.first).saturating_add(1)));
    }

    /// Removes the translations of a range. Of an entry that is only partly in the range, the parts before and after remain.
    fn cut_out(&mut self, range: IovaRange) {
        let start = self.entries.partition_point(|entry| entry.range.last < range.first);
        let end = self.entries.partition_point(|entry| entry.range.first <= range.last);
        if start >= end {
            return;
        }
        let (first, last) = (self.entries[start], self.entries[end - 1]);
        let before =
            (first.range.first < range.first).then(|| first.part(first.range.first, range.first - 1));
        let after = (last.range.last > range.last).then(|| last.part(range.last + 1, last.range.last));
        self.entries.splice(start..end, before.into_iter().chain(after));
    }

    /// Evicts entries until there are at most [`ENTRIES_MAX`], in turn and without regard to their use: a list of uses would have to be
    /// written by workers. The entry of `keep` stays, because it was just requested.
    fn evict(&mut self, keep: Option<IovaRange>) {
        while self.entries.len() > ENTRIES_MAX {
            let victim = self.next_victim % self.entries.len();
            self.next_victim = victim + 1;
            if Some(self.entries[victim].range) != keep {
                self.entries.remove(victim);
            }
        }
    }

    /// The front-end's address that `iova` is translated to, and the number of bytes from there to the end of the translation. `None`:
    /// there is no translation with this access. `last_entry`: the index of the entry that was found last.
    #[inline]
    pub fn find(&self, iova: u64, access: Access, last_entry: &mut usize) -> Option<(u64, u64)> {
        let entry = match self.entries.get(*last_entry).filter(|entry| entry.range.contains(iova)) {
            Some(entry) => entry,
            None => {
                *last_entry = self.entries.partition_point(|entry| entry.range.last < iova);
                self.entries.get(*last_entry).filter(|entry| entry.range.contains(iova))?
            }
        };
        let offset = iova - entry.range.first;
        entry
            .access
            .includes(access)
            .then(|| (entry.user + offset, (entry.range.last - iova).saturating_add(1)))
    }

    /// The front-end's address of a range that is contiguous there.
    pub fn find_contiguous(&self, range: IovaRange, access: Access) -> Result<u64, RingError> {
        let (mut at, mut last_entry) = (range.first, 0);
        let mut find = |iova| self.find(iova, access, &mut last_entry).ok_or(RingError::Untranslated);
        let (start, mut left) = find(at)?;
        while left <= range.last - at {
            at += left;
            let (user, more) = find(at)?;
            if user != start.wrapping_add(at - range.first) {
                return Err(RingError::Scattered);
            }
            left = more;
        }
        Ok(start)
    }

    /// Number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The reference implementation: the translation of each byte.
    type Bytes = BTreeMap<u64, (u64, Access)>;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(u64, u64, u64, u8),
        Remove(u64, u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        let at = 0..60u64;
        prop_oneof![
            3 => (at.clone(), 1..20u64, 0..3u64, 1..4u8)
                .prop_map(|(first, size, to, access)| Change::Insert(first, size, 1000 * to + first, access)),
            1 => (at, 1..30u64).prop_map(|(first, size)| Change::Remove(first, size)),
        ]
    }

    /// The range of `size` bytes at `at`, near the end of the address space if `high`.
    fn range(at: u64, size: u64, high: bool) -> IovaRange {
        let base = if high { u64::MAX - 59 } else { 0 };
        IovaRange { first: base + at, last: (base + at).saturating_add(size - 1) }
    }

    proptest! {
        #[test]
        fn translations_are_those_of_each_byte(changes in prop::collection::vec(change(), 1..40), high: bool) {
            let (mut iotlb, mut bytes) = (Iotlb::default(), Bytes::new());
            for change in changes {
                match change {
                    Change::Insert(at, size, user, bits) => {
                        let (range, access) = (range(at, size, high), Access::from_bits(bits).unwrap());
                        iotlb.insert(range, user, access);
                        (range.first..=range.last).zip(user..).for_each(|(n, to)| _ = bytes.insert(n, (to, access)));
                    }
                    Change::Remove(at, size) => {
                        let range = range(at, size, high);
                        iotlb.remove(range);
                        bytes.retain(|n, _| !range.contains(*n));
                    }
                }
                prop_assert!(iotlb.entries.is_sorted_by(|a, b| a.range.last < b.range.first));
                let mut last = 0;
                for n in (0..if high { 60 } else { 90 }).map(|n| range(n, 1, high).first) {
                    for access in [Access::READ, Access::WRITE, Access::BOTH] {
                        let expected = bytes.get(&n).filter(|(_, a)| a.includes(access)).map(|(to, _)| *to);
                        let found = iotlb.find(n, access, &mut last);
                        prop_assert_eq!(found.map(|(to, _)| to), expected);
                        // All bytes to the end of the translation are adjacent and have the same access.
                        for more in 0..found.map_or(0, |(_, left)| left) {
                            let same = bytes.get(&(n + more)).is_some_and(|(to, a)| *to == found.unwrap().0 + more && a.includes(access));
                            prop_assert!(same);
                        }
                    }
                }
            }
        }

        #[test]
        fn contiguous_ranges_are_found(changes in prop::collection::vec(change(), 1..20), at in 0..60u64, size in 1..40u64) {
            let (mut iotlb, mut bytes) = (Iotlb::default(), Bytes::new());
            for change in changes {
                let Change::Insert(at, size, user, bits) = change else { continue };
                iotlb.insert(range(at, size, false), user, Access::from_bits(bits).unwrap());
                (at..at + size).zip(user..).for_each(|(n, to)| _ = bytes.insert(n, (to, Access::from_bits(bits).unwrap())));
            }
            let wanted = range(at, size, false);
            let all: Option<Vec<u64>> = (wanted.first..=wanted.last)
                .map(|n| bytes.get(&n).filter(|(_, a)| a.includes(Access::READ)).map(|(to, _)| *to)).collect();
            match iotlb.find_contiguous(wanted, Access::READ) {
                Ok(user) => prop_assert!(all.unwrap().into_iter().eq(user..user + size)),
                Err(RingError::Untranslated) => prop_assert!(all.is_none()),
                Err(_) => prop_assert!(all.is_none_or(|all| all.windows(2).any(|two| two[0] + 1 != two[1]))),
            }
        }
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut iotlb = Iotlb::default();
        let page = |n: u64| IovaRange::new(n * PAGE, PAGE).unwrap();
        for n in 0..3 * ENTRIES_MAX as u64 {
            iotlb.insert(page(n), 0x1000 * n, Access::BOTH);
            assert!(iotlb.find(n * PAGE, Access::BOTH, &mut 0).is_some(), "the newest stays");
        }
        assert_eq!(iotlb.len(), ENTRIES_MAX);
        // A removal from the middle of an entry leaves two.
        iotlb.insert(IovaRange { first: 1 << 40, last: (1 << 41) - 1 }, 0, Access::READ);
        iotlb.remove(IovaRange::new((1 << 40) + 5, 1).unwrap());
        assert_eq!(iotlb.len(), ENTRIES_MAX);
        iotlb.retain(|user, _| user == 0x1000 * (3 * ENTRIES_MAX as u64 - 1));
        assert_eq!(iotlb.len(), 1);
        iotlb.remove(IovaRange::ALL);
        assert_eq!(iotlb.len(), 0);
    }

    #[test]
    fn ranges_end_at_the_end_of_the_address_space() {
        assert_eq!(IovaRange::new(0, 0), None);
        assert_eq!(IovaRange::new(u64::MAX, 2), None);
        assert_eq!(IovaRange::new(2, u64::MAX), None);
        let last = IovaRange::new(u64::MAX, 1).unwrap();
        assert!(last.overlaps(IovaRange::ALL) && !last.overlaps(IovaRange::new(0, u64::MAX).unwrap()));
        let mut iotlb = Iotlb::default();
        iotlb.insert(IovaRange::ALL, 0, Access::READ);
        assert_eq!(iotlb.find(0, Access::READ, &mut 0), Some((0, u64::MAX)));
        iotlb.remove(last);
        assert_eq!(iotlb.find(u64::MAX - 1, Access::READ, &mut 0), Some((u64::MAX - 1, 1)));
        assert_eq!(iotlb.find(u64::MAX, Access::READ, &mut 0), None);
    }
}
