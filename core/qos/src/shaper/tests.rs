//! Rates in virtual time, and the shaper against a reference implementation that checks every class for every
//! packet.

use super::class::Class;
use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MBIT: u64 = 125_000;

fn class(min: u64, max: u64) -> ClassSpec {
    ClassSpec { min, max, ..ClassSpec::default() }
}

fn spec(rate: u64, classes: &[(u32, ClassSpec)]) -> ShaperSpec {
    ShaperSpec { rate, mtu: 1500, classes: classes.iter().copied().collect() }
}

/// Sends for some time with queues that are never empty. Returns the bytes per second of each queue after the bursts.
fn rates(spec: ShaperSpec, load: &[(u32, u32)], step: u64, seconds: u64) -> Vec<f64> {
    let mut shaper = Shaper::new(spec, Nanos(0));
    let mut bytes = vec![0u64; load.len()];
    for (i, (queue, len)) in load.iter().enumerate() {
        (0..16).for_each(|_| shaper.push(*queue, *len, i, Nanos(0)).unwrap());
    }
    let mut now = 0;
    while now < (seconds + 1) * SECOND {
        // As many packets as a device accepts in an iteration of a PMD thread.
        for _ in 0..256 {
            let Some(i) = shaper.pop(Nanos(now)) else { break };
            if now >= SECOND {
                bytes[i] += u64::from(load[i].1);
            }
            let (queue, len) = load[i];
            shaper.push(queue, len, i, Nanos(now)).unwrap();
        }
        now += step;
    }
    bytes.iter().map(|bytes| *bytes as f64 / seconds as f64).collect()
}

#[track_caller]
fn near(got: f64, wanted: u64) {
    let error = (got - wanted as f64).abs() / wanted as f64;
    assert!(error <= 0.02, "{got} bytes/s, {wanted} wanted");
}

#[test]
fn a_highest_rate_holds_for_every_size_of_packet() {
    for len in [64, 570, 1514, 9014, 65_535] {
        let spec = spec(1000 * MBIT, &[(1, class(MBIT, 100 * MBIT))]);
        near(rates(spec, &[(1, len)], 7_000, 4)[0], 100 * MBIT);
    }
}

#[test]
fn the_port_has_a_rate_of_its_own() {
    for len in [64, 1514] {
        let spec = spec(100 * MBIT, &[(1, class(MBIT, 100 * MBIT)), (2, class(MBIT, 100 * MBIT))]);
        let rates = rates(spec, &[(1, len), (2, len)], 20_000, 2);
        near(rates[0] + rates[1], 100 * MBIT);
        near(rates[0], 50 * MBIT);
    }
}

#[test]
fn guarantees_hold_and_the_rest_is_shared_by_them() {
    let queues = [(1, class(60 * MBIT, 100 * MBIT)), (2, class(20 * MBIT, 100 * MBIT))];
    let rates = rates(spec(100 * MBIT, &queues), &[(1, 64), (2, 1514)], 20_000, 4);
    near(rates[0], 75 * MBIT);
    near(rates[1], 25 * MBIT);
}

#[test]
fn a_lower_priority_number_takes_what_is_left() {
    let last = ClassSpec { priority: 7, ..class(20 * MBIT, 100 * MBIT) };
    let rates = rates(
        spec(100 * MBIT, &[(1, class(20 * MBIT, 100 * MBIT)), (2, last)]),
        &[(1, 570), (2, 570)],
        20_000,
        4,
    );
    near(rates[0], 80 * MBIT);
    near(rates[1], 20 * MBIT);
}

