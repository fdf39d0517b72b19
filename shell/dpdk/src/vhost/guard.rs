//! What the library leaves to a peer's good will, bounded.
//!
//! One thread of the library serves the sockets of all ports. It reads a message in two steps and waits for the second;
//! a peer that sends only the first would stop every other port's guests, and the main thread when it takes the
//! socket back. And it writes replies, and the workers notify by event counters, into whatever the peer gave.
//!
//! * [`bound_waits`] sets time limits on the peer's socket. The library treats their expiry as a failure of the
//!   connection. The library does not tell the descriptor, so it is found by the path it is bound or connected to.
//! * [`never_block`] makes an event counter non-blocking. A peer that keeps its own copy of the descriptor can undo
//!   that; a guest inside of a virtual machine cannot.

use dpdk_sys as sys;
use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;

/// A message is sent as one; its second part is there when the first is.
const READ_LIMIT_MICROS: libc::suseconds_t = 100_000;
/// Replies are small: only a peer that reads none fills the socket. Rings may be locked meanwhile.
const WRITE_LIMIT_MICROS: libc::suseconds_t = 4_000;

/// Sets the limits on all our sockets of this path.
pub(super) fn bound_waits(path: &str) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<c_int>().ok());
    for fd in numbers.filter(|fd| is_socket_of(*fd, path)) {
        limit(fd, libc::SO_RCVTIMEO, READ_LIMIT_MICROS);
        limit(fd, libc::SO_SNDTIMEO, WRITE_LIMIT_MICROS);
    }
}

fn is_socket_of(fd: c_int, path: &str) -> bool {
    type Ask = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;
    [libc::getpeername as Ask, libc::getsockname as Ask].into_iter().any(|ask| {
        // SAFETY: all zeros are a valid address structure.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: the buffer is as long as said. A descriptor that is no socket, or closed by now, is an error.
        if unsafe { ask(fd, (&raw mut address).cast(), &mut len) } != 0 {
            return false;
        }
        let known: Vec<u8> = address.sun_path.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        i32::from(address.sun_family) == libc::AF_UNIX && OsStr::from_bytes(&known) == path
    })
}

fn limit(fd: c_int, option: c_int, micros: libc::suseconds_t) {
    let time = libc::timeval { tv_sec: 0, tv_usec: micros };
    // SAFETY: the value is a `timeval`, of that length. If the descriptor was closed and given anew in between, some
    // other socket of ours waits less: those are all non-blocking.
    unsafe {
        let len = size_of::<libc::timeval>() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const time).cast(), len);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_silent_peer_is_not_waited_for() {
        let dir = std::env::temp_dir().join(format!("vhost-guard-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let mut ours = UnixStream::connect(&path).unwrap();
        let (_theirs, _) = listener.accept().unwrap();
        bound_waits(path.to_str().unwrap());
        let error = ours.read(&mut [0; 1]).unwrap_err();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
