//! The way from the main loop to a bridge's sockets, which the main loop serves itself or a thread of their own.
//!
//! **Threads**: the main loop. It waits for the thread in `call` only.

use crate::order::{ConnId, Event, Order};
use crate::sockets::Sockets;
use crate::thread::{Remote, Serving};
use runtime::WaitSet;
use units::Millis;

/// The sockets of one bridge.
#[derive(Debug)]
pub(crate) enum Link {
    /// Served by the caller. Between two requests of the same connection nothing else of that connection is decoded.
    Here(Box<Sockets>, Vec<(ConnId, Vec<Order>)>),
    /// Served by a thread.
    Elsewhere(Remote),
}

impl Link {
    pub(crate) fn here(bridge: &str) -> Link {
        Link::Here(Box::new(Sockets::new(bridge)), Vec::new())
    }

    pub(crate) fn elsewhere(bridge: &str, serving: &Serving) -> Link {
        Link::Elsewhere(serving.serve(Sockets::new(bridge)))
    }

    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Link::Here(..))
    }

    /// Does something with the sockets, and waits for it. `None`: the thread is gone.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Sockets) -> T + Send + 'static,
    ) -> Option<T> {
        match self {
            Link::Here(sockets, _) => Some(work(sockets)),
            Link::Elsewhere(remote) => remote.call(work),
        }
    }

    /// Begins a turn.
    pub(crate) fn run(&mut self, now: Millis) {
        if let Link::Here(sockets, _) = self {
            sockets.run(now);
        }
    }

    /// Decodes a request of a connection, if the caller has to do that. Returns whether there is one.
    pub(crate) fn decode(&mut self, id: ConnId) -> bool {
        match self {
            Link::Here(sockets, _) => sockets.decode_of(id, 1) > 0,
            Link::Elsewhere(_) => false,
        }
    }

    /// News of the sockets.
    pub(crate) fn take_events(&mut self) -> Vec<(ConnId, Event)> {
        match self {
            Link::Here(sockets, _) => sockets.take_events(),
            Link::Elsewhere(remote) => remote.take_events(),
        }
    }

    /// Collects orders for a connection.
    pub(crate) fn order(&mut self, id: ConnId, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        match self {
            Link::Here(_, collected) => collected.push((id, orders)),
            Link::Elsewhere(remote) => remote.order(id, orders),
        }
    }

    /// Hands the collected orders over.
    pub(crate) fn deliver(&mut self, now: Millis) {
        match self {
            Link::Here(sockets, collected) => {
                for (id, orders) in collected.drain(..) {
                    sockets.carry_out(id, orders, now);
                }
            }
            Link::Elsewhere(remote) => remote.deliver(),
        }
    }

    /// Lets the sockets go on.
    pub(crate) fn wake(&mut self) {
        if let Link::Elsewhere(remote) = self {
            remote.wake();
        }
    }

    /// Ends a turn.
    pub(crate) fn flush(&mut self, now: Millis) {
        if let Link::Here(sockets, _) = self {
            sockets.flush(now);
        }
    }

    /// Adds what ends the next sleep. A thread wakes the main loop itself.
    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        if let Link::Here(sockets, _) = self {
            sockets.wait(set, now);
        }
    }
}
