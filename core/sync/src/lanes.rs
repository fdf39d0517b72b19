//! Per-worker counters of arena records: 16 bytes per record and worker.
//!
//! One thread writes a lane, by loads and stores without atomic read-modify-write. The folding thread, which adds the lanes to totals,
//! reads it at any time. It may read the two words of a cell at different moments: what one fold misses, the next one finds, because only
//! differences are added. Counters wrap: packets at 32 bits, bytes at 48 bits, times at 32 bits of milliseconds. A fold must happen before
//! a counter has advanced by its complete range.

use crate::zeroed_mapping::ZeroedMapping;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use zerocopy::FromZeros;

const BYTES: u64 = (1 << 48) - 1;

#[derive(Debug, FromZeros)]
struct Cell {
    /// Number of packets in the high half, time of the last packet in the low half.
    packets_used: AtomicU64,
    /// Number of bytes, and TCP flags in the low 16 bits.
    bytes_flags: AtomicU64,
}

/// The contents of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCount {
    /// Number of packets, wrapping.
    pub packets: u32,
    /// Time of the last packet in milliseconds, wrapping.
    pub used: u32,
    /// Number of bytes, wrapping at 48 bits.
    pub bytes: u64,
    /// All TCP flags of the packets.
    pub tcp_flags: u16,
}

impl LaneCount {
    /// Packets since `earlier`.
    pub fn packets_since(&self, earlier: &LaneCount) -> u64 {
        u64::from(self.packets.wrapping_sub(earlier.packets))
    }

    /// Bytes since `earlier`.
    pub fn bytes_since(&self, earlier: &LaneCount) -> u64 {
        self.bytes.wrapping_sub(earlier.bytes) & BYTES
    }
}

/// The cells of all records. Cells that were never written cost address space, not memory.
type Cells = Arc<ZeroedMapping<Cell>>;

/// The writing side of a lane: one worker has it.
pub struct LaneWriter {
    cells: Cells,
}

/// The reading side of a lane.
#[derive(Clone)]
pub struct LaneReader {
    cells: Cells,
}

impl LaneWriter {
    /// Makes a lane for an arena of `capacity` records, and its reading side.
    pub fn new(capacity: usize) -> (LaneWriter, LaneReader) {
        let cells = Cells::new(ZeroedMapping::new(capacity));
        (LaneWriter { cells: Arc::clone(&cells) }, LaneReader { cells })
    }

    /// Prefetches the cell that `count` of this index changes.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(cell) = self.cells.get(index as usize) {
            cpu::prefetch_read(cell);
        }
    }

    /// Counts packets of the record `index`. `now`: the time in milliseconds. `&mut self`, because a lane has one writer.
    #[inline]
    pub fn count(&mut self, index: u32, packets: u32, bytes: u64, now: u32, tcp_flags: u16) {
        let Some(cell) = self.cells.get(index as usize) else { return };
        // Both sums are in the high parts of their words: an overflow is lost and does not affect the low parts.
        let packets = (cell.packets_used.load(Ordering::Relaxed) >> 32).wrapping_add(packets.into());
        cell.packets_used.store(packets << 32 | u64::from(now), Ordering::Relaxed);
        let bytes = cell.bytes_flags.load(Ordering::Relaxed).wrapping_add(bytes << 16);
        cell.bytes_flags.store(bytes | u64::from(tcp_flags), Ordering::Relaxed);
    }
}

impl LaneReader {
    /// Returns whether the writing side or another reading side of this lane exists. If not, its counts do not change any more.
    pub fn is_used(&self) -> bool {
        let is_used = Arc::strong_count(&self.cells) > 1;
        // Acquire: if the writing side was dropped, everything that it has counted is visible.
        fence(Ordering::Acquire);
        is_used
    }

    /// The counts of a record; zeros if nothing was ever counted.
    pub fn read(&self, index: u32) -> LaneCount {
        let Some(cell) = self.cells.get(index as usize) else { return LaneCount::default() };
        let (a, b) = (cell.packets_used.load(Ordering::Relaxed), cell.bytes_flags.load(Ordering::Relaxed));
        LaneCount { packets: (a >> 32) as u32, used: a as u32, bytes: b >> 16, tcp_flags: b as u16 }
    }

    /// Clears the cell of a record before its index is reused. No worker may count packets for the record any more.
    pub fn clear(&self, index: u32) {
        if let Some(cell) = self.cells.get(index as usize) {
            cell.packets_used.store(0, Ordering::Relaxed);
            cell.bytes_flags.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_wrap_and_differences_are_right() {
        let (mut lane, lanes) = LaneWriter::new(2000);
        assert_eq!(lanes.read(1500), LaneCount::default());
        lane.count(1500, u32::MAX, BYTES, 5, 0x02);
        let first = lanes.read(1500);
        lane.count(1500, 3, 180, 9, 0x10);
        let second = lanes.read(1500);
        assert_eq!(second.packets_since(&first), 3);
        assert_eq!(second.bytes_since(&first), 180);
        assert_eq!((second.used, second.tcp_flags), (9, 0x12));
        lanes.clear(1500);
        assert_eq!(lanes.read(1500), LaneCount::default());
        lane.count(999_999, 1, 1, 1, 0);
        assert!(lanes.is_used());
        drop(lane);
        assert!(!lanes.is_used());
    }
}
