//! The library's callbacks about connections, guests and rings.
//!
//! They run on the library's thread (`vhost-events`). Each finds the port by the path at which the library listens, changes
//! atomics, and logs a line. None of them may panic. `ring_state` runs under the library's locks of the rings and must
//! not wait for a worker (see [`super::device_access`]). `interrupted` runs on the thread that polls the ring, during a burst,
//! and counts only for that thread.

use super::message_checks;
use super::ports::find;
use dpdk_sys as sys;
use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use vhost::log::{Level, say};
use vhost::rules::Rules;
use vhost::{blocked_writes, lost_memory};

/// The table of callbacks in the library's format.
pub(super) struct Callbacks(sys::rte_vhost_device_ops);

// SAFETY: the table is never written, and its pointers are null and reserved.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    pub fn as_ptr(&'static self) -> *const sys::rte_vhost_device_ops {
        &raw const self.0
    }
}

pub(super) static CALLBACKS: Callbacks = Callbacks(sys::rte_vhost_device_ops {
    new_device: Some(guest_ready),
    destroy_device: Some(guest_gone),
    vring_state_changed: Some(ring_state),
    features_changed: None,
    new_connection: Some(connected),
    destroy_connection: Some(disconnected),
    guest_notified: Some(interrupted),
    ..NONE
});

/// A table without callbacks, for the fields that depend on DPDK's version.
// SAFETY: all zeros are valid: a null function is an absent callback, and reserved pointers are null.
const NONE: sys::rte_vhost_device_ops = unsafe { std::mem::zeroed() };

/// Makes the eventfd by which ring `ring` interrupts its guest non-blocking.
fn make_call_fd_nonblocking(vid: c_int, ring: u16) {
    // SAFETY: all zeros are valid for this structure of numbers and pointers.
    let mut vring: sys::rte_vhost_vring = unsafe { std::mem::zeroed() };
    // SAFETY: the vid is valid during a callback; the call writes to `vring`.
    if unsafe { sys::rte_vhost_get_vhost_vring(vid, ring, &mut vring) } == 0 && vring.callfd >= 0 {
        // SAFETY: the library keeps the file descriptor open during the callback.
        blocked_writes::make_call_fd_nonblocking(unsafe { BorrowedFd::borrow_raw(vring.callfd) });
    }
}

thread_local! {
    /// Number of interrupts that this thread sent to guests since the last [`take_interrupts`].
    static INTERRUPTS: Cell<u64> = const { Cell::new(0) };
}

/// Called when the library has interrupted the guest after a burst on its ring.
unsafe extern "C" fn interrupted(_vid: c_int) {
    INTERRUPTS.set(INTERRUPTS.get() + 1);
}

/// Returns how many interrupts this thread sent since the last call.
#[inline]
pub(super) fn take_interrupts() -> u64 {
    INTERRUPTS.take()
}

/// Called when the proxy has connected on behalf of a guest. Nothing is negotiated yet. The port has no other connection, because the proxy
/// waits until the previous one has been removed.
unsafe extern "C" fn connected(vid: c_int) -> c_int {
    let Some(port) = find(vid).filter(|port| port.take_expected()) else { return -1 };
    *port.rules.lock().unwrap_or_else(PoisonError::into_inner) = Rules::default();
    message_checks::install(vid);
    port.disable_all_rings();
    port.set_library_connected(true);
    0
}

/// Called when the first rings are ready, so that workers may use them.
unsafe extern "C" fn guest_ready(vid: c_int) -> c_int {
    let Some(port) = find(vid) else {
        say(Level::Info, &format!("vHost Device {vid} can't be added - name not found"));
        return -1;
    };
    // SAFETY: the vid is valid until `guest_gone` has returned; these functions only read.
    let (pairs, numa) =
        unsafe { (usize::from(sys::rte_vhost_get_vring_num(vid)) / 2, sys::rte_vhost_get_numa_node(vid)) };
    let mut features = 0;
    // SAFETY: the vid is valid until `guest_gone` has returned; the call writes to `features`.
    if unsafe { sys::rte_vhost_get_negotiated_features(vid, &mut features) } != 0 {
        features = 0;
    }
    port.set_pairs(pairs);
    port.numa.store(numa, Ordering::Relaxed);
    port.features.store(features, Ordering::Relaxed);
    if port.access.attach(vid) {
        disable_kicks(vid);
    }
    port.guest_changed();
    let text = format!("vHost Device '{}' has been added on numa node {}", port.path, numa.max(0));
    say(Level::Info, &text);
    0
}

/// Requests that the guest does not kick any ring, because workers poll the rings.
pub(super) fn disable_kicks(vid: c_int) {
    // SAFETY: the vid is valid, because the caller is a callback for it or holds an access. The call locks each ring; no
    // caller of this function holds such a lock.
    unsafe {
        for ring in 0..sys::rte_vhost_get_vring_num(vid) {
            sys::rte_vhost_enable_guest_notification(vid, ring, 0);
        }
    }
}

/// Called before the library unmaps the guest's memory. The library unmaps it when this function returns.
unsafe extern "C" fn guest_gone(vid: c_int) {
    let Some(port) = find(vid) else { return };
    if port.access.vid() == Some(vid) {
        port.access.detach();
        // If the proxy requested the removal, it has ensured that no worker accesses the rings. If the library ends the
        // connection by itself, no worker was blocked in the rings, so this loop waits at most for a burst.
        while !port.access.is_idle() {
            std::thread::yield_now();
        }
        port.features.store(0, Ordering::Relaxed);
        port.guest_changed();
    }
    say(Level::Info, &format!("vHost Device '{}' has been removed", port.path));
}

/// Called when the guest, or the library on its behalf, has enabled or disabled a ring.
unsafe extern "C" fn ring_state(vid: c_int, ring: u16, on: c_int) -> c_int {
    let Some(port) = find(vid) else { return 0 };
    let (pair, from_guest, on) = (usize::from(ring / 2), ring % 2 == 1, on != 0);
    if on {
        make_call_fd_nonblocking(vid, ring);
    }
    if from_guest {
        port.set_from_guest(pair, on);
    } else {
        port.set_to_guest(pair, on);
    }
    if on && port.access.vid() == Some(vid) {
        port.include_pair(pair);
    }
    let (side, state) = (if from_guest { "rx" } else { "tx" }, if on { "enabled" } else { "disabled" });
    let path = &port.path;
    say(
        Level::Info,
        &format!("State of queue {ring} ( {side}_qid {pair} ) of vhost device '{path}' changed to '{state}'"),
    );
    0
}

/// Called when the connection has ended. The rings were removed before.
unsafe extern "C" fn disconnected(vid: c_int) {
    let Some(port) = find(vid) else { return };
    if port.access.vid() == Some(vid) {
        say(
            Level::Error,
            &format!("Connection on socket '{}' destroyed while vhost device still attached.", port.path),
        );
        port.access.detach();
    }
    lost_memory::log_replaced();
    port.set_pairs(1);
    port.disable_all_rings();
    port.set_library_connected(false);
}
