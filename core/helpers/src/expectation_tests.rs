//! Expectations, their bounds, and the choice of the evicted expectation against a naive model.

use crate::*;
use proptest::prelude::*;

fn endpoints(src: u64, dst: u64, src_port: u16, dst_port: u16) -> Endpoints {
    Endpoints { proto: 6, src: [0, src], dst: [0, dst], src_port, dst_port, ..Endpoints::default() }
}

fn parent(n: u16) -> Parent<()> {
    Parent { endpoints: endpoints(1, 2, n, 21), mark: n.into(), ..Parent::default() }
}

#[test]
fn an_expected_connection_is_found_by_all_but_its_source_port() {
    let all = Expectations::default();
    assert!(all.is_empty() && all.find(&endpoints(2, 1, 20, 5000)).is_none());
    all.add(endpoints(2, 1, 0, 5000), parent(7));
    assert_eq!(all.find(&endpoints(2, 1, 20, 5000)), Some(parent(7)));
    for other in [
        endpoints(2, 1, 20, 5001),
        endpoints(1, 2, 20, 5000),
        Endpoints { zone: 1, ..endpoints(2, 1, 20, 5000) },
        Endpoints { proto: 17, ..endpoints(2, 1, 20, 5000) },
    ] {
        assert_eq!(all.find(&other), None, "{other:?}");
    }
    // The first connection that announces it is its parent.
    all.add(endpoints(2, 1, 0, 5000), parent(8));
    assert_eq!(
        (all.find(&endpoints(2, 1, 1, 5000)), all.len(), all.dump(Some(1)).len()),
        (Some(parent(7)), 1, 0)
    );
    all.forget(&parent(8).endpoints);
    all.forget(&parent(7).endpoints);
    assert!(all.is_unused() && all.dump(None).is_empty());
}

#[test]
fn a_control_connection_replaces_its_oldest_expectation() {
    let all = Expectations::default();
    let n = PER_PARENT_MAX as u16;
    (1..=n + 5).for_each(|port| all.add(endpoints(2, 1, 0, port), parent(7)));
    assert_eq!(
        (all.len(), all.find(&endpoints(2, 1, 0, 5)), all.find(&endpoints(2, 1, 0, 6))),
        (PER_PARENT_MAX, None, Some(parent(7)))
    );
    all.forget(&parent(7).endpoints);
    assert!(all.is_unused());
}

fn in_zone(zone: u16, n: u64, port: u16) -> (Endpoints, Parent<()>) {
    let parent = Parent { endpoints: Endpoints { zone, ..endpoints(n, 2, 1, 21) }, ..Parent::default() };
    (Endpoints { zone, ..endpoints(n, 1, 0, port) }, parent)
}

/// A flood of announcements in one zone, as spoofed TFTP requests cause it.
#[test]
fn a_flood_in_one_zone_leaves_the_expectations_of_other_zones() {
    const LIMIT: usize = 2000;
    let all = Expectations::with_limit(LIMIT);
    let flood = |range: std::ops::Range<u64>| {
        range.for_each(|n| {
            let (endpoints, parent) = in_zone(1, n, 69);
            all.add(endpoints, parent);
        });
    };
    let max = LIMIT as u64;
    flood(0..max);
    assert_eq!(all.len(), LIMIT);
    for zone in [2, 3] {
        let (endpoints, parent) = in_zone(zone, 1, 80);
        all.add(endpoints, parent);
        assert_eq!((all.find(&endpoints), all.len()), (Some(parent), LIMIT));
    }
    // The oldest expectations of the flood were evicted.
    let is_expected = |n| all.find(&in_zone(1, n, 69).0).is_some();
    assert_eq!([0, 1, 2, max - 1].map(is_expected), [false, false, true, true]);
    flood(max..2 * max);
    assert!([2, 3].into_iter().all(|zone| all.find(&in_zone(zone, 1, 80).0).is_some()));
    (0..2 * max).for_each(|n| all.forget(&in_zone(1, n, 69).1.endpoints));
    assert_eq!(all.len(), 2);
}

/// The zones of the model are below this number.
const ZONES: u16 = 6;

/// The expectations in the order in which they were added.
#[derive(Default)]
struct Model(Vec<(Endpoints, Parent<()>)>);

impl Model {
    fn add(&mut self, endpoints: Endpoints, parent: Parent<()>, limit: usize) {
        if self.0.iter().any(|(e, _)| *e == endpoints) {
            return;
        }
        let is_sibling = |(_, p): &(Endpoints, Parent<()>)| p.endpoints == parent.endpoints;
        if self.0.iter().filter(|e| is_sibling(e)).count() == PER_PARENT_MAX {
            let oldest = self.0.iter().position(is_sibling).expect("the oldest of the control connection");
            self.0.remove(oldest);
        } else if self.0.len() == limit {
            let mut counts = [0; ZONES as usize];
            self.0.iter().for_each(|(e, _)| counts[usize::from(e.zone)] += 1);
            let largest = (0..ZONES).max_by_key(|zone| (counts[usize::from(*zone)], *zone)).expect("a zone");
            let oldest = self.0.iter().position(|(e, _)| e.zone == largest).expect("the oldest of the zone");
            self.0.remove(oldest);
        }
        self.0.push((endpoints, parent));
    }

    fn sorted(&self) -> Vec<Expectation<()>> {
        let all = self.0.iter().map(|&(endpoints, parent)| Expectation { endpoints, parent });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|e| e.endpoints);
        all
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Zone and number of the control connection, port.
    Add(u16, u64, u16),
    Forget(u16, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Three of four announcements are in zone 1. Few control connections, so that some reach their own limit.
    let zone = prop_oneof![3 => Just(1u16), 1 => 2..ZONES];
    let add = (zone, 0u64..4, any::<u16>()).prop_map(|(zone, n, port)| Step::Add(zone, n, port));
    let forget = (1..ZONES, 0u64..4).prop_map(|(zone, n)| Step::Forget(zone, n));
    prop::collection::vec(prop_oneof![40 => add, 1 => forget], 0..600)
}

proptest! {
    #[test]
    fn the_evicted_expectation_is_that_of_the_model(steps in steps(), limit in 1usize..200) {
        let (all, mut model) = (Expectations::with_limit(limit), Model::default());
        for step in steps {
            match step {
                Step::Add(zone, n, port) => {
                    let (endpoints, parent) = in_zone(zone, n, port);
                    all.add(endpoints, parent);
                    model.add(endpoints, parent, limit);
                }
                Step::Forget(zone, n) => {
                    let (_, parent) = in_zone(zone, n, 0);
                    all.forget(&parent.endpoints);
                    model.0.retain(|(_, p)| p.endpoints != parent.endpoints);
                }
            }
            prop_assert_eq!((all.dump(None), all.len()), (model.sorted(), model.0.len()));
        }
        model.0.iter().for_each(|(_, parent)| all.forget(&parent.endpoints));
        prop_assert!(all.is_unused());
    }
}
