//! Tests every cache against a reference implementation: the same rules, written with maps and lists, must give the
//! same results.

use crate::bucket::{Bucket, SIGNATURE};
use crate::governor::Governor;
use crate::*;
use proptest::prelude::*;
use std::collections::HashMap;
use units::Millis;

/// The operations of a reference implementation. `right` returns whether an entry resolves.
trait Reference {
    fn lookup(&mut self, hash: u32, right: &dyn Fn(Entry) -> bool) -> Option<Entry>;
    fn insert(&mut self, new_entry: NewEntry);
}

/// A way: signature, value, and whether the entry was used since the hand passed it.
type Way = Option<(u16, u32, bool)>;

fn signature_of(hash: u32) -> u16 {
    match (hash >> 17) as u16 {
        0 => 1,
        s => s,
    }
}

fn other_of(bucket: u32, signature: u16, buckets: u32) -> u32 {
    (bucket ^ ((u64::from(signature) * 0x5bd1_e995) >> 7) as u32) % buckets
}

struct UnifiedReference {
    buckets: Vec<Vec<Way>>,
    largest: u32,
    hand: usize,
    governor: Governor,
}

impl UnifiedReference {
    fn new<B: Bucket>(buckets: usize) -> UnifiedReference {
        let buckets = vec![vec![None; B::WAYS]; buckets];
        UnifiedReference { buckets, largest: B::LARGEST, hand: 0, governor: Governor::default() }
    }

    fn places(&self, hash: u32) -> [usize; 2] {
        let n = self.buckets.len() as u32;
        [hash % n, other_of(hash % n, signature_of(hash), n)].map(|b| b as usize)
    }

    /// The last of the candidate entries is the right one. It is swapped with the first candidate, if that is in the
    /// first bucket.
    fn move_to_front(&mut self, hash: u32, asked: &[(usize, usize, u32)]) -> Entry {
        let [first, .., last] = *asked else { return Entry::Megaflow(asked[0].2) };
        if first.0 == self.places(hash)[0] {
            self.buckets[first.0][first.1].as_mut().unwrap().1 = last.2;
            self.buckets[last.0][last.1].as_mut().unwrap().1 = first.2;
        }
        Entry::Megaflow(last.2)
    }
}

impl Reference for UnifiedReference {
    fn lookup(&mut self, hash: u32, right: &dyn Fn(Entry) -> bool) -> Option<Entry> {
        let mut alike = Vec::new();
        for bucket in self.places(hash) {
            let ways = self.buckets[bucket].iter_mut().enumerate();
            let ways = ways.filter_map(|(way, entry)| Some((way, entry.as_mut()?)));
            for (way, (_, value, used)) in ways.filter(|(_, e)| e.0 == signature_of(hash)) {
                alike.push((bucket, way, *value));
                if right(Entry::Megaflow(*value)) {
                    *used = true;
                    return Some(self.move_to_front(hash, &alike));
                }
            }
        }
        None
    }

    fn insert(&mut self, new: NewEntry) {
        if new.megaflow > self.largest {
            return;
        }
        let (places, signature) = (self.places(new.hash), signature_of(new.hash));
        let mut entries = places.iter().flat_map(|&b| self.buckets[b].iter().flatten());
        if entries.any(|e| (e.0, e.1) == (signature, new.megaflow)) {
            return;
        }
        let (mut alike, mut distinct) = (Vec::new(), places.to_vec());
        distinct.dedup();
        for b in distinct {
            let ways = self.buckets[b].iter().enumerate();
            alike.extend(ways.filter(|(_, e)| e.is_some_and(|e| e.0 == signature)).map(|(w, _)| (b, w)));
        }
        alike.truncate(crate::unified::SAME_SIGNATURE_MAX);
        if alike.len() == crate::unified::SAME_SIGNATURE_MAX {
            let mut chosen = None;
            for &(b, way) in &alike {
                let Some(entry) = &mut self.buckets[b][way] else { unreachable!() };
                if !std::mem::take(&mut entry.2) {
                    chosen = Some((b, way));
                    break;
                }
            }
            let (b, way) = chosen.unwrap_or(alike[0]);
            self.buckets[b][way] = Some((signature, new.megaflow, false));
            return;
        }
        let free = places.iter().find_map(|&b| Some((b, self.buckets[b].iter().position(Option::is_none)?)));
        let (bucket, way) = match free {
            Some(place) => place,
            None if !self.governor.may_evict(new.port) => return,
            None => {
                let ways = self.buckets[places[0]].len();
                let hand = self.hand % ways;
                let mut way = hand;
                loop {
                    let Some(entry) = &mut self.buckets[places[0]][way] else { unreachable!() };
                    if !std::mem::take(&mut entry.2) {
                        break;
                    }
                    way = (way + 1) % ways;
                }
                self.hand = (way + 1) % ways;
                (places[0], way)
            }
        };
        self.governor.count_inserted(new.port);
        self.buckets[bucket][way] = Some((signature, new.megaflow, false));
    }
}

