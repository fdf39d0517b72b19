//! Packets whose tails stay in the guest's memory until the switch has sent them.
//!
//! When a long packet is received, only its beginning is copied, so that headers are parsed from a private copy. The rest is
//! lent to the frame (`buffer::tail`). It is copied once: into the buffer of the guest that gets the packet, or earlier if a
//! worker needs it. The entries of such a burst are published in the used ring when all of its frames were sent, copied or freed.

use super::split::HEADER;
use crate::copy;
use crate::memory::{GuestMemory, Part};
use arrayvec::ArrayVec;
use packet::frame::{Frame, Outside, PIECES_MAX, Piece, Tail};
use packet::queue::RX_BURST;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a long packet that are copied when it is received: two cache lines of the frame, enough for the headers of TCP in
/// IPv6 with two VLAN tags, and of VXLAN around them.
pub(crate) const HEAD: usize = 128;
/// Packets of at least this length have tails. For shorter packets, a loan costs more than copying the rest.
pub(crate) const LONG: usize = HEAD + 384;

/// Memory of guests.
pub(crate) static GUEST: Outside = Outside { name: "guest", read };

/// # Safety
///
/// As [`Outside::read`] says: `from` is mapped for `len` bytes, `to` is memory of the switch.
unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy::between(from, to, len) };
}

/// The loans of one burst.
#[derive(Debug)]
pub(crate) struct Loans {
    /// True while a frame needs its tail.
    leases: Box<[AtomicBool]>,
    /// Leases of this burst.
    count: usize,
    /// Keeps the memory mapped.
    memory: Option<Arc<GuestMemory>>,
}

impl Loans {
    pub fn new() -> Loans {
        let leases = std::iter::repeat_with(AtomicBool::default).take(RX_BURST).collect();
        Loans { leases, count: 0, memory: None }
    }

    /// Whether the burst lent anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no frame needs a tail any more.
    pub fn are_back(&self) -> bool {
        self.leases.iter().take(self.count).all(|lease| !lease.load(Ordering::Acquire))
    }

    /// Ends the burst, if all its loans were returned.
    pub fn clear(&mut self) {
        if self.are_back() {
            (self.count, self.memory) = (0, None);
        }
    }

    /// Lends these parts of `memory` to the frame: they follow its first `head` bytes. Returns false if that is not possible and
    /// they must be copied.
    #[inline]
    pub fn lend<'m>(
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
        // SAFETY: the parts lie in `memory`, which this keeps until all leases are false (`clear`, `drop`), and the leases stay
        // as long. This lease was used by no frame of this burst, and those of earlier bursts have returned it.
        let lent = frame.lend(head, unsafe { Tail::new(&GUEST, lease, &pieces) });
        if lent {
            self.count += 1;
            if self.memory.is_none() {
                self.memory = Some(Arc::clone(memory));
            }
        }
        lent
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        // If a frame still needs its tail, the memory is not freed. Workers do not drop a queue in this state.
        if !self.are_back() {
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
        && let Some(piece) = frame.piece(&GUEST, n)
    {
        let len = piece.len.min(left);
        // SAFETY: the piece is readable: the frame has not been used since.
        let written = unsafe { to.write_outside(Piece { len, ..piece }) };
        (to, left, n) = (to.skip(written), left - len, n + 1);
    }
}

/// Prefetches the first bytes of an absent tail.
#[inline]
pub(crate) fn prefetch_tail(frame: &Frame, bytes: usize) {
    if let Some(piece) = frame.piece(&GUEST, 0) {
        (0..piece.len.min(bytes))
            .step_by(crate::memory::LINE)
            .for_each(|at| cpu::prefetch_at(piece.at.wrapping_add(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Layout;
    use crate::memory::tests::file;
    use packet::frame::FramePool;

    #[test]
    fn memory_stays_until_every_frame_is_done() {
        let layout = Layout { guest: 0, size: 1 << 16, user: 0, offset: 0 };
        let memory = Arc::new(GuestMemory::map(&[layout], &[&file(1 << 16)]).unwrap());
        memory.part(0, 4, &mut 0).unwrap().write(b"tail");
        let (mut pool, mut loans) = (FramePool::new(4), Loans::new());
        let mut frames: Vec<Frame> = (0..3).map(|_| pool.alloc(HEAD + 600).unwrap()).collect();
        for frame in &mut frames {
            let part = memory.part(0, 600, &mut 0).into_iter();
            assert!(loans.lend(frame, HEAD, part, &memory) && !frame.is_whole());
        }
        let short = memory.part(0, 599, &mut 0).into_iter();
        assert!(!loans.lend(&mut pool.alloc(HEAD + 600).unwrap(), HEAD, short, &memory));
        assert!(!loans.is_empty() && !loans.are_back() && Arc::strong_count(&memory) == 2);
        assert_eq!(frames[0].bytes()[HEAD..HEAD + 4], *b"tail");
        pool.free(frames.pop().unwrap());
        loans.clear();
        assert!(!loans.are_back());
        frames.clear();
        assert!(loans.are_back());
        loans.clear();
        assert!(loans.is_empty() && Arc::strong_count(&memory) == 1);
        // A frame that is forgotten keeps its memory.
        let mut frame = pool.alloc(HEAD + 600).unwrap();
        assert!(loans.lend(&mut frame, HEAD, memory.part(0, 600, &mut 0).into_iter(), &memory));
        drop(loans);
        assert_eq!((Arc::strong_count(&memory), &frame.bytes()[HEAD..HEAD + 4]), (2, &b"tail"[..]));
    }
}
