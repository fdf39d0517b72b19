//! An owner of tails in the switch's own memory, in the place of a device with tails in guest memory. For tests of
//! code that receives frames with tails.

use crate::tail::{ExternalMemory, Piece, Tail};
use std::sync::atomic::{AtomicBool, Ordering};

static SWITCH_MEMORY: ExternalMemory = ExternalMemory { name: "test", read };

/// # Safety
///
/// As for [`ExternalMemory::read`]: `len` bytes must be readable at `from` and writable at `to`, and must not overlap.
unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees that both ranges are valid and do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[derive(Debug)]
struct OwnedTail {
    bytes: Box<[u8]>,
    lease: AtomicBool,
}

/// Attaches tails to buffers, and keeps the memory of the tails until their leases are released.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a tail refers to its lease, which must stay where it is")]
pub struct TailOwner(Vec<Box<OwnedTail>>);

impl TailOwner {
    /// Passes these bytes to `attach` as a tail of two pieces (one if `split` is not within them). Returns the result
    /// of `attach`.
    pub fn with_tail(&mut self, bytes: &[u8], split: usize, attach: impl FnOnce(Tail<'_>) -> bool) -> bool {
        let owned = Box::new(OwnedTail { bytes: bytes.into(), lease: AtomicBool::new(false) });
        let piece = |part: &[u8]| Piece { at: part.as_ptr(), len: part.len() };
        let (first, second) = owned.bytes.split_at(split.min(owned.bytes.len()));
        let pieces = [first, second].map(piece);
        let pieces = if second.is_empty() { &pieces[..1] } else { &pieces };
        // SAFETY: bytes and lease stay at the same address in their box, which is dropped only when the lease is
        // false again (`free_released`, `drop`).
        let done = attach(unsafe { Tail::new(&SWITCH_MEMORY, &owned.lease, pieces) });
        self.0.push(owned);
        done
    }

    /// Frees the tails whose leases are released. Returns whether none is left.
    pub fn free_released(&mut self) -> bool {
        self.0.retain(|owned| owned.lease.load(Ordering::Acquire));
        self.0.is_empty()
    }
}

impl Drop for TailOwner {
    fn drop(&mut self) {
        if !self.free_released() {
            std::mem::forget(std::mem::take(&mut self.0));
        }
    }
}
