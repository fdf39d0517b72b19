//! Kicks: a guest wakes the worker that polls its ring, only while the worker wants to sleep.
//!
//! A guest kicks a ring through an eventfd, and only if the ring asks for it, because each kick costs the guest an
//! exit of its virtual machine. Workers that poll do not ask ([`super::callbacks::disable_kicks`]). A worker that is about to
//! sleep enables kicks, checks the ring once more (packets that were queued before cause no kick), and then waits for
//! a descriptor of the switch.
//!
//! That descriptor is an edge-triggered `epoll` instance that watches the eventfd. So the eventfd, which the peer
//! shares and could make block, is never read; and the instance stays valid when the library closes the eventfd.

use dpdk_sys as sys;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// The epoll instance of one ring.
#[derive(Debug)]
pub(super) struct Kick(Arc<OwnedFd>);

impl Kick {
    /// `None` if no descriptor is free: the worker then keeps polling.
    pub(super) fn new() -> Option<Kick> {
        // SAFETY: makes a descriptor, or fails.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        // SAFETY: the descriptor is new; nothing else owns it.
        (fd >= 0).then(|| Kick(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The descriptor that becomes readable at a kick.
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }

    /// Asks the guest to kick this ring, and watches for kicks. To be called inside an access. Returns false if the
    /// guest has no eventfd for kicks.
    pub(super) fn enable(&self, vid: c_int, ring: u16) -> bool {
        // SAFETY: all zeros are valid for this structure of numbers and pointers.
        let mut vring: sys::rte_vhost_vring = unsafe { std::mem::zeroed() };
        // SAFETY: the number is valid inside an access; the facts are copied to `vring`.
        if unsafe { sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring) } != 0 || vring.kickfd < 0 {
            return false;
        }
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: the event outlives the call. The library may close the eventfd meanwhile, and its number may be
        // reused: then an unrelated event ends a sleep early, which is harmless. If the eventfd is watched already
        // (EEXIST), that is what we want.
        let added =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, vring.kickfd, &mut event) };
        let watched = added == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST);
        set_notification(vid, ring, watched);
        watched
    }

    /// Asks the guest not to kick. To be called inside an access.
    pub(super) fn disable(vid: c_int, ring: u16) {
        set_notification(vid, ring, false);
    }

    /// Discards kicks that were received.
    pub(super) fn drain(&self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: there is room for four events; the timeout is zero, so it does not block.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as c_int, 0) };
    }
}

fn set_notification(vid: c_int, ring: u16, on: bool) {
    // SAFETY: the number is valid inside an access. The library checks the ring's number and takes its lock.
    unsafe { sys::rte_vhost_enable_guest_notification(vid, ring, c_int::from(on)) };
    // The guest must see the request before the worker checks the ring.
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
