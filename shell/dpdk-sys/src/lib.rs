//! DPDK as C has it: 22.11, or 25.11.
//!
//! The bindings of both are generated ahead from `c/headers.h` (by `regenerate`, beside it) and committed, so that who builds
//! Sluice needs no libclang; sizes and offsets are asserted when they are compiled. Which ones are, says the version that
//! is installed. `c/shim.c` makes callable what DPDK has only as inline functions.
//!
//! Nothing here is safe to call: `dpdk` is the crate for that.
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    unsafe_op_in_unsafe_fn,
    missing_docs
)]

mod mbuf;

pub use mbuf::rte_mbuf;

#[cfg(dpdk = "22.11")]
include!("v22_11/bindings.rs");

#[cfg(dpdk = "25.11")]
include!("v25_11/bindings.rs");

/// Bytes of the payload in a message of vhost-user (`VhostUserMsg` in `lib/vhost/vhost_user.h`, which is not installed).
pub const VHOST_USER_PAYLOAD: usize = if cfg!(dpdk = "22.11") { 632 } else { 1072 };
