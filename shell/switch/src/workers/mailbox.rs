//! Orders to a worker. Looking whether there are any costs it one relaxed load, so that it may look at every turn.

use crate::workers::desk::Order;
use runtime::Waker;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// How a worker that does nothing hears of an order.
#[derive(Debug)]
pub(super) enum Bell {
    /// It is looked after by who posts.
    None,
    /// It sleeps in `poll(2)`.
    Waker(Waker),
    /// It polls. It is parked while it has no queue or sleeps by the clock, and while devices are to wake it (`armed`) it
    /// sleeps in `poll(2)`.
    Poller { thread: OnceLock<Thread>, waker: Waker, armed: AtomicBool },
}

impl Bell {
    pub(super) fn poller(waker: Waker) -> Bell {
        Bell::Poller { thread: OnceLock::new(), waker, armed: AtomicBool::new(false) }
    }
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
            Bell::Poller { thread, waker, armed } => {
                // What was posted before is seen by a worker that we do not see armed: it looks after it armed.
                fence(Ordering::SeqCst);
                match armed.load(Ordering::Relaxed) {
                    true => waker.wake(),
                    false => thread.get().into_iter().for_each(Thread::unpark),
                }
            }
        }
    }

    /// The worker is about to sleep in `poll(2)`, or does so no more. It must look for work between this and its sleep.
    pub(super) fn arm(&self, on: bool) {
        if let Bell::Poller { armed, .. } = &self.bell {
            armed.store(on, Ordering::Relaxed);
            fence(Ordering::SeqCst);
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
        if let Bell::Poller { thread, .. } = &self.bell {
            let _ = thread.set(std::thread::current());
        }
    }
}
