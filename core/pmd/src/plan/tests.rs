//! Plans for few cores, where the best is known.

use super::*;

const LIMITS: Limits = Limits { hot: 0.82, near: 1.02, enough: 1.02, moves: 6, gain: 0.005, early: 0.02 };

fn seat(id: u32, numa: u32) -> Seat {
    Seat { core: Core { id: CoreId(id), numa: NumaId(numa) }, sibling: None, isolated: false }
}

fn queue(owner: u32, load: f64) -> Queue {
    Queue { owner: CoreId(owner), pinned: false, load }
}

fn moves(plan: &Plan) -> Vec<(usize, u32, u32)> {
    plan.moves.iter().map(|m| (m.queue, m.from.0, m.to.0)).collect()
}

#[test]
fn one_move_parts_two_busy_queues() {
    let seats = [seat(0, 0), seat(1, 0)];
    let queues = [queue(0, 0.5), queue(0, 0.5), queue(1, 0.0), queue(1, 0.0)];
    let plan = plan(&seats, &queues, &LIMITS);
    assert_eq!(moves(&plan), [(0, 0, 1)]);
    let node = plan.nodes[0];
    assert_eq!((node.before, node.after, node.bound, node.moves), (1.0, 0.5, 0.5, 1));
}

#[test]
fn what_is_not_hot_stays() {
    let seats = [seat(0, 0), seat(1, 0)];
    let queues = [queue(0, 0.4), queue(0, 0.4), queue(1, 0.0)];
    assert!(plan(&seats, &queues, &LIMITS).moves.is_empty());
    // The same for one that would act earlier.
    assert_eq!(plan(&seats, &queues, &Limits { hot: 0.7, ..LIMITS }).moves.len(), 1);
}

#[test]
fn two_queues_change_places_where_no_move_helps() {
    let seats = [seat(0, 0), seat(1, 0)];
    let queues = [queue(0, 0.5), queue(0, 0.4), queue(1, 0.4), queue(1, 0.3)];
    let plan = plan(&seats, &queues, &LIMITS);
    assert_eq!(moves(&plan).len(), 2);
    assert!((plan.nodes[0].after - 0.8).abs() < 1e-9, "{plan:?}");
}

#[test]
fn an_elephant_is_left_alone_and_others_are_not() {
    let seats = [seat(0, 0), seat(1, 0), seat(2, 0)];
    let queues = [queue(0, 1.2), queue(1, 0.4), queue(1, 0.4), queue(2, 0.1)];
    assert_eq!(moves(&plan(&seats, &queues, &LIMITS)), []);
    // What shares its core goes, however little it is.
    let queues = [queue(0, 1.2), queue(0, 0.1), queue(1, 0.4), queue(1, 0.4), queue(2, 0.1)];
    let plan = plan(&seats, &queues, &LIMITS);
    assert_eq!(moves(&plan), [(1, 0, 2)]);
    assert_eq!(plan.nodes[0].after, 1.2);
}

#[test]
fn nodes_isolated_cores_and_pinned_queues_are_respected() {
    let both = [queue(0, 0.5), queue(0, 0.5)];
    let isolated = Seat { isolated: true, ..seat(1, 0) };
    for seats in [[seat(0, 0), seat(1, 1)], [seat(0, 0), isolated]] {
        assert!(plan(&seats, &both, &LIMITS).moves.is_empty(), "{seats:?}");
    }
    let seats = [seat(0, 0), seat(1, 0)];
    let pinned = [Queue { pinned: true, ..both[0] }, both[1]];
    assert_eq!(moves(&plan(&seats, &pinned, &LIMITS)), [(1, 0, 1)]);
}

#[test]
fn a_free_processor_core_is_better_than_a_sibling() {
    let pair = |id, sibling| Seat { sibling: Some(CoreId(sibling)), ..seat(id, 0) };
    let seats = [pair(0, 1), pair(1, 0), pair(2, 3), pair(3, 2)];
    let queues = [queue(0, 0.5), queue(0, 0.45), queue(1, 0.0)];
    let plan = plan(&seats, &queues, &LIMITS);
    assert_eq!(moves(&plan).len(), 1);
    assert!(plan.moves[0].to.0 >= 2, "{plan:?}");
}

#[test]
fn a_budget_is_kept() {
    let seats: Vec<Seat> = (0..8).map(|i| seat(i, 0)).collect();
    let queues: Vec<Queue> = (0..64).map(|_| queue(0, 0.09)).collect();
    let plan = plan(&seats, &queues, &LIMITS);
    assert_eq!(plan.moves.len(), LIMITS.moves);
    assert!(plan.nodes[0].after < plan.nodes[0].before);
}
