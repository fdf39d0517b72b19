//! A worker's lane of counters, with the counts at the last fold.
//!
//! The counts at the last fold are stored in chunks, by index like the lane, so checking a megaflow without new packets
//! costs a comparison of two words.

use super::entries::CHUNK;
use dpif::FlowStats;
use sync::{LaneCount, LaneReader};
use units::{Millis, WorkerId};

/// The lane of one worker, with the counts at the last fold.
pub(super) struct WorkerLane {
    pub(super) worker: WorkerId,
    /// The reading side of the lane.
    pub(super) lane: LaneReader,
    folded: Vec<Option<Box<[LaneCount]>>>,
}

impl WorkerLane {
    pub(super) fn new(worker: WorkerId, lane: LaneReader) -> WorkerLane {
        WorkerLane { worker, lane, folded: Vec::new() }
    }

    /// Returns the present counts and the counts at the last fold; `None` if they are equal.
    pub(super) fn present_and_folded(&self, index: u32) -> Option<(LaneCount, LaneCount)> {
        let (present, folded) = (self.lane.read(index), self.folded(index));
        (present.packets_since(&folded) != 0).then_some((present, folded))
    }

    fn folded(&self, index: u32) -> LaneCount {
        let chunk = self.folded.get(index as usize / CHUNK).and_then(Option::as_ref);
        chunk.map(|c| c[index as usize % CHUNK]).unwrap_or_default()
    }

    fn set_folded(&mut self, index: u32, present: LaneCount) {
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        if self.folded.len() <= chunk {
            self.folded.resize_with(chunk + 1, || None);
        }
        self.folded[chunk].get_or_insert_with(|| vec![LaneCount::default(); CHUNK].into())[at] = present;
    }

    /// Clears an index before it is used again.
    pub(super) fn clear(&mut self, index: u32) {
        self.lane.clear(index);
        if let Some(Some(chunk)) = self.folded.get_mut(index as usize / CHUNK) {
            chunk[index as usize % CHUNK] = LaneCount::default();
        }
    }

    /// Returns the new counts since the last call, with the time of the last packet and all TCP flags.
    pub(super) fn take(&mut self, index: u32, now: Millis) -> Option<FlowStats> {
        let (present, folded) = self.present_and_folded(index)?;
        self.set_folded(index, present);
        Some(FlowStats {
            packets: present.packets_since(&folded),
            bytes: present.bytes_since(&folded),
            used: Some(Millis(now.0.saturating_sub(ago(present.used, now)))),
            tcp_flags: present.tcp_flags,
        })
    }
}

/// Returns the milliseconds since a time stamp of a lane.
pub(super) fn ago(used: u32, now: Millis) -> u64 {
    let ago = (now.0 as u32).wrapping_sub(used);
    // The clock of a worker may be slightly ahead of the caller's.
    if ago > u32::MAX / 2 { 0 } else { ago.into() }
}
