//! Huge pages under large tables; pages that will be needed soon, and those that nobody needs any more.

use std::sync::Once;

/// Asks for transparent huge pages below a table that nobody has written to yet. Where the kernel does not give any
/// (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`, or memory is in pieces) the table has ordinary pages.
pub fn advise_huge(address: usize, bytes: usize) {
    // SAFETY: the advice changes how pages are backed, never what they hold, whatever the address is; an address that is
    // not mapped gives an error, which does no harm.
    unsafe { libc::madvise(address as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}

/// Gives the kernel back what the allocator keeps of memory that was freed. It takes milliseconds: to be called after much was
/// freed at once, and not by a thread that others wait for.
pub fn give_back() {
    // SAFETY: it is a function of the allocator without arguments that matter, and may be called by any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// What a heap grows by.
const AT_ONCE: usize = 1 << 20;

/// Lets the calling thread's heap grow by a megabyte, unless so much is free in it. glibc lets the heaps of all threads but the
/// first grow page by page, each by a call of the kernel: a sixth of the time of a thread that makes megaflows.
pub fn reserve_heap() {
    static THRESHOLDS: Once = Once::new();
    THRESHOLDS.call_once(|| {
        // SAFETY: it sets numbers of the allocator, and may be called at any time. Such a piece is to come from the heap, and
        // what is free at the heap's end is not to go back at once.
        #[cfg(target_env = "gnu")]
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 4 * AT_ONCE as libc::c_int);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 8 * AT_ONCE as libc::c_int);
        }
    });
    drop(std::hint::black_box(Vec::<u8>::with_capacity(AT_ONCE)));
}
