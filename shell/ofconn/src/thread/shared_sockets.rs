//! Handle of the main loop for the sockets of one bridge.

use super::all_sockets::{Events, SocketRequest, lock};
use super::ownership::Ownership;
use crate::command::{Command, ConnId};
use crate::sockets::Sockets;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

/// Handle of the main loop for the sockets of one bridge, which the thread or the main loop serves.
#[derive(Debug)]
pub(crate) struct SharedSockets {
    ownership: Arc<Ownership>,
    bridge: u64,
    events: Arc<Mutex<Events>>,
    collected: Vec<(ConnId, Vec<Command>)>,
}

impl SharedSockets {
    /// Hands over the sockets of a bridge.
    pub(super) fn new(sockets: Sockets, ownership: &Arc<Ownership>) -> SharedSockets {
        let (ownership, bridge, events) =
            (Arc::clone(ownership), ownership.next_bridge_number(), Arc::default());
        ownership.send(SocketRequest::Serve(bridge, Box::new(sockets), Arc::clone(&events)));
        SharedSockets { ownership, bridge, events, collected: Vec::new() }
    }

    /// Calls `job` with the sockets and waits for the result. `None`: the thread has ended.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut Sockets) -> T + Send + 'static,
    ) -> Option<T> {
        let (give, done) = sync_channel(1);
        let job = Box::new(move |sockets: &mut Sockets| {
            // Fails if the main loop no longer waits, which happens at the end of the process.
            let _ = give.send(job(sockets));
        });
        self.ownership.send(SocketRequest::Call(self.bridge, job));
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
            let commands = std::mem::take(&mut self.collected);
            self.ownership.send(SocketRequest::Commands(self.bridge, commands));
        }
    }

    /// Makes the owner of the sockets decode further requests.
    pub(crate) fn wake(&mut self) {
        self.ownership.decode_again();
    }
}

impl Drop for SharedSockets {
    /// Waits until the sockets are closed, because the next bridge may have the same name and thus the same socket paths.
    fn drop(&mut self) {
        let (give, done) = sync_channel(1);
        self.ownership.send(SocketRequest::Close(self.bridge, give));
        let _ = done.recv();
    }
}
