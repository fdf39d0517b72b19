//! The default cache. A cache line holds twelve or sixteen entries, each a short signature and a megaflow index; each
//! hash has two candidate buckets (see [`bucket`](crate::bucket)).
//!
//! * **A few entries for each signature**: packets with the same hash may belong to several megaflows. The number of
//!   entries with the same signature is limited. At the limit a new entry replaces one of them, because most of them
//!   belong to deleted megaflows. Without the limit, entries of short-lived megaflows would fill the buckets.
//! * **CLOCK eviction**, protected against single-packet flows by the [governor](crate::governor).
//! * **The size follows the traffic**: the cache starts small, to leave the CPU caches to other data. It grows
//!   fourfold when evictions exceed a share of the look-ups, and shrinks when there was no look-up for a while.
//! * **[`Narrow`] buckets hold 16-bit indices**. When a larger index has to be stored, [`Cache`](crate::Cache)
//!   switches to [`Wide`] buckets.

use crate::bucket::{Bucket, Narrow, Wide, other_bucket, signature};
use crate::governor::Governor;
use crate::{Entry, FlowCache, NewEntry};
use cpu::{Advise, Table, prefetch_read};
use units::Millis;

/// Minimum number of buckets: 64 Ki entries, 256 KiB.
pub const MIN_BUCKETS: usize = 1 << 12;
/// Maximum number of [`Narrow`] buckets: 1 Mi entries, 4 MiB.
pub const MAX_BUCKETS: usize = 1 << 16;
/// Maximum number of [`Wide`] buckets: 1.5 Mi entries, 8 MiB.
pub const MAX_WIDE_BUCKETS: usize = 1 << 17;
/// Maximum number of entries with the same signature in the two buckets of a hash.
pub const SAME_SIGNATURE_MAX: usize = 3;
/// Up to this number of entries, look-ups read only the CPU's L1 and L2 caches.
const CPU_CACHED_ENTRIES_MAX: usize = 256;
/// A cache that had no look-up for this many milliseconds shrinks.
const IDLE_MS: u64 = 10_000;

/// The unified cache; see the module documentation.
pub struct Unified<B: Bucket = Narrow> {
    buckets: Table<B>,
    governor: Governor,
    /// The CLOCK hand: the way at which the next search for a victim begins, in any bucket.
    hand: u8,
    /// Number of empty ways that were filled.
    filled: usize,
    lookups: u64,
    evictions: u64,
    has_large_index: bool,
    /// The value of `total_lookups` when it last changed, and the time of that change.
    last_change: (u64, Millis),
    /// Number of look-ups since the cache was created. `lookups` and `evictions` are counted since the last decision
    /// on the size.
    total_lookups: u64,
    /// Minimum and maximum number of buckets.
    limits: (usize, usize),
    advise: Option<Advise>,
}

impl<B: Bucket> Unified<B> {
    /// Creates a cache of `buckets` buckets that may grow to `max_buckets`; both are rounded up to powers of two.
    /// `advise` is called with each table that is at least a huge page long, before its first use.
    pub fn new(buckets: usize, max_buckets: usize, advise: Option<Advise>) -> Unified<B> {
        let min = buckets.clamp(1, MAX_WIDE_BUCKETS).next_power_of_two();
        let max = max_buckets.clamp(min, MAX_WIDE_BUCKETS).next_power_of_two();
        Unified {
            buckets: Table::new(min, B::NEW, advise),
            governor: Governor::default(),
            hand: 0,
            filled: 0,
            lookups: 0,
            evictions: 0,
            has_large_index: false,
            last_change: (0, Millis(0)),
            total_lookups: 0,
            limits: (min, max),
            advise,
        }
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.buckets.len() - 1
    }

    #[inline(always)]
    fn primary(&self, hash: u32) -> usize {
        hash as usize & self.mask()
    }

