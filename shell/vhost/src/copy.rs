//! Copies between memory of the switch and memory of a guest.
//!
//! A guest may change its memory at any time. So the compiler must not read a byte of it twice and expect the same value, and must not
//! use it as scratch space. Therefore guest memory is read and written only by inline assembly, which the compiler does not analyse
//! (on processors other than x86-64: by the C library's `memmove`, through a function pointer that the compiler cannot resolve).
//!
//! After a copy, the switch's memory holds one value for each byte, which the guest cannot change. If two vector loads overlap, the common
//! bytes are loaded and stored twice; the second value stays.
//!
//! Most packets are short: up to 128 bytes are copied by at most eight vectors of 16 bytes, without a loop or a call.

/// Copies guest memory to `to`.
///
/// # Safety
///
/// `from` is mapped for as many bytes as `to` has, and is not memory of the switch.
#[inline(always)]
pub(crate) unsafe fn read(from: *const u8, to: &mut [u8]) {
    // SAFETY: the caller guarantees the range of `from`; `to` is exclusive memory of the switch, so the ranges do not overlap.
    unsafe { machine::copy(from, to.as_mut_ptr(), to.len()) };
}

/// Copies `from` to guest memory.
///
/// # Safety
///
/// `to` is mapped writable for as many bytes as `from` has, and is not memory of the switch.
#[inline(always)]
pub(crate) unsafe fn write(to: *mut u8, from: &[u8]) {
    // SAFETY: the caller guarantees the range of `to`; `from` is memory of the switch, so the ranges do not overlap.
    unsafe { machine::copy(from.as_ptr(), to, from.len()) };
}

/// Copies guest memory to memory of a guest or of the switch. If the ranges overlap, the result is unspecified.
///
/// # Safety
///
/// `from` is mapped for `len` bytes, `to` is mapped writable for as many; no Rust reference points to the written bytes.
#[inline(always)]
pub(crate) unsafe fn between(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges. Buffers of guests may overlap: the copy is the same loads and stores, only with an
    // unspecified result.
    unsafe { machine::copy(from, to, len) };
}

/// Writes 16 bytes of guest memory.
///
/// # Safety
///
/// `to` is mapped writable for 16 bytes, and is not memory of the switch.
#[inline(always)]
pub(crate) unsafe fn write_16(to: *mut u8, from: &[u8; 16]) {
    // SAFETY: the caller guarantees that `to` is writable for 16 bytes.
    unsafe { machine::write_16(to, from) };
}

/// Reads 12 bytes of guest memory, a virtio header: 8 bytes and 4 bytes.
///
/// # Safety
///
/// `from` is mapped for 12 bytes, and is not memory of the switch.
#[inline(always)]
pub(crate) unsafe fn read_12(from: *const u8) -> (u64, u32) {
    // SAFETY: the caller guarantees that `from` is mapped for 12 bytes.
    unsafe { machine::read_12(from) }
}

