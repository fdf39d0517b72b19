//! Packets whose tails stay in the guest's memory until the switch has sent them.
//!
//! When a long packet is received, only its beginning is copied, so that headers are parsed from a private copy. The frame gets a lease
//! on the rest, the tail (`buffer::tail`). The tail is copied once: into the buffer of the guest that receives the packet, or earlier if
//! a worker needs the bytes. The used entries of such a burst are published when all of its frames have been sent, copied or freed.

use super::state::HEADER;
use crate::copy;
use crate::memory::{GuestMemory, Part};
use arrayvec::ArrayVec;
use packet::frame::{ExternalMemory, Frame, PIECES_MAX, Piece, Tail};
use packet::queue::RX_BURST;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a long packet that are copied when it is received: two cache lines of the frame. They contain Ethernet, two VLAN tags, IPv6
/// and TCP (82 bytes), or Ethernet, IPv6 and TCP inside VXLAN over IPv4 (124 bytes).
pub(crate) const HEAD_LEN: usize = 128;
/// Packets of at least this length, 512 bytes, keep their tails in guest memory. For shorter packets, a lease costs more than the copy.
pub(crate) const TAIL_MIN_PACKET: usize = HEAD_LEN + 384;

/// How the tails in guest memory are read.
pub(crate) static GUEST_MEMORY: ExternalMemory = ExternalMemory { name: "guest", read };

/// Copies bytes of a tail to memory of the switch.
///
/// # Safety
///
/// As for [`ExternalMemory::read`]: `from` is mapped for `len` bytes, `to` is memory of the switch.
unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges.
    unsafe { copy::between(from, to, len) };
}

/// The leases of one burst.
#[derive(Debug)]
pub(crate) struct TailLeases {
    /// True while a frame needs the tail of this lease.
    leases: Box<[AtomicBool]>,
    /// Number of leases that this burst uses: the first ones of `leases`.
    count: usize,
    /// Keeps the guest memory mapped in which the tails are.
    memory: Option<Arc<GuestMemory>>,
}

impl TailLeases {
    pub fn new() -> TailLeases {
        let leases = std::iter::repeat_with(AtomicBool::default).take(RX_BURST).collect();
        TailLeases { leases, count: 0, memory: None }
    }

    /// Whether the burst has no leases.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no frame needs its tail any more.
    pub fn all_released(&self) -> bool {
        self.leases.iter().take(self.count).all(|lease| !lease.load(Ordering::Acquire))
    }

    /// Ends the burst, if all its leases were released.
    pub fn clear(&mut self) {
        if self.all_released() {
            (self.count, self.memory) = (0, None);
        }
    }

    /// Leases these parts of `memory` to the frame, as the bytes that follow its first `head` bytes. Returns false if there are too many
    /// parts or leases, or if the frame cannot have such a tail: then the caller must copy the parts.
    #[inline]
    pub fn lease_tail<'m>(
        &mut self,
        frame: &mut Frame,
        head: usize,
        parts: impl Iterator<Item = Part<'m>>,
        memory: &Arc<GuestMemory>,
    ) -> bool {
        let mut pieces = ArrayVec::<Piece, PIECES_MAX>::new();
        for part in parts {
            if pieces.try_push(Piece { at: part.start(), len: part.len() }).is_err() {
                return false;
            }
        }
        let Some(lease) = self.leases.get(self.count) else { return false };
        // SAFETY: `self` keeps `memory` mapped and the lease allocated until all leases are false (see `clear` and `drop`). No other frame
        // uses this lease: its index is new in this burst, and `clear` ended earlier bursts only after all their leases were false.
        let leased = frame.attach_tail(head, unsafe { Tail::new(&GUEST_MEMORY, lease, &pieces) });
        if leased {
            self.count += 1;
            if self.memory.is_none() {
                self.memory = Some(Arc::clone(memory));
            }
        }
        leased
    }
}

impl Drop for TailLeases {
    fn drop(&mut self) {
        // If a frame still needs its tail, memory and leases are leaked. Workers do not drop a queue in this state.
        if !self.all_released() {
            std::mem::forget((std::mem::take(&mut self.leases), self.memory.take()));
        }
    }
}

/// Copies the absent tail of a frame into a buffer of a guest. The buffer begins with the packet's virtio header.
#[inline(never)]
pub(crate) fn write_tail(frame: &Frame, buffer: Part<'_>) {
    let head = frame.head().len();
    let (mut to, mut left, mut n) = (buffer.skip(HEADER + head), frame.len() - head, 0);
    while left > 0
        && let Some(piece) = frame.piece(&GUEST_MEMORY, n)
    {
        let len = piece.len.min(left);
        // SAFETY: the piece is readable: the frame still holds its lease, because nothing has used the frame since `frame.piece`.
        let written = unsafe { to.write_guest_piece(Piece { len, ..piece }) };
        (to, left, n) = (to.skip(written), left - len, n + 1);
    }
}

/// Prefetches the first `bytes` bytes of an absent tail.
#[inline]
pub(crate) fn prefetch_tail(frame: &Frame, bytes: usize) {
    if let Some(piece) = frame.piece(&GUEST_MEMORY, 0) {
        (0..piece.len.min(bytes))
            .step_by(crate::memory::CACHE_LINE)
            .for_each(|at| cpu::prefetch_at(piece.at.wrapping_add(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::RegionLayout;
    use crate::memory::tests::file;
    use packet::frame::FramePool;

    #[test]
    fn memory_stays_until_every_frame_is_done() {
        let layout = RegionLayout { guest: 0, size: 1 << 16, user: 0, offset: 0 };
        let memory = Arc::new(GuestMemory::map(&[layout], &[&file(1 << 16)]).unwrap());
        memory.part(0, 4, &mut 0).unwrap().write(b"tail");
        let (mut pool, mut leases) = (FramePool::new(4), TailLeases::new());
        let mut frames: Vec<Frame> = (0..3).map(|_| pool.alloc(HEAD_LEN + 600).unwrap()).collect();
        for frame in &mut frames {
            let part = memory.part(0, 600, &mut 0).into_iter();
            assert!(leases.lease_tail(frame, HEAD_LEN, part, &memory) && !frame.is_complete());
        }
        let short = memory.part(0, 599, &mut 0).into_iter();
        assert!(!leases.lease_tail(&mut pool.alloc(HEAD_LEN + 600).unwrap(), HEAD_LEN, short, &memory));
        assert!(!leases.is_empty() && !leases.all_released() && Arc::strong_count(&memory) == 2);
        assert_eq!(frames[0].bytes()[HEAD_LEN..HEAD_LEN + 4], *b"tail");
        pool.free(frames.pop().unwrap());
        leases.clear();
        assert!(!leases.all_released());
        frames.clear();
        assert!(leases.all_released());
        leases.clear();
        assert!(leases.is_empty() && Arc::strong_count(&memory) == 1);
        // If the leases are dropped while a frame still needs its tail, the guest's memory stays mapped.
        let mut frame = pool.alloc(HEAD_LEN + 600).unwrap();
        assert!(leases.lease_tail(&mut frame, HEAD_LEN, memory.part(0, 600, &mut 0).into_iter(), &memory));
        drop(leases);
        assert_eq!((Arc::strong_count(&memory), &frame.bytes()[HEAD_LEN..HEAD_LEN + 4]), (2, &b"tail"[..]));
    }
}
