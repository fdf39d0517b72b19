//! Steering: selects the tx queue by which a worker sends to a port.
//!
//! If a port has a tx queue for each worker, each worker has its own queue. If it has fewer, a worker takes the queue
//! with the fewest users, and loses the queue after half a second without sending. A worker that takes a queue ignores
//! idle users, so an idle worker need not do anything to release its queue. A port can also be configured to spread
//! packets over all queues by a hash of their 5-tuple, whichever worker sends them.
//!
//! In all modes the packets of a flow that one worker sends use the same queue as long as the worker keeps sending,
//! so they keep their order.
//!
//! **Threads**: each worker has its own [`TakenQueues`]. The list of a port's users is behind a lock, which is taken only
//! when a worker takes a queue, not when it sends.

use crate::flow_hash::flow_hash;
use crate::packet::Meta;
use crate::port::FrameBatch;
use cpu::KeyedHash64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use units::{Millis, WorkerId};

/// A worker that has not sent to a port for this long loses its queue.
const IDLE: Millis = Millis(500);

/// How a port's tx queues are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxMode {
    /// Each worker has its own queue.
    Static,
    /// A worker that sends takes the queue with the fewest users.
    Xps,
    /// A hash of the packet selects the queue.
    Hash,
}

impl TxMode {
    /// The name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            TxMode::Static => "static",
            TxMode::Xps => "xps",
            TxMode::Hash => "hash",
        }
    }
}

/// The tx queues of a port, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxQueues {
    /// How they are shared.
    pub mode: TxMode,
    /// For each queue, the workers that have taken it (`TxMode::Xps`).
    pub users: Vec<Vec<WorkerId>>,
}

#[derive(Debug)]
struct User {
    worker: WorkerId,
    queue: usize,
    /// Time of the worker's last transmission, in milliseconds.
    last: Arc<AtomicU64>,
}

impl User {
    fn is_idle(&self, now: Millis) -> bool {
        now.since(Millis(self.last.load(Ordering::Relaxed))) >= IDLE
    }
}

/// Which workers use which queue of a port.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<Vec<User>>);

impl Users {
    fn lock(&self) -> MutexGuard<'_, Vec<User>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of `queues` queues, and releases the previous queue of the worker.
    fn take(&self, worker: WorkerId, queues: usize, last: &Arc<AtomicU64>, now: Millis) -> usize {
        let mut users = self.lock();
        users.retain(|u| !Arc::ptr_eq(&u.last, last) && !u.is_idle(now));
        let used = |queue: &usize| users.iter().filter(|u| u.queue == *queue).count();
        let queue = (0..queues).min_by_key(used).unwrap_or(0);
        last.store(now.0, Ordering::Relaxed);
        users.push(User { worker, queue, last: Arc::clone(last) });
        queue
    }

    /// Returns the workers that use each of `queues` queues.
    pub(crate) fn by_queue(&self, queues: usize, now: Millis) -> Vec<Vec<WorkerId>> {
        let mut out = vec![Vec::new(); queues];
        for user in self.lock().iter().filter(|u| !u.is_idle(now)) {
            out.get_mut(user.queue).into_iter().for_each(|list| list.push(user.worker));
        }
        out.iter_mut().for_each(|list| list.sort_unstable());
        out
    }
}

/// A queue of one port that a worker has taken.
#[derive(Debug)]
struct TakenQueue {
    /// The list of users to which it belongs. A port that gets new queues gets a new list.
    users: Arc<Users>,
    queue: usize,
    last: Arc<AtomicU64>,
}

/// The tx queues of a worker.
#[derive(Default)]
pub(crate) struct OwnQueues {
    /// Index of the worker's own queue, for ports with enough tx queues.
    pub(crate) static_tx_qid: usize,
    /// The queues that the worker has taken, for ports with fewer tx queues than workers.
    pub(crate) taken: TakenQueues,
    /// The burst of a port that selects tx queues by hash, split by tx queue.
    pub(crate) parts: Vec<FrameBatch>,
}

