//! Memory of the switch that lends tails, as a device does with memory of a guest: for tests of code that gets frames with
//! tails.

use crate::tail::{Outside, Piece, Tail};
use std::sync::atomic::{AtomicBool, Ordering};

static LENDER: Outside = Outside { name: "lender", read };

/// # Safety
///
/// As [`Outside::read`] says: `len` bytes can be read at `from` and written at `to`, which is other memory.
unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[derive(Debug)]
struct Lent {
    bytes: Box<[u8]>,
    lease: AtomicBool,
}

/// Lends tails and keeps them until they are back.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "a tail refers to its lease, which must stay where it is")]
pub struct Lender(Vec<Box<Lent>>);

impl Lender {
    /// Lends these bytes by `lend`, in two pieces if `split` lies within them. Returns what `lend` returns.
    pub fn lend(&mut self, bytes: &[u8], split: usize, lend: impl FnOnce(Tail<'_>) -> bool) -> bool {
        let lent = Box::new(Lent { bytes: bytes.into(), lease: AtomicBool::new(false) });
        let piece = |part: &[u8]| Piece { at: part.as_ptr(), len: part.len() };
        let (first, second) = lent.bytes.split_at(split.min(lent.bytes.len()));
        let pieces = [first, second].map(piece);
        let pieces = if second.is_empty() { &pieces[..1] } else { &pieces };
        // SAFETY: bytes and lease stay in their box, which is dropped only when the lease is false again.
        let done = lend(unsafe { Tail::new(&LENDER, &lent.lease, pieces) });
        self.0.push(lent);
        done
    }

    /// Frees what is back. Returns whether all tails are.
    pub fn give_back(&mut self) -> bool {
        self.0.retain(|lent| lent.lease.load(Ordering::Acquire));
        self.0.is_empty()
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        if !self.give_back() {
            std::mem::forget(std::mem::take(&mut self.0));
        }
    }
}
