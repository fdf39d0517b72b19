//! State of DPDK as text; `None` before the environment is initialized.

use crate::{eal, memstream};
use dpdk_sys as sys;

fn text(print: unsafe fn(*mut sys::FILE)) -> Option<String> {
    if !eal::initialized() {
        return None;
    }
    // SAFETY: the environment is initialized, and the stream is open while `print` runs. The functions below require nothing else.
    memstream::capture_text(|stream| unsafe { print(stream) })
}

/// The lcores: main lcore, workers, registered threads (`rte_lcore_dump`).
pub fn lcores() -> Option<String> {
    // SAFETY: `text` ensures the requirements.
    text(|stream| unsafe { sys::rte_lcore_dump(stream) })
}

/// The log levels (`rte_log_dump`).
pub fn log_levels() -> Option<String> {
    // SAFETY: `text` ensures the requirements.
    text(|stream| unsafe { sys::rte_log_dump(stream) })
}

/// The heaps (`rte_malloc_dump_stats`).
pub fn malloc_stats() -> Option<String> {
    // SAFETY: `text` ensures the requirements; a null type means all types.
    text(|stream| unsafe { sys::rte_malloc_dump_stats(stream, std::ptr::null()) })
}

/// The memory zones (`rte_memzone_dump`).
pub fn memzones() -> Option<String> {
    // SAFETY: `text` ensures the requirements.
    text(|stream| unsafe { sys::rte_memzone_dump(stream) })
}
