//! A guest whose rings the switch serves itself: the state that workers and the serving thread share.
//!
//! Each ring has a [`Slot`] with a lock. A worker holds the lock during a burst, and waits for it at most as long as a burst takes.
//! The serving thread changes a ring, or the memory under it, only while no worker accesses the rings: [`Device::pause`] prevents
//! further accesses, and [`Device::is_idle`] reports when the last one has ended. The serving thread never blocks for that; see
//! [`session`].
//!
//! Frames of a ring may have leased tails in the guest's memory after the worker has ended its access ([`crate::ring`]). Until the worker
//! accesses the ring again to release them, the ring is not idle.
//!
//! If the guest has an IOMMU, the serving thread changes its translations without a pause: see [`translation`].
//!
//! A ring holds a reference to its memory, so the memory is unmapped only after the ring is dropped. Dropping a ring requires its lock. So
//! a worker whose access to a ring lasts long never accesses unmapped memory.

pub(crate) mod bench_driver;
pub(crate) mod from_guest;
pub(crate) mod kick;
mod misses;
mod numa;
mod requests;
mod ring_config;
mod session;
pub(crate) mod socket;
#[cfg(test)]
mod tests;
pub(crate) mod to_guest;
mod translation;

use crate::address_space::Misses;
use crate::bounds::MAX_PAIRS;
use crate::guest::Guest;
use crate::port_state::PortState;
use crate::ring::RingError;
use crate::ring::any::AnyRing;
use crate::server::wake;
use misses::MissingPages;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use sync::{TryGuard, TryLock};

/// Maximum number of attempts to access a ring that another sender is filling. The other sender's burst takes some microseconds.
const ENTER_TRIES_MAX: usize = 20_000;

thread_local! {
    // The number of this thread (gettid(2)).
    static THREAD: i32 = rustix::thread::gettid().as_raw_nonzero().get();
}

/// One ring of a guest.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// `None`: the ring is not running.
    ring: TryLock<Option<Box<AnyRing>>>,
    /// Frames have leases on packets of the ring, so neither the ring nor its memory may change, although no worker accesses it at the
    /// moment. Written by the holder of the lock.
    leased: AtomicBool,
    /// Number of begins and ends of accesses: odd while a worker accesses the ring. Written by the holder of
    /// the lock.
    access_count: AtomicU64,
    /// The thread that accessed the ring last (gettid(2)).
    thread: AtomicI32,
    /// An eventfd of the switch that wakes the worker when the ring of a guest with an IOMMU continues; made when the worker sleeps for the
    /// first time.
    continued: OnceLock<Arc<OwnedFd>>,
}

/// The guest of one port.
#[derive(Debug)]
pub(crate) struct Device {
    pub port: Arc<PortState>,
    slots: Box<[Slot]>,
    /// Workers must not begin to access any ring.
    paused: AtomicBool,
    /// An invalid ring that a worker found: its number and the error.
    invalid: Mutex<Option<(usize, RingError)>>,
    /// The MAC address that the guest requests to announce (`SEND_RARP`), with the bit [`ANNOUNCE`]; 0: none.
    announce: AtomicU64,
    /// Facts about the guest; `None`: no guest is connected.
    guest: Mutex<Option<Guest>>,
    /// Guests are offered an IOMMU (`vhost-iommu-support`).
    pub iommu: bool,
    /// Translations that rings wait for.
    missing: Mutex<MissingPages>,
}

/// Set in `Device::announce` if it contains an address.
const ANNOUNCE: u64 = 1 << 48;

/// A worker's access to a ring. While it exists, the serving thread changes neither the ring nor its memory.
pub(crate) struct RingAccess<'d> {
    device: &'d Device,
    number: usize,
    ring: TryGuard<'d, Option<Box<AnyRing>>>,
    reported: bool,
}

impl Device {
    pub fn new(port: &Arc<PortState>, iommu: bool) -> Device {
        Device {
            port: Arc::clone(port),
            slots: std::iter::repeat_with(Slot::default).take(2 * MAX_PAIRS).collect(),
            paused: AtomicBool::new(false),
            invalid: Mutex::default(),
            announce: AtomicU64::new(0),
            guest: Mutex::default(),
            iommu,
            missing: Mutex::default(),
        }
    }

