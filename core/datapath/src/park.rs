//! Parked packets: packets that wait in a worker for the answer to an upcall, and the order in which they continue.
//!
//! Here a *flow* is a hash of the ingress port and the 5-tuple (`flow_hash.rs`). The first packet of a flow that
//! misses opens an entry, and its upcall carries the entry's ticket. While the entry exists, every later packet
//! of the flow waits behind it. An answer removes the entry with all its packets. A packet that must wait again
//! opens another entry with another ticket, so a late answer finds no entry.
//!
//! **Bounds.** [`Limits`] bound the packets of a worker and of a flow. The packets of a port may not outnumber the
//! worker's free places (a dynamic threshold, Choudhury and Hahne 1998): a single port gets half of the worker's limit.
//! If n ports have lasting storms, each gets 1/(n+1) of the limit in the end, and 1/(n+1) stays free.
//!
//! The code is pure. The parked item is a type parameter, so tests park numbers instead of packets. Each worker has its own instance.

use cpu::prehashed::ByHash;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Limits of parked packets.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum of the worker's parked packets.
    pub per_worker: usize,
    /// Maximum of one flow's parked packets.
    pub per_flow: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { per_worker: 1024, per_flow: 64 }
    }
}

/// The parked packets of one flow.
struct Waiting<T> {
    ticket: u64,
    port: u32,
    items: VecDeque<T>,
}

/// The parked packets of one worker.
pub struct Park<T> {
    flows: ByHash<u64, Waiting<T>>,
    /// Number of parked packets by port, for ports that have some.
    ports: BTreeMap<u32, usize>,
    parked: usize,
    /// Number of upcalls without an answer, including upcalls whose flow was removed before the answer.
    unanswered: usize,
    last_ticket: u64,
    limits: Limits,
    /// Empty lists, kept to avoid allocations.
    spare: Vec<VecDeque<T>>,
}

/// Maximum number of empty lists that are kept.
const SPARE: usize = 256;

impl<T> Park<T> {
    /// Makes an instance without parked packets.
    pub fn new(limits: Limits) -> Park<T> {
        Park {
            flows: ByHash::default(),
            ports: BTreeMap::new(),
            parked: 0,
            unanswered: 0,
            last_ticket: 0,
            limits,
            spare: Vec::new(),
        }
    }

