//! Large zeroed memory of which only a part will be used.
//!
//! Its pages are mapped directly, so they cost memory only when they are written. Allocators may use memory again that was freed before, or may
//! be told to write to all memory (`MALLOC_PERTURB_`), and then they clear all of it: 68 MB, and 50 ms, for the counters of a worker.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use zerocopy::FromZeros;

/// Pages are aligned to at least this.
const PAGE: usize = 4096;

/// A slice of values whose memory is zero at the beginning.
#[derive(Debug)]
pub(crate) struct ZeroedMapping<T> {
    first: NonNull<T>,
    len: usize,
}

impl<T: FromZeros> ZeroedMapping<T> {
    /// A slice of `len` values. Without enough memory, an empty slice.
    pub(crate) fn new(len: usize) -> ZeroedMapping<T> {
        const { assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= PAGE) };
        let empty = ZeroedMapping { first: NonNull::dangling(), len: 0 };
        let Ok(layout) = Layout::array::<T>(len) else { return empty };
        if layout.size() == 0 {
            return empty;
        }
        // SAFETY: a new private mapping at an address that the system chooses affects no existing memory.
        let memory = unsafe {
            mmap_anonymous(
                null_mut(),
                layout.size(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        match memory.ok().and_then(|memory| NonNull::new(memory.cast::<T>())) {
            Some(first) => ZeroedMapping { first, len },
            None => empty,
        }
    }
}

impl<T> Deref for ZeroedMapping<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: if `len` is not 0, `new` mapped memory for `len` values, at the beginning of a page. It is zeroed, and `T: FromZeros`,
        // so the values are valid. No function gives out a mutable reference to them.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for ZeroedMapping<T> {
    fn drop(&mut self) {
        let Ok(layout) = Layout::array::<T>(self.len) else { return };
        if layout.size() > 0 {
            // SAFETY: `new` mapped these bytes, and nothing refers to them any more. The values need no drop (`new` asserts it). It cannot
            // fail for a complete mapping.
            let _ = unsafe { munmap(self.first.as_ptr().cast(), layout.size()) };
        }
    }
}

// SAFETY: like a `Box<[T]>`, it owns its values.
unsafe impl<T: Send> Send for ZeroedMapping<T> {}
// SAFETY: like a `Box<[T]>`, it gives out shared references to its values only.
unsafe impl<T: Sync> Sync for ZeroedMapping<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn values_are_zero_and_separate() {
        let values = ZeroedMapping::<AtomicU64>::new(3 << 20);
        assert_eq!(values.len(), 3 << 20);
        values[77].store(5, Ordering::Relaxed);
        let sum: u64 = values.iter().step_by(11).map(|value| value.load(Ordering::Relaxed)).sum();
        assert_eq!((sum, values[78].load(Ordering::Relaxed)), (5, 0));
    }

    #[test]
    fn an_impossible_size_gives_an_empty_slice() {
        assert!(ZeroedMapping::<AtomicU64>::new(usize::MAX).is_empty());
        assert!(ZeroedMapping::<AtomicU64>::new(0).is_empty());
    }
}