struct CdReference {
    buckets: Vec<Vec<Way>>,
    random: fastrand::Rng,
}

impl CdReference {
    fn places(&self, hash: u32) -> [usize; 2] {
        let n = self.buckets.len() as u32;
        [hash % n, other_of(hash % n, signature_of(hash), n)].map(|b| b as usize)
    }
}

impl Reference for CdReference {
    fn lookup(&mut self, hash: u32, right: &dyn Fn(Entry) -> bool) -> Option<Entry> {
        let entries = self.places(hash).into_iter().flat_map(|b| self.buckets[b].iter().flatten());
        entries.filter(|e| e.0 == signature_of(hash)).map(|e| Entry::Subtable(e.1 as u16)).find(|&e| right(e))
    }

    fn insert(&mut self, new: NewEntry) {
        let (places, wanted) = (self.places(new.hash), (signature_of(new.hash), u32::from(new.subtable)));
        if places.iter().any(|&b| self.buckets[b].iter().flatten().any(|e| (e.0, e.1) == wanted)) {
            return;
        }
        let free = places.iter().find_map(|&b| Some((b, self.buckets[b].iter().position(Option::is_none)?)));
        let (bucket, way) = free.unwrap_or_else(|| {
            let r = self.random.u32(..) as usize;
            (places[r / 16 % 2], r % 16)
        });
        self.buckets[bucket][way] = Some((wanted.0, wanted.1, false));
    }
}

struct SmcReference {
    buckets: HashMap<u32, Vec<(u16, u16)>>,
    n: u32,
    random: fastrand::Rng,
}

impl Reference for SmcReference {
    fn lookup(&mut self, hash: u32, right: &dyn Fn(Entry) -> bool) -> Option<Entry> {
        let bucket = self.buckets.get(&(hash % self.n))?;
        let first = bucket.iter().find(|e| u32::from(e.0) == hash >> 16)?;
        Some(Entry::Megaflow(u32::from(first.1))).filter(|&e| right(e))
    }

    fn insert(&mut self, new: NewEntry) {
        if new.megaflow >= 0xffff {
            return;
        }
        let entry = ((new.hash >> 16) as u16, new.megaflow as u16);
        let bucket = self.buckets.entry(new.hash % self.n).or_default();
        match bucket.iter().position(|e| e.0 == entry.0) {
            Some(at) => bucket[at] = entry,
            None if bucket.len() < 4 => bucket.push(entry),
            None => bucket[self.random.usize(..4)] = entry,
        }
    }
}

struct DfcReference(HashMap<u32, u32>, u32);

impl Reference for DfcReference {
    fn lookup(&mut self, hash: u32, right: &dyn Fn(Entry) -> bool) -> Option<Entry> {
        self.0.get(&(hash % self.1)).map(|&i| Entry::Megaflow(i)).filter(|&e| right(e))
    }

    fn insert(&mut self, new: NewEntry) {
        self.0.insert(new.hash % self.1, new.megaflow);
    }
}

/// Hash and megaflow index by slot.
struct EmcReference {
    places: HashMap<u32, (u32, u32)>,
    bits: u32,
    ways: u32,
}

impl EmcReference {
    fn at(&self, hash: u32) -> Vec<u32> {
        (0..self.ways).map(|way| (hash >> (way * self.bits)) % (1 << self.bits)).collect()
    }
}

impl Reference for EmcReference {
    fn lookup(&mut self, hash: u32, right: &dyn Fn(Entry) -> bool) -> Option<Entry> {
        let there = self.at(hash).into_iter().filter_map(|at| self.places.get(&at));
        there.filter(|e| e.0 == hash).map(|e| Entry::Megaflow(e.1)).find(|&e| right(e))
    }

