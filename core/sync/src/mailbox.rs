//! A list to which many threads add items and from which one thread takes them, and the synchronisation before that thread sleeps.
//!
//! The taker checks the list in every iteration of its loop, which costs one load while the list is empty. Posting never waits for the
//! taker to finish its work, because locks are held only while a few words are moved. `tests/model.rs` checks every interleaving of posters
//! and taker.

use crate::atomic::{AtomicBool, Mutex, MutexGuard, Ordering, TryLockError, fence};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// A list to which many threads add items and from which one thread takes them.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// `items` is not empty. Changed under the lock of `items`.
    has_items: AtomicBool,
    items: Mutex<VecDeque<T>>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox { has_items: AtomicBool::new(false), items: Mutex::new(VecDeque::new()) }
    }
}

impl<T> Mailbox<T> {
    /// Locks the list. After a panic of another thread the list is still usable, because each operation leaves it consistent.
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. The caller wakes the taker if it sleeps.
    pub fn post(&self, item: T) {
        self.post_all(std::iter::once(item));
    }

    /// Adds items, at least one. Returns true if the list was empty before: then no other poster has woken the taker, and this caller must wake it.
    pub fn post_all(&self, more: impl IntoIterator<Item = T>) -> bool {
        let mut items = self.lock();
        items.extend(more);
        !self.has_items.swap(true, Ordering::AcqRel)
    }

    /// Returns whether there may be items. May be false shortly after a post, but then becomes true without another post.
    #[inline]
    pub fn may_have_items(&self) -> bool {
        self.has_items.load(Ordering::Acquire)
    }

    /// Returns whether there are no items. Takes the lock, so the result is exact. The taker calls this
    /// before it sleeps.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes the oldest item.
    pub fn take(&self) -> Option<T> {
        let mut items = self.lock();
        let item = items.pop_front();
        self.has_items.store(!items.is_empty(), Ordering::Release);
        item
    }

    /// Moves all items to `out`, which must be empty, unless a poster holds the lock. Returns true if there were items or a poster held the
    /// lock.
    #[inline]
    pub fn try_take_all(&self, out: &mut VecDeque<T>) -> bool {
        if !self.may_have_items() {
            return false;
        }
        let mut items = match self.items.try_lock() {
            Ok(items) => items,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        std::mem::swap(&mut *items, out);
        self.has_items.store(false, Ordering::Release);
        true
    }
}

/// A flag by which a thread announces to posters that it sleeps, or is about to sleep.
///
/// The sleeper announces its sleep, then checks for work once more, then sleeps. A poster queues its work, then calls [`is_announced`].
/// Either the poster sees the announcement and wakes the sleeper, or the sleeper's last check finds the work.
///
/// [`is_announced`]: SleepFlag::is_announced
#[derive(Debug)]
pub struct SleepFlag(AtomicBool);

impl Default for SleepFlag {
    fn default() -> SleepFlag {
        SleepFlag(AtomicBool::new(false))
    }
}

impl SleepFlag {
    /// Announces that the calling thread is about to sleep. The thread must check for work between this call and its sleep.
    pub fn announce(&self) {
        // An exchange, not a store: it synchronizes with an earlier `claim`, whose poster queued its work before.
        self.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement: the calling thread is awake.
    pub fn withdraw(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Returns whether the thread sleeps or is about to sleep. Posters call this after they have queued work for it.
    pub fn is_announced(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }

    /// [`SleepFlag::is_announced`] for several posters: only one of them gets true, and wakes the thread.
    pub fn claim(&self) -> bool {
        self.is_announced() && self.0.swap(false, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_their_order() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.may_have_items() && mailbox.is_empty() && mailbox.take().is_none());
        mailbox.post(1);
        assert!(mailbox.may_have_items() && !mailbox.post_all([2, 3]));
        assert_eq!(mailbox.take(), Some(1));
        let mut rest = VecDeque::new();
        assert!(mailbox.try_take_all(&mut rest) && !mailbox.try_take_all(&mut rest));
        assert_eq!(rest, [2, 3]);
        assert!(mailbox.post_all([4]) && mailbox.take() == Some(4) && !mailbox.may_have_items());
    }

    #[test]
    fn one_poster_claims_a_sleeper() {
        let flag = SleepFlag::default();
        assert!(!flag.claim());
        flag.announce();
        assert!(flag.is_announced() && flag.claim() && !flag.claim());
        flag.announce();
        flag.withdraw();
        assert!(!flag.is_announced());
    }
}
