//! Rxq assignment after a configuration change under the predictive policy: every queue that can keep its core keeps
//! it.
//!
//! A queue moves if its core no longer has a PMD thread, or is isolated, or belongs to another NUMA node while the
//! queue's own node has a core again. Queues that move and new queues are assigned to the core with the least load. The
//! predictive balancer corrects the remaining imbalance later, with few moves.

use super::{Algorithm, Assignment, CoreLoads, Note, QueueText, Rxq, not_polled, pin_all};
use crate::cores::Core;
use std::cmp::Reverse;
use units::CoreId;

/// Used only to format log messages: with any algorithm except `roundrobin`, they contain the measured cycles.
const ALGORITHM: Algorithm = Algorithm::Group;

/// Assigns queues like [`super::assign`], but each queue keeps its core if possible. `owners`: the present core of
/// each queue; `None`: the queue is new, or the thread of its core has ended.
pub fn keep(cores: &[Core], rxqs: &[Rxq], owners: &[Option<CoreId>], isolate: bool) -> Assignment {
    let mut loads = CoreLoads::new(cores);
    let mut out = Assignment { cores: vec![None; rxqs.len()], ..Assignment::default() };
    let mut to_place = Vec::new();
    for i in pin_all(&mut loads, rxqs, ALGORITHM, isolate, &mut out) {
        match owners[i] {
            Some(core) if loads.try_keep(&rxqs[i], core) => out.cores[i] = Some(core),
            _ => to_place.push(i),
        }
    }
    let default_load = default_load(rxqs);
    to_place.sort_by_key(|i| (Reverse(rxqs[*i].cycles), rxqs[*i].no, rxqs[*i].queue));
    if !to_place.is_empty() {
        let stay = rxqs.len() - to_place.len();
        let text = format!(
            "Performing pmd to rx queue assignment: {stay} rx queues stay, {} are placed.",
            to_place.len()
        );
        out.notes.push(Note { warning: false, text });
    }
    for i in to_place {
        out.cores[i] = place(&mut loads, &rxqs[i], default_load, &mut out);
    }
    loads.finish(&mut out);
    out
}

/// The assumed load of a queue that has not been measured: the average of the measured queues. With a load of zero,
/// several new queues would all be assigned to the same core.
fn default_load(rxqs: &[Rxq]) -> u64 {
    let known: Vec<u64> = rxqs.iter().map(|q| q.cycles).filter(|c| *c != 0).collect();
    (known.iter().sum::<u64>() / known.len().max(1) as u64).max(1)
}

/// Assigns a queue to the core with the least load.
fn place(loads: &mut CoreLoads, rxq: &Rxq, default_load: u64, out: &mut Assignment) -> Option<CoreId> {
    let placed = QueueText { rxq, algorithm: ALGORITHM };
    let free = loads.node_for(rxq.numa).map(|node| node.loads.iter_mut().filter(|s| !s.isolated));
    let Some(load) = free.and_then(|loads| loads.min_by_key(|s| (s.cycles, s.queues))) else {
        out.notes.push(not_polled(&placed));
        return None;
    };
    load.cycles += if rxq.cycles == 0 { default_load } else { rxq.cycles };
    load.queues += 1;
    let core = load.core;
    out.note_place(&placed, core);
    Some(core.id)
}

impl CoreLoads {
    /// Adds the queue's load to the core if the queue can stay there; returns whether it can.
    fn try_keep(&mut self, rxq: &Rxq, core: CoreId) -> bool {
        let local = self.nodes.iter().any(|n| n.numa == rxq.numa && n.has_core());
        let Some(load) = self.load_of(core).filter(|s| !s.isolated && (!local || s.core.numa == rxq.numa))
        else {
            return false;
        };
        load.cycles += rxq.cycles;
        load.queues += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{NumaId, PortNo, QueueId};

    fn cores(numa: &[u32]) -> Vec<Core> {
        let core = |(id, numa): (usize, &u32)| Core { id: CoreId(id as u32), numa: NumaId(*numa) };
        numa.iter().enumerate().map(core).collect()
    }

    fn rxq(id: u16, cycles: u64) -> Rxq {
        let (no, queue) = (PortNo(1), QueueId(id));
        Rxq { port: "p0".to_owned(), no, queue, numa: NumaId(0), cycles, pinned: None }
    }

    fn on(ids: &[u32]) -> Vec<Option<CoreId>> {
        ids.iter().map(|id| Some(CoreId(*id))).collect()
    }

    #[test]
    fn queues_that_can_keep_their_core_keep_it() {
        let rxqs: Vec<Rxq> = (0..4).map(|i| rxq(i, 100)).collect();
        let kept = keep(&cores(&[0, 0]), &rxqs, &on(&[0, 0, 0, 1]), true);
        assert_eq!(kept.cores, on(&[0, 0, 0, 1]));
        assert!(kept.notes.is_empty());
        assert_eq!(kept.load[&CoreId(0)], 300);
    }

    #[test]
    fn new_queues_are_spread_over_the_least_loaded_cores() {
        let mut rxqs: Vec<Rxq> = [900, 100, 100].iter().zip(0..).map(|(c, i)| rxq(i, *c)).collect();
        rxqs.extend((3..7).map(|i| rxq(i, 0)));
        let owners: Vec<_> = on(&[0, 1, 2]).into_iter().chain([None; 4]).collect();
        let kept = keep(&cores(&[0, 0, 0]), &rxqs, &owners, true);
        assert_eq!(kept.cores, on(&[0, 1, 2, 1, 2, 1, 2]));
        assert!(kept.notes[0].text.ends_with("3 rx queues stay, 4 are placed."), "{:?}", kept.notes);
    }

    #[test]
    fn only_the_queues_of_a_removed_core_move() {
        let rxqs: Vec<Rxq> = [50, 10, 20, 30].iter().zip(0..).map(|(c, i)| rxq(i, *c)).collect();
        let kept = keep(&cores(&[0, 0]), &rxqs, &on(&[0, 1, 7, 7]), true);
        assert_eq!(kept.cores, on(&[0, 1, 1, 1]));
    }

    #[test]
    fn pinned_queues_return_to_their_core_and_others_leave_an_isolated_core() {
        let mut rxqs: Vec<Rxq> = (0..3).map(|i| rxq(i, 10)).collect();
        rxqs[0].pinned = Some(CoreId(1));
        let (cores, owners) = (cores(&[0, 0]), on(&[0, 1, 0]));
        let kept = keep(&cores, &rxqs, &owners, true);
        assert_eq!((kept.cores, kept.isolated.len()), (on(&[1, 0, 0]), 1));
        assert_eq!(keep(&cores, &rxqs, &owners, false).cores, on(&[1, 1, 0]));
    }

    #[test]
    fn a_queue_comes_back_to_its_node_when_that_has_a_core() {
        let foreign = keep(&cores(&[1, 1]), &[rxq(0, 10)], &on(&[1]), true);
        assert_eq!(foreign.cores, on(&[1]));
        let home = keep(&cores(&[1, 1, 0]), &[rxq(0, 10)], &on(&[1]), true);
        assert_eq!(home.cores, on(&[2]));
        let nowhere = keep(&[], &[rxq(0, 10)], &on(&[1]), true);
        assert!(nowhere.cores == [None] && nowhere.notes.iter().any(|n| n.warning));
    }
}
