//! The sockets of all bridges. The main loop or the thread owns them, and serves them with the same functions.

use crate::command::{Command, ConnId, Event};
use crate::sockets::Sockets;
use runtime::WaitSet;
use runtime::poll_loop::{Interest, Readiness, Ready};
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use transport::ListenerGroup;
use units::Millis;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function that is called with the sockets of a bridge.
pub(super) type SocketsCall = Box<dyn FnOnce(&mut Sockets) + Send>;
/// Events of a bridge that the main loop has not taken.
pub(super) type Events = Vec<(ConnId, Event)>;

/// A request of the main loop. The number identifies the bridge.
pub(super) enum SocketRequest {
    /// Serve these sockets.
    Serve(u64, Box<Sockets>, Arc<Mutex<Events>>),
    /// Close the sockets of the bridge. The sender is dropped when they are closed.
    Close(u64, SyncSender<()>),
    /// Carry out commands for connections.
    Commands(u64, Vec<(ConnId, Vec<Command>)>),
    /// Call a function with the sockets.
    Call(u64, SocketsCall),
}

struct ServedBridge {
    sockets: Box<Sockets>,
    events: Arc<Mutex<Events>>,
}

/// The sockets of all bridges.
pub(super) struct AllSockets {
    listeners: Arc<ListenerGroup>,
    /// Whether clients may be waiting.
    readiness: Readiness,
    bridges: BTreeMap<u64, ServedBridge>,
    /// Bytes received, accepted connections and commands since the last [`take_work`](Self::take_work), in the unit of
    /// [`Sockets::run`].
    work: usize,
    /// The next sleep ends at once.
    serve_again: bool,
}

impl AllSockets {
    pub(super) fn new(listeners: Arc<ListenerGroup>) -> AllSockets {
        AllSockets {
            listeners,
            readiness: Readiness::default(),
            bridges: BTreeMap::new(),
            work: 0,
            serve_again: false,
        }
    }

    /// Carries out a request of the main loop.
    pub(super) fn carry_out(&mut self, request: SocketRequest, now: Millis) {
        match request {
            SocketRequest::Serve(bridge, sockets, events) => {
                self.bridges.insert(bridge, ServedBridge { sockets, events });
            }
            SocketRequest::Close(bridge, done) => {
                self.bridges.remove(&bridge);
                drop(done);
            }
            SocketRequest::Commands(bridge, commands) => {
                let Some(served) = self.bridges.get_mut(&bridge) else { return };
                for (id, commands) in commands {
                    self.work += commands.iter().map(Command::bytes).sum::<usize>();
                    served.sockets.carry_out(id, commands, now);
                }
            }
            SocketRequest::Call(bridge, job) => {
                let Some(served) = self.bridges.get_mut(&bridge) else { return };
                job(&mut served.sockets);
            }
        }
    }

    /// Accepts, reads, decodes and writes. Stops reading when `work_max` is reached. Calls `notify` when the main loop has new
    /// events to handle.
    pub(super) fn turn(&mut self, now: Millis, work_max: usize, notify: &mut dyn FnMut()) {
        self.serve_again = false;
        for served in self.bridges.values_mut() {
            let ServedBridge { sockets, events } = served;
            let mut give = |new: Events| {
                if append_events(events, new) {
                    notify();
                }
            };
            sockets.run(now, &mut self.work, work_max);
            sockets.decode(&mut give);
            let must_wake_main = sockets.flush(now);
            give(sockets.take_events());
            if must_wake_main {
                notify();
            }
        }
    }

    /// Writes queued output. To be called on the main loop, which takes the events afterwards.
    pub(super) fn flush(&mut self, now: Millis) {
        for served in self.bridges.values_mut() {
            served.sockets.flush(now);
            append_events(&served.events, served.sockets.take_events());
        }
    }

    /// Makes the next sleep end at once.
    pub(super) fn serve_again(&mut self) {
        self.serve_again = true;
    }

    /// Whether serving the sockets may take long: long replies, or TLS.
    pub(super) fn has_long_work(&self) -> bool {
        self.bridges.values().any(|served| served.sockets.has_long_work())
    }

    /// The work since the last call.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// The work since the last [`take_work`](Self::take_work).
    pub(super) fn work(&self) -> usize {
        self.work
    }

    /// Adds the file descriptors and deadlines that end the next sleep.
    pub(super) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        if self.serve_again {
            set.wake_now();
        }
        // The reason why one bridge cannot accept concerns all of them.
        let pauses = self.bridges.values().any(|served| served.sockets.pauses_accepting());
        self.readiness.wait(set, &*self.listeners, (!pauses).then_some(Interest::Read));
        self.bridges.values().for_each(|served| served.sockets.wait(set, now));
    }

    /// Tells the result of a sleep after [`wait`](Self::wait).
    pub(super) fn record_sleep(&mut self, ready: &Ready) {
        self.readiness.record_sleep(ready);
        let may_accept = self.readiness.may_be_ready();
        // An error leaves the clients in the backlog; they end the next sleep at once.
        let listeners = if may_accept { self.listeners.ready().unwrap_or_default() } else { Vec::new() };
        self.bridges.values_mut().for_each(|served| served.sockets.record_sleep(ready, &listeners));
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
