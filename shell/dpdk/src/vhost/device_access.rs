//! Access of workers to a guest's rings, which DPDK's vhost library (here: the library) may free.
//!
//! The library identifies a connected guest by a number, the vid. A vid is valid until the `destroy_device` callback
//! has returned. Then the guest's memory is unmapped, and the vid may be reused for another guest of another port. So the
//! library must not remove a guest, or change its memory, while a worker is in a library call with that vid.
//!
//! [`DeviceAccess`] holds the vid. Each caller of the library owns an [`Accessor`]: a counter that is
//! odd during the caller's access.
//!
//! - A worker makes its counter odd, and then reads the vid. If the vid is absent, the worker makes the counter even and returns.
//! - [`super::proxy`] makes the vid absent ([`DeviceAccess::block`]), then reads all counters, and continues when
//!   all are even ([`DeviceAccess::is_idle`]).
//!
//! Making the counter odd, reading the vid, making the vid absent and reading the counters are sequentially consistent, so they have one order:
//! either the worker reads "absent", or the proxy reads the counter as odd. The counter becomes even with Release, and the proxy's read is also
//! an acquire, so the worker's accesses happen before the library frees anything. A counter that becomes odd after the access was blocked
//! becomes even at once, because the vid is absent by then.
//!
//! An access lasts for one burst, or for a few queries of the main thread. It has no upper limit if a worker waits for
//! something that its guest withholds. So nothing here waits for the end of an access: the proxy checks again later, and
//! everything else continues ([`Accesses`]).
//!
//! Sources: `rte_vhost.h`; the order of locks in the library's handling of messages (22.11).

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const ABSENT: i32 = -1;

/// The counter of one accessor, in its own cache line, because its worker writes it with each burst.
#[derive(Debug, Default)]
#[repr(align(64))]
struct AccessCounter {
    /// Odd during an access of the owner.
    count: AtomicU64,
    /// The thread that made the last access (gettid(2)).
    thread: AtomicI32,
}

thread_local! {
    // The number of this thread (gettid(2)).
    static THREAD: i32 = rustix::thread::gettid().as_raw_nonzero().get();
}

/// The vid of the connected guest, and the counters of all callers that may use it.
#[derive(Debug)]
pub(super) struct DeviceAccess {
    /// The vid that workers read: `attached`, or absent while access is blocked.
    visible_vid: AtomicI32,
    state: Mutex<State>,
    /// The counters of all accessors.
    accessors: Mutex<Vec<Weak<AccessCounter>>>,
}

#[derive(Debug)]
struct State {
    /// The vid of the guest that the library reported as ready, or absent.
    attached: i32,
    blocked: bool,
    /// Whether the guest became ready while access was blocked.
    attached_while_blocked: bool,
}

/// The right of one caller to access the rings, with its counter.
#[derive(Debug)]
pub(super) struct Accessor(Arc<AccessCounter>);

/// An access. The vid stays valid until the access is dropped.
pub(super) struct VidAccess<'a> {
    counter: &'a AccessCounter,
    odd_count: u64,
    vid: i32,
}

/// The accesses that were in progress when this value was created.
#[derive(Debug, Default)]
pub(super) struct Accesses(Vec<(Arc<AccessCounter>, u64)>);

