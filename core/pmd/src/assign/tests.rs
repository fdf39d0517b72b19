//! The examples of Open vSwitch's `pmd.at`, and the statements of its documentation.

use super::*;
use crate::cores::{Topology, wanted};

fn cores(numa: &str, mask: &str) -> Vec<Core> {
    wanted(&Topology::parse(numa).unwrap(), Some(mask)).cores
}

fn rxqs(numa: u32, cycles: &[u64]) -> Vec<Rxq> {
    let rxq = |(i, cycles): (usize, &u64)| Rxq {
        port: "p0".to_owned(),
        no: PortNo(1),
        queue: QueueId(i as u16),
        numa: NumaId(numa),
        cycles: *cycles,
        pinned: None,
    };
    cycles.iter().enumerate().map(rxq).collect()
}

/// The queues of each core.
fn queues(assignment: &Assignment, core: u32) -> Vec<usize> {
    let of = |(i, c): (usize, &Option<CoreId>)| (*c == Some(CoreId(core))).then_some(i);
    assignment.cores.iter().enumerate().filter_map(of).collect()
}

fn said(assignment: &Assignment, text: &str) -> bool {
    assignment.notes.iter().any(|n| n.text.contains(text))
}

#[test]
fn eight_idle_queues_on_two_cores() {
    let (cores, rxqs) = (cores("0,0,0,0", "0x3"), rxqs(0, &[0; 8]));
    let pair = |algorithm| {
        let a = assign(&cores, &rxqs, algorithm, true);
        assert!(said(&a, &format!("assignment using {} algorithm.", algorithm.name())));
        (queues(&a, 0), queues(&a, 1))
    };
    assert_eq!(pair(Algorithm::RoundRobin), (vec![0, 2, 4, 6], vec![1, 3, 5, 7]));
    assert_eq!(pair(Algorithm::Cycles), (vec![0, 3, 4, 7], vec![1, 2, 5, 6]));
    assert_eq!(pair(Algorithm::Group), (vec![0, 2, 4, 6], vec![1, 3, 5, 7]));
}

#[test]
fn queues_of_a_node_without_cores_are_polled_from_another() {
    let (cores, rxqs) = (cores("1,1,0,0", "0xc"), rxqs(1, &[0; 8]));
    let a = assign(&cores, &rxqs, Algorithm::Cycles, true);
    assert_eq!((queues(&a, 2), queues(&a, 3)), (vec![0, 3, 4, 7], vec![1, 2, 5, 6]));
    assert!(a.cross_numa);
    assert!(said(
        &a,
        "There's no available (non-isolated) pmd thread on numa node 1. Port 'p0' rx queue 7 will be assigned to a \
         pmd on numa node 0. This may lead to reduced performance."
    ));
}

#[test]
fn all_foreign_nodes_get_their_share() {
    let (cores, rxqs) = (cores("1,2,1,2", "0xf"), rxqs(0, &[0; 4]));
    for algorithm in [Algorithm::RoundRobin, Algorithm::Cycles, Algorithm::Group] {
        let a = assign(&cores, &rxqs, algorithm, true);
        assert!((0..4).all(|core| queues(&a, core).len() == 1), "{algorithm:?}: {a:?}");
    }
}

#[test]
fn only_the_local_node_is_used_where_it_has_a_core() {
    let a = assign(&cores("1,1,0,0", "0x6"), &rxqs(1, &[0; 8]), Algorithm::Group, true);
    assert_eq!((queues(&a, 1).len(), queues(&a, 2).len()), (8, 0));
    assert!(!a.cross_numa);
}

#[test]
fn pinned_queues_isolate_their_core() {
    let cores = cores("0,0,0,0", "0xf");
    let mut rxqs = rxqs(0, &[0; 8]);
    rxqs[0].pinned = Some(CoreId(0));
    rxqs[1].pinned = Some(CoreId(1));
    let a = assign(&cores, &rxqs, Algorithm::RoundRobin, true);
    assert_eq!((queues(&a, 0), queues(&a, 1)), (vec![0], vec![1]));
    assert_eq!((queues(&a, 2), queues(&a, 3)), (vec![2, 4, 6], vec![3, 5, 7]));
    assert_eq!(a.isolated, BTreeSet::from([CoreId(0), CoreId(1)]));
    assert!(said(&a, "Core  1 on numa node 0 is pinned with port 'p0' rx queue 1"));
    let a = assign(&cores, &rxqs, Algorithm::Group, false);
    assert!(a.isolated.is_empty());
    assert_eq!((0..4).map(|c| queues(&a, c).len()).collect::<Vec<_>>(), [2; 4]);
}

#[test]
fn a_queue_pinned_to_a_core_without_poll_thread_gets_another_core() {
    let mut rxqs = rxqs(0, &[0]);
    rxqs[0].pinned = Some(CoreId(3));
    let a = assign(&cores("0,0,0,0", "0x1"), &rxqs, Algorithm::Cycles, true);
    assert_eq!(queues(&a, 0), [0]);
    assert!(a.notes[0].warning);
    assert!(said(
        &a,
        "Core  3 cannot be pinned with port 'p0' rx queue 0. Use pmd-cpu-mask to enable a pmd on core 3."
    ));
}

#[test]
fn unpinned_queues_are_not_polled_if_all_cores_are_isolated() {
    let mut rxqs = rxqs(0, &[0, 7]);
    rxqs[0].pinned = Some(CoreId(0));
    let a = assign(&cores("0", "0x1"), &rxqs, Algorithm::Cycles, true);
    assert_eq!(a.cores, [Some(CoreId(0)), None]);
    assert!(said(
        &a,
        "No non-isolated pmd on any numa available for port 'p0' rx queue 1 (measured processing cycles 7). This rx \
         queue will not be polled."
    ));
}

#[test]
fn busy_queues_are_spread() {
    let cores = cores("0,0", "0x3");
    // The busiest queue is alone on a core if the other queues together are as busy.
    let a = assign(&cores, &rxqs(0, &[10, 60, 30, 20]), Algorithm::Group, true);
    assert_eq!((queues(&a, 0), queues(&a, 1)), (vec![1], vec![0, 2, 3]));
    assert_eq!(a.load, BTreeMap::from([(CoreId(0), 60), (CoreId(1), 60)]));
    let a = assign(&cores, &rxqs(0, &[10, 60, 30, 20]), Algorithm::Cycles, true);
    assert_eq!((queues(&a, 0), queues(&a, 1)), (vec![0, 1], vec![2, 3]));
    assert!(said(
        &a,
        "Core  0 on numa node 0 assigned port 'p0' rx queue 1 (measured processing cycles 60)."
    ));
}

#[test]
fn without_cores_nothing_is_polled() {
    let a = assign(&[], &rxqs(0, &[1]), Algorithm::Cycles, true);
    assert_eq!(a.cores, [None]);
}
