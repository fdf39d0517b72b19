//! Readiness of rx queues (epoll), for a worker that sleeps while no queue has packets. With many ports the worker polls
//! only the queues that have packets, and it sleeps on one file descriptor.

use crate::mailbox::Key;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use units::{PortNo, QueueId};

/// Number of events that one call reads; the next call returns further events.
const EVENTS_MAX: usize = 256;

/// An epoll instance of a worker's queues.
pub(crate) struct Readiness {
    epoll: OwnedFd,
    watched: BTreeSet<Key>,
}

impl Readiness {
    pub(crate) fn new() -> std::io::Result<Readiness> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Readiness { epoll, watched: BTreeSet::new() })
    }

    /// The epoll descriptor: it is readable while a watched queue has packets.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Number of watched queues.
    pub(crate) fn len(&self) -> usize {
        self.watched.len()
    }

    /// Whether this queue is watched.
    pub(crate) fn is_watched(&self, key: Key) -> bool {
        self.watched.contains(&key)
    }

    /// Watches a queue. Does nothing if another queue has the same descriptor.
    pub(crate) fn add(&mut self, key: Key, fd: &OwnedFd) {
        let (PortNo(port), QueueId(queue)) = key;
        let data = epoll::EventData::new_u64(u64::from(port) << 16 | u64::from(queue));
        if epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN).is_ok() {
            self.watched.insert(key);
        }
    }

    /// Stops watching a queue.
    pub(crate) fn remove(&mut self, key: Key, fd: &OwnedFd) {
        if self.watched.remove(&key) {
            // This fails if the descriptor was closed; then the kernel has removed it already.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// The queues that have packets, sorted by port.
    pub(crate) fn ready(&self) -> Vec<Key> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If a signal interrupts the system call, the next call returns the events.
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
