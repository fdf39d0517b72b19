//! Huge pages under large tables.

/// Asks for transparent huge pages below a table that nobody has written to yet. Where the kernel does not give any
/// (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`, or memory is in pieces) the table has ordinary pages.
pub fn advise_huge(address: usize, bytes: usize) {
    // SAFETY: the advice changes how pages are backed, never what they hold, whatever the address is; an address that is
    // not mapped gives an error, which does no harm.
    unsafe { libc::madvise(address as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}
