//! Memory of a large table, for which TLB misses matter as much as cache misses.
//!
//! A table of at least one huge page starts at a huge page boundary. `advise` is called with the address of
//! the table **before** the first write to the table, so that huge pages can be requested in time. This crate
//! does not call the operating system.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Size of a huge page in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// Size of a cache line in bytes. Tables smaller than a huge page are aligned to it.
const LINE: usize = 64;

/// A function that is called with the address and the size in bytes of a table before the first write to the table.
pub type Advise = fn(address: usize, bytes: usize);

/// A slice of fixed length in its own memory.
pub struct Table<T: Copy> {
    at: NonNull<T>,
    len: usize,
    layout: Layout,
}

// SAFETY: the table owns its elements as a `Box<[T]>` does; no other code has the pointer.
unsafe impl<T: Copy + Send> Send for Table<T> {}
// SAFETY: as above; a shared reference to the table gives access only to shared references to its elements.
unsafe impl<T: Copy + Sync> Sync for Table<T> {}

impl<T: Copy> Table<T> {
    /// Creates `len` elements (at least one) with the value `fill`. Panics if the size exceeds the address space, as
    /// a `Vec` does.
    pub fn new(len: usize, fill: T, advise: Option<Advise>) -> Table<T> {
        const { assert!(size_of::<T>() != 0) };
        let len = len.max(1);
        let bytes = len.saturating_mul(size_of::<T>());
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { LINE };
        let Ok(layout) = Layout::array::<T>(len).and_then(|l| l.align_to(align)) else {
            panic!("a table of {len} elements does not fit any memory")
        };
        // SAFETY: the size of the layout is not zero: there is at least one element, and `T` is not zero-sized.
        let raw = unsafe { alloc(layout) };
        let Some(at) = NonNull::new(raw.cast::<T>()) else { handle_alloc_error(layout) };
        if let Some(advise) = advise.filter(|_| bytes >= HUGE_PAGE) {
            advise(raw as usize, bytes);
        }
        for i in 0..len {
            // SAFETY: `i` is below `len`, for which the memory was allocated. `at` is aligned for `T`, because the
            // layout is that of an array of `T`, with an equal or larger alignment. No other code has access to the
            // memory yet.
            unsafe { at.add(i).write(fill) };
        }
        Table { at, len, layout }
    }

    /// Address and size in bytes of the table.
    pub fn location(&self) -> (usize, usize) {
        (self.at.as_ptr() as usize, self.layout.size())
    }
}

impl<T: Copy> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` has initialised `len` elements at `at`, which live as long as `self`. The result borrows
        // `self`, so no code changes the elements while it lives.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; `&mut self` makes the result the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: `new` allocated this memory with this layout, and it is freed only here. The elements are `Copy`,
        // so they have no destructor.
        unsafe { dealloc(self.at.as_ptr().cast(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static ADVISED: AtomicUsize = AtomicUsize::new(0);

    fn advise(address: usize, bytes: usize) {
        assert_eq!((address % HUGE_PAGE, bytes), (0, HUGE_PAGE));
        ADVISED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn tables_are_aligned_and_large_ones_advised() {
        let mut small = Table::new(10, 7u64, Some(advise));
        assert_eq!((&small[..], small.location().0 % LINE, small.location().1), (&[7; 10][..], 0, 80));
        small[3] = 9;
        assert_eq!(small.iter().sum::<u64>(), 72);
        assert_eq!(ADVISED.load(Ordering::Relaxed), 0);
        let large = Table::new(HUGE_PAGE / 8, 1u64, Some(advise));
        assert_eq!(large.iter().sum::<u64>(), HUGE_PAGE as u64 / 8);
        assert_eq!(ADVISED.load(Ordering::Relaxed), 1);
        assert_eq!(Table::new(0, 1u8, None).len(), 1);
    }
}
