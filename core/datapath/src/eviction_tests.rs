//! Eviction of megaflows at the limit.

use crate::tests::{Rule, Setup, out, tcp};
use crate::{Event, PutError};
use dpif::NoOwner;
use flow::Flow;
use flow::compose::compose;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::Millis;

/// A megaflow for each source address.
fn setup() -> Setup {
    let mask = Flow { nw_src: u32::MAX, ..Flow::ZERO };
    let rule: Rule = (Flow::ZERO, mask, vec![]);
    Setup::new(vec![rule, (Flow::ZERO, Flow::ZERO, vec![out(2)])])
}

#[test]
fn a_flood_of_new_flows_finds_room_and_those_in_use_stay() {
    let mut setup = setup();
    setup.datapath.set_flow_limits(100, usize::MAX);
    let packets = |setup: &mut Setup, from: u32, n: u32| {
        (from..from + n).for_each(|i| setup.rx[0].put(&compose(&tcp(i + 1, 80), b"")));
        setup.run();
        setup.now += 10;
    };
    let mut sent = 0;
    let mut missed_at_first = 0;
    for round in 0..60 {
        let before = setup.datapath.tally().get(Event::Missed);
        packets(&mut setup, 0, 20);
        if round == 0 {
            missed_at_first = setup.datapath.tally().get(Event::Missed) - before;
        }
        packets(&mut setup, 1000 + round * 50, 50);
        sent += 70;
        setup.datapath.maintain(Millis(setup.now));
        assert!(setup.datapath.flow_count() <= 100);
    }
    assert_eq!(missed_at_first, 20);
    let again = setup.datapath.tally().get(Event::Missed) - 20 - 60 * 50;
    assert!(again < 60 * 20 / 20, "{again} packets of those in use missed again");
    assert_eq!((setup.datapath.flow_count(), setup.balance()), (100, 0));
    setup.datapath.flow_flush(Millis(setup.now));
    setup.datapath.maintain(Millis(setup.now));
    assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), sent);
}

/// As in Open vSwitch, the limit of the number of megaflows applies to megaflows of packets, not to flows that a command adds.
#[test]
fn commands_add_flows_beyond_the_limit_of_their_number() {
    let mut setup = setup();
    setup.datapath.set_flow_limits(0, usize::MAX);
    setup.send(1, &compose(&tcp(1, 80), b""));
    assert_eq!(setup.datapath.flow_count(), 0);
    let put = |setup: &Setup, nw_src| {
        let (key, mask) = (Flow { nw_src, ..tcp(1, 80) }, Flow { nw_src: u32::MAX, ..Flow::ZERO });
        setup.datapath.flow_put(&key, &mask, vec![out(3)].into(), Arc::new(NoOwner))
    };
    assert!((1..=50).all(|nw_src| put(&setup, nw_src).is_ok()));
    assert_eq!(setup.datapath.flow_count(), 50);
    setup.datapath.set_flow_limits(usize::MAX, 1);
    assert!(matches!(put(&setup, 51), Err(PutError::LimitReached)), "the limit of memory holds for all");
}
