//! A guest that the switch serves itself: the state that workers and the serving thread share.
//!
//! Each ring has a [`Slot`] with a lock. A worker takes the lock for a burst, and never waits for it longer than a burst takes.
//! The serving thread changes a ring, or the memory under it, only while no worker is inside: [`Device::pause`] keeps
//! workers out, and [`Device::is_idle`] tells when the last one has left. The serving thread never waits for that; see [`session`].
//!
//! Frames of a ring may have tails in the guest's memory when the worker has left the ring ([`ring::loans`](crate::ring)). Until
//! the worker comes back to return them, the ring is not idle.
//!
//! A ring owns a share of the memory that it uses, so that memory is unmapped only after the ring is dropped. Dropping a ring takes its
//! lock. So a worker that does not leave a ring for long never accesses memory that is unmapped.

pub(crate) mod driver;
pub(crate) mod from_guest;
pub(crate) mod kick;
mod numa;
mod requests;
mod ring_config;
mod session;
pub(crate) mod socket;
#[cfg(test)]
mod tests;
pub(crate) mod to_guest;

use crate::bounds::MAX_PAIRS;
use crate::guest::Guest;
use crate::port_state::PortState;
use crate::ring::InvalidRing;
use crate::ring::any::AnyRing;
use crate::server::wake;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sync::{TryGuard, TryLock};

/// How often a sender tries to get a ring that another one fills: a burst takes some microseconds.
const TRIES: usize = 20_000;

thread_local! {
    static THREAD: i32 = rustix::thread::gettid().as_raw_nonzero().get();
}

/// One ring of a guest.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// `None`: the ring is not in use.
    ring: TryLock<Option<Box<AnyRing>>>,
    /// Packets of the ring are lent to frames, so that neither the ring nor its memory may change, although no worker is
    /// inside. Written by the holder of the lock.
    lent: AtomicBool,
    /// Odd while a worker is inside. Written by the holder of the lock.
    visits: AtomicU64,
    /// The thread that was inside last (gettid(2)).
    thread: AtomicI32,
}

/// The guest of one port.
#[derive(Debug)]
pub(crate) struct Device {
    pub port: Arc<PortState>,
    slots: Box<[Slot]>,
    /// Set: workers must not enter any ring.
    paused: AtomicBool,
    /// A worker found an invalid ring: its number and what is wrong with it.
    invalid: Mutex<Option<(usize, InvalidRing)>>,
    /// The address of the guest that asks to be announced (`SEND_RARP`), with [`ANNOUNCE`]; 0: none.
    announce: AtomicU64,
    /// Facts about the guest; `None`: none is connected.
    guest: Mutex<Option<Guest>>,
}

/// The bit of `Device::announce` beside the address.
const ANNOUNCE: u64 = 1 << 48;

/// A worker's access to a ring. While it exists, neither the ring nor its memory changes.
pub(crate) struct Inside<'d> {
    device: &'d Device,
    number: usize,
    ring: TryGuard<'d, Option<Box<AnyRing>>>,
    told: bool,
}

impl Device {
    pub fn new(port: &Arc<PortState>) -> Device {
        Device {
            port: Arc::clone(port),
            slots: std::iter::repeat_with(Slot::default).take(2 * MAX_PAIRS).collect(),
            paused: AtomicBool::new(false),
            invalid: Mutex::default(),
            announce: AtomicU64::new(0),
            guest: Mutex::default(),
        }
    }

