//! The time-stamp counter.

use dpdk_sys as sys;
use units::Cycles;

/// Now, in cycles of the processor's constant-rate counter.
#[inline]
pub fn now() -> Cycles {
    // SAFETY: reads a register.
    Cycles(unsafe { sys::sluice_tsc() })
}
