//! How a worker uses a guest's rings while the library may take the guest away.
//!
//! The library names a connected guest by a number. The number is valid until its `destroy_device` callback has
//! returned; then memory is unmapped, and the number may be given to another guest, of another port. So the callback
//! must not return while a worker is inside a call with that number, and no worker may begin one afterwards.
//!
//! A [`Door`] holds the number. Whoever calls the library owns a [`Pass`]: a flag, set while it is inside.
//!
//! * A worker sets its flag, then reads the number. Absent: it clears the flag and leaves.
//! * The callback makes the number absent, then reads each flag, and waits while one is set.
//!
//! All four are sequentially consistent, so they have one order: either the worker reads "absent", or the callback
//! reads the flag as set. The flag is cleared with Release and read with Acquire: what the worker did inside
//! happened before what the library frees. A flag that is set anew while the callback waits is cleared at once, since
//! the number is absent by then.
//!
//! The wait is bounded by the longest stay inside: one burst, or a few questions of the main thread. Inside a
//! burst a worker may wait for the library's own lock of a ring. The library does not hold those locks while it calls
//! `destroy_device`, but does while it calls `vring_state_changed`: **that callback must not wait here**, and need not,
//! for under the lock a worker sees by itself that the ring is off.
//!
//! Sources: `rte_vhost.h`; the order of locks in the library's handling of messages (22.11).

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

const ABSENT: i32 = -1;

/// On a cache line of its own: one worker writes it with each burst.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

/// The number of the connected guest, and who may be using it.
#[derive(Debug)]
pub(super) struct Door {
    vid: AtomicI32,
    flags: Mutex<Vec<Weak<Flag>>>,
}

/// The right of one thread at a time to go inside.
#[derive(Debug)]
pub(super) struct Pass(Arc<Flag>);

/// Inside: the number stays valid until this is dropped.
pub(super) struct Inside<'a> {
    flag: &'a Flag,
    vid: i32,
}

impl Door {
    pub fn new() -> Door {
        Door { vid: AtomicI32::new(ABSENT), flags: Mutex::new(Vec::new()) }
    }

    /// A pass of its own for each caller. One that is made while the callback waits reads "absent" when it is used:
    /// the callback had made it so before it took the list.
    pub fn pass(&self) -> Pass {
        let flag = Arc::new(Flag::default());
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        flags.retain(|f| f.strong_count() > 0);
        flags.push(Arc::downgrade(&flag));
        Pass(flag)
    }

    /// Goes inside; `None`: there is no guest.
    #[inline]
    pub fn enter<'a>(&self, pass: &'a mut Pass) -> Option<Inside<'a>> {
        let flag = &*pass.0;
        flag.0.store(true, Ordering::SeqCst);
        let vid = self.vid.load(Ordering::SeqCst);
        // Clears the flag also where there is no guest.
        let inside = Inside { flag, vid };
        (vid != ABSENT).then_some(inside)
    }

    /// The number, for comparing: it may be invalid already.
    pub fn vid(&self) -> Option<i32> {
        Some(self.vid.load(Ordering::SeqCst)).filter(|v| *v != ABSENT)
    }

    /// A guest is there.
    pub fn open(&self, vid: i32) {
        self.vid.store(vid, Ordering::SeqCst);
    }

    /// The guest goes away: returns when nobody is inside.
    pub fn shut(&self) {
        self.vid.store(ABSENT, Ordering::SeqCst);
        let flags: Vec<_> = {
            let flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
            flags.iter().filter_map(Weak::upgrade).collect()
        };
        for flag in flags {
            let mut turns = 0u32;
            while flag.0.load(Ordering::SeqCst) {
                turns = turns.saturating_add(1);
                // A worker that shares our core cannot leave while we spin.
                if turns < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
    }
}

impl Inside<'_> {
    #[inline]
    pub fn vid(&self) -> i32 {
        self.vid
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.flag.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_is_inside_without_a_guest() {
        let door = Door::new();
        let mut pass = door.pass();
        assert!(door.enter(&mut pass).is_none());
        door.open(3);
        assert_eq!(door.enter(&mut pass).map(|i| i.vid()), Some(3));
        door.shut();
        assert!(door.enter(&mut pass).is_none() && door.vid().is_none());
    }

    #[test]
    fn shut_waits_for_who_is_inside() {
        let door = Arc::new(Door::new());
        // What a guest's number stands for: 0 is "freed".
        let memory = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (door, memory, stop) = (door.clone(), memory.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut pass = door.pass();
                    let mut entered = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(inside) = door.enter(&mut pass) {
                            assert_eq!(memory.load(Ordering::Relaxed), inside.vid() as u64 + 1);
                            entered += 1;
                        }
                    }
                    entered
                })
            })
            .collect();
        for vid in 0..2000 {
            memory.store(vid as u64 + 1, Ordering::Relaxed);
            door.open(vid);
            door.shut();
            memory.store(0, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        for w in workers {
            w.join().unwrap();
        }
        assert!(door.vid().is_none());
    }
}
