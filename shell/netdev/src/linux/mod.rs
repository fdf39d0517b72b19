//! Linux interfaces without a safe wrapper: packet sockets, the tun driver, interface ioctls, AF_XDP.
//!
//! The only module of the crate with unsafe code. Its interface is safe: byte slices, owned file descriptors and plain
//! structs; no pointer leaves the module. Kernel interfaces that have a safe wrapper elsewhere (netlink, eventfd, poll) are used
//! by that wrapper, outside of this module.

pub mod bpf;
pub mod closed_sockets;
pub mod ifreq;
pub mod mmsg;
pub mod packet_socket;
pub mod pages;
pub mod shared_filter;
pub mod tun;
pub mod umem;
pub mod umem_socket;
pub mod xsk;
pub mod xsk_ring;
pub mod zeroed;

use std::io;

/// Converts the result of a system call: if it is negative, `errno` has the error.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
