//! Kicks: a guest wakes the worker that polls its ring, but only while the worker sleeps or is about to sleep.
//!
//! A guest kicks a ring through an eventfd, and only if the ring requests kicks, because each kick costs the guest an
//! exit of its virtual machine. Workers that poll do not request kicks ([`super::callbacks::disable_kicks`]). A worker that is about to
//! sleep requests kicks, checks the ring once more (packets that were queued before cause no kick), and then waits for
//! a file descriptor of the switch.
//!
//! That file descriptor is an edge-triggered `epoll` instance that watches the eventfd. So the eventfd, which the peer
//! shares and could make block, is never read; and the instance remains valid when the library closes the eventfd.

use dpdk_sys as sys;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// The epoll instance of one ring.
#[derive(Debug)]
pub(super) struct Kick(Arc<OwnedFd>);

impl Kick {
    /// `None` if the process has no free file descriptor: the worker then keeps polling.
    pub(super) fn new() -> Option<Kick> {
        // SAFETY: the call creates a file descriptor, or fails.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        // SAFETY: the file descriptor is new, so nothing else owns it.
        (fd >= 0).then(|| Kick(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The file descriptor that becomes readable when the guest kicks.
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }

    /// Requests kicks of this ring from the guest, and watches for them. Call it only during an access. Returns false if the
    /// guest has no eventfd for kicks.
    pub(super) fn enable(&self, vid: c_int, ring: u16) -> bool {
        // SAFETY: all zeros are valid for this structure of numbers and pointers.
        let mut vring: sys::rte_vhost_vring = unsafe { std::mem::zeroed() };
        // SAFETY: the vid is valid during an access; the call writes to `vring`.
        if unsafe { sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring) } != 0 || vring.kickfd < 0 {
            return false;
        }
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: the event lives until the call returns. The library may close the eventfd at the same time, and its number may be
        // reused; then an unrelated event ends a sleep early, which is harmless. If the eventfd is watched already
        // (EEXIST), nothing has to be done.
        let added =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, vring.kickfd, &mut event) };
        let watched = added == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST);
        set_notification(vid, ring, watched);
        watched
    }

    /// Requests that the guest does not kick. Call it only during an access.
    pub(super) fn disable(vid: c_int, ring: u16) {
        set_notification(vid, ring, false);
    }

    /// Discards kicks that were received.
    pub(super) fn drain(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: `events` has space for four events. The timeout is zero, so the call does not block.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as c_int, 0) };
    }
}

fn set_notification(vid: c_int, ring: u16, on: bool) {
    // SAFETY: the vid is valid during an access. The library checks the ring's number and takes its lock.
    unsafe { sys::rte_vhost_enable_guest_notification(vid, ring, c_int::from(on)) };
    // The guest must see the request before the worker checks the ring.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
