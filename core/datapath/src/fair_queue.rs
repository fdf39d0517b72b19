//! Upcall fairness: the upcall queue, which has a queue for each port. Ports are served round robin.
//!
//! A port with a thousand upcalls delays the first upcall of another port by one upcall, not by a thousand. The queue
//! is shared behind a lock. It has no limit of its own, because workers bound the upcalls that they send (`park`).

use std::collections::{BTreeMap, VecDeque};

/// Maximum number of empty queues that are kept, so that a busy port does not allocate a queue for each upcall.
const IDLE_QUEUES: usize = 64;

/// A queue that consists of one queue for each port. Ports are served round robin.
pub struct FairQueue<T> {
    queues: BTreeMap<u32, VecDeque<T>>,
    /// Ports with waiting items, the next one first.
    turns: VecDeque<u32>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue { queues: BTreeMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Number of items in all queues.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends an item to the queue of a port.
    pub fn push(&mut self, port: u32, item: T) {
        let queue = self.queues.entry(port).or_default();
        if queue.is_empty() {
            self.turns.push_back(port);
        }
        queue.push_back(item);
        self.len += 1;
    }

    /// Removes the first item of the next port.
    pub fn pop(&mut self) -> Option<T> {
        let port = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&port)?;
        let item = queue.pop_front()?;
        self.len -= 1;
        if !queue.is_empty() {
            self.turns.push_back(port);
        } else if self.queues.len() > IDLE_QUEUES {
            self.queues.remove(&port);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ports_take_turns() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|i| queue.push(1, i));
        queue.push(2, 5000);
        let first: Vec<i32> = std::iter::from_fn(|| queue.pop()).take(3).collect();
        assert_eq!((first, queue.len()), (vec![0, 5000, 1], 998));
    }

    proptest! {
        /// No item is lost, and each port's own order is kept.
        #[test]
        fn as_a_queue_per_port(steps in prop::collection::vec(prop::option::of(0..4u32), 0..100)) {
            let mut queue = FairQueue::default();
            let mut naive: Vec<Vec<usize>> = vec![Vec::new(); 4];
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Some(port) => {
                        queue.push(port, (port, i));
                        naive[port as usize].push(i);
                    }
                    None => match queue.pop() {
                        Some((port, i)) => prop_assert_eq!(naive[port as usize].remove(0), i),
                        None => prop_assert!(naive.iter().all(Vec::is_empty)),
                    },
                }
                prop_assert_eq!(queue.len(), naive.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}
