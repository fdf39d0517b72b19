//! The thread that serves the OpenFlow sockets of all bridges.
//!
//! A turn carries out what main loops ordered, then serves each bridge. The main loop is woken once for each batch of events that it
//! finds in an empty queue, and the thread once for each batch of orders. Neither spins.
//!
//! **Bounds**: requests by [`Backlog`](crate::backlog::Backlog), orders by what the main loop produces in a turn: it takes no
//! request of a connection whose output waits.

use crate::order::{ConnId, Event, Order};
use crate::sockets::Sockets;
use runtime::{Clock, PollLoop, WaitSet, Waker};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use units::Millis;

/// Work on the sockets of a bridge.
type Work = Box<dyn FnOnce(&mut Sockets) + Send>;
type Events = Vec<(ConnId, Event)>;

/// What the main loop requests of the thread.
enum ThreadRequest {
    /// Serve these sockets.
    Serve(u64, Box<Sockets>, Arc<Mutex<Events>>),
    /// Close them. The sender is dropped when that is done.
    Close(u64, SyncSender<()>),
    Orders(u64, Vec<(ConnId, Vec<Order>)>),
    Call(u64, Work),
    End,
}

/// What the main loop and the thread share.
pub(crate) struct Shared {
    inbox: Mutex<Inbox>,
    /// Wakes the thread.
    waker: Waker,
}

#[derive(Default)]
struct Inbox {
    requests: Vec<ThreadRequest>,
    /// The number of the latest bridge.
    bridges: u64,
    /// Turns of the thread.
    turns: u64,
    /// The thread has ended, and takes nothing any more.
    ended: bool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn send(&self, request: ThreadRequest) {
        let was_empty = {
            let mut inbox = lock(&self.inbox);
            if inbox.ended {
                return;
            }
            inbox.requests.push(request);
            inbox.requests.len() == 1
        };
        if was_empty {
            self.waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sockets of one bridge, as the main loop sees them.
#[derive(Debug)]
pub(crate) struct Remote {
    shared: Arc<Shared>,
    bridge: u64,
    events: Arc<Mutex<Events>>,
    collected: Vec<(ConnId, Vec<Order>)>,
}

impl Remote {
    /// Does something with the sockets, and waits for it.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Sockets) -> T + Send + 'static,
    ) -> Option<T> {
        let (give, done) = sync_channel(1);
        self.shared.send(ThreadRequest::Call(
            self.bridge,
            Box::new(move |sockets| {
                // Fails if the main loop is ending.
                let _ = give.send(work(sockets));
            }),
        ));
        done.recv().ok()
    }

    pub(crate) fn take_events(&mut self) -> Events {
        std::mem::take(&mut *lock(&self.events))
    }

    pub(crate) fn order(&mut self, id: ConnId, orders: Vec<Order>) {
        self.collected.push((id, orders));
    }

    pub(crate) fn deliver(&mut self) {
        if !self.collected.is_empty() {
            self.shared.send(ThreadRequest::Orders(self.bridge, std::mem::take(&mut self.collected)));
        }
    }

    pub(crate) fn wake(&mut self) {
        self.shared.waker.wake();
    }
}

impl Drop for Remote {
    /// Waits until the sockets are closed: another bridge of the same name may be made next.
    fn drop(&mut self) {
        let (give, done) = sync_channel(1);
        self.shared.send(ThreadRequest::Close(self.bridge, give));
        let _ = done.recv();
    }
}

/// The thread of all bridges' sockets. It ends when this is dropped, which comes after all bridges.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Starts the thread. `main` wakes the main loop.
    pub fn start(clock: Clock, main: Waker) -> io::Result<Serving> {
        let poll = PollLoop::new(clock)?;
        let shared = Arc::new(Shared { inbox: Mutex::default(), waker: poll.waker() });
        let of_thread = Arc::clone(&shared);
        // Without a thread name for the log: lines are those of Open vSwitch, where the main thread writes them.
        let builder = std::thread::Builder::new().name("ofconn".to_owned());
        let thread = builder.spawn(move || {
            let mut service = Service { poll, main, bridges: BTreeMap::new() };
            while service.turn(&of_thread) {}
            let mut inbox = lock(&of_thread.inbox);
            inbox.ended = true;
            inbox.requests.clear();
        })?;
        Ok(Serving { shared, thread: Some(thread) })
    }

    /// The number of turns so far.
    #[cfg(test)]
    pub(crate) fn turns(&self) -> u64 {
        lock(&self.shared.inbox).turns
    }

    /// Hands sockets to the thread.
    pub(crate) fn serve(&self, sockets: Sockets) -> Remote {
        let bridge = {
            let mut inbox = lock(&self.shared.inbox);
            inbox.bridges += 1;
            inbox.bridges
        };
        let events = Arc::default();
        self.shared.send(ThreadRequest::Serve(bridge, Box::new(sockets), Arc::clone(&events)));
        Remote { shared: Arc::clone(&self.shared), bridge, events, collected: Vec::new() }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shared.send(ThreadRequest::End);
        // A panic has ended the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Service {
    poll: PollLoop,
    main: Waker,
    bridges: BTreeMap<u64, Served>,
}

struct Served {
    sockets: Box<Sockets>,
    events: Arc<Mutex<Events>>,
}

impl Service {
    /// One turn, and the sleep after it. Returns false at the end.
    fn turn(&mut self, shared: &Shared) -> bool {
        runtime::ordered_panic::obey();
        if !self.do_requests(shared) {
            return false;
        }
        let now = self.poll.clock().now();
        for served in self.bridges.values_mut() {
            // Between bridges, so that no caller waits for all of them.
            served.turn(now, &self.main);
        }
        let mut set = WaitSet::new();
        self.bridges.values().for_each(|served| served.sockets.wait(&mut set, now));
        self.poll.block(set);
        true
    }

    fn do_requests(&mut self, shared: &Shared) -> bool {
        let now = self.poll.clock().now();
        let requests = {
            let mut inbox = lock(&shared.inbox);
            inbox.turns += 1;
            std::mem::take(&mut inbox.requests)
        };
        for request in requests {
            match request {
                ThreadRequest::Serve(bridge, sockets, events) => {
                    self.bridges.insert(bridge, Served { sockets, events });
                }
                ThreadRequest::Close(bridge, done) => {
                    self.bridges.remove(&bridge);
                    drop(done);
                }
                ThreadRequest::Orders(bridge, orders) => {
                    let Some(served) = self.bridges.get_mut(&bridge) else { continue };
                    orders.into_iter().for_each(|(id, orders)| served.sockets.carry_out(id, orders, now));
                }
                ThreadRequest::Call(bridge, work) => {
                    let Some(served) = self.bridges.get_mut(&bridge) else { continue };
                    work(&mut served.sockets);
                }
                ThreadRequest::End => return false,
            }
        }
        true
    }
}

impl Served {
    fn turn(&mut self, now: Millis, main: &Waker) {
        let events = &self.events;
        let mut give = |new: Events| {
            if give_to(events, new) {
                main.wake();
            }
        };
        self.sockets.run(now);
        self.sockets.decode(&mut give);
        let is_awaited = self.sockets.flush(now);
        give(self.sockets.take_events());
        if is_awaited {
            main.wake();
        }
    }
}

/// Adds events. Returns whether there were none before.
fn give_to(events: &Mutex<Events>, new: Events) -> bool {
    if new.is_empty() {
        return false;
    }
    let mut events = lock(events);
    let was_empty = events.is_empty();
    events.extend(new);
    was_empty
}
