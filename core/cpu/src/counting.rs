//! An allocator that counts, for tests that check that a path does not allocate. It is in this crate because an
//! allocator requires `unsafe`; it is compiled only for such tests (feature `counting-allocator`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
pub struct CountingAllocator;

impl CountingAllocator {
    /// Number of allocations of this thread.
    pub fn count() -> u64 {
        ALLOCATIONS.with(Cell::get)
    }
}

// SAFETY: every call is passed on to `System` as it came; counting touches a thread-local without a destructor and
// allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: as for `dealloc`; the new size is the caller's promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
