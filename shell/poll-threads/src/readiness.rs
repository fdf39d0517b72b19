//! Which queues of a worker have something, where the main loop runs it: of many ports it polls those, and sleeps on one
//! descriptor.

use crate::mailbox::Key;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use units::{PortNo, QueueId};

/// So many are asked for at once; others are told the next time.
const EVENTS_MAX: usize = 256;

/// See the module.
pub(crate) struct Readiness {
    epoll: OwnedFd,
    known: BTreeSet<Key>,
}

impl Readiness {
    pub(crate) fn new() -> std::io::Result<Readiness> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Readiness { epoll, known: BTreeSet::new() })
    }

    /// What is readable while some queue has something.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Of so many queues it tells.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// It tells of this queue.
    pub(crate) fn knows(&self, key: Key) -> bool {
        self.known.contains(&key)
    }

    /// Tells of a queue from now on, but where two share a descriptor.
    pub(crate) fn add(&mut self, key: Key, fd: &OwnedFd) {
        let (PortNo(port), QueueId(queue)) = key;
        let data = epoll::EventData::new_u64(u64::from(port) << 16 | u64::from(queue));
        if epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN).is_ok() {
            self.known.insert(key);
        }
    }

    /// No more.
    pub(crate) fn remove(&mut self, key: Key, fd: &OwnedFd) {
        if self.known.remove(&key) {
            // A descriptor that is closed is gone from there, too.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// The queues that have something, by port.
    pub(crate) fn ready(&self) -> Vec<Key> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A signal in between: it is asked again soon.
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
