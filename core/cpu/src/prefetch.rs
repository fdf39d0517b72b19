//! Prefetches of cache lines.

/// Prefetches the cache line of `data` for reading.
#[inline(always)]
pub fn prefetch_read<T>(data: &T) {
    prefetch_at(data);
}

/// Prefetches the cache line of an address for reading. Any address is allowed, because nothing is read from it.
#[inline(always)]
pub fn prefetch_at<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and does not change memory; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = at;
    }
}

/// Prefetches the cache line of an address for writing, which removes it from the caches of other cores. Any address
/// is allowed, because nothing is written.
#[inline(always)]
pub fn prefetch_write_at<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and does not change memory. CPUs without the instruction ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = at;
    }
}

/// Prefetches all cache lines of `data` for writing. `data` should be small.
#[inline(always)]
pub fn prefetch_write_lines<T>(data: &T) {
    let at: *const u8 = std::ptr::from_ref(data).cast();
    for line in 0..size_of::<T>().div_ceil(64) {
        prefetch_write_at(at.wrapping_add(line * 64));
    }
}

/// Prefetches all cache lines of `data` for reading. `data` should be small.
#[inline(always)]
pub fn prefetch_lines<T>(data: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<T>().div_ceil(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at: *const i8 = std::ptr::from_ref(data).cast();
        // SAFETY: a prefetch never faults and does not change memory; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line * 64)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = data;
    }
}
