//! A guest wakes the worker that polls its ring: while the worker wants to sleep, and then only.
//!
//! A guest kicks a ring by an event counter, and only if the ring asks for it, which costs the guest an exit of its
//! virtual machine: workers that poll do not ask ([`super::callbacks::quiet`]). A worker that is about to sleep asks, looks
//! at the ring once more, since what came before the question brings no kick, and waits for a descriptor of ours.
//!
//! That is an `epoll` instance which watches the counter by its edges. So the counter, which the peer shares and could
//! make a reader wait, is never read; and the instance stays valid when the library closes the counter.

use dpdk_sys as sys;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// The instance of one ring.
#[derive(Debug)]
pub(super) struct Kick(Arc<OwnedFd>);

impl Kick {
    /// `None` where there are no descriptors left: the worker goes on polling.
    pub(super) fn new() -> Option<Kick> {
        // SAFETY: makes a descriptor, or fails.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        // SAFETY: it is new and nobody else's.
        (fd >= 0).then(|| Kick(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// What to wait for.
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }

    /// Begins to watch this ring. To be called inside the door. False: the guest has no counter to kick by.
    pub(super) fn watch(&self, vid: c_int, ring: u16) -> bool {
        // SAFETY: all zeros are valid for this structure of numbers and pointers.
        let mut vring: sys::rte_vhost_vring = unsafe { std::mem::zeroed() };
        // SAFETY: the number is valid inside the door; the facts are copied to `vring`.
        if unsafe { sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring) } != 0 || vring.kickfd < 0 {
            return false;
        }
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: the event lives through the call. The counter may be closed by the library meanwhile, and its number
        // given anew: then a stranger's event ends a sleep, which is harmless. One that is watched already (EEXIST) is
        // what we want.
        let added =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, vring.kickfd, &mut event) };
        let watched = added == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST);
        ask(vid, ring, watched);
        watched
    }

    /// Asks the guest to kick no more. To be called inside the door.
    pub(super) fn leave(vid: c_int, ring: u16) {
        ask(vid, ring, false);
    }

    /// Forgets kicks that came.
    pub(super) fn forget(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: there is room for four events; it does not wait.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as c_int, 0) };
    }
}

fn ask(vid: c_int, ring: u16, on: bool) {
    // SAFETY: the number is valid inside the door. The library checks the ring's number and takes its lock.
    unsafe { sys::rte_vhost_enable_guest_notification(vid, ring, c_int::from(on)) };
    // The guest must see the question before the ring is looked at.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