    /// Returns the way whose megaflow `resolve` accepts, and that megaflow.
    #[inline(always)]
    fn search(
        bucket: &mut B,
        signature: u16,
        resolve: &mut impl FnMut(Entry) -> Option<u32>,
    ) -> Option<(usize, u32)> {
        let mut ways = bucket.ways(signature);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize;
            ways &= ways - 1;
            if let Some(index) = resolve(Entry::Megaflow(bucket.value(way))) {
                bucket.set_referenced(way);
                return Some((way, index));
            }
        }
        None
    }

    /// Swaps the values of the entry that was found and of the first entry with the same signature. The latter mostly
    /// belongs to a deleted megaflow, and would otherwise be verified first in every look-up.
    fn move_to_front(&mut self, front: usize, signature: u16, (bucket, way): (usize, usize)) {
        let ways = self.buckets[front].ways(signature);
        let first = ways.trailing_zeros() as usize;
        if ways != 0 && (front, first) != (bucket, way) {
            let (older, found) = (self.buckets[front].value(first), self.buckets[bucket].value(way));
            self.buckets[front].set_value(first, found);
            self.buckets[bucket].set_value(way, older);
        }
    }

    /// CLOCK eviction: returns the way to overwrite in a full bucket. It is the first way, from the hand on, that was
    /// not used since the hand passed it.
    fn victim(&mut self, bucket: usize) -> usize {
        let b = &mut self.buckets[bucket];
        let start = usize::from(self.hand) % B::WAYS;
        let step = (0..B::WAYS).find(|step| !b.take_referenced((start + step) % B::WAYS)).unwrap_or(0);
        let way = (start + step) % B::WAYS;
        self.hand = (way as u8 + 1) % B::WAYS as u8;
        way
    }

    fn resize(&mut self, buckets: usize) {
        self.buckets = Table::new(buckets, B::NEW, self.advise);
        self.filled = 0;
        (self.lookups, self.evictions) = (0, 0);
    }

    /// Lets the cache grow or shrink, which drops its entries. Call it between batches from time to time.
    pub fn maintain(&mut self, now: Millis) {
        let n = self.buckets.len();
        if self.last_change.0 != self.total_lookups {
            self.last_change = (self.total_lookups, now);
        } else if n > self.limits.0 && now.0.saturating_sub(self.last_change.1.0) > IDLE_MS {
            return self.resize(self.limits.0);
        }
        let crowded = self.evictions > self.lookups / 128 && self.evictions > n as u64;
        if crowded && n < self.limits.1 {
            self.resize((n * 4).min(self.limits.1));
        } else if crowded || self.lookups > 1 << 22 {
            (self.lookups, self.evictions) = (0, 0);
        }
    }
}

impl Unified<Narrow> {
    /// Returns the cache that replaces this one, if a megaflow index did not fit into this one.
    pub fn outgrown(&self) -> Option<Unified<Wide>> {
        let (min, _) = self.limits;
        self.has_large_index.then(|| {
            let mut wide = Unified::new(self.buckets.len(), MAX_WIDE_BUCKETS, self.advise);
            wide.limits.0 = min;
            wide
        })
    }
}

impl<B: Bucket> FlowCache for Unified<B> {
    const BY_MASKS: bool = true;
    const CANDIDATE_IS_HIT: bool = true;

