//! Plans for few cores, where the best plan is obvious.

use super::*;

const LIMITS: Limits = Limits {
    load_threshold: 0.97,
    relieved_at: 1.02,
    max_moves: 6,
    min_gain: 0.005,
    min_gain_below_limit: 0.02,
    swap_factor: 2.0,
};

fn core(id: u32, numa: u32) -> PollingCore {
    PollingCore { core: Core { id: CoreId(id), numa: NumaId(numa) }, sibling: None, isolated: false }
}

fn queue(owner: u32, load: f64) -> Queue {
    Queue { owner: CoreId(owner), pinned: false, load, deviation: 0.0 }
}

/// Cores with a higher load are relieved.
const HOT: f64 = 0.82;

fn plan(cores: &[PollingCore], queues: &[Queue], limits: &Limits) -> Plan {
    super::plan(cores, queues, limits, |s| s.load > HOT)
}

fn moves(plan: &Plan) -> Vec<(usize, u32, u32)> {
    plan.moves.iter().map(|m| (m.queue, m.from.0, m.to.0)).collect()
}

#[test]
fn one_move_separates_two_busy_queues() {
    let cores = [core(0, 0), core(1, 0)];
    let queues = [queue(0, 0.5), queue(0, 0.5), queue(1, 0.0), queue(1, 0.0)];
    let plan = plan(&cores, &queues, &LIMITS);
    assert_eq!(moves(&plan), [(0, 0, 1)]);
    let node = plan.nodes[0];
    assert_eq!((node.before, node.after, node.even_load, node.moves), (1.0, 0.5, 0.5, 1));
}

#[test]
fn queues_of_cores_below_the_limit_stay() {
    let cores = [core(0, 0), core(1, 0)];
    let queues = [queue(0, 0.4), queue(0, 0.4), queue(1, 0.0)];
    assert!(plan(&cores, &queues, &LIMITS).moves.is_empty());
    // The same load is relieved with a lower limit.
    assert_eq!(super::plan(&cores, &queues, &LIMITS, |s| s.load > 0.7).moves.len(), 1);
}

#[test]
fn two_queues_are_swapped_if_no_move_helps() {
    let cores = [core(0, 0), core(1, 0)];
    let queues = [queue(0, 0.5), queue(0, 0.4), queue(1, 0.4), queue(1, 0.3)];
    let plan = plan(&cores, &queues, &LIMITS);
    assert_eq!(moves(&plan).len(), 2);
    assert!((plan.nodes[0].after - 0.8).abs() < 1e-9, "{plan:?}");
}

#[test]
fn an_unsplittable_queue_stays_and_other_queues_leave_its_core() {
    let cores = [core(0, 0), core(1, 0), core(2, 0)];
    let queues = [queue(0, 1.2), queue(1, 0.4), queue(1, 0.4), queue(2, 0.1)];
    assert_eq!(moves(&plan(&cores, &queues, &LIMITS)), []);
    // The other queues leave the core of the first one, however small they are.
    let queues = [queue(0, 1.2), queue(0, 0.1), queue(1, 0.4), queue(1, 0.4), queue(2, 0.1)];
    let plan = plan(&cores, &queues, &LIMITS);
    assert_eq!(moves(&plan), [(1, 0, 2)]);
    assert_eq!(plan.nodes[0].after, 1.2);
}

#[test]
fn nodes_isolated_cores_and_pinned_queues_are_respected() {
    let both = [queue(0, 0.5), queue(0, 0.5)];
    let isolated = PollingCore { isolated: true, ..core(1, 0) };
    for cores in [[core(0, 0), core(1, 1)], [core(0, 0), isolated]] {
        assert!(plan(&cores, &both, &LIMITS).moves.is_empty(), "{cores:?}");
    }
    let cores = [core(0, 0), core(1, 0)];
    let pinned = [Queue { pinned: true, ..both[0] }, both[1]];
    assert_eq!(moves(&plan(&cores, &pinned, &LIMITS)), [(1, 0, 1)]);
}

#[test]
fn an_idle_physical_core_is_better_than_a_sibling() {
    let pair = |id, sibling| PollingCore { sibling: Some(CoreId(sibling)), ..core(id, 0) };
    let cores = [pair(0, 1), pair(1, 0), pair(2, 3), pair(3, 2)];
    let queues = [queue(0, 0.5), queue(0, 0.45), queue(1, 0.0)];
    let plan = plan(&cores, &queues, &LIMITS);
    assert_eq!(moves(&plan).len(), 1);
    assert!(plan.moves[0].to.0 >= 2, "{plan:?}");
}

#[test]
fn the_number_of_moves_is_limited() {
    let cores: Vec<PollingCore> = (0..8).map(|i| core(i, 0)).collect();
    let queues: Vec<Queue> = (0..64).map(|_| queue(0, 0.09)).collect();
    let plan = plan(&cores, &queues, &LIMITS);
    assert_eq!(plan.moves.len(), LIMITS.max_moves);
    assert!(plan.nodes[0].after < plan.nodes[0].before);
}

#[test]
fn the_combined_deviation_of_queues_is_less_than_the_sum() {
    let deviating = |n: usize| vec![Queue { deviation: 0.2, ..queue(0, 0.8 / n as f64) }; n];
    let load = |n: usize| {
        let mut seen = 0.0;
        super::plan(&[core(0, 0)], &deviating(n), &LIMITS, |s| {
            seen = s.load;
            false
        });
        seen
    };
    assert!((load(1) - 0.85).abs() < 1e-9 && (load(4) - 0.9).abs() < 1e-9, "{} {}", load(1), load(4));
}
