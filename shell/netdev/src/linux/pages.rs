//! Transparent huge pages for large tables, and return of freed memory.

/// Requests transparent huge pages for a table that has not been written yet. If the kernel has none
/// (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`, or memory is fragmented), the table has ordinary
/// pages.
pub fn advise_huge(address: usize, bytes: usize) {
    // SAFETY: the advice changes how pages are backed, never their content, at any address; for an address that is not
    // mapped it fails without effect.
    unsafe { libc::madvise(address as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}

/// Collects memory of the calling thread's heap that other threads freed: otherwise the allocator does that only when
/// the thread allocates. Takes 1 ms for 100 MB.
pub fn collect() {
    // SAFETY: it is a function of the allocator that any thread may call for its own heap.
    unsafe { libmimalloc_sys::mi_collect(false) };
}

/// Returns freed memory that the allocator keeps to the kernel. Takes milliseconds: to be called after much was freed
/// at once, and not on a thread that others wait for.
pub fn give_back() {
    // SAFETY: as above; what is given back is free, whichever thread had it.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