#[test]
fn a_thousand_queues_get_their_rates() {
    let queues: Vec<_> = (1..=1000).map(|n| (n, class(n.into(), u64::from(n) * 100))).collect();
    let load: Vec<_> = (1..=1000).map(|n| (n, 64 + (n * 37) % 1451)).collect();
    let rates = rates(spec(10_000 * MBIT, &queues), &load, 200_000, 10);
    for ((queue, len), rate) in load.iter().zip(rates) {
        let error = (rate - f64::from(*queue) * 100.0).abs();
        // At the end of the ten seconds, a packet of the slowest queues may be missing or have been sent
        // early.
        assert!(error <= 0.02 * f64::from(*queue) * 100.0 + f64::from(*len) / 10.0, "queue {queue}: {rate}");
    }
}

#[test]
fn a_paced_queue_does_not_wait_for_an_overloaded_one() {
    let queues = [(1, class(100 * MBIT, 1000 * MBIT)), (2, class(MBIT, 1000 * MBIT))];
    let mut shaper = Shaper::new(spec(1000 * MBIT, &queues), Nanos(0));
    let (mut sent_at, mut worst) = (0, 0);
    for now in (0..SECOND / 5).step_by(2000) {
        while shaper.push(2, 1514, 2, Nanos(now)).is_ok() {}
        // 80 Mbit/s.
        if now % 152_000 == 0 {
            sent_at = now;
            shaper.push(1, 1514, 1, Nanos(now)).unwrap();
        }
        while let Some(queue) = shaper.pop(Nanos(now)) {
            if queue == 1 {
                worst = worst.max(now - sent_at);
            }
        }
    }
    assert!(worst <= 100_000, "{worst} ns");
}

#[test]
fn next_tells_when_a_packet_may_leave() {
    let mut shaper = Shaper::new(spec(100 * MBIT, &[(1, class(MBIT, 10 * MBIT))]), Nanos(0));
    let mut now = Nanos(SECOND);
    let mut sent = 0;
    for _ in 0..500 {
        shaper.push(1, 1000, (), now).unwrap();
    }
    while !shaper.is_empty() {
        match shaper.pop(now) {
            Some(()) => sent += 1,
            None => {
                let next = shaper.next().unwrap();
                assert!(next > now, "{next:?} is not after {now:?}");
                now = next;
            }
        }
    }
    assert_eq!((sent, shaper.next()), (500, None));
    // 500 kB less a burst of a millisecond and an MTU, at 1.25 MB/s.
    near((now.0 - SECOND) as f64, (500_000 - 2750) * 800);
}

#[test]
fn a_change_keeps_the_packets_of_queues_that_stay() {
    let classes = [(1, class(MBIT, MBIT)), (2, class(MBIT, MBIT))];
    let mut shaper = Shaper::new(spec(100 * MBIT, &classes), Nanos(0));
    for i in 0..100 {
        shaper.push(i % 2 + 1, 1500, i, Nanos(0)).unwrap();
    }
    let now = Nanos(SECOND);
    let gone = shaper.set(spec(1000 * MBIT, &[(2, class(MBIT, 1000 * MBIT))]), now);
    assert_eq!((gone.len(), shaper.len()), (50, 50));
    let left: Vec<u32> = std::iter::from_fn(|| shaper.pop(Nanos(2 * SECOND))).collect();
    assert!(left.iter().eq((0..100).step_by(2).map(|i| i + 1).collect::<Vec<_>>().iter()), "{left:?}");
    assert_eq!(shaper.counts(1), None);
    assert_eq!(shaper.counts(2).map(|counts| counts.packets), Some(50));
}

#[test]
fn queues_are_bounded_and_the_port_is() {
    let classes: Vec<_> = (0..100).map(|n| (n, class(1, 1))).collect();
    let mut shaper = Shaper::new(spec(1, &classes), Nanos(0));
    let pushed: usize = (0..100u32)
        .map(|n| (0..2000).take_while(|_| shaper.push(n, 100, (), Nanos(0)).is_ok()).count())
        .sum();
    // Queues may hold QUEUE_PACKETS_MAX until the port holds PORT_PACKETS_MAX; each further queue may hold QUEUE_PACKETS_MIN.
    let full = PORT_PACKETS_MAX.div_ceil(QUEUE_PACKETS_MAX);
    let last = PORT_PACKETS_MAX - (full - 1) * QUEUE_PACKETS_MAX;
    assert_eq!(pushed, (full - 1) * QUEUE_PACKETS_MAX + last + (100 - full) * QUEUE_PACKETS_MIN);
    assert_eq!(shaper.len(), pushed);
    assert_eq!(shaper.counts(0).map(|counts| counts.dropped), Some(1));
    assert_eq!(shaper.drain().len(), pushed);
    assert!(shaper.is_empty());
}

