//! An allocator that counts allocations, for tests which check that code does not allocate. It is in this crate
//! because an allocator requires `unsafe`; it is compiled only for such tests (feature `counting-allocator`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of allocations per thread.
pub struct CountingAllocator;

impl CountingAllocator {
    /// Number of allocations that this thread has made.
    pub fn count() -> u64 {
        ALLOCATIONS.with(Cell::get)
    }
}

// SAFETY: every call is passed unchanged to `System`, which satisfies the contract. Counting uses a thread-local
// variable without a destructor, and does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::alloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `alloc` or `realloc` got `ptr` from `System` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: as for `dealloc`; the caller guarantees a valid new size.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
