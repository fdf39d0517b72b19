//! A packet buffer, as every version has it; `c/shim.c` asserts that of the one that is linked. Bindings of the two versions
//! name the fields by different ways through unions.

use crate::{rte_mbuf_ext_shared_info, rte_mempool};
use core::ffi::c_void;

/// See `rte_mbuf_core.h`.
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
    /// Lengths of headers, and the segment size: 7 bits of layer 2, 9 of layer 3, 8 of layer 4, 16.
    pub tx_offload: u64,
    pub shinfo: *mut rte_mbuf_ext_shared_info,
    rest: [u64; 5],
}
