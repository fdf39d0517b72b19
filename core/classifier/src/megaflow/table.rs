//! The reading side: contexts, and the look-up of a batch.

use super::key::{Depth, ExtWord, Key, KeyMask, Rest, Rests};
use super::publisher::MegaflowPublisher;
use super::subtable::{Subtable, View};
use cpu::{Line, masked_eq};
use std::sync::Arc;
use sync::{Arena, Cached, Guard, Reader, Snapshot};

/// A megaflow: the line and its mask first, since every verification reads them.
#[repr(C, align(64))]
pub struct Megaflow<P> {
    pub(super) line: Line,
    pub(super) mask: Line,
    pub(super) ext: Box<[ExtWord]>,
    pub(super) depth: Depth,
    /// What the datapath does with it.
    pub payload: P,
}

impl<P> Megaflow<P> {
    /// Which of these packets, all parsed to `depth`, belong to the megaflow: a bit for each. None of a wide megaflow.
    #[inline]
    pub fn matching(&self, lines: &[Line], depth: Depth) -> u64 {
        if self.depth > depth || !self.ext.is_empty() {
            0
        } else {
            cpu::matching(lines, &self.line, &self.mask)
        }
    }

    /// A packet of this key, parsed deep enough, belongs to the megaflow. A key that was parsed less deeply does not
    /// match: its missing fields would be taken for zeroes.
    #[inline(always)]
    pub fn matches(&self, line: &Line, rest: Rest<'_>, depth: Depth) -> bool {
        masked_eq(&self.line, line, &self.mask)
            && self.depth <= depth
            && self.ext.iter().all(|w| (rest.word(w.at) ^ w.value) & w.mask == 0)
    }
}

/// The megaflows of one ingress port.
#[derive(Default)]
pub struct Context {
    subtables: Vec<Arc<Subtable>>,
    depth: Depth,
    by_kind: bool,
    union: KeyMask,
    /// The place of each subtable by its number.
    places: Vec<u16>,
}

impl Context {
    /// `seen`: bits to be part of the union in any case.
    pub(super) fn new(subtables: Vec<Arc<Subtable>>, seen: &KeyMask) -> Context {
        let depth = subtables.iter().map(|t| t.depth()).max().unwrap_or(Depth::Port);
        let by_kind = subtables.iter().all(|t| t.mask().is_by_kind());
        let numbers = subtables.iter().map(|t| usize::from(t.number()) + 1).max().unwrap_or(0);
        let mut places = vec![u16::MAX; numbers];
        for (place, table) in subtables.iter().enumerate() {
            places[usize::from(table.number())] = place as u16;
        }
        let union = union_of(&subtables, seen);
        Context { subtables, depth, by_kind, union, places }
    }

    /// Every bit that a megaflow looks at. Packets that agree in them have the same megaflow.
    ///
    /// While the port has megaflows, bits are added at once and taken away seldom: caches that hash by the union find
    /// nothing again after a change.
    pub fn union(&self) -> &KeyMask {
        &self.union
    }

    /// The union holds bits that no megaflow looks at any more.
    pub(super) fn is_union_stale(&self) -> bool {
        self.union != union_of(&self.subtables, &KeyMask::default())
    }

    /// How deep packets of this port must be parsed.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// No megaflow looks at more of a packet than its kind: VLAN tags, Ethernet type, fragment bits
    /// ([`KIND_BITS`](super::key::KIND_BITS)). Packets of one kind are the same to all of them.
    pub fn is_by_kind(&self) -> bool {
        self.by_kind
    }

    /// The subtables, the one with most hits first.
    pub fn subtables(&self) -> &[Arc<Subtable>] {
        &self.subtables
    }

