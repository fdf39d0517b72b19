//! DPDK's environment: memory, buses, its own threads.

use dpdk_sys as sys;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Whether the environment is up. It never goes down again before the process ends.
pub fn initialized() -> bool {
    INITIALIZED.load(Ordering::Acquire)
}

/// `DPDK 22.11.11`
pub fn version() -> String {
    // SAFETY: gives a string that lives in the library for ever.
    let text = unsafe { CStr::from_ptr(sys::rte_version()) };
    text.to_string_lossy().into_owned()
}
