//! The writing side of a megaflow table: insertion, removal, ranking of subtables. A table has one publisher, which its owner
//! protects by a lock.

use super::key::{Depth, Key, KeyMask, Rest, Words, full_rest};
use super::subtable::Subtable;
use super::table::{Megaflow, MegaflowTable, PortMegaflows};
use cpu::Secret;
use std::sync::Arc;
use sync::arena::Publisher;
use sync::{Arena, SnapshotCell};

/// The largest port number that can have megaflows.
pub const MAX_PORT: u32 = 0xffff;

/// Result of [`MegaflowPublisher::insert`].
#[derive(Debug, PartialEq, Eq)]
pub enum InsertResult {
    /// The megaflow was published at this index.
    New(u32),
    /// A megaflow with the same masked key and mask exists already.
    Same(u32),
    /// The arena is full, or the port number is out of range.
    Full,
}

/// The writing side of a megaflow table.
pub struct MegaflowPublisher<P> {
    arena: Publisher<Megaflow<P>>,
    by_port: Arc<SnapshotCell<Vec<Option<Arc<PortMegaflows>>>>>,
    max_masks: usize,
    secret: Arc<Secret>,
}

impl<P> MegaflowTable<P> {
    /// An empty table for up to `capacity` megaflows, and its publisher. `max_masks`: the number of masks of
    /// a port from which on new masks are replaced by exact ones, see
    /// [`bounded_mask`](MegaflowPublisher::bounded_mask).
    /// `seed` is a secret random number of the process, so that an attacker cannot craft packets with equal hashes.
    pub fn new(capacity: usize, max_masks: usize, seed: u64) -> (MegaflowTable<P>, MegaflowPublisher<P>) {
        let (arena, publisher) = Arena::new(capacity);
        let by_port = Arc::new(SnapshotCell::from_pointee(Vec::new()));
        let publisher = MegaflowPublisher::new(publisher, Arc::clone(&by_port), max_masks, seed);
        (MegaflowTable { arena, by_port }, publisher)
    }
}

impl<P> MegaflowPublisher<P> {
    fn new(
        arena: Publisher<Megaflow<P>>,
        by_port: Arc<SnapshotCell<Vec<Option<Arc<PortMegaflows>>>>>,
        max_masks: usize,
        seed: u64,
    ) -> MegaflowPublisher<P> {
        MegaflowPublisher { arena, by_port, max_masks, secret: Arc::new(Secret::new(seed)) }
    }
}

impl<P: Send + Sync> MegaflowPublisher<P> {
    fn port_megaflows(&self, in_port: u32) -> Option<Arc<PortMegaflows>> {
        self.by_port.load().get(in_port as usize)?.clone()
    }

    /// Publishes a port's megaflows with these subtables, or removes the port's entry if there are no subtables.
    fn publish(&self, in_port: u32, subtables: Vec<Arc<Subtable>>) {
        let mut all = Vec::clone(&self.by_port.load());
        if all.len() <= in_port as usize {
            all.resize(in_port as usize + 1, None);
        }
        let entry = &mut all[in_port as usize];
        let (union, parsed) = entry.as_ref().map(|c| (c.union().clone(), c.parsed())).unwrap_or_default();
        *entry = (!subtables.is_empty()).then(|| Arc::new(PortMegaflows::new(subtables, &union, parsed)));
        self.by_port.store(Arc::new(all));
    }

    /// Computes the port's union of masks again, without bits that no megaflow matches any more.
    fn recompute_union(&self, in_port: u32, port_megaflows: &PortMegaflows) {
        let mut all = Vec::clone(&self.by_port.load());
        all[in_port as usize] = Some(Arc::new(PortMegaflows::new(
            port_megaflows.subtables().to_vec(),
            &KeyMask::default(),
            port_megaflows.parsed(),
        )));
        self.by_port.store(Arc::new(all));
    }

    /// Ensures that packets of this port are parsed at least to this depth and with these words, because programs of its
    /// megaflows read them. This holds as long as the port has megaflows.
    pub fn require_parsing(&mut self, in_port: u32, (depth, words): (Depth, Words)) {
        let Some(port_megaflows) = self.port_megaflows(in_port) else { return };
        let before = port_megaflows.parsed();
        let parsed = (before.0.max(depth), before.1 | words);
        if parsed != before {
            let mut all = Vec::clone(&self.by_port.load());
            let subtables = port_megaflows.subtables().to_vec();
            all[in_port as usize] =
                Some(Arc::new(PortMegaflows::new(subtables, port_megaflows.union(), parsed)));
            self.by_port.store(Arc::new(all));
        }
    }

    /// The mask that a new megaflow of this port gets: `mask`, or, if no megaflow of the port has `mask` and the port already has
    /// the maximum number of masks, an exact mask that contains `mask`.
    pub fn bounded_mask(&self, in_port: u32, mask: KeyMask) -> KeyMask {
        let Some(port_megaflows) = self.port_megaflows(in_port) else { return mask };
        let existing = port_megaflows.subtables().iter().any(|t| *t.mask() == mask);
        if existing || port_megaflows.subtables().len() < self.max_masks {
            return mask;
        }
        mask.exact()
    }