    /// Number of parked packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.parked
    }

    /// Returns whether no packets are parked.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parked == 0
    }

    /// Returns whether packets of this port are parked.
    #[inline]
    pub fn any_of(&self, port: u32) -> bool {
        self.parked != 0 && self.ports.contains_key(&port)
    }

    /// Returns whether packets of this flow are parked, so that the next one must wait behind them.
    #[inline]
    pub fn waits(&self, flow_hash: u64) -> bool {
        self.flows.contains_key(&flow_hash)
    }

    fn has_capacity(&self, port: u32) -> bool {
        let used = self.ports.get(&port).copied().unwrap_or(0);
        used < self.limits.per_worker.saturating_sub(self.parked)
    }

    /// Returns whether a flow of this port may be opened.
    pub fn may_park_new_flow(&self, port: u32) -> bool {
        self.unanswered < self.limits.per_worker && self.has_capacity(port)
    }

    /// Parks the first packet of a flow and returns the ticket that the flow's answer must carry. Call `may_park_new_flow`
    /// before. If the flow is open already, the packet is parked behind the others and the ticket stays.
    pub fn open(&mut self, port: u32, flow_hash: u64, item: T) -> u64 {
        self.count(port);
        let entry = match self.flows.entry(flow_hash) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => {
                self.last_ticket += 1;
                self.unanswered += 1;
                let items = self.spare.pop().unwrap_or_default();
                free.insert(Waiting { ticket: self.last_ticket, port, items })
            }
        };
        entry.items.push_back(item);
        entry.ticket
    }

    /// Parks one more packet of an open flow. Returns the packet in `Err` if the flow is not open or a limit is
    /// reached.
    pub fn append(&mut self, flow_hash: u64, item: T) -> Result<(), T> {
        let Some(port) = self.flows.get(&flow_hash).map(|w| w.port) else { return Err(item) };
        let has_capacity = self.has_capacity(port);
        let Some(waiting) =
            self.flows.get_mut(&flow_hash).filter(|w| has_capacity && w.items.len() < self.limits.per_flow)
        else {
            return Err(item);
        };
        waiting.items.push_back(item);
        self.count(port);
        Ok(())
    }

    fn count(&mut self, port: u32) {
        self.parked += 1;
        *self.ports.entry(port).or_default() += 1;
    }

    /// Removes the packets that wait for the answer with this ticket, oldest first. `None` if there are none.
    pub fn answered(&mut self, flow_hash: u64, ticket: u64) -> Option<VecDeque<T>> {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.flows.get(&flow_hash).filter(|w| w.ticket == ticket)?;
        self.take(flow_hash)
    }

    /// Removes a flow before its answer, and returns its packets.
    pub fn take(&mut self, flow_hash: u64) -> Option<VecDeque<T>> {
        let waiting = self.flows.remove(&flow_hash)?;
        self.parked -= waiting.items.len();
        if let Some(n) = self.ports.get_mut(&waiting.port) {
            *n -= waiting.items.len();
            if *n == 0 {
                self.ports.remove(&waiting.port);
            }
        }
        Some(waiting.items)
    }

    /// Removes all flows of a port (`None`: of all ports) before their answers, in the order of their first
    /// packets.
    pub fn take_port(&mut self, port: Option<u32>) -> Vec<VecDeque<T>> {
        let of_port = |w: &Waiting<T>| port.is_none_or(|p| p == w.port);
        let all = self.flows.iter().filter(|(_, w)| of_port(w));
        let mut flows: Vec<(u64, u64)> = all.map(|(&flow_hash, w)| (w.ticket, flow_hash)).collect();
        flows.sort_unstable();
        flows.into_iter().filter_map(|(_, flow_hash)| self.take(flow_hash)).collect()
    }

    /// Returns an emptied list for reuse.
    pub fn give_back(&mut self, list: VecDeque<T>) {
        if list.is_empty() && self.spare.len() < SPARE {
            self.spare.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation with one list: (flow, port, ticket, item), in the order of arrival.
    #[derive(Default)]
    struct Naive {
        list: Vec<(u64, u32, u64, u32)>,
        last_ticket: u64,
    }

    impl Naive {
        fn of(&self, flow_hash: u64) -> Vec<u32> {
            self.list.iter().filter(|e| e.0 == flow_hash).map(|e| e.3).collect()
        }

        fn ticket(&self, flow_hash: u64) -> Option<u64> {
            self.list.iter().find(|e| e.0 == flow_hash).map(|e| e.2)
        }

        fn has_capacity(&self, port: u32, limits: Limits) -> bool {
            let used = self.list.iter().filter(|e| e.1 == port).count();
            used + self.list.len() < limits.per_worker
        }

        fn take(&mut self, flow_hash: u64) -> Vec<u32> {
            let taken = self.of(flow_hash);
            self.list.retain(|e| e.0 != flow_hash);
            taken
        }
    }

    proptest! {
        #[test]
        fn as_one_list(steps in prop::collection::vec((0..5u8, 0..6u64, 0..12u64), 0..200)) {
            let limits = Limits { per_worker: 20, per_flow: 4 };
            let (mut park, mut naive) = (Park::new(limits), Naive::default());
            for (item, (what, flow_hash, ticket)) in (0u32..).zip(steps) {
                let port = (flow_hash % 2) as u32;
                prop_assert_eq!(park.waits(flow_hash), naive.ticket(flow_hash).is_some());
                match what {
                    0..=2 if park.waits(flow_hash) => {
                        let fits = naive.has_capacity(port, limits) && naive.of(flow_hash).len() < limits.per_flow;
                        prop_assert_eq!(park.append(flow_hash, item).is_ok(), fits);
                        if fits {
                            let ticket = naive.ticket(flow_hash).unwrap();
                            naive.list.push((flow_hash, port, ticket, item));
                        }
                    }
                    0..=2 => {
                        prop_assert!(!park.may_park_new_flow(port) || naive.has_capacity(port, limits));
                        if park.may_park_new_flow(port) {
                            naive.last_ticket += 1;
                            prop_assert_eq!(park.open(port, flow_hash, item), naive.last_ticket);
                            naive.list.push((flow_hash, port, naive.last_ticket, item));
                        }
                    }
                    3 => {
                        let hit = naive.ticket(flow_hash) == Some(ticket);
                        let expected = if hit { naive.take(flow_hash) } else { Vec::new() };
                        let taken = park.answered(flow_hash, ticket).map(Vec::from).unwrap_or_default();
                        prop_assert_eq!(taken, expected);
                    }
                    _ => {
                        let mut expected = Vec::new();
                        let oldest = |n: &Naive| n.list.iter().filter(|e| e.1 == port).min_by_key(|e| e.2).map(|e| e.0);
                        while let Some(flow_hash) = oldest(&naive) {
                            expected.push(naive.take(flow_hash));
                        }
                        let taken: Vec<Vec<u32>> = park.take_port(Some(port)).into_iter().map(Vec::from).collect();
                        prop_assert_eq!(taken, expected);
                    }
                }
                prop_assert_eq!(park.len(), naive.list.len());
                prop_assert_eq!(park.any_of(port), naive.list.iter().any(|e| e.1 == port));
            }
        }
    }

    #[test]
    fn a_storm_on_one_port_leaves_room_for_the_next() {
        let mut park = Park::new(Limits { per_worker: 100, per_flow: 4 });
        let fill = |park: &mut Park<()>, port: u32| {
            let mut n = 0;
            while park.may_park_new_flow(port) {
                park.open(port, u64::from(port) << 32 | n, ());
                n += 1;
            }
            n
        };
        assert_eq!((fill(&mut park, 1), fill(&mut park, 2), fill(&mut park, 3)), (50, 25, 13));
    }

    #[test]
    fn unanswered_upcalls_are_bounded() {
        let mut park = Park::new(Limits { per_worker: 10, per_flow: 4 });
        for flow_hash in 0..10 {
            park.open(1, flow_hash, ());
            assert!(park.take(flow_hash).is_some());
        }
        assert!(!park.may_park_new_flow(1) && park.is_empty());
        assert_eq!(park.answered(3, 4), None);
        assert!(park.may_park_new_flow(1));
    }
}
