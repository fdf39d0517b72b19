//! What DPDK prints of its state. `None` before it is up.

use crate::{eal, memstream};
use dpdk_sys as sys;

fn text(print: unsafe fn(*mut sys::FILE)) -> Option<String> {
    if !eal::initialized() {
        return None;
    }
    // SAFETY: the environment is up, and the stream is open while this runs: all that the functions below ask for.
    memstream::written(|stream| unsafe { print(stream) })
}

/// The lcores: main, workers, registered threads.
pub fn lcores() -> Option<String> {
    // SAFETY: as `text` says.
    text(|stream| unsafe { sys::rte_lcore_dump(stream) })
}

/// The levels of the log.
pub fn log_levels() -> Option<String> {
    // SAFETY: as `text` says.
    text(|stream| unsafe { sys::rte_log_dump(stream) })
}

/// The heaps.
pub fn malloc_stats() -> Option<String> {
    // SAFETY: as `text` says; no kind means all.
    text(|stream| unsafe { sys::rte_malloc_dump_stats(stream, std::ptr::null()) })
}

/// The reserved zones of memory.
pub fn memzones() -> Option<String> {
    // SAFETY: as `text` says.
    text(|stream| unsafe { sys::rte_memzone_dump(stream) })
}