    #[inline(always)]
    fn fits_cpu_caches(&self) -> bool {
        self.filled <= CPU_CACHED_ENTRIES_MAX
    }

    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch_read(&self.buckets[self.primary(hash)]);
    }

    #[inline(always)]
    fn candidate(&mut self, hash: u32) -> Option<u32> {
        let first = self.primary(hash);
        let bucket = &mut self.buckets[first];
        let ways = bucket.ways(signature(hash));
        (ways != 0).then(|| {
            let way = ways.trailing_zeros() as usize;
            bucket.set_referenced(way);
            bucket.value(way)
        })
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        let signature = signature(hash);
        let first = self.primary(hash);
        for bucket in [first, other_bucket(first, signature, self.mask())] {
            if let Some((way, index)) = Self::search(&mut self.buckets[bucket], signature, &mut resolve) {
                self.move_to_front(first, signature, (bucket, way));
                return Some(index);
            }
        }
        None
    }

    fn insert(&mut self, new_entry: NewEntry) {
        let NewEntry { hash, megaflow, port, .. } = new_entry;
        if megaflow > B::LARGEST {
            self.has_large_index = true;
            return;
        }
        let signature = signature(hash);
        let first = self.primary(hash);
        let candidates = [first, other_bucket(first, signature, self.mask())];
        let (mut alike, mut n) = ([(0, 0); SAME_SIGNATURE_MAX], 0);
        let distinct = if candidates[0] == candidates[1] { &candidates[..1] } else { &candidates[..] };
        for &bucket in distinct {
            let b = &self.buckets[bucket];
            let mut same = b.ways(signature);
            while same != 0 {
                let way = same.trailing_zeros() as usize;
                if b.value(way) == megaflow {
                    return;
                }
                if n < SAME_SIGNATURE_MAX {
                    alike[n] = (bucket, way);
                    n += 1;
                }
                same &= same - 1;
            }
        }
        if n == SAME_SIGNATURE_MAX {
            let unused = alike.into_iter().find(|&(b, way)| !self.buckets[b].take_referenced(way));
            let (bucket, way) = unused.unwrap_or(alike[0]);
            return self.buckets[bucket].set_entry(way, signature, megaflow);
        }
        let free = candidates.into_iter().find_map(|b| Some((b, self.buckets[b].empty_way()?)));
        let (bucket, way) = match free {
            Some(place) => {
                self.filled += 1;
                place
            }
            None => {
                // An eviction counts towards growth even if the governor refuses it.
                self.evictions += 1;
                if !self.governor.may_evict(port) {
                    return;
                }
                (first, self.victim(first))
            }
        };
        self.governor.count_inserted(port);
        self.buckets[bucket].set_entry(way, signature, megaflow);
    }

    #[inline]
    fn account(&mut self, port: u32, lookups: u32, hits: u32) {
        self.lookups += u64::from(lookups);
        self.total_lookups += u64::from(lookups);
        self.governor.count_hits(port, hits);
    }

    fn clear(&mut self) {
        self.buckets.fill(B::NEW);
        self.filled = 0;
        (self.lookups, self.evictions) = (0, 0);
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * B::WAYS
    }

    fn largest_table(&self) -> (usize, usize) {
        self.buckets.location()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpu::Secret;
    use cpu::adversary::colliding_macs;

    /// Returns how many of these MAC addresses a cache of minimum size still holds after all have been inserted.
    fn count_held(macs: &[u64], secret: &Secret) -> usize {
        let mask = [0, 0, u64::MAX, 0, 0, 0, 0, 0];
        let hash = |mac: u64| cpu::hash_line(&[0, 0, mac << 16, 0, 0, 0, 0, 0], &mask, secret);
        let mut cache: Unified = Unified::new(MIN_BUCKETS, MIN_BUCKETS, None);
        for (&mac, megaflow) in macs.iter().zip(0..) {
            cache.insert(NewEntry { hash: hash(mac), megaflow, subtable: 0, port: 1 });
        }
        let mut is_held = |(&mac, index): (&u64, u32)| {
            let resolve = |entry| (entry == Entry::Megaflow(index)).then_some(index);
            cache.lookup(hash(mac), resolve).is_some()
        };
        macs.iter().zip(0..).filter(|pair| is_held(*pair)).count()
    }

    /// With any CRC these addresses would have the same hash, and the cache would hold only [`SAME_SIGNATURE_MAX`] of
    /// them.
    #[test]
    fn chosen_addresses_do_not_collide() {
        let chosen = colliding_macs(15);
        let others: Vec<u64> =
            (0..1 << 15).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16).collect();
        for seed in [1, 2, 3] {
            let secret = Secret::new(seed);
            let (n, of_others) = (count_held(&chosen, &secret), count_held(&others, &secret));
            assert!(n.abs_diff(of_others) < 300 && n > 32_000, "{n} known, of others {of_others}");
        }
    }
}