    /// Begins to access ring `number`; `None`: the ring is not running, the device is paused, or another thread accesses the ring.
    #[inline]
    pub fn enter(&self, number: usize) -> Option<RingAccess<'_>> {
        let slot = self.slots.get(number)?;
        if self.paused.load(Ordering::Relaxed) {
            return None;
        }
        let ring = slot.ring.try_lock()?;
        // If `pause` was called before this lock was taken, this check sees it. If not, the serving thread sees that the lock is held.
        if self.paused.load(Ordering::Relaxed) || ring.is_none() {
            return None;
        }
        Some(self.access(number, slot, ring))
    }

    #[inline(always)]
    fn access<'d>(
        &'d self,
        number: usize,
        slot: &Slot,
        ring: TryGuard<'d, Option<Box<AnyRing>>>,
    ) -> RingAccess<'d> {
        let thread = THREAD.with(|thread| *thread);
        if slot.thread.load(Ordering::Relaxed) != thread {
            slot.thread.store(thread, Ordering::Relaxed);
        }
        slot.access_count.store(slot.access_count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        RingAccess { device: self, number, ring, reported: false }
    }

    /// As [`Device::enter`] for a ring with leased tails or held buffers, but also while the device is paused, because the ring becomes
    /// idle by this access. Only the worker that holds the leases may call this.
    pub fn enter_leased(&self, number: usize) -> Option<RingAccess<'_>> {
        let slot = self.slots.get(number)?;
        // Other threads hold the lock only briefly: a worker that ends its access or sees `paused`, or the serving thread's check.
        let ring = loop {
            match slot.ring.try_lock() {
                Some(ring) => break ring,
                None => std::hint::spin_loop(),
            }
        };
        ring.is_some().then(|| self.access(number, slot, ring))
    }

    /// Begins to access a ring that several threads use.
    #[inline]
    pub fn enter_shared(&self, number: usize) -> Option<RingAccess<'_>> {
        self.enter(number).or_else(|| self.enter_contended(number))
    }

    #[cold]
    fn enter_contended(&self, number: usize) -> Option<RingAccess<'_>> {
        let slot = self.slots.get(number)?;
        for _ in 0..ENTER_TRIES_MAX {
            if let Some(access) = self.enter(number) {
                return Some(access);
            }
            let is_stopped = slot.ring.try_lock().is_some_and(|ring| ring.is_none());
            if is_stopped || self.paused.load(Ordering::Relaxed) {
                return None;
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Prevents workers from beginning to access rings. Accesses in progress may still continue.
    fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    fn resume(&self) {
        self.paused.store(false, Ordering::Release);
    }

    /// Whether no worker accesses a ring, and no tail is leased. Once true after `pause`, the result stays true.
    fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| {
            let access = slot.ring.try_lock();
            access.is_some() && !slot.leased.load(Ordering::Relaxed)
        })
    }

    /// Replaces a ring and returns the previous one. Called by the serving thread while no worker accesses the rings.
    fn replace(&self, number: usize, ring: Option<Box<AnyRing>>) -> Option<Box<AnyRing>> {
        let slot = self.slots.get(number)?;
        loop {
            // Fails only while a worker that took the lock after `pause` holds it: the worker sees `paused` and releases it at once.
            if let Some(mut current) = slot.ring.try_lock() {
                return std::mem::replace(&mut *current, ring);
            }
            std::hint::spin_loop();
        }
    }

    /// Removes a ring, publishes its remaining used entries, and returns it. Called by the serving thread while no worker accesses the
    /// rings.
    fn stop(&self, number: usize) -> Option<Box<AnyRing>> {
        let mut ring = self.replace(number, None);
        if let Some(ring) = &mut ring {
            ring.publish_rest();
        }
        ring
    }

    /// Removes all rings. Called by the serving thread while no worker accesses the rings.
    fn clear(&self) {
        (0..self.slots.len()).for_each(|number| drop(self.stop(number)));
        *self.invalid() = None;
        self.missing().clear();
        self.announce.store(0, Ordering::Relaxed);
        *self.connected_guest() = None;
    }

    /// The accesses in progress: ring number, value of `access_count`, thread.
    fn accesses_in_progress(&self) -> impl Iterator<Item = (usize, u64, i32)> {
        let in_progress = |(number, slot): (usize, &Slot)| {
            let count = slot.access_count.load(Ordering::Relaxed);
            (count % 2 == 1).then(|| (number, count, slot.thread.load(Ordering::Relaxed)))
        };
        self.slots.iter().enumerate().filter_map(in_progress)
    }

    fn invalid(&self) -> MutexGuard<'_, Option<(usize, RingError)>> {
        self.invalid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the translations of pages that ring `number` misses. Returns those for which the list has no space.
    fn request_translation(&self, number: usize, misses: Misses) -> Misses {
        let mut missing = self.missing();
        misses.into_iter().filter(|miss| !missing.request_translation(number, *miss)).collect()
    }

    /// Requests the translations that a ring has missed. Those that do not fit into the list are kept for the next access to the ring.
    fn request_missed_translations(&self, number: usize, ring: &AnyRing) {
        if let Some(space) = ring.iova_space() {
            space.set_misses(self.request_translation(number, space.misses()));
        }
    }

    fn missing(&self) -> MutexGuard<'_, MissingPages> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connected_guest(&self) -> MutexGuard<'_, Option<Guest>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address of a guest that requested an announcement, once.
    #[inline]
    pub fn take_announcement(&self) -> Option<[u8; 6]> {
        if self.announce.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let address = self.announce.swap(0, Ordering::Relaxed) & (ANNOUNCE - 1);
        address.to_ne_bytes().first_chunk().copied()
    }
}

impl Deref for RingAccess<'_> {
    type Target = AnyRing;

    #[inline]
    fn deref(&self) -> &AnyRing {
        self.ring.as_deref().expect("`enter` found a ring")
    }
}

impl DerefMut for RingAccess<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut AnyRing {
        self.ring.as_deref_mut().expect("`enter` found a ring")
    }
}

impl RingAccess<'_> {
    /// Sets whether frames have leases on packets of the ring.
    #[inline]
    fn set_leased(&self, leased: bool) {
        self.device.slots[self.number].leased.store(leased, Ordering::Relaxed);
    }

    /// Reports invalid data of the guest, and missing translations, to the serving thread, at most once for each access.
    #[cold]
    fn report(&mut self) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        self.device.request_missed_translations(self.number, self);
        if let Some(invalid) = self.invalid().filter(|why| *why != RingError::Untranslated) {
            self.device.invalid().get_or_insert((self.number, invalid));
        }
        wake();
    }
}

impl Drop for RingAccess<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.has_report() {
            self.report();
        }
        let slot = &self.device.slots[self.number];
        slot.access_count.store(slot.access_count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
