//! Orders to a worker. Looking whether there are any costs it one relaxed load, so that it may look at every turn.

use crate::workers::desk::Order;
use runtime::Waker;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// How a worker that does nothing hears of an order.
#[derive(Debug)]
pub(super) enum Bell {
    /// It is looked after by who posts.
    None,
    /// It sleeps in `poll(2)`.
    Waker(Waker),
    /// It is parked while it has no queue.
    Thread(OnceLock<Thread>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Mailbox {
    full: AtomicBool,
    orders: Mutex<VecDeque<Order>>,
    bell: Bell,
}

impl Mailbox {
    pub(super) fn new(bell: Bell) -> Mailbox {
        Mailbox { full: AtomicBool::new(false), orders: Mutex::default(), bell }
    }

    fn orders(&self) -> MutexGuard<'_, VecDeque<Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an order. Never waits for the worker.
    pub(super) fn post(&self, order: Order) {
        let mut orders = self.orders();
        orders.push_back(order);
        self.full.store(true, Ordering::Relaxed);
        drop(orders);
        self.ring();
    }

    /// Wakes the worker, should it sleep.
    pub(super) fn ring(&self) {
        match &self.bell {
            Bell::None => {}
            Bell::Waker(waker) => waker.wake(),
            Bell::Thread(thread) => thread.get().into_iter().for_each(Thread::unpark),
        }
    }

    /// There is an order. It may be noticed a little later than it was posted, never not at all.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// There is no order, for certain: what a worker asks before it parks.
    pub(super) fn is_empty(&self) -> bool {
        self.orders().is_empty()
    }

    /// The next order.
    pub(super) fn take(&self) -> Option<Order> {
        let mut orders = self.orders();
        let order = orders.pop_front();
        self.full.store(!orders.is_empty(), Ordering::Relaxed);
        order
    }

    /// The thread that reads this box is the one that calls.
    pub(super) fn read_here(&self) {
        if let Bell::Thread(thread) = &self.bell {
            let _ = thread.set(std::thread::current());
        }
    }
}
