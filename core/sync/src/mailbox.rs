//! A list to which many threads add and from which one thread takes, and the synchronisation before that thread
//! sleeps.
//!
//! The taker checks the list in every iteration of its loop, which costs one load while it is empty. Posting never
//! waits for the taker: locks are held only while a few words are moved. tests/model.rs checks every interleaving of
//! both.

use crate::atomic::{AtomicBool, Mutex, MutexGuard, Ordering, TryLockError, fence};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// A list to which many threads add and from which one thread takes.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// Whether `items` is not empty. Changed under the lock.
    any: AtomicBool,
    items: Mutex<VecDeque<T>>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox { any: AtomicBool::new(false), items: Mutex::new(VecDeque::new()) }
    }
}

impl<T> Mailbox<T> {
    /// After a panic of another thread the list is still usable: each operation on it is complete in itself.
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. The caller wakes the taker if it sleeps.
    pub fn post(&self, item: T) {
        self.post_all(std::iter::once(item));
    }

    /// Adds items. Returns true if the list was empty before, so no other poster has woken the taker for them.
    pub fn post_all(&self, more: impl IntoIterator<Item = T>) -> bool {
        let mut items = self.lock();
        items.extend(more);
        !self.any.swap(true, Ordering::AcqRel)
    }

    /// Returns whether there may be items. May be false shortly after a post, and becomes true without another post.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Returns whether there certainly are no items; the taker checks this before it sleeps.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes the oldest item.
    pub fn take(&self) -> Option<T> {
        let mut items = self.lock();
        let item = items.pop_front();
        self.any.store(!items.is_empty(), Ordering::Release);
        item
    }

    /// Moves all items to `out`, which is empty, unless a poster holds the lock. Returns true if there were items or
    /// the lock was held.
    #[inline]
    pub fn try_take_all(&self, out: &mut VecDeque<T>) -> bool {
        if !self.has_mail() {
            return false;
        }
        let mut items = match self.items.try_lock() {
            Ok(items) => items,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        std::mem::swap(&mut *items, out);
        self.any.store(false, Ordering::Release);
        true
    }
}

/// Tells posters that a thread sleeps, or is about to.
///
/// The sleeper announces, then checks for work once more, then sleeps. A poster queues its work, then calls
/// [`is_announced`]:
/// either it sees the announcement and wakes the sleeper, or the sleeper's last look finds the work.
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
    /// The calling thread is about to sleep. It must check for work between this call and its sleep.
    pub fn announce(&self) {
        // An exchange, like that of `claim`, because exchanges have a total order.
        self.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The calling thread is awake.
    pub fn withdraw(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Returns whether the thread sleeps or is about to. Called after work was queued for it.
    pub fn is_announced(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }

    /// As [`SleepFlag::is_announced`], for several posters: only one of them gets true and wakes the thread.
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
        assert!(!mailbox.has_mail() && mailbox.is_empty() && mailbox.take().is_none());
        mailbox.post(1);
        assert!(mailbox.has_mail() && !mailbox.post_all([2, 3]));
        assert_eq!(mailbox.take(), Some(1));
        let mut rest = VecDeque::new();
        assert!(mailbox.try_take_all(&mut rest) && !mailbox.try_take_all(&mut rest));
        assert_eq!(rest, [2, 3]);
        assert!(mailbox.post_all([4]) && mailbox.take() == Some(4) && !mailbox.has_mail());
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