    /// The megaflow of a packet, if it is in the subtable of this number.
    #[inline]
    pub fn lookup_in<P>(
        &self,
        number: u16,
        guard: &Guard<'_, Megaflow<P>>,
        (line, rest, depth): (&Line, Rest<'_>, Depth),
    ) -> Option<u32> {
        let place = *self.places.get(usize::from(number))?;
        let table = self.subtables.get(usize::from(place))?;
        let hash = table.mask().hash(line, rest, table.seed());
        table.find(hash, |i| guard.get(i).is_some_and(|m| m.matches(line, rest, depth)))
    }

    /// All megaflows share one mask: a cache in front would be as long a way.
    pub fn is_single(&self) -> bool {
        self.subtables.len() <= 1
    }

    /// The megaflow of one packet: its index, and how many subtables were visited.
    pub fn lookup<P>(&self, guard: &Guard<'_, Megaflow<P>>, key: &Key) -> (Option<u32>, u32) {
        let mut visited = 0;
        for table in self.subtables.iter().filter(|t| t.depth() <= key.depth) {
            visited += 1;
            let hash = table.mask().hash(&key.line, key.rest(), table.seed());
            let verify = |i| guard.get(i).is_some_and(|m| m.matches(&key.line, key.rest(), key.depth));
            if let Some(index) = table.find(hash, verify) {
                table.count_hits(1);
                return (Some(index), visited);
            }
        }
        (None, visited)
    }

    /// The megaflows of the packets whose bit is set in `pending`; bits are cleared as packets are found, and `found` is
    /// told of the packet, the megaflow and its subtable. All packets were parsed to `depth`. Returns how many subtables
    /// were visited, summed over the packets *found*.
    #[inline(always)]
    pub fn lookup_batch<P>(
        &self,
        guard: &Guard<'_, Megaflow<P>>,
        (lines, rests, depth): (&[Line], Rests<'_>, Depth),
        pending: &mut u64,
        mut found: impl FnMut(usize, u32, &Subtable),
    ) -> u64 {
        let (mut visits, mut visited) = (0, 0);
        let mut hashes = [0; 64];
        for table in self.subtables.iter().filter(|t| t.depth() <= depth) {
            if *pending == 0 {
                break;
            }
            visited += 1;
            let (mask, seed) = (table.mask(), table.seed());
            let all = pending.count_ones() as usize * 2 >= lines.len();
            if all {
                cpu::hash_lines(lines, &mask.line, seed, &mut hashes);
            }
            let (view, before) = (table.view(), pending.count_ones());
            if all && table.len() > LARGE {
                prefetch(&view, guard, &hashes[..lines.len().min(64)]);
            }
            for i in bits(*pending).take_while(|&i| i < lines.len()) {
                let rest = rests.of(i);
                let hash = if all { hashes[i] } else { cpu::hash_line(&lines[i], &mask.line, seed) };
                let verify = |x| guard.get(x).is_some_and(|m| m.matches(&lines[i], rest, depth));
                if let Some(index) = view.find(mask.hash_rest(hash, rest), verify) {
                    found(i, index, table);
                    *pending &= !(1 << i);
                }
            }
            let hits = u64::from(before - pending.count_ones());
            if hits != 0 {
                table.count_hits(hits);
                visits += hits * visited;
            }
        }
        visits
    }
}

fn union_of(subtables: &[Arc<Subtable>], seen: &KeyMask) -> KeyMask {
    subtables.iter().fold(seen.clone(), |union, t| union.or(t.mask()))
}

/// Megaflows of a subtable that is too large for the processor's nearest cache.
const LARGE: usize = 256;

/// Of a mask without words beyond the line; of others it is of no use, and no harm.
#[inline(always)]
fn prefetch<P>(view: &View, guard: &Guard<'_, Megaflow<P>>, hashes: &[u32]) {
    hashes.iter().for_each(|&hash| view.prefetch(hash));
    hashes.iter().filter_map(|&hash| view.candidate(hash)).for_each(|index| guard.prefetch(index));
}

/// The positions of the bits that are set, from the lowest.
#[inline(always)]
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = set.trailing_zeros();
        (set != 0).then(|| {
            set &= set - 1;
            i as usize
        })
    })
}

/// The contexts of all ports, by number.
type ByPort = Vec<Option<Arc<Context>>>;

/// One worker's look at the contexts: it costs a load as long as none of them changes.
pub struct Contexts(Cached<Arc<Snapshot<ByPort>>, Arc<ByPort>>);

impl Contexts {
    /// The context of a port, if it has any megaflow.
    #[inline]
    pub fn of(&mut self, in_port: u32) -> Option<&Context> {
        self.0.load().get(in_port as usize)?.as_deref()
    }
}

/// What all workers share.
pub struct MegaflowTable<P> {
    arena: Arena<Megaflow<P>>,
    pub(super) contexts: Arc<Snapshot<ByPort>>,
}

impl<P> MegaflowTable<P> {
    /// An empty table for up to `capacity` megaflows with at most `max_masks` masks in a context, and its publisher.
    /// `seed` is secret and of this boot, so that nobody can craft packets that collide.
    pub fn new(capacity: usize, max_masks: usize, seed: u32) -> (MegaflowTable<P>, MegaflowPublisher<P>) {
        let (arena, publisher) = Arena::new(capacity);
        let contexts = Arc::new(Snapshot::from_pointee(Vec::new()));
        let publisher = MegaflowPublisher::new(publisher, Arc::clone(&contexts), max_masks, seed);
        (MegaflowTable { arena, contexts }, publisher)
    }

    /// A reader for one worker.
    pub fn reader(&self) -> Reader<Megaflow<P>> {
        self.arena.reader()
    }

    /// The contexts, for one worker.
    pub fn contexts(&self) -> Contexts {
        Contexts(Cached::new(Arc::clone(&self.contexts)))
    }

    /// How many ports have megaflows, and how many subtables those have together.
    pub fn subtables(&self) -> (usize, usize) {
        let contexts = self.contexts.load();
        let there = || contexts.iter().flatten();
        (there().count(), there().map(|c| c.subtables.len()).sum())
    }

    /// The context of a port, if it has any megaflow.
    pub fn context(&self, in_port: u32) -> Option<Arc<Context>> {
        self.contexts.load().get(in_port as usize)?.clone()
    }
}
