//! Upcall fairness: a queue of upcalls with one line for each port. Ports are served round robin.
//!
//! A port with a thousand upcalls delays the first upcall of another port by one upcall, not by a thousand. The queue
//! is shared behind a lock. It has no limit of its own, because workers bound the upcalls that they send (`park`).

use std::collections::{BTreeMap, VecDeque};

/// Maximum number of empty lines that are kept, so that a busy port does not allocate a line for each upcall.
const IDLE_LINES: usize = 64;

/// A queue with one line for each port. Ports are served round robin.
pub struct FairQueue<T> {
    lines: BTreeMap<u32, VecDeque<T>>,
    /// Ports with waiting items, the next one first.
    turns: VecDeque<u32>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue { lines: BTreeMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Number of items in all lines.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends an item to the line of a port.
    pub fn push(&mut self, port: u32, item: T) {
        let line = self.lines.entry(port).or_default();
        if line.is_empty() {
            self.turns.push_back(port);
        }
        line.push_back(item);
        self.len += 1;
    }

    /// Removes the first item of the next port.
    pub fn pop(&mut self) -> Option<T> {
        let port = self.turns.pop_front()?;
        let line = self.lines.get_mut(&port)?;
        let item = line.pop_front()?;
        self.len -= 1;
        if !line.is_empty() {
            self.turns.push_back(port);
        } else if self.lines.len() > IDLE_LINES {
            self.lines.remove(&port);
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
        fn as_a_line_per_port(steps in prop::collection::vec(prop::option::of(0..4u32), 0..100)) {
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
