//! Waiting in user space: the core pauses until the time-stamp counter reaches a value (`TPAUSE`).
//!
//! `TPAUSE` belongs to WAITPKG (Intel since Tremont and Alder Lake). The operating system limits its duration
//! (`IA32_UMWAIT_CONTROL`; 100,000 cycles of the counter in Linux, 33 µs at 3 GHz), and any interrupt ends it, so the wait may be
//! shorter than requested.

/// Returns whether the CPU has the instruction.
pub fn can_pause() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        /// Structured extended features (Intel SDM, volume 2A, CPUID).
        const LEAF: u32 = 7;
        /// The bit of WAITPKG in ECX.
        const WAITPKG: u32 = 1 << 5;
        __cpuid(0).eax >= LEAF && __cpuid_count(LEAF, 0).ecx & WAITPKG != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Waits until the time-stamp counter has reached `until`, or for a shorter time. Returns at once if [`can_pause`] is
/// false.
#[inline]
pub fn pause_until(until: u64) {
    if !can_pause_here() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        // The deeper state, C0.2, which wakes more slowly and saves more power.
        let state = 0u32;
        // SAFETY: the CPU has the instruction, as was checked above. It changes only flags.
        unsafe {
            std::arch::asm!(
                "tpause {state:e}",
                state = in(reg) state,
                in("eax") until as u32,
                in("edx") (until >> 32) as u32,
                options(nomem, nostack)
            );
        }
    }
}

/// [`can_pause`], checked once.
fn can_pause_here() -> bool {
    use std::sync::OnceLock;
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(can_pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_is_not_waited_for() {
        let begun = std::time::Instant::now();
        (0..1000).for_each(|_| pause_until(0));
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }
}
