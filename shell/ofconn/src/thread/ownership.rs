//! Which thread owns the sockets.
//!
//! While there is little work, the main loop owns the sockets: so a request is received, executed and answered without waking
//! another thread. The thread gets them when there is much work or when a turn of the main loop takes long, and returns them when
//! it has had little work for [`KEEP_SOCKETS_TIME`](super::KEEP_SOCKETS_TIME).
//!
//! **Invariants**: at any time, the sockets are in `main_sockets`, in the inbox, or with the thread. The order of requests is kept: a
//! request is carried out at once if the sockets are in `main_sockets`; otherwise it is put into the inbox, and the thread returns the
//! sockets only while the inbox is empty. Code that needs both locks takes that of the inbox first.

use super::all_sockets::{AllSockets, SocketRequest, lock};
use runtime::poll_loop::Ready;
use runtime::turn_watchdog::TurnWatchdog;
use runtime::{Clock, WaitSet, Waker};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use units::Millis;

/// If a turn of the main loop takes longer, the thread serves the sockets. Echo requests wait at most about twice this time.
const LONG_TURN: Duration = Duration::from_millis(2);
/// With this work or more in one turn, in the unit of [`Sockets::run`](crate::sockets::Sockets::run), the thread serves the sockets.
pub(super) const MUCH_WORK: usize = 16 << 10;

/// What the main loop hands to the thread, and other state under the same lock.
#[derive(Default)]
struct Inbox {
    sockets: Option<Box<AllSockets>>,
    requests: Vec<SocketRequest>,
    /// The number of the bridge that was added last.
    last_bridge_number: u64,
    /// The thread must end.
    closing: bool,
    /// The thread has ended and accepts no requests.
    ended: bool,
}

/// What the thread takes from the inbox.
pub(super) struct Received {
    pub(super) sockets: Option<Box<AllSockets>>,
    pub(super) requests: Vec<SocketRequest>,
    pub(super) closing: bool,
}

/// State that the main loop and the thread share.
pub(super) struct Ownership {
    inbox: Mutex<Inbox>,
    /// The sockets, while the main loop owns them. Locked while the main loop sleeps.
    main_sockets: Mutex<Option<Box<AllSockets>>>,
    /// The main loop has begun its first turn. Before that, the thread does not return the sockets.
    main_serves: AtomicBool,
    pub(super) watchdog: TurnWatchdog,
    /// Turns of the thread.
    pub(super) turns: AtomicU64,
    clock: Clock,
    /// Wakes the thread.
    waker: Waker,
}

impl fmt::Debug for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ownership")
    }
}

impl Ownership {
    /// The thread, which `waker` wakes, owns the sockets.
    pub(super) fn new(sockets: AllSockets, clock: Clock, waker: Waker) -> io::Result<Ownership> {
        Ok(Ownership {
            inbox: Mutex::new(Inbox { sockets: Some(Box::new(sockets)), ..Inbox::default() }),
            main_sockets: Mutex::default(),
            main_serves: AtomicBool::new(false),
            watchdog: TurnWatchdog::new(LONG_TURN)?,
            turns: AtomicU64::new(0),
            clock,
            waker,
        })
    }

    /// The number of a new bridge.
    pub(super) fn next_bridge_number(&self) -> u64 {
        let mut inbox = lock(&self.inbox);
        inbox.last_bridge_number += 1;
        inbox.last_bridge_number
    }

    /// Main loop: carries out a request if the main loop owns the sockets, otherwise passes it to the thread.
    pub(super) fn send(&self, request: SocketRequest) {
        let mut inbox = lock(&self.inbox);
        if let Some(sockets) = &mut *lock(&self.main_sockets) {
            return sockets.carry_out(request, self.clock.now());
        }
        if inbox.ended {
            return;
        }
        inbox.requests.push(request);
        if inbox.requests.len() == 1 {
            drop(inbox);
            self.waker.wake();
        }
    }

    /// Main loop: makes the owner of the sockets decode further requests.
    pub(super) fn decode_again(&self) {
        match &mut *lock(&self.main_sockets) {
            Some(sockets) => sockets.serve_again(),
            None => self.waker.wake(),
        }
    }

    /// Whether the main loop owns the sockets.
    #[cfg(test)]
    pub(super) fn main_owns_sockets(&self) -> bool {
        lock(&self.main_sockets).is_some()
    }

