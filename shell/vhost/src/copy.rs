//! Copies between memory of the switch and memory of a guest.
//!
//! A guest changes its memory at any time, so the compiler must not assume anything about it: it must not read a byte
//! twice and expect the same value, nor use guest memory as scratch space. Therefore the copy is done by the C library's
//! `memcpy`, through a pointer whose value the compiler cannot know. For the compiler this is a call of unknown machine
//! code, and what arrives in the switch's memory is one value for each byte, which no guest can change any more.

use std::ffi::c_void;

type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// `memcpy`, unknown to the compiler.
#[inline(always)]
#[allow(
    clippy::pointers_in_nomem_asm_block,
    reason = "the value of the pointer is forgotten; nothing reads through it"
)]
fn opaque_memcpy() -> Memcpy {
    let mut function: Memcpy = libc::memcpy;
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction; it only makes the compiler forget the value of the pointer.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) function, options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        function = std::hint::black_box(function);
    }
    function
}

/// Copies guest memory to `to`.
///
/// # Safety
///
/// `from` is mapped for as many bytes as `to` has, and is no memory of the switch.
#[inline(always)]
pub(crate) unsafe fn read(from: *const u8, to: &mut [u8]) {
    // SAFETY: the caller's promise; `to` is exclusive memory of the switch, so the two do not overlap.
    unsafe { opaque_memcpy()(to.as_mut_ptr().cast(), from.cast(), to.len()) };
}

/// Copies `from` to guest memory.
///
/// # Safety
///
/// `to` is mapped writable for as many bytes as `from` has, and is no memory of the switch.
#[inline(always)]
pub(crate) unsafe fn write(to: *mut u8, from: &[u8]) {
    // SAFETY: the caller's promise; `from` is memory of the switch, so the two do not overlap.
    unsafe { opaque_memcpy()(to.cast(), from.as_ptr().cast(), from.len()) };
}
