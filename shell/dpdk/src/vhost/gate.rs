//! How a worker uses a guest's rings while the library may take the guest away.
//!
//! The library names a connected guest by a number. The number is valid until its `destroy_device` callback has
//! returned; then memory is unmapped, and the number may be given to another guest, of another port. So nothing may make
//! the library take a guest away, or change its memory, while a worker is inside a call with that number.
//!
//! A [`Door`] holds the number. Each caller of the library owns a [`Pass`]: a counter of its own, odd while it is inside.
//!
//! * A worker makes its counter odd, then reads the number. Absent: it makes the counter even and leaves.
//! * [`super::front`] makes the number absent ([`Door::bar`]), then reads each counter, and goes on when all are even
//!   ([`Door::is_empty`]).
//!
//! All four are sequentially consistent, so they have one order: either the worker reads "absent", or the front
//! reads the counter as odd. The counter becomes even with Release and is read with Acquire: what the worker did inside
//! happened before what the library frees. A counter that becomes odd anew after the door was barred becomes even at once,
//! since the number is absent by then.
//!
//! A stay lasts one burst, or a few questions of the main thread. Nothing bounds it where a worker waits for something
//! that its guest holds back, so nobody waits here: the front looks again later, and everything else goes on ([`Stays`]).
//!
//! Sources: `rte_vhost.h`; the order of locks in the library's handling of messages (22.11).

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const ABSENT: i32 = -1;

/// On a cache line of its own: one worker writes it with each burst.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Turns {
    /// Odd: its owner is inside.
    count: AtomicU64,
    /// The thread that was inside last (gettid(2)).
    thread: AtomicI32,
}

thread_local! {
    static THREAD: i32 = rustix::thread::gettid().as_raw_nonzero().get();
}

/// The number of the connected guest, and who may be using it.
#[derive(Debug)]
pub(super) struct Door {
    /// What workers read: `attached`, or absent while the door is barred.
    entrance: AtomicI32,
    state: Mutex<State>,
    passes: Mutex<Vec<Weak<Turns>>>,
}

#[derive(Debug)]
struct State {
    /// The guest that the library has declared ready.
    attached: i32,
    barred: bool,
    /// It got ready while the door was barred.
    unseen: bool,
}

/// The right of one thread at a time to go inside.
#[derive(Debug)]
pub(super) struct Pass(Arc<Turns>);

/// Inside: the number stays valid until this is dropped.
pub(super) struct Inside<'a> {
    turns: &'a Turns,
    turn: u64,
    vid: i32,
}

/// Calls that were under way when this was taken.
#[derive(Debug, Default)]
pub(super) struct Stays(Vec<(Arc<Turns>, u64)>);

