//! Readiness of rx queues, for a worker that sleeps while no queue has packets: with many ports it polls only the queues
//! that have packets, and it sleeps on one descriptor.

use crate::mailbox::Key;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use units::{PortNo, QueueId};

/// Events read at a time; further ones are returned by the next call.
const EVENTS_MAX: usize = 256;

/// An epoll instance of a worker's queues.
pub(crate) struct Readiness {
    epoll: OwnedFd,
    known: BTreeSet<Key>,
}

impl Readiness {
    pub(crate) fn new() -> std::io::Result<Readiness> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Readiness { epoll, known: BTreeSet::new() })
    }

    /// The descriptor that is readable while some queue has packets.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Number of queues that it watches.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether it watches this queue.
    pub(crate) fn watches(&self, key: Key) -> bool {
        self.known.contains(&key)
    }

    /// Watches a queue, unless another queue has the same descriptor.
    pub(crate) fn add(&mut self, key: Key, fd: &OwnedFd) {
        let (PortNo(port), QueueId(queue)) = key;
        let data = epoll::EventData::new_u64(u64::from(port) << 16 | u64::from(queue));
        if epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN).is_ok() {
            self.known.insert(key);
        }
    }

    /// Stops watching a queue.
    pub(crate) fn remove(&mut self, key: Key, fd: &OwnedFd) {
        if self.known.remove(&key) {
            // Fails if the descriptor was closed: then it is removed already.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// The queues that have packets, by port.
    pub(crate) fn ready(&self) -> Vec<Key> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If a signal interrupts this, the next call returns the events.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once));
        let key = |event: &epoll::Event| {
            let data = event.data.u64();
            (PortNo((data >> 16) as u32), QueueId(data as u16))
        };
        let mut ready: Vec<Key> = events.iter().map(key).collect();
        ready.sort_unstable();
        ready
    }
}
