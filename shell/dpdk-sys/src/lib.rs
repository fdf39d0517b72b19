//! Bindings of DPDK's C functions, for DPDK 22.11 and 25.11.
//!
//! The bindings of both versions are generated from `c/headers.h` by `regenerate` and committed, so that building Sluice does
//! not need libclang. The compiler checks the sizes and offsets in them. The build uses the bindings of the version that is
//! installed. `c/shim.c` has functions that call the inline functions of DPDK.
//!
//! No function of DPDK may be called before `library::load` has succeeded. The functions are unsafe; the crate `dpdk` makes
//! them safe.
#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    unsafe_op_in_unsafe_fn,
    missing_docs
)]

pub mod library;

use core::ffi::c_void;

#[cfg(dpdk = "22.11")]
include!("v22_11/bindings.rs");

#[cfg(dpdk = "25.11")]
include!("v25_11/bindings.rs");

/// Bytes of the payload in a message of vhost-user (`VhostUserMsg` in `lib/vhost/vhost_user.h`, which is not installed).
pub const VHOST_USER_PAYLOAD: usize = if cfg!(dpdk = "22.11") { 632 } else { 1072 };

/// A packet buffer (mbuf). Its layout is the same in both versions; `c/shim.c` asserts it for the version that is linked. It
/// is not generated, because in the two versions the fields are in different unions. See `rte_mbuf_core.h`.
#[repr(C, align(64))]
#[derive(Copy, Clone, Debug)]
pub struct rte_mbuf {
    pub buf_addr: *mut c_void,
    buf_iova: u64,
    pub data_off: u16,
    pub refcnt: u16,
    pub nb_segs: u16,
    port: u16,
    pub ol_flags: u64,
    packet_type: u32,
    pub pkt_len: u32,
    pub data_len: u16,
    vlan_tci: u16,
    hash: [u32; 2],
    vlan_tci_outer: u16,
    pub buf_len: u16,
    pub pool: *mut rte_mempool,
    pub next: *mut rte_mbuf,
    /// From the lowest bit: lengths of the headers of layer 2 (7 bits), layer 3 (9) and layer 4 (8), and the segment size
    /// (16).
    pub tx_offload: u64,
    pub shinfo: *mut rte_mbuf_ext_shared_info,
    rest: [u64; 5],
}
