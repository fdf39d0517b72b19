//! The reading side of a megaflow table: megaflows, by ingress port.

use super::key::{Depth, EXT_WORDS, KeyMask, Rest, RestWord, Rests, Words};
use super::subtable::{Probes, Subtable};
use cpu::{Line, masked_eq};
use std::sync::Arc;
use sync::{Arena, Cached, Reader, SnapshotCell};

/// A megaflow. Line and mask come first, because every comparison with a packet reads them.
#[repr(C, align(64))]
pub struct Megaflow<P> {
    pub(super) line: Line,
    pub(super) mask: Line,
    pub(super) ext: Box<[RestWord]>,
    pub(super) depth: Depth,
    /// The words in `ext`.
    pub(super) words: Words,
    /// The datapath's data.
    pub payload: P,
}

impl<P> Megaflow<P> {
    /// Returns a bit for each packet that matches the megaflow. All packets were parsed to `depth`. A megaflow that matches
    /// tunnel options gets no bits here.
    #[inline]
    pub fn matching(&self, lines: &[Line], rests: Rests<'_>, depth: Depth) -> u64 {
        if self.depth > depth || self.words & (!rests.filled | 1 << EXT_WORDS) != 0 {
            return 0;
        }
        let mut hits = cpu::matching(lines, &self.line, &self.mask);
        for w in &self.ext {
            let column = rests.exts.get(usize::from(w.at)).map_or(&[][..], |column| column);
            hits &= cpu::matching_words(&column[..lines.len().min(column.len())], w.value, w.mask);
        }
        hits
    }

    /// Returns whether a packet with this key matches the megaflow. A key that was parsed less deeply, or lacks a
    /// word that the megaflow matches, does not match, because its missing fields would be read as zero.
    #[inline(always)]
    pub fn matches(&self, line: &Line, rest: Rest<'_>, depth: Depth) -> bool {
        self.matches_line(line, depth)
            && self.words & !rest.filled == 0
            && self.ext.iter().all(|w| (rest.word(w.at) ^ w.value) & w.mask == 0)
    }

    /// Returns whether a packet that was parsed to a lower depth than [`Depth::Wide`] matches the megaflow. Only its line is
    /// compared, because a megaflow that matches more than the line has depth `Wide`.
    #[inline(always)]
    pub fn matches_line(&self, line: &Line, depth: Depth) -> bool {
        masked_eq(&self.line, line, &self.mask) & (self.depth <= depth)
    }
}

/// The megaflows of one ingress port.
#[derive(Default)]
pub struct PortMegaflows {
    subtables: Vec<Arc<Subtable>>,
    depth: Depth,
    by_kind: bool,
    /// The depth is L3 or L4, and no megaflow matches more than the line.
    is_short: bool,
    union: KeyMask,
    words: Words,
    /// The fields that must be parsed because programs read them, independent of the masks.
    parsed: ParsedFields,
    /// Index of each subtable in `subtables`, by its number.
    positions: Vec<u16>,
}

/// The depth to which packets are parsed, and the words after the line that are filled.
pub(super) type ParsedFields = (Depth, Words);

impl PortMegaflows {
    /// `min_union`: bits that are part of the union in any case. `parsed`: fields that must be parsed in any case.
    pub(super) fn new(
        subtables: Vec<Arc<Subtable>>,
        min_union: &KeyMask,
        parsed: ParsedFields,
    ) -> PortMegaflows {
        let depth = subtables.iter().map(|t| t.depth()).max().unwrap_or(Depth::Port).max(parsed.0);
        let by_kind = subtables.iter().all(|t| t.mask().is_by_kind()) && parsed.0 == Depth::Port;
        let numbers = subtables.iter().map(|t| usize::from(t.number()) + 1).max().unwrap_or(0);
        let mut positions = vec![u16::MAX; numbers];
        for (position, table) in subtables.iter().enumerate() {
            positions[usize::from(table.number())] = position as u16;
        }
        let union = union_of(&subtables, min_union);
        let words = union.words() | parsed.1;
        let is_short = matches!(depth, Depth::L3 | Depth::L4) && union.ext.is_empty();
        PortMegaflows { subtables, depth, by_kind, is_short, union, words, parsed, positions }
    }

    /// The union of the masks: every bit that a megaflow matches. Packets that are equal in these bits match the same
    /// megaflows.
    ///
    /// While the port has megaflows, bits are added at once and removed rarely, because caches that hash these bits lose all
    /// their entries when the union changes.
    pub fn union(&self) -> &KeyMask {
        &self.union
    }