    /// Whether the main loop takes part in serving.
    pub(super) fn main_serves(&self) -> bool {
        self.main_serves.load(Ordering::Relaxed)
    }

    /// Main loop: a turn begins.
    pub(super) fn begin_turn(&self) {
        self.main_serves.store(true, Ordering::Relaxed);
        self.watchdog.turn_begins();
    }

    /// Main loop: accepts, reads, decodes and writes if the main loop owns the sockets.
    pub(super) fn serve(&self, now: Millis) {
        // No notification: this thread is the main loop, and takes the events after this call.
        self.serve_by(|sockets| sockets.turn(now, MUCH_WORK, &mut || ()));
    }

    /// Main loop: writes queued output if the main loop owns the sockets.
    pub(super) fn flush(&self, now: Millis) {
        self.serve_by(|sockets| sockets.flush(now));
    }

    /// Calls `work` with the sockets if the main loop owns them, or hands them to the thread if there is much work.
    fn serve_by(&self, work: impl FnOnce(&mut AllSockets)) {
        let is_much = {
            let mut main_sockets = lock(&self.main_sockets);
            let Some(sockets) = &mut *main_sockets else { return };
            let is_much = |sockets: &AllSockets| sockets.work() >= MUCH_WORK || sockets.has_long_work();
            if !is_much(sockets) {
                work(sockets);
            }
            is_much(sockets)
        };
        if is_much {
            self.hand_over();
        }
    }

    fn hand_over(&self) {
        let mut inbox = lock(&self.inbox);
        // The thread may have taken the sockets meanwhile.
        let Some(sockets) = lock(&self.main_sockets).take() else { return };
        inbox.sockets = Some(sockets);
        drop(inbox);
        self.waker.wake();
    }

    /// Main loop: a turn ends. Returns the sockets for the sleep if the main loop owns them.
    pub(super) fn end_turn(&self) -> Option<OwnedSockets<'_>> {
        self.watchdog.turn_ends();
        let mut main_sockets = lock(&self.main_sockets);
        main_sockets.as_mut()?.take_work();
        Some(OwnedSockets(main_sockets))
    }

    /// Thread: takes what the main loop has handed over.
    pub(super) fn receive(&self) -> Received {
        let mut inbox = lock(&self.inbox);
        let Inbox { sockets, requests, closing, .. } = &mut *inbox;
        Received { sockets: sockets.take(), requests: std::mem::take(requests), closing: *closing }
    }

    /// Thread: takes the sockets from the main loop during a long turn. `None`: the main loop uses them at this moment, or
    /// they are in the inbox.
    pub(super) fn take_from_main(&self) -> Option<Box<AllSockets>> {
        self.main_sockets.try_lock().ok()?.take()
    }

    /// Thread: returns the sockets to the main loop; the caller wakes it. Leaves them with the thread if a request waits.
    pub(super) fn give_to_main(&self, sockets: &mut Option<Box<AllSockets>>) -> bool {
        let inbox = lock(&self.inbox);
        if !self.main_serves() || !inbox.requests.is_empty() {
            return false;
        }
        *lock(&self.main_sockets) = sockets.take();
        true
    }

    /// Main loop: asks the thread to end. All bridges were dropped before, so no socket is served any more.
    pub(super) fn close(&self) {
        lock(&self.inbox).closing = true;
        self.waker.wake();
    }

    /// Thread: records that it ends; later requests are discarded.
    pub(super) fn set_ended(&self) {
        let mut inbox = lock(&self.inbox);
        inbox.ended = true;
        inbox.requests.clear();
    }
}

/// The sockets during a sleep of the main loop.
pub struct OwnedSockets<'a>(MutexGuard<'a, Option<Box<AllSockets>>>);

impl fmt::Debug for OwnedSockets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnedSockets")
    }
}

impl OwnedSockets<'_> {
    /// Adds the file descriptors and deadlines that end the sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        self.0.iter().for_each(|sockets| sockets.wait(set, now));
    }

    /// Passes the result of the sleep to the sockets.
    pub fn record_sleep(mut self, ready: &Ready) {
        self.0.iter_mut().for_each(|sockets| sockets.record_sleep(ready));
    }
}