/// The queues that one worker has taken, by port number.
#[derive(Debug, Default)]
pub(crate) struct TakenQueues(Vec<Option<TakenQueue>>);

impl TakenQueues {
    /// Returns the queue by which to send now.
    #[inline]
    pub(crate) fn queue(
        &mut self,
        port: u32,
        users: &Arc<Users>,
        queues: usize,
        worker: WorkerId,
        now: Millis,
    ) -> usize {
        if let Some(Some(taken)) = self.0.get(port as usize)
            && Arc::ptr_eq(&taken.users, users)
            && now.since(Millis(taken.last.load(Ordering::Relaxed))) < IDLE
        {
            taken.last.store(now.0, Ordering::Relaxed);
            return taken.queue;
        }
        self.take(port, users, queues, worker, now)
    }

    #[cold]
    fn take(&mut self, port: u32, users: &Arc<Users>, queues: usize, worker: WorkerId, now: Millis) -> usize {
        let at = port as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        let last = self.0[at].take().map(|taken| taken.last).unwrap_or_default();
        let queue = users.take(worker, queues, &last, now);
        self.0[at] = Some(TakenQueue { users: Arc::clone(users), queue, last });
        queue
    }
}

/// Selects one of `queues` queues by a hash of the packet. The hash has no secret: to send all packets by one queue,
/// a sender can simply send packets of one flow.
pub(crate) fn by_hash(packet: &[u8], queues: usize) -> usize {
    static SPREAD: LazyLock<KeyedHash64> = LazyLock::new(|| KeyedHash64::new(0));
    (flow_hash(packet, &Meta::received(0), &SPREAD) % queues.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers that send to a port with two queues, at a given time.
    struct TestWorkers {
        users: Arc<Users>,
        workers: Vec<TakenQueues>,
    }

    impl TestWorkers {
        fn new(workers: usize) -> TestWorkers {
            TestWorkers {
                users: Arc::default(),
                workers: (0..workers).map(|_| TakenQueues::default()).collect(),
            }
        }

        fn send(&mut self, worker: usize, now: u64) -> usize {
            self.workers[worker].queue(3, &self.users, 2, WorkerId(worker as u16), Millis(now))
        }

        fn users(&self, now: u64) -> Vec<Vec<u16>> {
            let of = |list: Vec<WorkerId>| list.into_iter().map(|w| w.0).collect();
            self.users.by_queue(2, Millis(now)).into_iter().map(of).collect()
        }
    }

    #[test]
    fn a_worker_takes_the_queue_that_fewest_use() {
        let mut test = TestWorkers::new(4);
        assert_eq!([0, 1, 2, 3].map(|w| test.send(w, 1000)), [0, 1, 0, 1]);
        assert_eq!(test.users(1000), [[0, 2], [1, 3]]);
        // A worker keeps its queue while it sends.
        assert_eq!((1..20).map(|i| test.send(2, 1000 + 100 * i)).max(), Some(0));
    }

    #[test]
    fn an_idle_worker_loses_its_queue() {
        let mut test = TestWorkers::new(3);
        assert_eq!([0, 1].map(|w| test.send(w, 1000)), [0, 1]);
        assert_eq!(test.send(1, 1400), 1);
        assert_eq!(test.users(1500), [vec![], vec![1]]);
        assert_eq!((test.send(2, 1500), test.send(0, 1600)), (0, 0));
        assert_eq!(test.users(1600), [vec![0, 2], vec![1]]);
        // An idle worker takes the best queue when it sends again.
        assert_eq!(test.send(1, 1901), 1);
        assert_eq!((test.send(0, 2400), test.send(2, 2400)), (0, 0));
    }

    #[test]
    fn new_queues_are_taken_anew() {
        let mut test = TestWorkers::new(2);
        assert_eq!([0, 1].map(|w| test.send(w, 1000)), [0, 1]);
        test.users = Arc::default();
        assert_eq!([1, 0].map(|w| test.send(w, 1001)), [0, 1]);
    }
}
