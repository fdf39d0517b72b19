//! What Linux has to be asked for in its own words: packet sockets, the tun driver, interface ioctls, AF_XDP.
//!
//! The only part of the crate that may be unsafe. Its surface is safe: byte slices, owned descriptors
//! and plain structs in, the same out; no pointer leaves it. Everything that has a safe wrapper
//! elsewhere (netlink, event descriptors, poll) is done with that wrapper, outside this folder.

pub mod bpf;
pub mod ifreq;
pub mod mmsg;
pub mod packet_socket;
pub mod pages;
pub mod tun;
pub mod xsk;
pub mod xsk_ring;

use std::io;

/// The usual convention of system calls: a negative result stands for `errno`.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