    /// Enters ring `number`; `None`: it is not in use, paused, or another thread is inside.
    #[inline]
    pub fn enter(&self, number: usize) -> Option<Inside<'_>> {
        let slot = self.slots.get(number)?;
        if self.paused.load(Ordering::Relaxed) {
            return None;
        }
        let ring = slot.ring.try_lock()?;
        // `pause` was called before the lock was last released, or the serving thread sees that it is held.
        if self.paused.load(Ordering::Relaxed) || ring.is_none() {
            return None;
        }
        Some(self.inside(number, slot, ring))
    }

    #[inline(always)]
    fn inside<'d>(
        &'d self,
        number: usize,
        slot: &Slot,
        ring: TryGuard<'d, Option<Box<AnyRing>>>,
    ) -> Inside<'d> {
        let thread = THREAD.with(|thread| *thread);
        if slot.thread.load(Ordering::Relaxed) != thread {
            slot.thread.store(thread, Ordering::Relaxed);
        }
        slot.visits.store(slot.visits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Inside { device: self, number, ring, told: false }
    }

    /// Enters ring `number`, whose packets are lent, also while workers are kept out: it becomes idle by that. Only the worker
    /// that has the loans may call this.
    pub fn enter_lent(&self, number: usize) -> Option<Inside<'_>> {
        let slot = self.slots.get(number)?;
        // Others have the lock for moments only: a worker that is about to leave, or the serving thread that looks.
        let ring = loop {
            match slot.ring.try_lock() {
                Some(ring) => break ring,
                None => std::hint::spin_loop(),
            }
        };
        ring.is_some().then(|| self.inside(number, slot, ring))
    }

    /// Enters a ring that several threads use.
    #[inline]
    pub fn enter_shared(&self, number: usize) -> Option<Inside<'_>> {
        self.enter(number).or_else(|| self.enter_contended(number))
    }

    #[cold]
    fn enter_contended(&self, number: usize) -> Option<Inside<'_>> {
        for _ in 0..TRIES {
            if let Some(inside) = self.enter(number) {
                return Some(inside);
            }
            let held =
                self.slots.get(number).is_some_and(|slot| slot.visits.load(Ordering::Relaxed) % 2 == 1);
            if !held || self.paused.load(Ordering::Relaxed) {
                return self.enter(number);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Keeps workers out of all rings; those inside may still be on their way out.
    fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    fn resume(&self) {
        self.paused.store(false, Ordering::Release);
    }

    /// Whether no worker is inside, and no packet is lent. After `pause`, this stays true.
    fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| {
            let inside = slot.ring.try_lock();
            inside.is_some() && !slot.lent.load(Ordering::Relaxed)
        })
    }

    /// Replaces a ring and returns the previous one. For the serving thread, while no worker is inside.
    fn replace(&self, number: usize, ring: Option<Box<AnyRing>>) -> Option<Box<AnyRing>> {
        let slot = self.slots.get(number)?;
        loop {
            // Fails only while a worker that entered after `pause` holds the lock: it sees `paused` and leaves at once.
            if let Some(mut place) = slot.ring.try_lock() {
                return std::mem::replace(&mut *place, ring);
            }
            std::hint::spin_loop();
        }
    }

    /// Removes a ring and returns it. The guest gets all of its buffers back. For the serving thread, while no worker is inside.
    fn stop(&self, number: usize) -> Option<Box<AnyRing>> {
        let mut ring = self.replace(number, None);
        if let Some(ring) = &mut ring {
            ring.publish_rest();
        }
        ring
    }

    /// Removes all rings; for the serving thread, while no worker is inside.
    fn clear(&self) {
        (0..self.slots.len()).for_each(|number| drop(self.stop(number)));
        *self.invalid() = None;
        self.announce.store(0, Ordering::Relaxed);
        *self.facts() = None;
    }

    /// The visits in progress: number of the ring, count of visits, thread.
    fn visits(&self) -> impl Iterator<Item = (usize, u64, i32)> {
        let visit = |(number, slot): (usize, &Slot)| {
            let visits = slot.visits.load(Ordering::Relaxed);
            (visits % 2 == 1).then(|| (number, visits, slot.thread.load(Ordering::Relaxed)))
        };
        self.slots.iter().enumerate().filter_map(visit)
    }

    fn invalid(&self) -> MutexGuard<'_, Option<(usize, InvalidRing)>> {
        self.invalid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts(&self) -> MutexGuard<'_, Option<Guest>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the address of a guest that asked to be announced.
    #[inline]
    pub fn take_announcement(&self) -> Option<[u8; 6]> {
        if self.announce.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let address = self.announce.swap(0, Ordering::Relaxed) & (ANNOUNCE - 1);
        address.to_ne_bytes().first_chunk().copied()
    }
}

impl Deref for Inside<'_> {
    type Target = AnyRing;

    #[inline]
    fn deref(&self) -> &AnyRing {
        self.ring.as_deref().expect("`enter` found a ring")
    }
}

impl DerefMut for Inside<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut AnyRing {
        self.ring.as_deref_mut().expect("`enter` found a ring")
    }
}

impl Inside<'_> {
    /// Sets whether packets of the ring are lent.
    #[inline]
    fn set_lent(&self, lent: bool) {
        self.device.slots[self.number].lent.store(lent, Ordering::Relaxed);
    }

    /// Reports invalid data of the guest to the serving thread, once.
    #[cold]
    fn report(&mut self, invalid: InvalidRing) {
        if !std::mem::replace(&mut self.told, true) {
            self.device.invalid().get_or_insert((self.number, invalid));
            wake();
        }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(invalid) = self.invalid() {
            self.report(invalid);
        }
        let slot = &self.device.slots[self.number];
        slot.visits.store(slot.visits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