impl Door {
    pub fn new() -> Door {
        Door {
            entrance: AtomicI32::new(ABSENT),
            state: Mutex::new(State { attached: ABSENT, barred: false, unseen: false }),
            passes: Mutex::new(Vec::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pass of its own for each caller. One that is made while the door is barred reads "absent" when it is used.
    pub fn pass(&self) -> Pass {
        let turns = Arc::new(Turns::default());
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.retain(|f| f.strong_count() > 0);
        passes.push(Arc::downgrade(&turns));
        Pass(turns)
    }

    /// Goes inside; `None`: there is no guest, or the door is barred.
    #[inline]
    pub fn enter<'a>(&self, pass: &'a mut Pass) -> Option<Inside<'a>> {
        let turns = &*pass.0;
        let thread = THREAD.with(|thread| *thread);
        if turns.thread.load(Ordering::Relaxed) != thread {
            turns.thread.store(thread, Ordering::Relaxed);
        }
        let turn = turns.count.load(Ordering::Relaxed) + 1;
        turns.count.store(turn, Ordering::SeqCst);
        let vid = self.entrance.load(Ordering::SeqCst);
        // Leaves also where there is no guest.
        let inside = Inside { turns, turn, vid };
        (vid != ABSENT).then_some(inside)
    }

    /// The guest that is there, also behind a barred door. The number is for comparing: it may be invalid already.
    pub fn vid(&self) -> Option<i32> {
        Some(self.state().attached).filter(|v| *v != ABSENT)
    }

    /// A guest is there. Whether workers can enter.
    pub fn open(&self, vid: i32) -> bool {
        let mut state = self.state();
        (state.attached, state.unseen) = (vid, state.barred);
        if !state.barred {
            self.entrance.store(vid, Ordering::SeqCst);
        }
        !state.barred
    }

    /// The guest goes away.
    pub fn shut(&self) {
        let mut state = self.state();
        (state.attached, state.unseen) = (ABSENT, false);
        self.entrance.store(ABSENT, Ordering::SeqCst);
    }

    /// Lets no worker in from now on; those inside are on their way out.
    pub fn bar(&self) {
        let mut state = self.state();
        state.barred = true;
        self.entrance.store(ABSENT, Ordering::SeqCst);
    }

    /// Lets workers in again, if there is a guest. Gives one that got ready meanwhile.
    pub fn unbar(&self) -> Option<i32> {
        let mut state = self.state();
        state.barred = false;
        self.entrance.store(state.attached, Ordering::SeqCst);
        std::mem::take(&mut state.unseen).then_some(state.attached)
    }

    /// No worker is inside. Final if the door was barred, or shut, before.
    pub fn is_empty(&self) -> bool {
        self.stays().0.is_empty()
    }

    /// The calls that are under way.
    pub fn stays(&self) -> Stays {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = passes.iter().filter_map(Weak::upgrade);
        let stay = |turns: Arc<Turns>| {
            let turn = turns.count.load(Ordering::SeqCst);
            (turn % 2 == 1).then_some((turns, turn))
        };
        Stays(turns.filter_map(stay).collect())
    }
}

impl Stays {
    /// Whether all of them have ended; a worker that left and came back does not count.
    pub fn are_over(&mut self) -> bool {
        self.0.retain(|(turns, turn)| turns.count.load(Ordering::SeqCst) == *turn);
        self.0.is_empty()
    }
}

impl Stays {
    /// The threads whose calls had not ended when [`Stays::are_over`] last looked.
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        self.0.iter().map(|(turns, _)| turns.thread.load(Ordering::Relaxed))
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
        self.turns.count.store(self.turn + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn bar_and_wait(door: &Door) {
        door.bar();
        while !door.is_empty() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn nobody_is_inside_without_a_guest() {
        let door = Door::new();
        let mut pass = door.pass();
        assert!(door.enter(&mut pass).is_none() && door.is_empty());
        assert!(door.open(3));
        assert_eq!(door.enter(&mut pass).map(|i| i.vid()), Some(3));
        door.shut();
        assert!(door.enter(&mut pass).is_none() && door.vid().is_none());
    }

    #[test]
    fn a_barred_door_keeps_its_guest() {
        let door = Door::new();
        let mut pass = door.pass();
        door.open(3);
        door.bar();
        assert!(door.enter(&mut pass).is_none());
        assert_eq!(door.vid(), Some(3));
        assert_eq!(door.unbar(), None);
        assert_eq!(door.enter(&mut pass).map(|i| i.vid()), Some(3));
        // A guest that gets ready behind it is let in with the next `unbar`.
        door.shut();
        door.bar();
        assert!(!door.open(4) && door.enter(&mut pass).is_none());
        assert_eq!(door.unbar(), Some(4));
        assert_eq!(door.enter(&mut pass).map(|i| i.vid()), Some(4));
        door.bar();
        door.shut();
        door.unbar();
        assert!(door.enter(&mut pass).is_none());
    }

    #[test]
    fn a_stay_ends_when_its_worker_left_once() {
        let door = Door::new();
        let (mut pass, mut other) = (door.pass(), door.pass());
        door.open(3);
        let inside = door.enter(&mut pass).unwrap();
        let _elsewhere = door.enter(&mut other);
        let mut both = door.stays();
        assert!(!both.are_over() && !door.is_empty());
        drop(inside);
        let _back = door.enter(&mut pass);
        assert_eq!((both.are_over(), both.0.len()), (false, 1));
        drop(_elsewhere);
        assert!(both.are_over() && !door.is_empty());
    }

    #[test]
    fn a_barred_door_is_empty_when_all_have_left() {
        let door = Arc::new(Door::new());
        // What a guest's number stands for: 0 is "freed".
        let memory = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (door, memory, stop) = (door.clone(), memory.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut pass = door.pass();
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(inside) = door.enter(&mut pass) {
                            assert_eq!(memory.load(Ordering::Relaxed), inside.vid() as u64 + 1);
                        }
                    }
                })
            })
            .collect();
        for vid in 0..2000 {
            memory.store(vid as u64 + 1, Ordering::Relaxed);
            door.unbar();
            door.open(vid);
            bar_and_wait(&door);
            door.shut();
            memory.store(0, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        for w in workers {
            w.join().unwrap();
        }
    }
}
