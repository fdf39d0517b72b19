//! Eviction of megaflows at the limit.

use crate::Event;
use crate::tests::{Bed, Rule, out, tcp};
use flow::Flow;
use flow::compose::compose;
use std::sync::atomic::Ordering;
use units::Millis;

/// A megaflow for each source address.
fn bed() -> Bed {
    let mask = Flow { nw_src: u32::MAX, ..Flow::ZERO };
    let rule: Rule = (Flow::ZERO, mask, vec![]);
    Bed::new(vec![rule, (Flow::ZERO, Flow::ZERO, vec![out(2)])])
}

#[test]
fn a_flood_of_new_flows_finds_room_and_those_in_use_stay() {
    let mut bed = bed();
    bed.datapath.set_flow_limits(100, usize::MAX);
    let packets = |bed: &mut Bed, from: u32, n: u32| {
        (from..from + n).for_each(|i| bed.rx[0].put(&compose(&tcp(i + 1, 80), b"")));
        bed.run();
        bed.now += 10;
    };
    let mut sent = 0;
    let mut missed_at_first = 0;
    for round in 0..60 {
        let before = bed.datapath.tally().get(Event::Missed);
        packets(&mut bed, 0, 20);
        if round == 0 {
            missed_at_first = bed.datapath.tally().get(Event::Missed) - before;
        }
        packets(&mut bed, 1000 + round * 50, 50);
        sent += 70;
        bed.datapath.maintain(Millis(bed.now));
        assert!(bed.datapath.flow_count() <= 100);
    }
    assert_eq!(missed_at_first, 20);
    let again = bed.datapath.tally().get(Event::Missed) - 20 - 60 * 50;
    assert!(again < 60 * 20 / 20, "{again} packets of those in use missed again");
    assert_eq!((bed.datapath.flow_count(), bed.balance()), (100, 0));
    bed.datapath.flow_flush(Millis(bed.now));
    bed.datapath.maintain(Millis(bed.now));
    assert_eq!(bed.control.credited.0.load(Ordering::Relaxed), sent);
}
