//! The thread that serves the OpenFlow sockets of all bridges while there is much work or the main loop is busy.
//!
//! | file | what |
//! |---|---|
//! | `ownership.rs` | which thread owns the sockets: the main loop or this thread |
//! | `all_sockets.rs` | the sockets of all bridges, and how they are served |
//! | `shared_sockets.rs` | the main loop's handle for the sockets of one bridge |
//!
//! A turn of the thread carries out the requests of the main loop, then serves each bridge. A queue's reader is woken when the
//! queue was empty before: the main loop for events, the thread for requests. Both threads sleep while there is nothing to do.
//!
//! **Bounds**: [`WaitingBytes`](crate::waiting_bytes::WaitingBytes) limits waiting requests. Commands are limited by what the main loop issues
//! in a turn: the main loop executes no request of a connection with much unwritten output.

mod all_sockets;
mod ownership;
mod shared_sockets;
#[cfg(test)]
mod tests;

pub use ownership::OwnedSockets;
pub(crate) use shared_sockets::SharedSockets;

use crate::sockets::Sockets;
use all_sockets::AllSockets;
use ownership::{MUCH_WORK, Ownership};
use runtime::poll_loop::Interest;
use runtime::{Clock, PollLoop, WaitSet, Waker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transport::ListenerGroup;
use units::Millis;

/// After much work or a long turn of the main loop, the thread keeps the sockets for this time.
const KEEP_SOCKETS_TIME: Duration = Duration::from_millis(10);

/// Handle of the thread. Dropping the handle ends the thread; all bridges are dropped before.
#[derive(Debug)]
pub struct SocketThread {
    ownership: Arc<Ownership>,
    /// Watches the passive sockets of all bridges.
    listeners: Arc<ListenerGroup>,
    thread: Option<JoinHandle<()>>,
}

impl SocketThread {
    /// Starts the thread. `main` wakes the main loop.
    pub fn start(clock: Clock, main: Waker) -> io::Result<SocketThread> {
        let poll = PollLoop::new(clock)?;
        let listeners = Arc::new(ListenerGroup::new()?);
        let sockets = AllSockets::new(Arc::clone(&listeners));
        let ownership = Arc::new(Ownership::new(sockets, poll.clock().clone(), poll.waker())?);
        let of_thread = Arc::clone(&ownership);
        let mut state =
            ThreadState { poll, main, ownership: of_thread, owned: None, little_work_since: Instant::now() };
        // The log gets no name for this thread: in Open vSwitch the main thread writes these lines, without a thread name.
        let builder = std::thread::Builder::new().name("ofconn".to_owned());
        let thread = builder.spawn(move || {
            while state.turn() {}
            state.ownership.set_ended();
        })?;
        Ok(SocketThread { ownership, listeners, thread: Some(thread) })
    }

    /// The number of turns of the thread so far.
    #[cfg(test)]
    pub(crate) fn turns(&self) -> u64 {
        self.ownership.turns.load(Ordering::Relaxed)
    }

    /// Creates the sockets of a bridge.
    pub(crate) fn sockets(&self, bridge: &str) -> SharedSockets {
        SharedSockets::new(Sockets::new(bridge, Some(Arc::clone(&self.listeners))), &self.ownership)
    }

    /// Begins a turn of the main loop, which from now on serves sockets. If the turn takes long, the thread serves them.
    pub fn begin_turn(&self) {
        self.ownership.begin_turn();
    }

    /// Reads and writes sockets if the main loop owns them.
    pub fn serve(&self, now: Millis) {
        self.ownership.serve(now);
    }

    /// Writes queued output if the main loop owns the sockets.
    pub fn flush(&self, now: Millis) {
        self.ownership.flush(now);
    }

    /// Ends a turn of the main loop. If the main loop owns the sockets, it sleeps with the returned ones.
    pub fn end_turn(&self) -> Option<OwnedSockets<'_>> {
        self.ownership.end_turn()
    }
}

impl Drop for SocketThread {
    fn drop(&mut self) {
        self.ownership.close();
        // `join` fails after a panic of the thread only, and a panic ends the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct ThreadState {
    poll: PollLoop,
    main: Waker,
    ownership: Arc<Ownership>,
    /// The sockets, while this thread owns them.
    owned: Option<Box<AllSockets>>,
    /// There has been little work since then.
    little_work_since: Instant,
}

impl ThreadState {
    /// One turn, and the sleep after it. Returns false when the thread has to end.
    fn turn(&mut self) -> bool {
        runtime::ordered_panic::panic_if_ordered();
        self.ownership.turns.fetch_add(1, Ordering::Relaxed);
        let now = self.poll.clock().now();
        let received = self.ownership.receive();
        if received.sockets.is_some() {
            self.owned = received.sockets;
            self.little_work_since = Instant::now();
        }
        if received.closing {
            return false;
        }
        if let Some(sockets) = &mut self.owned {
            received.requests.into_iter().for_each(|request| sockets.carry_out(request, now));
            sockets.turn(now, usize::MAX, &mut || self.main.wake());
            if sockets.take_work() >= MUCH_WORK || sockets.has_long_work() {
                self.little_work_since = Instant::now();
            }
        }
        self.return_if_little_work();
        self.sleep(now);
        self.take_if_long_turn();
        true
    }

    fn return_if_little_work(&mut self) {
        let has_little_work = self.owned.as_ref().is_some_and(|sockets| !sockets.has_long_work())
            && self.little_work_since.elapsed() >= KEEP_SOCKETS_TIME
            && !self.ownership.watchdog.is_long_turn();
        if has_little_work && self.ownership.give_to_main(&mut self.owned) {
            self.main.wake();
        }
    }

    fn sleep(&mut self, now: Millis) {
        let mut set = WaitSet::new();
        let of_watchdog = set.fd(&self.ownership.watchdog, Interest::Read);
        if let Some(sockets) = &self.owned {
            sockets.wait(&mut set, now);
            if self.ownership.main_serves() && !sockets.has_long_work() {
                set.no_longer_than(KEEP_SOCKETS_TIME);
            }
        }
        let ready = self.poll.block(set);
        self.owned.iter_mut().for_each(|sockets| sockets.record_sleep(&ready));
        if ready.contains(of_watchdog) {
            self.ownership.watchdog.expired();
        }
    }

    /// Takes the sockets from the main loop if its turn takes long.
    fn take_if_long_turn(&mut self) {
        if self.owned.is_none() && self.ownership.watchdog.is_long_turn() {
            self.owned = self.ownership.take_from_main();
            self.little_work_since = Instant::now();
        }
    }
}
