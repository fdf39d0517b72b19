//! The thread that serves the OpenFlow sockets of all bridges.
//!
//! A turn carries out the commands of the main loop, then serves each bridge. A queue's reader is woken when the queue was empty
//! before: the main loop for events, this thread for commands. Both threads sleep while there is nothing to do.
//!
//! **Bounds**: [`WaitingBytes`](crate::waiting_bytes::WaitingBytes) limits waiting requests. Commands are limited by what the main loop issues
//! in a turn: the main loop executes no request of a connection with much unwritten output.

use crate::command::{Command, ConnId, Event};
use crate::sockets::Sockets;
use runtime::poll_loop::Interest;
use runtime::{Clock, PollLoop, WaitSet, Waker};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use transport::ListenerGroup;
use units::Millis;

/// A function that is called with the sockets of a bridge.
type Work = Box<dyn FnOnce(&mut Sockets) + Send>;
type Events = Vec<(ConnId, Event)>;

/// A request of the main loop to the thread. The number identifies the bridge.
enum ThreadRequest {
    /// Serve these sockets.
    Serve(u64, Box<Sockets>, Arc<Mutex<Events>>),
    /// Close the sockets of the bridge. The sender is dropped when they are closed.
    Close(u64, SyncSender<()>),
    Commands(u64, Vec<(ConnId, Vec<Command>)>),
    Call(u64, Work),
    End,
}

/// State that the main loop and the thread share.
pub(crate) struct Shared {
    inbox: Mutex<Inbox>,
    /// Wakes the thread.
    waker: Waker,
}

#[derive(Default)]
struct Inbox {
    requests: Vec<ThreadRequest>,
    /// The number of the bridge that was added last.
    bridges: u64,
    /// Turns of the thread.
    turns: u64,
    /// The thread has ended and accepts no requests.
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

/// Handle of the main loop for the sockets of one bridge, which the thread serves.
#[derive(Debug)]
pub(crate) struct RemoteSockets {
    shared: Arc<Shared>,
    bridge: u64,
    events: Arc<Mutex<Events>>,
    collected: Vec<(ConnId, Vec<Command>)>,
}

impl RemoteSockets {
    /// Calls `work` on the thread with the sockets and waits for the result. `None`: the thread has ended.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Sockets) -> T + Send + 'static,
    ) -> Option<T> {
        let (give, done) = sync_channel(1);
        self.shared.send(ThreadRequest::Call(
            self.bridge,
            Box::new(move |sockets| {
                // Fails if the main loop no longer waits, which happens at the end of the process.
                let _ = give.send(work(sockets));
            }),
        ));
        done.recv().ok()
    }

    pub(crate) fn has_events(&self) -> bool {
        !lock(&self.events).is_empty()
    }

    pub(crate) fn take_events(&mut self) -> Events {
        std::mem::take(&mut *lock(&self.events))
    }

    pub(crate) fn collect(&mut self, id: ConnId, commands: Vec<Command>) {
        self.collected.push((id, commands));
    }

    pub(crate) fn deliver(&mut self) {
        if !self.collected.is_empty() {
            self.shared.send(ThreadRequest::Commands(self.bridge, std::mem::take(&mut self.collected)));
        }
    }

    pub(crate) fn wake(&mut self) {
        self.shared.waker.wake();
    }
}

impl Drop for RemoteSockets {
    /// Waits until the sockets are closed, because the next bridge may have the same name and thus the same socket paths.
    fn drop(&mut self) {
        let (give, done) = sync_channel(1);
        self.shared.send(ThreadRequest::Close(self.bridge, give));
        let _ = done.recv();
    }
}

/// Handle of the thread that serves the sockets of all bridges. Dropping the handle ends the thread; all bridges are dropped before.
#[derive(Debug)]
pub struct SocketThread {
    shared: Arc<Shared>,
    listeners: Arc<ListenerGroup>,
    thread: Option<JoinHandle<()>>,
}