    fn insert(&mut self, new: NewEntry) {
        let places = self.at(new.hash);
        let hash_at = |at: &u32| self.places.get(at).map(|e| e.0);
        let same = places.iter().find(|at| hash_at(at) == Some(new.hash));
        let free = places.iter().find(|at| hash_at(at).is_none());
        // Of equal hashes, the first entry is replaced.
        let lowest = places.iter().min_by_key(|at| hash_at(at));
        if let Some(&at) = same.or(free).or(lowest) {
            self.places.insert(at, (new.hash, new.megaflow));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Op {
    flow: u32,
    look_up: bool,
    /// The flow changes to another megaflow.
    moves: bool,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = (0u32..300, any::<bool>(), prop::bool::weighted(0.02));
    prop::collection::vec(op.prop_map(|(flow, look_up, moves)| Op { flow, look_up, moves }), 0..1500)
}

/// Returns hashes with few different buckets and few different signatures.
fn hash_of(flow: u32) -> u32 {
    (flow.wrapping_mul(0x9e37_79b9) & 0x000f_f00f) | (flow % 7) << 29
}

fn agree(
    mut cache: impl FlowCache,
    mut reference: impl Reference,
    ops: Vec<Op>,
) -> Result<(), TestCaseError> {
    let mut megaflows: Vec<u32> = (0..300).map(|f| if f % 50 == 0 { 100_000 + f } else { f * 3 }).collect();
    for op in ops {
        let hash = hash_of(op.flow);
        if op.moves {
            megaflows[op.flow as usize] += 1;
        }
        let megaflow = megaflows[op.flow as usize];
        let subtable = (megaflow % 5) as u16;
        if op.look_up {
            let right = |e| e == Entry::Megaflow(megaflow) || e == Entry::Subtable(subtable);
            let found = cache.lookup(hash, |e| right(e).then_some(megaflow));
            prop_assert_eq!(found, reference.lookup(hash, &right).map(|_| megaflow));
        } else {
            let new_entry = NewEntry { hash, megaflow, subtable, port: op.flow % 3 };
            cache.insert(new_entry);
            reference.insert(new_entry);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn unified_of_narrow_buckets(ops in ops(), bits in 0u32..3) {
        let n = 1 << bits;
        agree(Unified::<Narrow>::new(n, n, None), UnifiedReference::new::<Narrow>(n), ops)?;
    }

    #[test]
    fn unified_of_wide_buckets(ops in ops(), bits in 0u32..3) {
        let n = 1 << bits;
        agree(Unified::<Wide>::new(n, n, None), UnifiedReference::new::<Wide>(n), ops)?;
    }

    #[test]
    fn cd(ops in ops(), bits in 0u32..3) {
        let n = 1 << bits;
        let reference = CdReference { buckets: vec![vec![None; 16]; n], random: fastrand::Rng::with_seed(0x5eed) };
        agree(Cd::new(n, None), reference, ops)?;
    }

    #[test]
    fn smc(ops in ops(), bits in 0u32..5) {
        let n = 1 << bits;
        let reference = SmcReference { buckets: HashMap::new(), n: n as u32, random: fastrand::Rng::with_seed(0x5eed) };
        agree(Smc::new(n, None), reference, ops)?;
    }

    #[test]
    fn dfc(ops in ops(), bits in 0u32..9) {
        agree(Dfc::new(1 << bits, None), DfcReference(HashMap::new(), 1 << bits), ops)?;
    }

    #[test]
    fn emc(ops in ops(), bits in 1u32..9, ways in 1u32..3) {
        let reference = EmcReference { places: HashMap::new(), bits, ways };
        agree(Emc::new(bits, ways as usize, 1, None), reference, ops)?;
    }
}

fn new_entry(i: u32) -> NewEntry {
    let x = u64::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    NewEntry { hash: (x ^ x >> 29) as u32, megaflow: i, subtable: i as u16, port: 1 }
}

fn finds(cache: &mut Cache, i: u32) -> bool {
    let right = |e| (e == Entry::Megaflow(i) || e == Entry::Subtable(i as u16)).then_some(i);
    each_cache!(cache, c => c.lookup(new_entry(i).hash, right)) == Some(i)
}

#[test]
fn every_kind_inserts_and_clears() {
    for (name, kind) in Kind::ALL {
        assert_eq!((Kind::parse(name), kind.name()), (Some(kind), name));
        let mut cache =
            Cache::new(&CacheParams { kind, emc_insert_inv_prob: 1, ..CacheParams::default() }, None);
        each_cache!(&mut cache, c => c.insert(new_entry(7)));
        each_cache!(&cache, c => c.prefetch(new_entry(7).hash));
        assert!(finds(&mut cache, 7) && !finds(&mut cache, 8), "{name}");
        assert!(cache.bytes() > 0 && cache.capacity() >= 8192 && cache.largest_table().1 > 0, "{name}");
        each_cache!(&mut cache, c => c.clear());
        assert!(!finds(&mut cache, 7), "{name}");
    }
    assert_eq!(Kind::parse("dcf"), None);
    let none =
        Cache::new(&CacheParams { kind: Kind::Ovs, emc_insert_inv_prob: 0, ..CacheParams::default() }, None);
    assert_eq!((none.bytes(), none.capacity()), (0, 0));
}

#[test]
fn a_signature_has_fifteen_bits() {
    assert_eq!(u32::from(SIGNATURE), u32::MAX >> 17);
}

#[test]
fn an_idle_cache_is_small() {
    assert!(Cache::default().bytes() <= 1 << 20);
}

#[test]
fn more_megaflows_than_16_bit_indices() {
    let mut cache = Cache::default();
    let large = 65_536..66_000;
    for turn in 0..2 {
        for i in large.clone() {
            each_cache!(&mut cache, c => c.insert(new_entry(i)));
        }
        assert_eq!(large.clone().all(|i| finds(&mut cache, i)), turn == 1);
        cache.maintain(Millis(turn));
    }
    assert!(matches!(cache, Cache::Wide(_)));
}

#[test]
fn one_hash_holds_several_megaflows_and_evicts_old_ones() {
    let mut cache = Unified::<Narrow>::new(16, 16, None);
    let hash = new_entry(1).hash;
    let seen = |cache: &mut Unified<Narrow>| {
        let mut seen = Vec::new();
        cache.lookup(hash, |e| {
            seen.push(e);
            None
        });
        seen.len()
    };
    for (i, n) in [(7, 1), (8, 2), (8, 2), (9, 3), (10, 3), (11, 3)] {
        cache.insert(NewEntry { megaflow: i, ..new_entry(1) });
        assert_eq!(seen(&mut cache), n);
        assert_eq!(cache.lookup(hash, |e| (e == Entry::Megaflow(i)).then_some(i)), Some(i));
    }
}

#[test]
fn a_working_set_of_the_cache_size_mostly_stays() {
    let mut cache = Unified::<Narrow>::new(256, 256, None);
    let n = cache.capacity() as u32 * 9 / 10;
    (0..n).for_each(|i| cache.insert(new_entry(i)));
    let right = |i| move |e| (e == Entry::Megaflow(i)).then_some(i);
    let hits = (0..n).filter(|&i| cache.lookup(new_entry(i).hash, right(i)).is_some()).count();
    assert!(hits as u32 > n * 98 / 100, "{hits} of {n}");
}

#[test]
fn grows_when_crowded_and_shrinks_when_idle() {
    let mut cache = Unified::<Narrow>::new(16, 64, None);
    for i in 0..5000 {
        let hits = cache.lookup(new_entry(i).hash, |e| (e == Entry::Megaflow(i)).then_some(i)).iter().count();
        cache.account(1, 1, hits as u32);
        cache.insert(new_entry(i));
    }
    let before = cache.capacity();
    cache.maintain(Millis(1));
    assert_eq!(cache.capacity(), before * 4);
    cache.maintain(Millis(5_000));
    assert_eq!(cache.capacity(), before * 4);
    cache.maintain(Millis(20_000));
    assert_eq!(cache.capacity(), before);
}

#[test]
fn single_packet_flows_do_not_evict_others() {
    let mut cache = Unified::<Narrow>::new(64, 64, None);
    let (victims, port) = (700u32, 2);
    let mut missed = 0;
    for turn in 0..200u32 {
        for i in 0..victims {
            let hit = cache.lookup(new_entry(i).hash, |e| (e == Entry::Megaflow(i)).then_some(i)).is_some();
            cache.account(port, 1, u32::from(hit));
            if !hit {
                cache.insert(NewEntry { port, ..new_entry(i) });
                missed += u32::from(turn >= 20);
            }
            // For each packet of the working set, one packet of a scan, each of a different flow.
            let scan = NewEntry { megaflow: 60_000, port: 3, ..new_entry(10_000 + turn * victims + i) };
            cache.account(3, 1, 0);
            cache.insert(scan);
        }
    }
    let share = f64::from(missed) / f64::from(victims * 180);
    assert!(share < 0.05, "{share}");
}
