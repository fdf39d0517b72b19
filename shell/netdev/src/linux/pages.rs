//! Transparent huge pages for large tables, and the return of freed memory to the kernel.

/// Requests transparent huge pages for a table that has not been written yet. If the kernel has none
/// (`/sys/kernel/mm/transparent_hugepage/enabled` contains `never`, or memory is fragmented), the table uses ordinary
/// pages.
pub fn advise_huge(address: usize, bytes: usize) {
    // SAFETY: the advice changes only the size of pages, never their content. For an address that is not
    // mapped the call fails without effect.
    unsafe { libc::madvise(address as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}

/// Collects blocks in pages of the calling thread's heap that other threads freed. Otherwise the allocator does that only when
/// the thread allocates. Full pages belong to no heap: the thread that frees their last block frees them.
pub fn collect_freed_memory() {
    // SAFETY: any thread may call this function of the allocator for its own heap.
    unsafe { libmimalloc_sys::mi_collect(false) };
}

/// Returns freed memory that the allocator has kept to the kernel. Takes milliseconds, so call it after much memory was freed
/// at once, and not on a thread for which others wait.
pub fn return_freed_memory() {
    // SAFETY: any thread may call this function of the allocator. It returns only memory that is free.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
