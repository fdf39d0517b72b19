//! The reading side: megaflows, and the contexts that they are found by.

use super::key::{Depth, EXT_WORDS, ExtWord, KeyMask, Rest, Rests, Words};
use super::publisher::MegaflowPublisher;
use super::subtable::{Probes, Subtable};
use cpu::{Line, masked_eq};
use std::sync::Arc;
use sync::{Arena, Cached, Reader, Snapshot};

/// A megaflow: the line and its mask first, since every verification reads them.
#[repr(C, align(64))]
pub struct Megaflow<P> {
    pub(super) line: Line,
    pub(super) mask: Line,
    pub(super) ext: Box<[ExtWord]>,
    pub(super) depth: Depth,
    /// The words of `ext`.
    pub(super) words: Words,
    /// What the datapath does with it.
    pub payload: P,
}

impl<P> Megaflow<P> {
    /// Which of these packets, all parsed to `depth`, belong to the megaflow: a bit for each. No packet belongs to a
    /// megaflow that looks at tunnel options.
    #[inline]
    pub fn matching(&self, lines: &[Line], rests: Rests<'_>, depth: Depth) -> u64 {
        if self.depth > depth || self.words & (!rests.known | 1 << EXT_WORDS) != 0 {
            return 0;
        }
        let mut hits = cpu::matching(lines, &self.line, &self.mask);
        for w in &self.ext {
            let column = rests.exts.get(usize::from(w.at)).map_or(&[][..], |column| column);
            hits &= cpu::matching_words(&column[..lines.len().min(column.len())], w.value, w.mask);
        }
        hits
    }

    /// A packet of this key, parsed deep enough, belongs to the megaflow. A key that was parsed less deeply, or lacks a word
    /// that the megaflow looks at, does not match: what is missing would be taken for something else.
    #[inline(always)]
    pub fn matches(&self, line: &Line, rest: Rest<'_>, depth: Depth) -> bool {
        self.matches_line(line, depth)
            && self.words & !rest.known == 0
            && self.ext.iter().all(|w| (rest.word(w.at) ^ w.value) & w.mask == 0)
    }

    /// The same of packets without rests: a megaflow that looks at any is [`Depth::Wide`], and they are not.
    #[inline(always)]
    pub(super) fn matches_line(&self, line: &Line, depth: Depth) -> bool {
        masked_eq(&self.line, line, &self.mask) & (self.depth <= depth)
    }
}

/// The megaflows of one ingress port.
#[derive(Default)]
pub struct Context {
    subtables: Vec<Arc<Subtable>>,
    depth: Depth,
    by_kind: bool,
    union: KeyMask,
    words: Words,
    /// What programs read, whatever is matched.
    read: Read,
    /// The place of each subtable by its number.
    places: Vec<u16>,
}

/// How deep packets are parsed, and which words behind the line are filled.
pub(super) type Read = (Depth, Words);

impl Context {
    /// `seen`: bits to be part of the union in any case. `read`: what is parsed in any case.
    pub(super) fn new(subtables: Vec<Arc<Subtable>>, seen: &KeyMask, read: Read) -> Context {
        let depth = subtables.iter().map(|t| t.depth()).max().unwrap_or(Depth::Port).max(read.0);
        let by_kind = subtables.iter().all(|t| t.mask().is_by_kind()) && read.0 == Depth::Port;
        let numbers = subtables.iter().map(|t| usize::from(t.number()) + 1).max().unwrap_or(0);
        let mut places = vec![u16::MAX; numbers];
        for (place, table) in subtables.iter().enumerate() {
            places[usize::from(table.number())] = place as u16;
        }
        let union = union_of(&subtables, seen);
        let words = union.words() | read.1;
        Context { subtables, depth, by_kind, union, words, read, places }
    }

    /// Every bit that a megaflow looks at. Packets that agree in them have the same megaflow.
    ///
    /// While the port has megaflows, bits are added at once and taken away seldom: caches that hash by the union find
    /// nothing again after a change.
    pub fn union(&self) -> &KeyMask {
        &self.union
    }

    /// Every word behind the line that a megaflow or its program looks at: what must be parsed of packets of this port, as deep as
    /// [`depth`](Self::depth).
    pub fn words(&self) -> Words {
        self.words
    }

    /// What is parsed in any case.
    pub(super) fn read(&self) -> Read {
        self.read
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

    /// All megaflows share one mask: a cache in front would be as long a way.
    pub fn is_single(&self) -> bool {
        self.subtables.len() <= 1
    }

    /// Where the subtable of this number is among the [`subtables`](Self::subtables).
    pub(super) fn place(&self, number: u16) -> Option<usize> {
        self.places.get(usize::from(number)).map(|&place| usize::from(place))
    }
}

fn union_of(subtables: &[Arc<Subtable>], seen: &KeyMask) -> KeyMask {
    subtables.iter().fold(seen.clone(), |union, t| union.or(t.mask()))
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
    pub fn new(capacity: usize, max_masks: usize, seed: u64) -> (MegaflowTable<P>, MegaflowPublisher<P>) {
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

    /// How far megaflows lie from where their hashes say, over all subtables.
    pub fn probes(&self) -> Probes {
        let contexts = self.contexts.load();
        let tables = contexts.iter().flatten().flat_map(|c| &c.subtables);
        tables.map(|t| t.probes()).fold(Probes::default(), Probes::and)
    }

    /// The context of a port, if it has any megaflow.
    pub fn context(&self, in_port: u32) -> Option<Arc<Context>> {
        self.contexts.load().get(in_port as usize)?.clone()
    }
}
