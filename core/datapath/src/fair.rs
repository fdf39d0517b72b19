//! A queue in which ports take turns: each has a line of its own, and the heads of the lines go round.
//!
//! A port with a thousand upcalls delays another's first one by one upcall, not by a thousand. Pure; who shares it puts
//! it behind a lock. It is as long as what its users may have in it: workers bound what they ask (`park`).

use std::collections::{BTreeMap, VecDeque};

/// So many lines are kept when nobody stands in them, so that a busy port does not make one anew for each upcall.
const IDLE_LINES: usize = 64;

/// See the module.
pub struct FairQueue<T> {
    lines: BTreeMap<u32, VecDeque<T>>,
    /// Ports that have something, the next one first.
    turns: VecDeque<u32>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue { lines: BTreeMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<T> FairQueue<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Joins the line of a port.
    pub fn push(&mut self, port: u32, item: T) {
        let line = self.lines.entry(port).or_default();
        if line.is_empty() {
            self.turns.push_back(port);
        }
        line.push_back(item);
        self.len += 1;
    }

    /// Whose turn it is.
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
        /// Nothing is lost, and each port's own order is kept.
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
