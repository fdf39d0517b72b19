//! Who polls what after a change of configuration, where queues are balanced by forecast: everything stays but what cannot.
//!
//! A queue moves if its core polls no more, or polls pinned queues only, or is of another node though the queue's own has
//! a core again. Such a queue, and one that is new, goes to the core that has least to do. What is uneven afterwards is the
//! balance's to mend, which knows what a move is worth.

use super::{Algorithm, Assignment, Note, Placed, Room, Rxq, nobody, pin_all};
use crate::cores::Core;
use std::cmp::Reverse;
use units::CoreId;

/// Messages name cycles, as those of the algorithms that measure do.
const MEASURED: Algorithm = Algorithm::Group;

/// Like [`super::assign`]. `owners`: who has each queue; `None`: it is new, or its core's thread has gone.
pub fn keep(cores: &[Core], rxqs: &[Rxq], owners: &[Option<CoreId>], isolate: bool) -> Assignment {
    let mut room = Room::new(cores);
    let mut out = Assignment { cores: vec![None; rxqs.len()], ..Assignment::default() };
    let mut homeless = Vec::new();
    for i in pin_all(&mut room, rxqs, MEASURED, isolate, &mut out) {
        match owners[i] {
            Some(core) if room.stays(&rxqs[i], core) => out.cores[i] = Some(core),
            _ => homeless.push(i),
        }
    }
    let usual = usual(rxqs);
    homeless.sort_by_key(|i| (Reverse(rxqs[*i].cycles), rxqs[*i].no, rxqs[*i].queue));
    if !homeless.is_empty() {
        let stay = rxqs.len() - homeless.len();
        let text = format!(
            "Performing pmd to rx queue assignment: {stay} rx queues stay, {} are placed.",
            homeless.len()
        );
        out.notes.push(Note { warning: false, text });
    }
    for i in homeless {
        out.cores[i] = place(&mut room, &rxqs[i], usual, &mut out);
    }
    room.settle(&mut out);
    out
}

/// What a queue is taken to want of which nothing is known: as much as the others on average. So new queues do not all
/// go to the same core.
fn usual(rxqs: &[Rxq]) -> u64 {
    let known: Vec<u64> = rxqs.iter().map(|q| q.cycles).filter(|c| *c != 0).collect();
    (known.iter().sum::<u64>() / known.len().max(1) as u64).max(1)
}

fn place(room: &mut Room, rxq: &Rxq, usual: u64, out: &mut Assignment) -> Option<CoreId> {
    let placed = Placed { rxq, algorithm: MEASURED };
    let free = room.node_for(rxq.numa).map(|node| node.seats.iter_mut().filter(|s| !s.isolated));
    let Some(seat) = free.and_then(|seats| seats.min_by_key(|s| (s.load, s.queues))) else {
        out.notes.push(nobody(&placed));
        return None;
    };
    seat.load += if rxq.cycles == 0 { usual } else { rxq.cycles };
    seat.queues += 1;
    let core = seat.core;
    out.note_place(&placed, core);
    Some(core.id)
}

impl Room {
    /// Whether this core keeps the queue that it has.
    fn stays(&mut self, rxq: &Rxq, core: CoreId) -> bool {
        let local = self.nodes.iter().any(|n| n.numa == rxq.numa && n.has_room());
        let Some(seat) = self.seat_of(core).filter(|s| !s.isolated && (!local || s.core.numa == rxq.numa))
        else {
            return false;
        };
        seat.load += rxq.cycles;
        seat.queues += 1;
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
    fn what_can_stay_stays_however_uneven() {
        let rxqs: Vec<Rxq> = (0..4).map(|i| rxq(i, 100)).collect();
        let kept = keep(&cores(&[0, 0]), &rxqs, &on(&[0, 0, 0, 1]), true);
        assert_eq!(kept.cores, on(&[0, 0, 0, 1]));
        assert!(kept.notes.is_empty());
        assert_eq!(kept.load[&CoreId(0)], 300);
    }

    #[test]
    fn new_queues_go_where_least_is_done_and_not_all_to_one_core() {
        let mut rxqs: Vec<Rxq> = [900, 100, 100].iter().zip(0..).map(|(c, i)| rxq(i, *c)).collect();
        rxqs.extend((3..7).map(|i| rxq(i, 0)));
        let owners: Vec<_> = on(&[0, 1, 2]).into_iter().chain([None; 4]).collect();
        let kept = keep(&cores(&[0, 0, 0]), &rxqs, &owners, true);
        assert_eq!(kept.cores, on(&[0, 1, 2, 1, 2, 1, 2]));
        assert!(kept.notes[0].text.ends_with("3 rx queues stay, 4 are placed."), "{:?}", kept.notes);
    }

    #[test]
    fn a_core_that_goes_gives_its_queues_and_no_others_move() {
        let rxqs: Vec<Rxq> = [50, 10, 20, 30].iter().zip(0..).map(|(c, i)| rxq(i, *c)).collect();
        let kept = keep(&cores(&[0, 0]), &rxqs, &on(&[0, 1, 7, 7]), true);
        assert_eq!(kept.cores, on(&[0, 1, 1, 1]));
    }

    #[test]
    fn pinned_queues_go_home_and_others_leave_an_isolated_core() {
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
