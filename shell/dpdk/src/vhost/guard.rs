//! Event counters by which workers notify guests, made non-blocking.
//!
//! A worker writes into whatever counter the peer gave. A peer that keeps its own copy of the descriptor can make it
//! blocking again and fill it; a guest inside of a virtual machine cannot. A worker that waits there puts the port out
//! of service ([`super::front`]).

use dpdk_sys as sys;
use std::ffi::c_int;

/// For the event counter by which ring `ring` notifies the guest. To be called from a callback with this number.
pub(super) fn never_block(vid: c_int, ring: u16) {
    // SAFETY: all zeros are valid for this structure of numbers and pointers.
    let mut vring: sys::rte_vhost_vring = unsafe { std::mem::zeroed() };
    // SAFETY: the number is valid in a callback; the facts are copied to `vring`.
    if unsafe { sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring) } != 0 || vring.callfd < 0 {
        return;
    }
    // SAFETY: flags of a descriptor that the library holds open while it calls us.
    unsafe {
        let flags = libc::fcntl(vring.callfd, libc::F_GETFL);
        if flags >= 0 && flags & libc::O_NONBLOCK == 0 {
            libc::fcntl(vring.callfd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
    }
}
