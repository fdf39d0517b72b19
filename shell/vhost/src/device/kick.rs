//! Kicks: a guest wakes the worker that polls its ring, but only while the worker sleeps or is about to sleep.
//!
//! A guest kicks a ring through an eventfd, and only if the ring requests kicks, because each kick costs the guest an exit of its virtual
//! machine. Workers that poll do not request kicks. A worker that is about to sleep requests kicks, checks the ring once more (packets
//! that were queued before cause no kick), and then waits for a file descriptor of the switch.
//!
//! That file descriptor is an edge-triggered `epoll` instance that watches the eventfd. So the eventfd, which the peer shares and could
//! make block, is never read; and the instance remains valid when the guest sends another eventfd.

use rustix::event::epoll;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The epoll instance of one ring.
#[derive(Debug)]
pub(crate) struct Kick {
    epoll: Arc<OwnedFd>,
    watched: Option<Arc<OwnedFd>>,
}

impl Kick {
    /// `None` if the process has no free file descriptor: the worker then keeps polling.
    pub fn new() -> Option<Kick> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        Some(Kick { epoll: Arc::new(epoll), watched: None })
    }

    /// The file descriptor that becomes readable when the guest kicks.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    /// Watches this eventfd instead of the previous one. Returns false if the eventfd cannot be watched.
    pub fn watch(&mut self, kick: &Arc<OwnedFd>) -> bool {
        if self.watched.as_ref().is_some_and(|watched| Arc::ptr_eq(watched, kick)) {
            return true;
        }
        if let Some(old) = self.watched.take() {
            let _ = epoll::delete(&*self.epoll, &*old);
        }
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let added = epoll::add(&*self.epoll, &**kick, epoll::EventData::new_u64(0), flags);
        let watched = matches!(added, Ok(()) | Err(Errno::EXIST));
        self.watched = watched.then(|| Arc::clone(kick));
        watched
    }

    /// Also watches this eventfd of the switch, by which the serving thread wakes the worker.
    pub fn watch_switch_eventfd(&self, event: &OwnedFd) {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        // Fails if it is watched already.
        let _ = epoll::add(&self.epoll, event, epoll::EventData::new_u64(0), flags);
    }

    /// Discards kicks that were received.
    pub fn drain(&self) {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 4];
        let _ = epoll::wait(&*self.epoll, &mut events, Some(&rustix::event::Timespec::default()));
    }
}
