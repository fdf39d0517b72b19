//! Access of the main loop to a bridge's sockets.
//!
//! **Threads**: the main loop. Only `call` may wait for the thread of the sockets.

use crate::command::{Command, ConnId, Event};
use crate::sockets::Sockets;
use crate::thread::{SharedSockets, SocketThread};
use runtime::WaitSet;
use units::Millis;

/// The sockets of one bridge.
#[derive(Debug)]
pub(crate) enum SocketAccess {
    /// The main loop serves the sockets; the list has the commands that were not carried out. A request is decoded only after the
    /// previous one of the connection was executed.
    Local(Box<Sockets>, Vec<(ConnId, Vec<Command>)>),
    /// The main loop or the thread `ofconn` serves the sockets of all bridges together.
    Shared(SharedSockets),
}

impl SocketAccess {
    pub(crate) fn local(bridge: &str) -> SocketAccess {
        SocketAccess::Local(Box::new(Sockets::new(bridge, None)), Vec::new())
    }

    pub(crate) fn shared(bridge: &str, serving: &SocketThread) -> SocketAccess {
        SocketAccess::Shared(serving.sockets(bridge))
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, SocketAccess::Local(..))
    }

    /// Calls `work` with the sockets and waits for the result. `None`: the thread has ended.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Sockets) -> T + Send + 'static,
    ) -> Option<T> {
        match self {
            SocketAccess::Local(sockets, _) => Some(work(sockets)),
            SocketAccess::Shared(shared) => shared.call(work),
        }
    }

    /// Begins a turn of local sockets.
    pub(crate) fn run(&mut self, now: Millis) {
        if let SocketAccess::Local(sockets, _) = self {
            sockets.run(now, &mut 0, usize::MAX);
        }
    }

    /// Decodes one request of a connection if the sockets are local. Returns whether a request was decoded.
    pub(crate) fn decode(&mut self, id: ConnId) -> bool {
        match self {
            SocketAccess::Local(sockets, _) => sockets.decode_conn(id, 1) > 0,
            SocketAccess::Shared(_) => false,
        }
    }

    /// Whether there are events that were not taken. Local sockets have events only during their turn.
    pub(crate) fn has_events(&self) -> bool {
        matches!(self, SocketAccess::Shared(shared) if shared.has_events())
    }

    /// The events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<(ConnId, Event)> {
        match self {
            SocketAccess::Local(sockets, _) => sockets.take_events(),
            SocketAccess::Shared(shared) => shared.take_events(),
        }
    }

    /// Adds commands for a connection; `deliver` hands them over.
    pub(crate) fn collect(&mut self, id: ConnId, commands: Vec<Command>) {
        if commands.is_empty() {
            return;
        }
        match self {
            SocketAccess::Local(_, collected) => collected.push((id, commands)),
            SocketAccess::Shared(shared) => shared.collect(id, commands),
        }
    }

    /// Hands the collected commands to the sockets.
    pub(crate) fn deliver(&mut self, now: Millis) {
        match self {
            SocketAccess::Local(sockets, collected) => {
                for (id, commands) in collected.drain(..) {
                    sockets.carry_out(id, commands, now);
                }
            }
            SocketAccess::Shared(shared) => shared.deliver(),
        }
    }

    /// Makes the sockets decode further requests.
    pub(crate) fn wake(&mut self) {
        if let SocketAccess::Shared(shared) = self {
            shared.wake();
        }
    }

    /// Ends a turn of local sockets.
    pub(crate) fn flush(&mut self, now: Millis) {
        if let SocketAccess::Local(sockets, _) = self {
            sockets.flush(now);
        }
    }

    /// Adds the events that end the next sleep. Sockets that are served together add theirs themselves (`OwnedSockets::wait`).
    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        match self {
            SocketAccess::Local(sockets, _) => sockets.wait(set, now),
            SocketAccess::Shared(shared) if shared.has_events() => set.wake_now(),
            SocketAccess::Shared(_) => {}
        }
    }
}