impl SocketThread {
    /// Starts the thread. `main` wakes the main loop.
    pub fn start(clock: Clock, main: Waker) -> io::Result<SocketThread> {
        let poll = PollLoop::new(clock)?;
        let listeners = Arc::new(ListenerGroup::new()?);
        let of_loop = Arc::clone(&listeners);
        let shared = Arc::new(Shared { inbox: Mutex::default(), waker: poll.waker() });
        let of_thread = Arc::clone(&shared);
        // The log gets no name for this thread: in Open vSwitch the main thread writes these lines, without a thread name.
        let builder = std::thread::Builder::new().name("ofconn".to_owned());
        let thread = builder.spawn(move || {
            let mut state = ThreadState { poll, main, listeners: of_loop, bridges: BTreeMap::new() };
            while state.turn(&of_thread) {}
            let mut inbox = lock(&of_thread.inbox);
            inbox.ended = true;
            inbox.requests.clear();
        })?;
        Ok(SocketThread { shared, listeners, thread: Some(thread) })
    }

    /// The number of turns so far.
    #[cfg(test)]
    pub(crate) fn turns(&self) -> u64 {
        lock(&self.shared.inbox).turns
    }

    /// Watches the passive sockets of all bridges.
    pub(crate) fn listeners(&self) -> Arc<ListenerGroup> {
        Arc::clone(&self.listeners)
    }

    /// Hands sockets to the thread.
    pub(crate) fn serve(&self, sockets: Sockets) -> RemoteSockets {
        let bridge = {
            let mut inbox = lock(&self.shared.inbox);
            inbox.bridges += 1;
            inbox.bridges
        };
        let events = Arc::default();
        self.shared.send(ThreadRequest::Serve(bridge, Box::new(sockets), Arc::clone(&events)));
        RemoteSockets { shared: Arc::clone(&self.shared), bridge, events, collected: Vec::new() }
    }
}

impl Drop for SocketThread {
    fn drop(&mut self) {
        self.shared.send(ThreadRequest::End);
        // `join` fails after a panic of the thread only, and a panic ends the process.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct ThreadState {
    poll: PollLoop,
    main: Waker,
    listeners: Arc<ListenerGroup>,
    bridges: BTreeMap<u64, ServedBridge>,
}

struct ServedBridge {
    sockets: Box<Sockets>,
    events: Arc<Mutex<Events>>,
}

impl ThreadState {
    /// One turn, and the sleep after it. Returns false when the thread has to end.
    fn turn(&mut self, shared: &Shared) -> bool {
        runtime::ordered_panic::panic_if_ordered();
        if !self.do_requests(shared) {
            return false;
        }
        let now = self.poll.clock().now();
        for served in self.bridges.values_mut() {
            served.turn(now, &self.main);
        }
        let mut set = WaitSet::new();
        let of_listeners = set.fd(&*self.listeners, Interest::Read);
        self.bridges.values().for_each(|served| served.sockets.wait(&mut set, now));
        let may_accept = self.poll.block(set).contains(of_listeners);
        // An error leaves the clients in the backlog; they end the next sleep at once.
        let ready = if may_accept { self.listeners.ready().unwrap_or_default() } else { Vec::new() };
        self.bridges.values_mut().for_each(|served| served.sockets.group_woken(&ready));
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
                    self.bridges.insert(bridge, ServedBridge { sockets, events });
                }
                ThreadRequest::Close(bridge, done) => {
                    self.bridges.remove(&bridge);
                    drop(done);
                }
                ThreadRequest::Commands(bridge, commands) => {
                    let Some(served) = self.bridges.get_mut(&bridge) else { continue };
                    commands
                        .into_iter()
                        .for_each(|(id, commands)| served.sockets.carry_out(id, commands, now));
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

impl ServedBridge {
    fn turn(&mut self, now: Millis, main: &Waker) {
        let events = &self.events;
        let mut give = |new: Events| {
            if append_events(events, new) {
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
fn append_events(events: &Mutex<Events>, new: Events) -> bool {
    if new.is_empty() {
        return false;
    }
    let mut events = lock(events);
    let was_empty = events.is_empty();
    events.extend(new);
    was_empty
}
