//! DPDK 22.11 as C has it.
//!
//! `bindings.rs` is generated ahead from `c/headers.h` (by `regenerate`, beside it) and committed, so that who builds
//! Sluice needs no libclang; sizes and offsets are asserted when it is compiled. `c/shim.c` makes callable what DPDK has
//! only as inline functions.
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

include!("bindings.rs");
