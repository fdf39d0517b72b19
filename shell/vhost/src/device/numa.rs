//! The NUMA node of a guest's memory.

use std::ffi::{c_int, c_long};

/// `MPOL_F_NODE | MPOL_F_ADDR`: the node of the page at an address (get_mempolicy(2)).
const NODE_OF_ADDRESS: c_int = 1 | 2;

/// The node of the page at `address`; negative: unknown.
pub(crate) fn node_of(address: *const u8) -> i32 {
    let mut node: c_int = -1;
    let no_mask: *mut c_long = std::ptr::null_mut();
    // SAFETY: the kernel writes only to `node`, because no mask is passed. If `address` is not mapped, the call fails.
    let status = unsafe {
        libc::syscall(libc::SYS_get_mempolicy, &raw mut node, no_mask, 0, address, NODE_OF_ADDRESS)
    };
    if status == 0 { node } else { -1 }
}
