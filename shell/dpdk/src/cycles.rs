//! The time-stamp counter. It does not need DPDK's environment.

#[cfg(not(target_arch = "x86_64"))]
use dpdk_sys as sys;
use units::Cycles;

/// The current value of the processor's cycle counter, which has a constant rate.
#[inline]
pub fn now() -> Cycles {
    // Called several times per iteration. So it is inlined on x86-64, where it is one instruction.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction only reads a register.
    let counter = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the function only reads a register.
    let counter = unsafe { sys::sluice_tsc() };
    Cycles(counter)
}

/// Whether the counter runs at a constant rate in all power states of the processor, so that it measures time.
#[cfg(target_arch = "x86_64")]
pub fn has_constant_rate() -> bool {
    use std::arch::x86_64::__cpuid;
    /// The CPUID leaf "Advanced power management information" (Intel SDM, volume 2A).
    const LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= LEAF && __cpuid(LEAF).edx & INVARIANT_TSC != 0
}

/// Whether the counter runs at a constant rate in all power states, so that it measures time. Always true on processors other than
/// x86-64, which have a generic timer.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_constant_rate() -> bool {
    true
}