    /// Publishes the megaflow `key & mask`.
    pub fn insert(&mut self, in_port: u32, key: &Key, mask: &KeyMask, payload: P) -> InsertResult {
        if in_port > MAX_PORT {
            return InsertResult::Full;
        }
        let port_megaflows = self.port_megaflows(in_port);
        let existing =
            port_megaflows.as_ref().and_then(|c| c.subtables().iter().find(|t| t.mask() == mask).cloned());
        let is_new = existing.is_none();
        let table = existing.unwrap_or_else(|| {
            let number = free_number(port_megaflows.as_deref());
            Arc::new(Subtable::new(mask.clone(), Arc::clone(&self.secret), number))
        });
        let hash = table.hash(&key.line, key.rest());
        let same = |i| self.arena.get(i).is_some_and(|m| m.matches(&key.line, key.rest(), Depth::Wide));
        if let Some(index) = table.find(hash, same) {
            return InsertResult::Same(index);
        }
        let mut line = key.line;
        line.iter_mut().zip(&mask.line).for_each(|(l, m)| *l &= m);
        let mut ext = mask.ext.clone();
        for w in &mut ext {
            w.value = key.rest().word(w.at) & w.mask;
        }
        let (depth, words) = (mask.depth(), mask.words());
        let record = Megaflow { line, mask: mask.line, ext, depth, words, payload };
        let Ok(index) = self.arena.insert(record) else { return InsertResult::Full };
        table.insert(hash, index);
        if is_new {
            let mut subtables = port_megaflows.map(|c| c.subtables().to_vec()).unwrap_or_default();
            subtables.push(table);
            self.publish(in_port, subtables);
        }
        InsertResult::New(index)
    }

    /// A megaflow that matches a packet with this completely parsed key.
    pub fn find(&self, in_port: u32, key: &Key) -> Option<u32> {
        self.port_megaflows(in_port)?.subtables().iter().find_map(|t| {
            let hash = t.hash(&key.line, key.rest());
            t.find(hash, |i| self.arena.get(i).is_some_and(|m| m.matches(&key.line, key.rest(), key.depth)))
        })
    }

    /// The record of an index.
    pub fn get(&self, index: u32) -> Option<&Megaflow<P>> {
        self.arena.get(index)
    }

    /// Removes a megaflow: readers that enter the arena from now on do not find it. Returns false if it does not exist.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some((in_port, table, hash)) = self.locate(index) else { return false };
        table.remove(hash, index);
        if table.is_empty() {
            let rest = self.port_megaflows(in_port).map(|c| c.subtables().to_vec()).unwrap_or_default();
            self.publish(in_port, rest.into_iter().filter(|t| !Arc::ptr_eq(t, &table)).collect());
        }
        self.arena.remove(index)
    }

    /// Gives a megaflow a new payload: inserts a new record, removes the old one, and returns the new index. The new record is
    /// inserted first, so no packet misses. `None` if the megaflow does not exist or the arena is full.
    pub fn replace(&mut self, index: u32, payload: P) -> Option<u32> {
        let (_, table, hash) = self.locate(index)?;
        let old = self.arena.get(index)?;
        let ext = old.ext.clone();
        let record =
            Megaflow { line: old.line, mask: old.mask, ext, depth: old.depth, words: old.words, payload };
        let new = self.arena.insert(record).ok()?;
        table.insert(hash, new);
        table.remove(hash, index);
        self.arena.remove(index);
        Some(new)
    }

    /// Port, subtable and hash of a megaflow.
    fn locate(&self, index: u32) -> Option<(u32, Arc<Subtable>, u32)> {
        let record = self.arena.get(index)?;
        let in_port = (record.line[0] >> 16) as u32 & MAX_PORT;
        let port_megaflows = self.port_megaflows(in_port)?;
        let same_mask = |t: &&Arc<Subtable>| {
            let (a, b) = (&t.mask().ext, &record.ext);
            t.mask().line == record.mask
                && a.len() == b.len()
                && a.iter().zip(b.iter()).all(|(a, b)| (a.at, a.mask) == (b.at, b.mask))
        };
        let table = port_megaflows.subtables().iter().find(same_mask)?;
        let (ext, options) = full_rest(record.ext.iter().map(|w| (w.at, w.value)));
        let rest = Rest::new(&ext, Some(&options));
        Some((in_port, Arc::clone(table), table.hash(&record.line, rest)))
    }

    /// Frees removed records that no reader can see any more; `freed` is called with each index before it can be
    /// reused.
    pub fn reclaim(&mut self, freed: impl FnMut(u32)) {
        self.arena.reclaim(freed);
    }

    /// Sorts the subtables of every port by hits; if they are sorted already, removes unused bits from the port's union of masks. To be
    /// called about once a second.
    pub fn rank(&mut self) {
        let all = self.by_port.load_full();
        for (port, port_megaflows) in all.iter().enumerate().filter_map(|(i, c)| Some((i, c.as_ref()?))) {
            let hits: Vec<u64> = port_megaflows.subtables().iter().map(|t| t.hits()).collect();
            if !hits.is_sorted_by(|a, b| a >= b) {
                let mut order: Vec<usize> = (0..hits.len()).collect();
                order.sort_by_key(|&i| std::cmp::Reverse(hits[i]));
                let sorted = order.into_iter().map(|i| Arc::clone(&port_megaflows.subtables()[i])).collect();
                self.publish(port as u32, sorted);
            } else if port_megaflows.is_union_stale() {
                self.recompute_union(port as u32, port_megaflows);
            }
            port_megaflows.subtables().iter().for_each(|t| t.age_hits());
        }
    }

    /// Number of masks, summed over the ports.
    pub fn mask_count(&self) -> usize {
        self.by_port.load().iter().flatten().map(|c| c.subtables().len()).sum()
    }
}

/// The smallest number that no subtable of the port has.
fn free_number(port_megaflows: Option<&PortMegaflows>) -> u16 {
    let used: Vec<u16> =
        port_megaflows.map_or(&[][..], PortMegaflows::subtables).iter().map(|t| t.number()).collect();
    (0..u16::MAX).find(|n| !used.contains(n)).unwrap_or(u16::MAX - 1)
}
