//! Kicks: a guest wakes the worker that polls its ring, only while the worker wants to sleep.
//!
//! A guest kicks a ring through an eventfd, and only if the ring asks for it, because each kick costs the guest an exit
//! of its virtual machine. Workers that poll do not ask. A worker that is about to sleep enables kicks, checks the ring
//! once more (packets that were queued before cause no kick), and then waits for a descriptor of the switch.
//!
//! That descriptor is an edge-triggered `epoll` instance that watches the eventfd. So the eventfd, which the peer shares
//! and could make block, is never read; and the instance stays valid when the guest brings another eventfd.

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
    /// `None` if no descriptor is free: the worker then keeps polling.
    pub fn new() -> Option<Kick> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        Some(Kick { epoll: Arc::new(epoll), watched: None })
    }

    /// The descriptor that becomes readable at a kick.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    /// Watches this eventfd instead of the one before. Returns false if it cannot be watched.
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

    /// Discards kicks that were received.
    pub fn drain(&self) {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 4];
        let _ = epoll::wait(&*self.epoll, &mut events, Some(&rustix::event::Timespec::default()));
    }
}
