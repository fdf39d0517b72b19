//! Huge pages under large tables, and pages that nobody needs any more.

/// Asks for transparent huge pages below a table that nobody has written to yet. Where the kernel does not give any
/// (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`, or memory is in pieces) the table has ordinary pages.
pub fn advise_huge(address: usize, bytes: usize) {
    // SAFETY: the advice changes how pages are backed, never what they hold, whatever the address is; an address that is
    // not mapped gives an error, which does no harm.
    unsafe { libc::madvise(address as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}

/// Takes back what other threads freed of the calling thread's memory: the allocator does so else only when the thread
/// asks for more. A millisecond for 100 MB.
pub fn collect() {
    // SAFETY: it is a function of the allocator that any thread may call for its own heap.
    unsafe { libmimalloc_sys::mi_collect(false) };
}

/// Gives the kernel back what the allocator keeps of memory that was freed. It takes milliseconds: to be called after much was
/// freed at once, and not by a thread that others wait for.
pub fn give_back() {
    // SAFETY: as above; what is given back is free, whichever thread had it.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