impl DeviceAccess {
    pub fn new() -> DeviceAccess {
        DeviceAccess {
            visible_vid: AtomicI32::new(ABSENT),
            state: Mutex::new(State { attached: ABSENT, blocked: false, attached_while_blocked: false }),
            accessors: Mutex::new(Vec::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an accessor; each caller needs its own. If access is blocked, [`enter`](Self::enter) returns `None`.
    pub fn accessor(&self) -> Accessor {
        let counter = Arc::new(AccessCounter::default());
        let mut accessors = self.accessors.lock().unwrap_or_else(PoisonError::into_inner);
        accessors.retain(|f| f.strong_count() > 0);
        accessors.push(Arc::downgrade(&counter));
        Accessor(counter)
    }

    /// Begins an access; `None` if there is no guest or access is blocked.
    #[inline]
    pub fn enter<'a>(&self, accessor: &'a mut Accessor) -> Option<VidAccess<'a>> {
        let counter = &*accessor.0;
        let thread = THREAD.with(|thread| *thread);
        if counter.thread.load(Ordering::Relaxed) != thread {
            counter.thread.store(thread, Ordering::Relaxed);
        }
        let odd_count = counter.count.load(Ordering::Relaxed) + 1;
        counter.count.store(odd_count, Ordering::SeqCst);
        let vid = self.visible_vid.load(Ordering::SeqCst);
        // If there is no guest, dropping the access makes the counter even again.
        let access = VidAccess { counter, odd_count, vid };
        (vid != ABSENT).then_some(access)
    }

    /// The vid of the connected guest, also while access is blocked. Only for comparison, because it may be invalid by now.
    pub fn vid(&self) -> Option<i32> {
        Some(self.state().attached).filter(|v| *v != ABSENT)
    }

    /// Stores the vid of a guest that the library reported as ready. Returns whether workers can access it.
    pub fn attach(&self, vid: i32) -> bool {
        let mut state = self.state();
        (state.attached, state.attached_while_blocked) = (vid, state.blocked);
        if !state.blocked {
            self.visible_vid.store(vid, Ordering::SeqCst);
        }
        !state.blocked
    }

    /// Removes the vid, because the library removes the guest.
    pub fn detach(&self) {
        let mut state = self.state();
        (state.attached, state.attached_while_blocked) = (ABSENT, false);
        self.visible_vid.store(ABSENT, Ordering::SeqCst);
    }

    /// Blocks new accesses of workers. Accesses in progress may still continue.
    pub fn block(&self) {
        let mut state = self.state();
        state.blocked = true;
        self.visible_vid.store(ABSENT, Ordering::SeqCst);
    }

    /// Allows accesses again, if there is a guest. Returns the guest's vid if the guest became ready while access was blocked.
    pub fn unblock(&self) -> Option<i32> {
        let mut state = self.state();
        state.blocked = false;
        self.visible_vid.store(state.attached, Ordering::SeqCst);
        std::mem::take(&mut state.attached_while_blocked).then_some(state.attached)
    }

    /// Whether no access is in progress. This stays true only if access was blocked, or the guest was detached, before.
    pub fn is_idle(&self) -> bool {
        self.in_progress().0.is_empty()
    }

    /// The accesses in progress.
    pub fn in_progress(&self) -> Accesses {
        let accessors = self.accessors.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = accessors.iter().filter_map(Weak::upgrade);
        let access = |counter: Arc<AccessCounter>| {
            let odd_count = counter.count.load(Ordering::SeqCst);
            (odd_count % 2 == 1).then_some((counter, odd_count))
        };
        Accesses(counters.filter_map(access).collect())
    }
}

impl Accesses {
    /// Whether all these accesses have ended. If a worker ended its access and began another one, the new one does not count.
    pub fn have_ended(&mut self) -> bool {
        self.0.retain(|(counter, odd_count)| counter.count.load(Ordering::SeqCst) == *odd_count);
        self.0.is_empty()
    }
}

impl Accesses {
    /// The threads whose accesses had not ended at the last [`Accesses::have_ended`].
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        self.0.iter().map(|(counter, _)| counter.thread.load(Ordering::Relaxed))
    }
}

impl VidAccess<'_> {
    #[inline]
    pub fn vid(&self) -> i32 {
        self.vid
    }
}

impl Drop for VidAccess<'_> {
    #[inline]
    fn drop(&mut self) {
        self.counter.count.store(self.odd_count + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn block_and_wait(access: &DeviceAccess) {
        access.block();
        while !access.is_idle() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn no_worker_is_inside_without_a_guest() {
        let access = DeviceAccess::new();
        let mut accessor = access.accessor();
        assert!(access.enter(&mut accessor).is_none() && access.is_idle());
        assert!(access.attach(3));
        assert_eq!(access.enter(&mut accessor).map(|i| i.vid()), Some(3));
        access.detach();
        assert!(access.enter(&mut accessor).is_none() && access.vid().is_none());
    }

    #[test]
    fn a_blocked_access_keeps_its_guest() {
        let access = DeviceAccess::new();
        let mut accessor = access.accessor();
        access.attach(3);
        access.block();
        assert!(access.enter(&mut accessor).is_none());
        assert_eq!(access.vid(), Some(3));
        assert_eq!(access.unblock(), None);
        assert_eq!(access.enter(&mut accessor).map(|i| i.vid()), Some(3));
        // A guest that becomes ready while access is blocked is returned by the next `unblock`.
        access.detach();
        access.block();
        assert!(!access.attach(4) && access.enter(&mut accessor).is_none());
        assert_eq!(access.unblock(), Some(4));
        assert_eq!(access.enter(&mut accessor).map(|i| i.vid()), Some(4));
        access.block();
        access.detach();
        access.unblock();
        assert!(access.enter(&mut accessor).is_none());
    }

    #[test]
    fn an_access_ends_when_its_worker_left_once() {
        let access = DeviceAccess::new();
        let (mut accessor, mut other) = (access.accessor(), access.accessor());
        access.attach(3);
        let inside = access.enter(&mut accessor).unwrap();
        let _elsewhere = access.enter(&mut other);
        let mut both = access.in_progress();
        assert!(!both.have_ended() && !access.is_idle());
        drop(inside);
        let _back = access.enter(&mut accessor);
        assert_eq!((both.have_ended(), both.0.len()), (false, 1));
        drop(_elsewhere);
        assert!(both.have_ended() && !access.is_idle());
    }

    #[test]
    fn a_blocked_access_is_idle_when_all_workers_left() {
        let access = Arc::new(DeviceAccess::new());
        // The memory of each vid; 0 means freed.
        let memory = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (access, memory, stop) = (access.clone(), memory.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut accessor = access.accessor();
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(inside) = access.enter(&mut accessor) {
                            assert_eq!(memory.load(Ordering::Relaxed), inside.vid() as u64 + 1);
                        }
                    }
                })
            })
            .collect();
        for vid in 0..2000 {
            memory.store(vid as u64 + 1, Ordering::Relaxed);
            access.unblock();
            access.attach(vid);
            block_and_wait(&access);
            access.detach();
            memory.store(0, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        for w in workers {
            w.join().unwrap();
        }
    }
}
