//! Look-up of the megaflow of one packet, and of the megaflows of a batch.

use super::key::{BATCH, Depth, Key, Rest, Rests};
use super::subtable::{SlotsGuard, Subtable};
use super::table::{Megaflow, MegaflowTable, PortMegaflows};
use cpu::Line;
use sync::Guard;

/// The index that means that no megaflow was found.
pub const NONE: u32 = u32::MAX;

/// A subtable with more megaflows than this does not fit into the L1 cache, so it is prefetched.
const LARGE: usize = 256;
/// From this many packets without a match on, one loop over the whole batch costs less than a branch for each of them.
const MANY_MISSING: u32 = 16;

impl<P> MegaflowTable<P> {
    /// The index of the megaflow of one packet of a port, and the number of visited subtables. Unlike with
    /// [`port_megaflows`](Self::port_megaflows), no reference count is changed, which poll threads and handlers would change for each upcall.
    pub fn lookup(&self, in_port: u32, guard: &Guard<'_, Megaflow<P>>, key: &Key) -> (Option<u32>, u32) {
        let by_port = self.by_port.load();
        let port_megaflows = by_port.get(in_port as usize).and_then(Option::as_deref);
        port_megaflows.map_or((None, 0), |port_megaflows| port_megaflows.lookup(guard, key))
    }
}

impl PortMegaflows {
    /// The megaflow of a packet in the subtable with this number.
    #[inline]
    pub fn lookup_in<P>(
        &self,
        number: u16,
        guard: &Guard<'_, Megaflow<P>>,
        (line, rest, depth): (&Line, Rest<'_>, Depth),
    ) -> Option<u32> {
        let table = self.subtables().get(self.position(number)?)?;
        let hash = table.hash(line, rest);
        table.find(hash, |i| guard.get(i).is_some_and(|m| m.matches(line, rest, depth)))
    }

    /// The index of the megaflow of one packet, and the number of visited subtables.
    pub fn lookup<P>(&self, guard: &Guard<'_, Megaflow<P>>, key: &Key) -> (Option<u32>, u32) {
        let mut visited = 0;
        for table in self.subtables().iter().filter(|t| t.depth() <= key.depth) {
            visited += 1;
            let hash = table.hash(&key.line, key.rest());
            let verify = |i| guard.get(i).is_some_and(|m| m.matches(&key.line, key.rest(), key.depth));
            if let Some(index) = table.find(hash, verify) {
                table.count_hits(1);
                return (Some(index), visited);
            }
        }
        (None, visited)
    }

    /// Finds the megaflows of the packets whose bit is set in `pending`, and clears the bits of packets whose megaflow is
    /// found. Calls `found` with a subtable, a bit for each packet whose megaflow is in it, and the indices of the megaflows
    /// by packet. All packets must have been parsed to `depth`. Returns the number of visited subtables, summed over the
    /// packets whose megaflow was found.
    #[inline(always)]
    pub fn lookup_batch<P>(
        &self,
        guard: &Guard<'_, Megaflow<P>>,
        (lines, rests, depth): (&[Line], Rests<'_>, Depth),
        pending: &mut u64,
        mut found: impl FnMut(&Subtable, u64, &[u32; BATCH]),
    ) -> u64 {
        let (mut visits, mut visited) = (0, 0);
        // Hashes and candidates in the present subtable. An index is valid if its packet has a hit.
        let (mut hashes, mut indices) = ([0; BATCH], [NONE; BATCH]);
        let lines = &lines[..lines.len().min(BATCH)];
        let keys = (lines, rests, depth);
        for table in self.subtables().iter().filter(|t| t.depth() <= depth) {
            if *pending == 0 {
                break;
            }
            visited += 1;
            let view = table.view();
            let mut hits = 0;
            let hash_whole_batch = pending.count_ones() as usize * 2 >= lines.len();
            if hash_whole_batch {
                table.mask().hash_all(lines, rests, table.secret(), &mut hashes);
                candidates(table, &view, guard, &hashes[..lines.len()], &mut indices);
                // If there are many subtables, most of them have no candidate for any packet.
                if indices[..lines.len()].iter().fold(NONE, |all, index| all & index) != NONE {
                    hits = matching_candidates(guard, &indices, keys) & *pending;
                }
            }
            // All pending packets; if the whole batch was hashed, only those that do not match their candidate. Of many packets,
            // those whose megaflow cannot be in a later slot are sorted out without a branch per packet, which would be
            // mispredicted.
            let mut missing = *pending & !hits;
            if hash_whole_batch && missing.count_ones() >= MANY_MISSING {
                let slots = view.slots();
                let hashes = hashes[..lines.len()].iter().enumerate();
                missing &= hashes
                    .fold(0, |bits, (i, &hash)| bits | u64::from(slots.may_be_in_later_slot(hash)) << i);
            }
            for i in bits(missing).take_while(|&i| i < lines.len()) {
                let (line, rest) = (&lines[i], rests.of(i));
                let hash = if hash_whole_batch { hashes[i % BATCH] } else { table.hash(line, rest) };
                let verify = |x| guard.get(x).is_some_and(|m| m.matches(line, rest, depth));
                if let Some(index) = view.find(hash, verify) {
                    indices[i % BATCH] = index;
                    hits |= 1 << i;
                }
            }
            if hits != 0 {
                found(table, hits, &indices);
                *pending &= !hits;
                table.count_hits(hits.count_ones().into());
                visits += u64::from(hits.count_ones()) * visited;
            }
        }
        visits
    }
}

/// Writes the candidate in the first two slots for each packet, or [`NONE`].
#[inline(always)]
fn candidates<P>(
    table: &Subtable,
    view: &SlotsGuard,
    guard: &Guard<'_, Megaflow<P>>,
    hashes: &[u32],
    indices: &mut [u32; BATCH],
) {
    let large = table.len() > LARGE;
    if large {
        hashes.iter().for_each(|&hash| view.prefetch(hash));
    }
    let slots = view.slots();
    for (&hash, index) in hashes.iter().zip(&mut *indices) {
        *index = slots.candidate(hash).unwrap_or(NONE);
    }
    if large {
        indices[..hashes.len()].iter().for_each(|&index| guard.prefetch(index));
    }
}

/// Returns a bit for each packet that matches its candidate. No packet matches [`NONE`].
#[inline(always)]
pub fn matching_candidates<P>(
    guard: &Guard<'_, Megaflow<P>>,
    candidates: &[u32; BATCH],
    (lines, rests, depth): (&[Line], Rests<'_>, Depth),
) -> u64 {
    let (records, mut hits, pairs) = (guard.records(), 0, candidates.iter().zip(lines).enumerate());
    // Two loops, because most batches are parsed to a lower depth than `Wide` and have no words after the
    // line.
    if depth == Depth::Wide {
        for (i, (&index, line)) in pairs {
            hits |= u64::from(records.get(index).is_some_and(|m| m.matches(line, rests.of(i), depth))) << i;
        }
    } else {
        for (i, (&index, line)) in pairs {
            hits |= u64::from(records.get(index).is_some_and(|m| m.matches_line(line, depth))) << i;
        }
    }
    hits
}

/// The positions of the set bits, from the lowest.
#[inline(always)]
pub fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = set.trailing_zeros();
        (set != 0).then(|| {
            set &= set - 1;
            i as usize
        })
    })
}