/// Writes 12 bytes of guest memory.
///
/// # Safety
///
/// `to` is mapped writable for 12 bytes, and is not memory of the switch.
#[inline(always)]
pub(crate) unsafe fn write_12(to: *mut u8, words: (u64, u32)) {
    // SAFETY: the caller guarantees that `to` is writable for 12 bytes.
    unsafe { machine::write_12(to, words) }
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::asm;

    /// Copies some vectors of 16 bytes from the beginning and as many from the end. Together they cover all bytes; they may overlap.
    macro_rules! ends {
        ($from:ident, $to:ident, $n:ident, [$($load:literal),*], [$($store:literal),*], [$($v:ident),*]) => {
            asm!($($load,)* $($store,)* from = in(reg) $from, to = in(reg) $to, n = in(reg) $n,
                 $($v = out(xmm_reg) _,)* options(nostack, preserves_flags))
        };
    }

    /// # Safety
    ///
    /// `n` bytes can be read at `from` and written at `to`.
    #[inline(always)]
    pub unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller guarantees `n` bytes at both pointers. Each case accesses only bytes within these `n` bytes.
        unsafe {
            match n {
                33..=64 => ends!(
                    from,
                    to,
                    n,
                    [
                        "movdqu {a}, [{from}]",
                        "movdqu {b}, [{from} + 16]",
                        "movdqu {c}, [{from} + {n} - 32]",
                        "movdqu {d}, [{from} + {n} - 16]"
                    ],
                    [
                        "movdqu [{to}], {a}",
                        "movdqu [{to} + 16], {b}",
                        "movdqu [{to} + {n} - 32], {c}",
                        "movdqu [{to} + {n} - 16], {d}"
                    ],
                    [a, b, c, d]
                ),
                65.. => more(from, to, n),
                17..=32 => ends!(
                    from,
                    to,
                    n,
                    ["movdqu {a}, [{from}]", "movdqu {b}, [{from} + {n} - 16]"],
                    ["movdqu [{to}], {a}", "movdqu [{to} + {n} - 16], {b}"],
                    [a, b]
                ),
                0 => {}
                _ => short(from, to, n),
            }
        }
    }

    /// Copies 1 to 16 bytes.
    ///
    /// # Safety
    ///
    /// As for [`copy`].
    unsafe fn short(from: *const u8, to: *mut u8, n: usize) {
        macro_rules! two {
            ($first:literal, $last:literal, $store:literal, $end:literal) => {
                asm!($first, $last, $store, $end, from = in(reg) from, to = in(reg) to, n = in(reg) n,
                     a = out(reg) _, b = out(reg) _, options(nostack, preserves_flags))
            };
        }
        // SAFETY: the caller guarantees `n` bytes at both pointers. Each case accesses a word at the beginning and one at the end of
        // these bytes.
        unsafe {
            match n {
                8.. => two!(
                    "mov {a}, [{from}]",
                    "mov {b}, [{from} + {n} - 8]",
                    "mov [{to}], {a}",
                    "mov [{to} + {n} - 8], {b}"
                ),
                4.. => two!(
                    "mov {a:e}, [{from}]",
                    "mov {b:e}, [{from} + {n} - 4]",
                    "mov [{to}], {a:e}",
                    "mov [{to} + {n} - 4], {b:e}"
                ),
                2.. => two!(
                    "movzx {a:e}, word ptr [{from}]",
                    "movzx {b:e}, word ptr [{from} + {n} - 2]",
                    "mov [{to}], {a:x}",
                    "mov [{to} + {n} - 2], {b:x}"
                ),
                _ => asm!("movzx {a:e}, byte ptr [{from}]", "mov [{to}], {a:l}", from = in(reg) from,
                          to = in(reg) to, a = out(reg) _, options(nostack, preserves_flags)),
            }
        }
    }

    /// Copies more than 64 bytes.
    ///
    /// # Safety
    ///
    /// As for [`copy`].
    #[inline(always)]
    unsafe fn more(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller guarantees `n` bytes at both pointers; AVX is used only if the processor supports it.
        unsafe {
            if n <= 128 {
                ends!(
                    from,
                    to,
                    n,
                    [
                        "movdqu {a}, [{from}]",
                        "movdqu {b}, [{from} + 16]",
                        "movdqu {c}, [{from} + 32]",
                        "movdqu {d}, [{from} + 48]",
                        "movdqu {e}, [{from} + {n} - 64]",
                        "movdqu {f}, [{from} + {n} - 48]",
                        "movdqu {g}, [{from} + {n} - 32]",
                        "movdqu {h}, [{from} + {n} - 16]"
                    ],
                    [
                        "movdqu [{to}], {a}",
                        "movdqu [{to} + 16], {b}",
                        "movdqu [{to} + 32], {c}",
                        "movdqu [{to} + 48], {d}",
                        "movdqu [{to} + {n} - 64], {e}",
                        "movdqu [{to} + {n} - 48], {f}",
                        "movdqu [{to} + {n} - 32], {g}",
                        "movdqu [{to} + {n} - 16], {h}"
                    ],
                    [a, b, c, d, e, f, g, h]
                );
            } else if std::arch::is_x86_feature_detected!("avx") {
                long_32(from, to, n);
            } else {
                long_16(from, to, n);
            }
        }
    }

    /// Copies four vectors per iteration of a loop. First the destination is aligned, because a store across two cache lines costs as much
    /// as two stores. The last four vectors are copied from the end, and may overlap those of the loop.
    macro_rules! long {
        ($name:ident, $mov:literal, $v:literal, $width:literal, $end:literal) => {
            /// # Safety
            ///
            /// As for [`copy`]; `n` is more than 128, and the processor supports these vectors.
            #[inline(never)]
            pub(super) unsafe fn $name(from: *const u8, to: *mut u8, n: usize) {
                // SAFETY: the caller guarantees `n` bytes at both pointers. The loop ends with one to four vectors left, and the last
                // four vectors are within the `n` bytes.
                unsafe {
                    asm!(
                        "lea {from_end}, [{from} + {n}]",
                        "lea {to_end}, [{to} + {n}]",
                        concat!($mov, " ", $v, "0, [{from}]"),
                        concat!($mov, " [{to}], ", $v, "0"),
                        // The bytes up to the next aligned address of the destination are copied. From here on `n` is the
                        // number of bytes from there to the end.
                        "mov {skip}, {to}",
                        concat!("and {skip}, ", $width, " - 1"),
                        concat!("sub {skip}, ", $width),
                        "sub {from}, {skip}",
                        "sub {to}, {skip}",
                        "add {n}, {skip}",
                        concat!("cmp {n}, 4 * ", $width),
                        "jbe 3f",
                        ".p2align 4",
                        "2:",
                        concat!($mov, " ", $v, "0, [{from}]"),
                        concat!($mov, " ", $v, "1, [{from} + ", $width, "]"),
                        concat!($mov, " ", $v, "2, [{from} + 2 * ", $width, "]"),
                        concat!($mov, " ", $v, "3, [{from} + 3 * ", $width, "]"),
                        concat!("add {from}, 4 * ", $width),
                        concat!($mov, " [{to}], ", $v, "0"),
                        concat!($mov, " [{to} + ", $width, "], ", $v, "1"),
                        concat!($mov, " [{to} + 2 * ", $width, "], ", $v, "2"),
                        concat!($mov, " [{to} + 3 * ", $width, "], ", $v, "3"),
                        concat!("add {to}, 4 * ", $width),
                        concat!("sub {n}, 4 * ", $width),
                        concat!("cmp {n}, 4 * ", $width),
                        "ja 2b",
                        "3:",
                        concat!($mov, " ", $v, "0, [{from_end} - 4 * ", $width, "]"),
                        concat!($mov, " ", $v, "1, [{from_end} - 3 * ", $width, "]"),
                        concat!($mov, " ", $v, "2, [{from_end} - 2 * ", $width, "]"),
                        concat!($mov, " ", $v, "3, [{from_end} - ", $width, "]"),
                        concat!($mov, " [{to_end} - 4 * ", $width, "], ", $v, "0"),
                        concat!($mov, " [{to_end} - 3 * ", $width, "], ", $v, "1"),
                        concat!($mov, " [{to_end} - 2 * ", $width, "], ", $v, "2"),
                        concat!($mov, " [{to_end} - ", $width, "], ", $v, "3"),
                        $end,
                        from = inout(reg) from => _,
                        to = inout(reg) to => _,
                        n = inout(reg) n => _,
                        from_end = out(reg) _,
                        to_end = out(reg) _,
                        skip = out(reg) _,
                        out("xmm0") _,
                        out("xmm1") _,
                        out("xmm2") _,
                        out("xmm3") _,
                        options(nostack)
                    );
                }
            }
        };
    }

    long!(long_32, "vmovdqu", "ymm", "32", "vzeroupper");
    long!(long_16, "movdqu", "xmm", "16", "");

    /// # Safety
    ///
    /// 16 bytes can be written at `to`.
    #[inline(always)]
    pub unsafe fn write_16(to: *mut u8, from: &[u8; 16]) {
        // SAFETY: the caller guarantees that `to` is writable for 16 bytes.
        unsafe {
            asm!("movdqu {v}, [{from}]", "movdqu [{to}], {v}", from = in(reg) from, to = in(reg) to,
                 v = out(xmm_reg) _, options(nostack, preserves_flags));
        }
    }

    /// # Safety
    ///
    /// 12 bytes can be read at `from`.
    #[inline(always)]
    pub unsafe fn read_12(from: *const u8) -> (u64, u32) {
        let (first, last): (u64, u32);
        // SAFETY: the caller guarantees that `from` is readable for 12 bytes.
        unsafe {
            asm!("mov {a}, [{p}]", "mov {b:e}, [{p} + 8]", p = in(reg) from, a = out(reg) first, b = out(reg) last,
                 options(nostack, preserves_flags, readonly));
        }
        (first, last)
    }

    /// # Safety
    ///
    /// 12 bytes can be written at `to`.
    #[inline(always)]
    pub unsafe fn write_12(to: *mut u8, (first, last): (u64, u32)) {
        // SAFETY: the caller guarantees that `to` is writable for 12 bytes.
        unsafe {
            asm!("mov [{p}], {a}", "mov [{p} + 8], {b:e}", p = in(reg) to, a = in(reg) first, b = in(reg) last,
                 options(nostack, preserves_flags));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod machine {
    use std::ffi::c_void;

    type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

    /// # Safety
    ///
    /// `n` bytes can be read at `from` and written at `to`.
    #[inline(always)]
    pub unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
        let memcpy: Memcpy = std::hint::black_box(libc::memmove);
        // SAFETY: the caller guarantees `n` bytes at both pointers.
        unsafe { memcpy(to.cast(), from.cast(), n) };
    }

    /// # Safety
    ///
    /// 16 bytes can be written at `to`.
    pub unsafe fn write_16(to: *mut u8, from: &[u8; 16]) {
        // SAFETY: the caller guarantees that `to` is writable for 16 bytes.
        unsafe { copy(from.as_ptr(), to, 16) };
    }

    /// # Safety
    ///
    /// 12 bytes can be read at `from`.
    pub unsafe fn read_12(from: *const u8) -> (u64, u32) {
        let (mut first, mut last) = ([0; 8], [0; 4]);
        // SAFETY: the caller guarantees that `from` is readable for 12 bytes.
        unsafe {
            copy(from, first.as_mut_ptr(), 8);
            copy(from.wrapping_add(8), last.as_mut_ptr(), 4);
        }
        (u64::from_ne_bytes(first), u32::from_ne_bytes(last))
    }

    /// # Safety
    ///
    /// 12 bytes can be written at `to`.
    pub unsafe fn write_12(to: *mut u8, (first, last): (u64, u32)) {
        // SAFETY: the caller guarantees that `to` is writable for 12 bytes.
        unsafe {
            copy(first.to_ne_bytes().as_ptr(), to, 8);
            copy(last.to_ne_bytes().as_ptr(), to.wrapping_add(8), 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        let from: Vec<u8> = (0..2000u32).map(|n| (n * 7 + n / 256) as u8 | 1).collect();
        for (start, to_start) in [(0, 0), (1, 12), (12, 31), (33, 5)] {
            for n in (0..700).chain([1024, 1496, 1500, 1900]) {
                let mut read_to = vec![0u8; 2000];
                let mut written = vec![0u8; 2000];
                // SAFETY: both ranges are within their vectors.
                unsafe {
                    read(from[start..].as_ptr(), &mut read_to[to_start..to_start + n]);
                    write(written[to_start..].as_mut_ptr(), &from[start..start + n]);
                }
                for copy in [&read_to, &written] {
                    assert_eq!(copy[to_start..to_start + n], from[start..start + n], "{n} bytes");
                    assert!(
                        copy[..to_start].iter().chain(&copy[to_start + n..]).all(|b| *b == 0),
                        "{n} bytes"
                    );
                }
            }
        }
    }

    #[test]
    fn both_vector_widths_copy_the_same() {
        #[cfg(target_arch = "x86_64")]
        for n in 129..600 {
            let from: Vec<u8> = (0..n).map(|n: usize| n as u8 | 1).collect();
            for at in 0..33 {
                let mut to = vec![0u8; n + 64];
                // SAFETY: both ranges are within their vectors; all x86-64 processors have vectors of 16 bytes.
                unsafe { machine::long_16(from.as_ptr(), to[at..].as_mut_ptr(), n) };
                assert!(to[at..at + n] == from && to[at + n..].iter().chain(&to[..at]).all(|b| *b == 0));
            }
        }
    }

    #[test]
    fn a_header_is_twelve_bytes() {
        let mut bytes = [0xffu8; 16];
        // SAFETY: within the array.
        unsafe { write_12(bytes[1..].as_mut_ptr(), (0x0807_0605_0403_0201, 0x0c0b_0a09)) };
        assert_eq!(bytes, [0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0xff, 0xff, 0xff]);
        // SAFETY: as above.
        assert_eq!(unsafe { read_12(bytes[1..].as_ptr()) }, (0x0807_0605_0403_0201, 0x0c0b_0a09));
    }
}
