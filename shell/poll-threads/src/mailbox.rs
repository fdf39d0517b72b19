//! Orders of the main thread to a worker. Checking an empty mailbox costs the worker one load, so the worker checks its
//! mailbox in every iteration.

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

/// The worker drops this when it has carried out the order. That closes the channel on which the main thread waits.
pub(crate) type Done = Sender<()>;

/// Identifies a queue: port and number in the port.
pub(crate) type Key = (PortNo, QueueId);

/// A queue that is being handed over to a worker.
pub(crate) struct MovingQueue {
    pub(crate) rxq: Rxq,
    /// File descriptor that is readable while the queue has packets: a sleeping worker waits for it.
    pub(crate) fd: Option<Arc<OwnedFd>>,
    /// The worker polls the queue; false: it only holds the queue.
    pub(crate) polled: bool,
}

/// An order to a worker.
pub(crate) enum Order {
    /// Add a queue to this worker.
    Take(MovingQueue),
    /// Hand a queue over to another worker, which polls it (true) or only holds it (false).
    Give(Key, Arc<Mailbox>, bool),
    /// Release a queue and free it.
    Release(Key, Done),
    /// Release every part of the datapath that was replaced before this order, then answer.
    ReleaseReplaced(Done),
    /// Send to the tx queue of this number of each port from now on.
    TxQueue(usize),
    /// The longest load-based sleep (`pmd-sleep-max`).
    SleepMax(Micros),
    /// The latency target (`pmd-latency-target`); 0: only load-based sleep.
    LatencyTarget(Micros),
    /// Record every iteration in this recorder from now on; `None`: stop recording.
    Record(Option<Box<Recorder>>),
    /// Send a copy of the recorder.
    CopyRecorder(SyncSender<Recorder>),
    /// Sets which iterations are logged as suspicious.
    Watch(Watch),
    /// End the thread when its last queue has been handed over or dropped.
    Stop,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Take(t) => write!(f, "Take({:?}, {:?})", t.rxq.port, t.rxq.id),
            Order::Give(key, ..) => write!(f, "Give{key:?}"),
            Order::Release(key, _) => write!(f, "Release{key:?}"),
            Order::ReleaseReplaced(_) => f.write_str("ReleaseReplaced"),
            Order::TxQueue(n) => write!(f, "TxQueue({n})"),
            Order::SleepMax(max) => write!(f, "SleepMax({})", max.0),
            Order::LatencyTarget(target) => write!(f, "LatencyTarget({})", target.0),
            Order::Record(recorder) => write!(f, "Record({})", recorder.is_some()),
            Order::CopyRecorder(_) => f.write_str("CopyRecorder"),
            Order::Watch(watch) => write!(f, "Watch({})", watch.on),
            Order::Stop => f.write_str("Stop"),
        }
    }
}

/// How an idle worker is woken for an order.
#[derive(Debug)]
pub(crate) enum Wakeup {
    /// Not at all: the thread that posts the order also runs the worker (dummy mode).
    None,
    /// By a waker: the worker of kernel ports sleeps in `poll(2)`.
    Waker(Waker),
    /// A PMD thread. While it has no queue and in timer sleeps it is parked, so `unpark` wakes it. While device events
    /// are armed (`armed`) it sleeps in `poll(2)`, so the waker wakes it.
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

    /// Called by the worker before (true) and after (false) a sleep in `poll(2)`. Between the call with true and the
    /// sleep, the worker must check for orders and packets: they may have arrived before the call.
    pub(crate) fn arm(&self, on: bool) {
        if let Wakeup::Poller { armed, .. } = &self.wakeup {
            match on {
                true => armed.announce(),
                false => armed.withdraw(),
            }
        }
    }

    /// Whether there is an order. May return false shortly after a post; a later call then returns true.
    #[inline]
    pub(crate) fn may_have_orders(&self) -> bool {
        self.orders.may_have_items()
    }

    /// Whether there is certainly no order. The worker checks this before it parks.
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Removes and returns the next order.
    pub(crate) fn take(&self) -> Option<Order> {
        self.orders.take()
    }

    /// Makes the calling thread the reader of this mailbox: orders unpark this thread.
    pub(crate) fn set_reader(&self) {
        if let Wakeup::Poller { thread, .. } = &self.wakeup {
            let _ = thread.set(std::thread::current());
        }
    }
}
