//! The buffers into which the kernel receives packets for a queue.
//!
//! The kernel needs a buffer before the length of the frame is known. Posting 64 KB each time would evict small packets
//! from the CPU's caches; posting 2 KB would require another copy of every TCP segment. So small frames are posted, each with a
//! spare buffer for the rest of a long packet. After a long packet, large frames are posted until 64 consecutive bursts
//! contained no long packet.

use crate::linux::zeroed::Zeroed;
use packet::frame::{FRAME_MAX, Frame, FramePool, USUAL_FRAME_MAX};

/// Number of consecutive bursts without a long packet after which small frames are posted again.
const SMALL_AGAIN_AFTER: u32 = 64;

/// Frames into which the kernel can receive.
pub struct Posted {
    frames: Vec<Option<Frame>>,
    /// The spare buffers, one after another.
    spare: Zeroed,
    /// Whether large frames are posted.
    large: bool,
    /// Whether the current burst contained a long packet.
    long_seen: bool,
    /// Number of consecutive bursts without a long packet.
    bursts_without_long: u32,
}

impl Posted {
    /// Creates the state for `n` frames, which `fill` allocates.
    pub fn new(n: usize) -> Posted {
        Posted {
            frames: (0..n).map(|_| None).collect(),
            spare: Zeroed::new(n * FRAME_MAX),
            large: false,
            long_seen: false,
            bursts_without_long: 0,
        }
    }

    fn size(&self) -> usize {
        if self.large { FRAME_MAX } else { USUAL_FRAME_MAX }
    }

    /// Allocates those of the first `n` frames that are missing. Returns false if the pool is empty.
    pub fn fill(&mut self, pool: &mut FramePool, n: usize) -> bool {
        let size = self.size();
        for slot in self.frames.iter_mut().take(n) {
            if slot.is_none() {
                *slot = pool.alloc(size);
                if slot.is_none() {
                    return false;
                }
            }
        }
        true
    }

    /// Calls `receive` with the first `n` frames (at most `N_MAX`), each with its spare buffer.
    pub fn with_buffers<const N_MAX: usize>(
        &mut self,
        n: usize,
        receive: impl FnOnce(&mut [[&mut [u8]; 2]]) -> usize,
    ) -> usize {
        let mut buffers: [[&mut [u8]; 2]; N_MAX] = std::array::from_fn(|_| [&mut [][..], &mut [][..]]);
        let n = n.min(N_MAX);
        let spares = self.spare.bytes_mut().chunks_mut(FRAME_MAX);
        let mut n_buffers = 0;
        for ((buffer, frame), spare) in
            buffers.iter_mut().zip(self.frames.iter_mut().flatten()).zip(spares).take(n)
        {
            let spare_bytes = FRAME_MAX - frame.len();
            *buffer = [frame.bytes_mut(), &mut spare[..spare_bytes]];
            n_buffers += 1;
        }
        receive(&mut buffers[..n_buffers])
    }

    /// Removes and returns frame `i`, into which `len` bytes were received. `None`: the pool is empty.
    pub fn take_frame(&mut self, pool: &mut FramePool, i: usize, len: usize) -> Option<Frame> {
        let mut frame = self.frames.get_mut(i)?.take()?;
        self.long_seen |= len > USUAL_FRAME_MAX;
        let first_bytes = frame.len();
        if len <= first_bytes {
            frame.trim(len);
            return Some(frame);
        }
        let mut complete = pool.alloc(len)?;
        let (front, back) = complete.bytes_mut().split_at_mut(first_bytes);
        front.copy_from_slice(frame.bytes());
        back.copy_from_slice(self.spare.bytes().get(i * FRAME_MAX..i * FRAME_MAX + back.len())?);
        pool.free(frame);
        Some(complete)
    }

    /// Adapts the size of posted frames to the lengths of the received packets.
    pub fn end_of_burst(&mut self, pool: &mut FramePool) {
        self.bursts_without_long =
            if std::mem::take(&mut self.long_seen) { 0 } else { self.bursts_without_long + 1 };
        let large = if self.large {
            self.bursts_without_long < SMALL_AGAIN_AFTER
        } else {
            self.bursts_without_long == 0
        };
        if large != self.large {
            self.large = large;
            for frame in self.frames.iter_mut().filter_map(Option::take) {
                pool.free(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(posted: &mut Posted, pool: &mut FramePool, len: usize) -> Vec<u8> {
        assert!(posted.fill(pool, 2));
        let n = posted.with_buffers::<2>(2, |buffers| {
            let [first, second] = &mut buffers[0];
            let mut i = 0;
            for b in first.iter_mut().chain(second.iter_mut()).take(len) {
                *b = i as u8;
                i += 1;
            }
            assert_eq!(i, len);
            1
        });
        assert_eq!(n, 1);
        let frame = posted.take_frame(pool, 0, len).unwrap();
        posted.end_of_burst(pool);
        let bytes = frame.bytes().to_vec();
        pool.free(frame);
        bytes
    }

    #[test]
    fn long_packets_arrive_whole_and_change_what_is_posted() {
        let mut pool = FramePool::new(8);
        let mut posted = Posted::new(2);
        let pattern = |len: usize| (0..len).map(|i| i as u8).collect::<Vec<u8>>();
        assert_eq!(burst(&mut posted, &mut pool, 60), pattern(60));
        assert!(!posted.large);
        assert_eq!(burst(&mut posted, &mut pool, FRAME_MAX), pattern(FRAME_MAX));
        assert!(posted.large);
        assert_eq!(burst(&mut posted, &mut pool, 9000), pattern(9000));
        for _ in 0..SMALL_AGAIN_AFTER {
            assert_eq!(burst(&mut posted, &mut pool, 60), pattern(60));
        }
        assert!(!posted.large);
    }
}
