//! Room for new megaflows: where there are as many as there may be, one that was not used for long goes.
//!
//! Which one was used least recently of all is not known without looking at all; of [`SAMPLE`] that a hand comes by, it is.
//! The hand goes round, so that each is looked at in its turn.

use super::{Credits, Entry, Flows, LaneSlot};
use units::Millis;

/// Megaflows of which the one unused for longest goes.
const SAMPLE: usize = 16;
/// Indices without a megaflow that the hand passes at most.
const STEPS: usize = 1024;
/// Removed megaflows that may wait for readers: as many more than the limit have an index.
pub(crate) const SPARE: usize = 8192;
/// So many that wait are worth a look whether readers have gone on.
const WAITING: usize = 256;

impl Flows {
    /// Makes room for one more, unless there is some, or none may be taken. What was removed is told of by
    /// [`Flows::reclaim`], as ever.
    pub(crate) fn make_room(&mut self, now: Millis, credits: &mut Credits) {
        if self.limit == 0 || self.entries.len() < self.limit {
            return;
        }
        if self.dying.len() >= WAITING {
            self.reclaim(now, credits);
        }
        if self.dying.len() < SPARE
            && let Some(index) = self.least_used(now)
            && let Some(entry) = self.entries.remove(&index)
        {
            self.by_ufid.remove(&entry.ufid);
            self.publisher.remove(index);
            self.dying.insert(index, entry);
        }
    }

    /// Of those that the hand comes by, the one unused for longest. Those put by hand are their makers'.
    fn least_used(&mut self, now: Millis) -> Option<u32> {
        let indices = (self.capacity + SPARE) as u32;
        let (mut oldest, mut seen) = (None, 0);
        for _ in 0..STEPS {
            self.hand = if self.hand + 1 < indices { self.hand + 1 } else { 0 };
            let Some(entry) = self.entries.get(&self.hand) else { continue };
            let Some(age) = age(&self.lanes, self.hand, entry, now) else { continue };
            if oldest.is_none_or(|(_, other)| age > other) {
                oldest = Some((self.hand, age));
            }
            seen += 1;
            if seen == SAMPLE {
                break;
            }
        }
        oldest.map(|(index, _)| index)
    }
}

/// Milliseconds since the last packet, or since it was made.
fn age(lanes: &[Option<LaneSlot>], index: u32, entry: &Entry, now: Millis) -> Option<u64> {
    let born = entry.birth?.at;
    let folded = entry.total.used.unwrap_or(born).max(born);
    let mut age = now.0.saturating_sub(folded.0);
    for (place, slot) in lanes.iter().enumerate() {
        let Some(slot) = slot else { continue };
        let read = slot.lanes.read(index);
        let seen = entry.lanes.get(place).map(|c| c.seen).unwrap_or_default();
        if read.packets_since(&seen) != 0 {
            let ago = (now.0 as u32).wrapping_sub(read.used);
            // A worker may be a little ahead of who asks.
            age = age.min(if ago > u32::MAX / 2 { 0 } else { ago.into() });
        }
    }
    Some(age)
}
