//! What the library tells of sockets and guests, and to whom it goes.
//!
//! The callbacks run on the library's thread (`vhost-events`). They find the [`Link`] by the path at which the library
//! listens, set atomics, and log a line. None of
//! them may panic; `ring_state` runs under the library's locks of the rings and must not wait for a worker
//! (see [`super::gate`]). `interrupted` runs on the thread that serves the ring, in the middle of a burst, and counts for
//! that thread alone.

use super::guard;
use super::link::Link;
use super::lost_memory;
use super::rules::Rules;
use super::vet;
use crate::log::{Level, say};
use dpdk_sys as sys;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static LINKS: Mutex<BTreeMap<String, Arc<Link>>> = Mutex::new(BTreeMap::new());

/// The table of callbacks, as the library keeps it.
pub(super) struct Callbacks(sys::rte_vhost_device_ops);

// SAFETY: never written; a pointer in it is null and reserved.
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

/// No callbacks. What else there is depends on DPDK's version.
// SAFETY: functions that are not there are null, and so are pointers that are reserved.
const NONE: sys::rte_vhost_device_ops = unsafe { std::mem::zeroed() };

thread_local! {
    /// Interrupts that this thread gave guests and nobody has counted yet.
    static INTERRUPTS: Cell<u64> = const { Cell::new(0) };
}

/// The guest was told of what a burst did to its ring.
unsafe extern "C" fn interrupted(_vid: c_int) {
    INTERRUPTS.set(INTERRUPTS.get() + 1);
}

/// How many interrupts this thread gave since it last asked.
#[inline]
pub(super) fn take_interrupts() -> u64 {
    INTERRUPTS.take()
}

fn links() -> MutexGuard<'static, BTreeMap<String, Arc<Link>>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a port known; `false`: there is one with this path.
pub(super) fn add(link: &Arc<Link>) -> bool {
    let mut links = links();
    if links.values().any(|l| l.path == link.path && !l.is_retired()) {
        return false;
    }
    links.insert(link.inner.clone(), link.clone());
    true
}

/// Forgets a port by the library's name for it.
pub(super) fn remove(inner: &str) {
    links().remove(inner);
}

pub(super) fn find(vid: c_int) -> Option<Arc<Link>> {
    let mut path = [0u8; 128];
    // SAFETY: the library calls us with a valid number; the buffer is as long as said. It ends what it copies with 0.
    if unsafe { sys::rte_vhost_get_ifname(vid, path.as_mut_ptr().cast(), path.len()) } != 0 {
        return None;
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?.to_str().ok()?;
    links().get(path).cloned()
}

/// The front connected, for a guest; nothing is negotiated yet. There is no other connection of this port's: the front
/// waits until the last one has gone.
unsafe extern "C" fn connected(vid: c_int) -> c_int {
    let Some(link) = find(vid).filter(|link| link.is_expected()) else { return -1 };
    *link.rules.lock().unwrap_or_else(PoisonError::into_inner) = Rules::default();
    vet::watch(vid);
    link.all_off();
    link.set_joined(true);
    0
}

/// The first rings are ready: traffic may begin.
unsafe extern "C" fn guest_ready(vid: c_int) -> c_int {
    let Some(link) = find(vid) else {
        say(Level::Info, &format!("vHost Device {vid} can't be added - name not found"));
        return -1;
    };
    // SAFETY: the number is valid until `guest_gone` has returned; these only read.
    let (pairs, numa) =
        unsafe { (usize::from(sys::rte_vhost_get_vring_num(vid)) / 2, sys::rte_vhost_get_numa_node(vid)) };
    let mut features = 0;
    // SAFETY: as above; the feature bits are written to `features`.
    if unsafe { sys::rte_vhost_get_negotiated_features(vid, &mut features) } != 0 {
        features = 0;
    }
    link.set_pairs(pairs);
    link.numa.store(numa, Ordering::Relaxed);
    link.features.store(features, Ordering::Relaxed);
    if link.door.open(vid) {
        quiet(vid);
    }
    link.came_or_went();
    let text = format!("vHost Device '{}' has been added on numa node {}", link.path, numa.max(0));
    say(Level::Info, &text);
    0
}

/// Asks the guest not to kick: its rings are polled.
pub(super) fn quiet(vid: c_int) {
    // SAFETY: the number is valid: we are in a callback with it, or inside its door. Takes the lock of each ring,
    // which nobody who called us holds.
    unsafe {
        for ring in 0..sys::rte_vhost_get_vring_num(vid) {
            sys::rte_vhost_enable_guest_notification(vid, ring, 0);
        }
    }
}

/// The guest's memory goes away when this returns.
unsafe extern "C" fn guest_gone(vid: c_int) {
    let Some(link) = find(vid) else { return };
    if link.door.vid() == Some(vid) {
        link.door.shut();
        // The front has seen to it that nobody is inside before it asked for this, or (where the library ends the connection
        // by itself) that no worker was held up there: what is left is a burst.
        while !link.door.is_empty() {
            std::thread::yield_now();
        }
        link.features.store(0, Ordering::Relaxed);
        link.came_or_went();
    }
    say(Level::Info, &format!("vHost Device '{}' has been removed", link.path));
}

/// The guest, or the library for it, switched a ring on or off.
unsafe extern "C" fn ring_state(vid: c_int, ring: u16, on: c_int) -> c_int {
    let Some(link) = find(vid) else { return 0 };
    let (pair, from_guest, on) = (usize::from(ring / 2), ring % 2 == 1, on != 0);
    if on {
        guard::never_block(vid, ring);
    }
    if from_guest {
        link.set_from_guest(pair, on);
    } else {
        link.set_to_guest(pair, on);
    }
    if on && link.door.vid() == Some(vid) {
        link.reach_pair(pair);
    }
    let (side, state) = (if from_guest { "rx" } else { "tx" }, if on { "enabled" } else { "disabled" });
    let path = &link.path;
    say(
        Level::Info,
        &format!("State of queue {ring} ( {side}_qid {pair} ) of vhost device '{path}' changed to '{state}'"),
    );
    0
}

/// The peer is gone; the rings are gone already.
unsafe extern "C" fn disconnected(vid: c_int) {
    let Some(link) = find(vid) else { return };
    if link.door.vid() == Some(vid) {
        say(
            Level::Error,
            &format!("Connection on socket '{}' destroyed while vhost device still attached.", link.path),
        );
        link.door.shut();
    }
    lost_memory::tell();
    link.set_pairs(1);
    link.all_off();
    link.set_joined(false);
}
