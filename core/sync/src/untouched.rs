//! Large zeroed memory of which only a part will be used.
//!
//! The system's allocator maps large blocks freshly, and their pages cost memory only when they are written. The process's allocator may
//! use memory again that was freed before, and then clears all of it: 68 MB, and 50 ms, for the counters of a worker.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::Deref;
use std::ptr::NonNull;
use zerocopy::FromZeros;

/// A slice of values whose memory is zero at the beginning.
#[derive(Debug)]
pub(crate) struct Untouched<T> {
    first: NonNull<T>,
    len: usize,
}

impl<T: FromZeros> Untouched<T> {
    /// A slice of `len` values. Without enough memory, an empty slice.
    pub(crate) fn new(len: usize) -> Untouched<T> {
        const { assert!(!std::mem::needs_drop::<T>()) };
        let empty = Untouched { first: NonNull::dangling(), len: 0 };
        let Ok(layout) = Layout::array::<T>(len) else { return empty };
        if layout.size() == 0 {
            return empty;
        }
        // SAFETY: the size of the layout is not zero.
        let memory = unsafe { System.alloc_zeroed(layout) };
        match NonNull::new(memory.cast::<T>()) {
            Some(first) => Untouched { first, len },
            None => empty,
        }
    }
}

impl<T> Deref for Untouched<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: if `len` is not 0, `new` allocated memory for `len` values with the alignment of `T`. It is zeroed, and `T: FromZeros`,
        // so the values are valid. No function gives out a mutable reference to them.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Untouched<T> {
    fn drop(&mut self) {
        let Ok(layout) = Layout::array::<T>(self.len) else { return };
        if layout.size() > 0 {
            // SAFETY: `new` allocated this memory with the same allocator and layout. The values need no drop (`new` asserts it).
            unsafe { System.dealloc(self.first.as_ptr().cast(), layout) };
        }
    }
}

// SAFETY: like a `Box<[T]>`, it owns its values.
unsafe impl<T: Send> Send for Untouched<T> {}
// SAFETY: like a `Box<[T]>`, it gives out shared references to its values only.
unsafe impl<T: Sync> Sync for Untouched<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn values_are_zero_and_separate() {
        let values = Untouched::<AtomicU64>::new(3 << 20);
        assert_eq!(values.len(), 3 << 20);
        values[77].store(5, Ordering::Relaxed);
        let sum: u64 = values.iter().step_by(11).map(|value| value.load(Ordering::Relaxed)).sum();
        assert_eq!((sum, values[78].load(Ordering::Relaxed)), (5, 0));
    }

    #[test]
    fn an_impossible_size_gives_an_empty_slice() {
        assert!(Untouched::<AtomicU64>::new(usize::MAX).is_empty());
        assert!(Untouched::<AtomicU64>::new(0).is_empty());
    }
}