    /// Depth and [`union`](Self::union), if the depth is L3 or L4 and no megaflow matches more than the line.
    #[inline(always)]
    pub fn short(&self) -> Option<(Depth, &Line)> {
        self.is_short.then_some((self.depth, &self.union.line))
    }

    /// Every word after the line that a megaflow or its program reads: packets of this port must be parsed with these
    /// words, to [`depth`](Self::depth).
    pub fn words(&self) -> Words {
        self.words
    }

    /// The fields that must be parsed because programs read them.
    pub(super) fn parsed(&self) -> ParsedFields {
        self.parsed
    }

    /// Returns whether the union contains bits that no megaflow matches any more.
    pub(super) fn is_union_stale(&self) -> bool {
        self.union != union_of(&self.subtables, &KeyMask::default())
    }

    /// The depth to which packets of this port must be parsed.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Returns whether no megaflow matches more than the kind of a packet: VLAN tags, Ethernet type, fragment bits
    /// ([`KIND_BITS`](super::key::KIND_BITS)). All packets of one kind then have the same megaflow.
    pub fn is_by_kind(&self) -> bool {
        self.by_kind
    }

    /// The subtables, the one with most hits first.
    pub fn subtables(&self) -> &[Arc<Subtable>] {
        &self.subtables
    }

    /// Returns whether all megaflows have the same mask: then a flow cache is not faster than the look-up.
    pub fn is_single(&self) -> bool {
        self.subtables.len() <= 1
    }

    /// Index of the subtable with this number in [`subtables`](Self::subtables).
    pub(super) fn position(&self, number: u16) -> Option<usize> {
        self.positions.get(usize::from(number)).map(|&position| usize::from(position))
    }
}

fn union_of(subtables: &[Arc<Subtable>], min_union: &KeyMask) -> KeyMask {
    subtables.iter().fold(min_union.clone(), |union, t| union.or(t.mask()))
}

/// The megaflows of all ports, by port number.
type ByPort = Vec<Option<Arc<PortMegaflows>>>;

/// The megaflows by port, as one worker reads them: an access costs one atomic load as long as no port's subtables change.
pub struct MegaflowsByPort(Cached<Arc<SnapshotCell<ByPort>>, Arc<ByPort>>);

impl MegaflowsByPort {
    /// The megaflows of a port, if it has any.
    #[inline]
    pub fn of(&mut self, in_port: u32) -> Option<&PortMegaflows> {
        self.0.load().get(in_port as usize)?.as_deref()
    }
}

/// The table that all workers share.
pub struct MegaflowTable<P> {
    pub(super) arena: Arena<Megaflow<P>>,
    pub(super) by_port: Arc<SnapshotCell<ByPort>>,
}

impl<P> MegaflowTable<P> {
    /// A reader for one worker.
    pub fn reader(&self) -> Reader<Megaflow<P>> {
        self.arena.reader()
    }

    /// The megaflows by port, for one worker.
    pub fn by_port(&self) -> MegaflowsByPort {
        MegaflowsByPort(Cached::new(Arc::clone(&self.by_port)))
    }

    /// Number of ports with megaflows, and the sum of their subtables.
    pub fn subtables(&self) -> (usize, usize) {
        let by_port = self.by_port.load();
        let with_megaflows = || by_port.iter().flatten();
        (with_megaflows().count(), with_megaflows().map(|c| c.subtables.len()).sum())
    }

    /// The port that has the most subtables, and their number; `None` if there are no megaflows.
    pub fn most_masks(&self) -> Option<(u32, usize)> {
        let by_port = self.by_port.load();
        let ports = by_port.iter().enumerate();
        let of_port = |(port, port_megaflows): (usize, &Option<Arc<PortMegaflows>>)| {
            port_megaflows.as_ref().map(|port_megaflows| (port as u32, port_megaflows.subtables.len()))
        };
        ports.filter_map(of_port).max_by_key(|(_, masks)| *masks)
    }

    /// How many slots look-ups of the megaflows probe, over all subtables.
    pub fn probes(&self) -> Probes {
        let by_port = self.by_port.load();
        let tables = by_port.iter().flatten().flat_map(|c| &c.subtables);
        tables.map(|t| t.probes()).fold(Probes::default(), Probes::plus)
    }

    /// The megaflows of a port, if it has any.
    pub fn port_megaflows(&self, in_port: u32) -> Option<Arc<PortMegaflows>> {
        self.by_port.load().get(in_port as usize)?.clone()
    }
}
