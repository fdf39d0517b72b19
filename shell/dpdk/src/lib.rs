//! DPDK, safe to call.

pub mod cycles;