#[test]
fn an_unknown_queue_is_queue_0() {
    let mut shaper = Shaper::new(spec(MBIT, &[]), Nanos(0));
    shaper.push(77, 100, (), Nanos(0)).unwrap();
    assert_eq!(shaper.pop(Nanos(0)), Some(()));
    assert_eq!(shaper.counts(0).map(|counts| (counts.packets, counts.bytes)), Some((1, 100)));
}

/// The reference implementation: the same rules by checking every class.
struct Naive {
    port: RateClock,
    classes: BTreeMap<u32, Class<u32>>,
}

impl Naive {
    /// The best rank of all classes that may send now: first classes below their guarantee, then those that use the rest of the port's rate.
    fn best(&self, now: FineTime) -> Option<(bool, usize)> {
        self.classes.values().filter_map(|class| self.rank(class, now)).min()
    }

    fn rank(&self, class: &Class<u32>, now: FineTime) -> Option<(bool, usize)> {
        match class.state_at(now).0 {
            ClassState::Guaranteed => Some((false, class.priority())),
            ClassState::Borrowing if self.port.is_ready(now) => Some((true, class.priority())),
            _ => None,
        }
    }

    /// Sends a packet of the class with this number; returns its rank.
    fn send(&mut self, number: u32, now: FineTime) -> Option<(bool, usize)> {
        let rank = self.rank(&self.classes[&number], now)?;
        let class = self.classes.get_mut(&number)?;
        let (bytes, _) = class.packets.pop_front()?;
        if !rank.0 {
            class.min.charge(bytes, now);
        }
        class.max.charge(bytes, now);
        self.port.charge(bytes, now);
        Some(rank)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_sends_what_the_reference_implementation_sends(
        port in 1..200u64,
        classes in prop::collection::vec((1..50u64, 1..100u64, 0..3u8), 1..12),
        steps in prop::collection::vec((0..12u32, 60..9000u32, 0..200_000u64), 1..400),
    ) {
        let classes: Vec<_> = classes.into_iter().zip(0..).map(|((min, more, priority), n)| {
            (n, ClassSpec { min: min * 10_000, max: (min + more) * 10_000, burst: 0, priority })
        }).collect();
        let spec = spec(port * 20_000, &classes);
        let mut shaper = Shaper::new(spec.clone(), Nanos(0));
        let mut naive = Naive {
            port: RateClock::new(spec.rate, burst(spec.rate, 0, spec.mtu), 0),
            classes: spec.classes.iter().map(|(n, c)| (*n, Class::new(*c, spec.mtu, 0))).collect(),
        };
        let mut now = 0;
        for (i, (queue, len, pause)) in (0..).zip(steps) {
            now += pause;
            let number = if naive.classes.contains_key(&queue) { queue } else { 0 };
            shaper.push(queue, len, number, Nanos(now)).unwrap();
            naive.classes.get_mut(&number).unwrap().packets.push_back((len, number));
            if i % 3 != 0 {
                continue;
            }
            loop {
                let best = naive.best(fine(Nanos(now)));
                let sent = shaper.pop(Nanos(now)).and_then(|number| naive.send(number, fine(Nanos(now))));
                prop_assert_eq!(sent, best);
                if best.is_none() {
                    break;
                }
            }
            let sent = |class: &Class<u32>| class.packets.len();
            let left: usize = naive.classes.values().map(sent).sum();
            prop_assert_eq!(shaper.len(), left);
        }
    }
}
