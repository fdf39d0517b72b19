//! The time-stamp counter. It needs no environment.

#[cfg(not(target_arch = "x86_64"))]
use dpdk_sys as sys;
use units::Cycles;

/// Now, in cycles of the processor's constant-rate counter.
#[inline]
pub fn now() -> Cycles {
    // Several times a turn: where it is one instruction, it is not worth a call.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    let counter = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above.
    let counter = unsafe { sys::sluice_tsc() };
    Cycles(counter)
}

/// Whether the counter ticks at one rate, whatever state the processor is in, so that it tells time.
#[cfg(target_arch = "x86_64")]
pub fn tells_time() -> bool {
    use std::arch::x86_64::__cpuid;
    /// Advanced power management information (Intel SDM, volume 2A, CPUID).
    const LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= LEAF && __cpuid(LEAF).edx & INVARIANT_TSC != 0
}

/// Whether the counter ticks at one rate, whatever state the processor is in, so that it tells time: the generic timer of
/// other processors does.
#[cfg(not(target_arch = "x86_64"))]
pub fn tells_time() -> bool {
    true
}
