//! Orders of the main thread to a worker. Checking an empty mailbox costs the worker one load, so it checks in every
//! iteration.

use datapath::Rxq;
use pmd::metrics::{Recorder, Watch};
use runtime::Waker;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use sync::SleepFlag;
use units::{Micros, PortNo, QueueId};

/// Dropped when an order has been carried out; the thread that waits for the answer sees the channel close.
pub(crate) type Done = Sender<()>;

/// Names a queue.
pub(crate) type Key = (PortNo, QueueId);

/// A queue on its way to a worker.
pub(crate) struct MovingQueue {
    pub(crate) rxq: Rxq,
    /// The descriptor that a sleeping worker waits for.
    pub(crate) fd: Option<Arc<OwnedFd>>,
    /// The worker polls it; otherwise it only keeps it.
    pub(crate) polled: bool,
}

/// An order to a worker.
pub(crate) enum Order {
    /// Take a queue.
    Take(MovingQueue),
    /// Give a queue to another worker, which polls it (true) or only keeps it.
    Give(Key, Arc<Mailbox>, bool),
    /// Drop a queue.
    Drop(Key, Done),
    /// Answer once the worker holds nothing that was replaced before this order.
    Settle(Done),
    /// Send by the tx queues of this number from now on.
    TxQueue(usize),
    /// The longest load-based sleep (`pmd-sleep-max`).
    SleepMax(Micros),
    /// The latency target of sleeps (`pmd-latency-target`); 0: only load-based sleep.
    LatencyTarget(Micros),
    /// Record every turn here from now on; `None`: stop recording.
    Record(Option<Box<Recorder>>),
    /// Send a copy of what was recorded.
    Recorded(SyncSender<Recorder>),
    /// Log suspicious turns.
    Watch(Watch),
    /// End the thread once its last queue is gone.
    Stop,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Take(t) => write!(f, "Take({:?}, {:?})", t.rxq.port, t.rxq.id),
            Order::Give(key, ..) => write!(f, "Give{key:?}"),
            Order::Drop(key, _) => write!(f, "Drop{key:?}"),
            Order::Settle(_) => f.write_str("Settle"),
            Order::TxQueue(n) => write!(f, "TxQueue({n})"),
            Order::SleepMax(max) => write!(f, "SleepMax({})", max.0),
            Order::LatencyTarget(target) => write!(f, "LatencyTarget({})", target.0),
            Order::Record(recorder) => write!(f, "Record({})", recorder.is_some()),
            Order::Recorded(_) => f.write_str("Recorded"),
            Order::Watch(watch) => write!(f, "Watch({})", watch.on),
            Order::Stop => f.write_str("Stop"),
        }
    }
}

/// How an idle worker is woken for an order.
#[derive(Debug)]
pub(crate) enum Wakeup {
    /// Not at all: the thread that posts also runs the worker.
    None,
    /// It sleeps in `poll(2)`.
    Waker(Waker),
    /// It polls. It is parked while it has no queue or sleeps by the clock, and while devices are to wake it (`armed`) it
    /// sleeps in `poll(2)`.
    Poller { thread: OnceLock<Thread>, waker: Waker, armed: SleepFlag },
}

impl Wakeup {
    pub(crate) fn poller(waker: Waker) -> Wakeup {
        Wakeup::Poller { thread: OnceLock::new(), waker, armed: SleepFlag::default() }
    }
}

/// The orders for one worker.
#[derive(Debug)]
pub(crate) struct Mailbox {
    orders: sync::Mailbox<Order>,
    wakeup: Wakeup,
}

impl Mailbox {
    pub(crate) fn new(wakeup: Wakeup) -> Mailbox {
        Mailbox { orders: sync::Mailbox::default(), wakeup }
    }

    /// Posts an order. Never waits for the worker.
    pub(crate) fn post(&self, order: Order) {
        self.orders.post(order);
        self.wake();
    }

    /// Wakes the worker if it sleeps.
    pub(crate) fn wake(&self) {
        match &self.wakeup {
            Wakeup::None => {}
            Wakeup::Waker(waker) => waker.wake(),
            Wakeup::Poller { thread, waker, armed } => match armed.is_announced() {
                true => waker.wake(),
                false => thread.get().into_iter().for_each(Thread::unpark),
            },
        }
    }

    /// Called by the worker before (true) and after a sleep in `poll(2)`. It must look for work between this call and the sleep.
    pub(crate) fn arm(&self, on: bool) {
        if let Wakeup::Poller { armed, .. } = &self.wakeup {
            match on {
                true => armed.announce(),
                false => armed.withdraw(),
            }
        }
    }

    /// Whether there is an order. It may return false shortly after a post; a later call then returns true.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.orders.has_mail()
    }

    /// Whether there is certainly no order: asked before the worker parks.
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// The next order.
    pub(crate) fn take(&self) -> Option<Order> {
        self.orders.take()
    }

    /// Makes the calling thread the reader of this mailbox, to be unparked for an order.
    pub(crate) fn read_here(&self) {
        if let Wakeup::Poller { thread, .. } = &self.wakeup {
            let _ = thread.set(std::thread::current());
        }
    }
}
