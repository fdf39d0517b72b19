//! Memory of a large table, for which TLB misses matter as much as cache misses.
//!
//! A table of at least one huge page starts at a huge page boundary, and `advise` is called with its place **before**
//! anything is written to it, so that it can request huge pages in time. This crate does not call the operating
//! system.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Size of a huge page in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// Size of a cache line in bytes; smaller tables are aligned to it.
const LINE: usize = 64;

/// Called with the address and the size in bytes of a table before its first write.
pub type Advise = fn(address: usize, bytes: usize);

/// A slice of fixed length in its own memory.
pub struct Table<T: Copy> {
    at: NonNull<T>,
    len: usize,
    layout: Layout,
}

// SAFETY: the table owns its elements as a `Box<[T]>` does; nothing else has the pointer.
unsafe impl<T: Copy + Send> Send for Table<T> {}
// SAFETY: as above; a shared table gives out shared references alone.
unsafe impl<T: Copy + Sync> Sync for Table<T> {}

impl<T: Copy> Table<T> {
    /// Makes `len` elements with the value `fill`. Panics if the size exceeds the address space, as a `Vec` does.
    pub fn new(len: usize, fill: T, advise: Option<Advise>) -> Table<T> {
        const { assert!(size_of::<T>() != 0) };
        let len = len.max(1);
        let bytes = len.saturating_mul(size_of::<T>());
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { LINE };
        let Ok(layout) = Layout::array::<T>(len).and_then(|l| l.align_to(align)) else {
            panic!("a table of {len} elements does not fit any memory")
        };
        // SAFETY: the layout is not of size zero: there is an element, and it has a size.
        let raw = unsafe { alloc(layout) };
        let Some(at) = NonNull::new(raw.cast::<T>()) else { handle_alloc_error(layout) };
        if let Some(advise) = advise.filter(|_| bytes >= HUGE_PAGE) {
            advise(raw as usize, bytes);
        }
        for i in 0..len {
            // SAFETY: `i` is below `len`, for which the memory was allocated, and `at` is aligned for `T`, as the layout
            // was made of one for an array of `T`. No other code has access to the memory yet.
            unsafe { at.add(i).write(fill) };
        }
        Table { at, len, layout }
    }

    /// Its address and size in bytes.
    pub fn place(&self) -> (usize, usize) {
        (self.at.as_ptr() as usize, self.layout.size())
    }
}

impl<T: Copy> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` has initialised `len` elements at `at`, which live as long as `self`; while the result lives,
        // `self` is borrowed, so that no code changes them.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: `new` allocated this memory with this layout, and it is freed once. A `T: Copy` has no destructor.
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
    fn is_a_slice_in_its_place() {
        let mut small = Table::new(10, 7u64, Some(advise));
        assert_eq!((&small[..], small.place().0 % LINE, small.place().1), (&[7; 10][..], 0, 80));
        small[3] = 9;
        assert_eq!(small.iter().sum::<u64>(), 72);
        assert_eq!(ADVISED.load(Ordering::Relaxed), 0);
        let large = Table::new(HUGE_PAGE / 8, 1u64, Some(advise));
        assert_eq!(large.iter().sum::<u64>(), HUGE_PAGE as u64 / 8);
        assert_eq!(ADVISED.load(Ordering::Relaxed), 1);
        assert_eq!(Table::new(0, 1u8, None).len(), 1);
    }
}
