//! Parked misses compared with a reference implementation that translates inline: the same packets in the same order
//! per flow, whatever the order of the answers; balanced packet accounting, whatever is removed meanwhile.

use crate::park::Limits;
use crate::tests::{Control, Rule, Setup, Wire, all, out, tcp};
use crate::upcalls::Request;
use crate::{Event, UpcallServer};
use dpif::*;
use flow::Flow;
use flow::compose::compose;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::{Cycles, Millis, PortNo, QueueId};

thread_local!(static CYCLES: Cell<u64> = const { Cell::new(0) });

/// A counter that advances only when a test advances it.
fn counter() -> Cycles {
    Cycles(CYCLES.get())
}

fn take_time(cycles: u64) {
    CYCLES.set(CYCLES.get() + cycles);
}

fn parking(rules: Vec<Rule>, limits: Limits) -> (Setup, UpcallServer) {
    let mut setup = Setup::new(rules);
    setup.worker.park_misses(limits, Arc::new(|| {}), counter);
    let server = setup.datapath.upcall_server();
    (setup, server)
}

fn parked(setup: &Setup) -> u64 {
    setup.datapath.tally().parked()
}

#[test]
fn one_upcall_and_the_packets_behind_it_wait() {
    let (mut setup, mut server) = parking(vec![all(vec![out(2)])], Limits::default());
    let bytes = compose(&tcp(1, 80), b"hello");
    for _ in 0..3 {
        setup.send(1, &bytes);
    }
    assert_eq!((setup.tx[1].take().len(), parked(&setup), setup.datapath.upcalls_waiting()), (0, 3, 1));
    assert_eq!(setup.balance(), 0);
    assert_eq!((server.serve(), server.serve()), (1, 0));
    setup.run();
    assert_eq!((setup.tx[1].take(), parked(&setup)), (vec![bytes; 3], 0));
    let tally = setup.datapath.tally();
    assert_eq!((tally.get(Event::Missed), tally.get(Event::FrontHit)), (1, 2));
    setup.datapath.maintain(Millis(2000));
    assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 3);
    assert_eq!(setup.datapath.flow_dump(Millis(2000))[0].stats.packets, 2);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn one_wide_megaflow_answers_all_upcalls() {
    let (mut setup, mut server) = parking(vec![all(vec![out(2)])], Limits::default());
    (0..20).for_each(|src| setup.rx[0].put(&compose(&tcp(src, 80), b"")));
    setup.run();
    while server.serve() != 0 {}
    setup.run();
    let tally = setup.datapath.tally();
    assert_eq!((setup.tx[1].take().len(), tally.get(Event::Missed), setup.datapath.flow_count()), (20, 1, 1));
}

#[test]
fn without_servers_a_worker_helps_itself() {
    let (mut setup, server) = parking(vec![all(vec![out(2)])], Limits::default());
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    assert_eq!(setup.tx[1].take().len(), 0);
    drop(server);
    setup.run();
    setup.send(1, &bytes);
    assert_eq!((setup.tx[1].take().len(), setup.balance(), parked(&setup)), (2, 0, 0));
}

#[test]
fn settled_queues_leave_nothing_and_late_answers_find_nothing() {
    let (mut setup, mut server) = parking(vec![all(vec![out(2)])], Limits::default());
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    setup.worker.translate_parked(PortNo(1), Millis(setup.now));
    assert_eq!((setup.tx[1].take().len(), parked(&setup)), (1, 0));
    while server.serve() != 0 {}
    setup.run();
    assert_eq!((setup.tx[1].take().len(), setup.balance(), setup.datapath.flow_count()), (0, 0, 1));
    setup.datapath.flow_flush(Millis(setup.now));
    setup.send(1, &bytes);
    assert!(setup.worker.remove_rxq(PortNo(1), QueueId(0)).is_some());
    assert_eq!(setup.datapath.drops(), [(DropReason::PortRemoved, 1)]);
    setup.rx[1].put(&bytes);
    setup.run();
    let datapath = Arc::clone(&setup.datapath);
    drop(setup);
    assert_eq!((datapath.drops(), datapath.tally().balance()), (vec![(DropReason::PortRemoved, 2)], 0));
}

/// A control half whose translations take long, and which installs no megaflow for odd sources.
struct Slow(Arc<Control>, AtomicUsize);

impl UpcallHandler for Slow {
    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        take_time(1_000_000);
        self.1.fetch_add(1, Ordering::Relaxed);
        let install = upcall.flow.nw_src & 1 == 0;
        Translation { install, ..self.0.miss(upcall) }
    }

    fn userspace(&self, packet: &[u8], flow: &Flow, userspace: &Userspace) {
        self.0.userspace(packet, flow, userspace);
    }

    fn is_current(&self, version: u64) -> bool {
        self.0.is_current(version)
    }
}

#[test]
fn a_storm_leaves_established_traffic_and_other_ports_alone() {
    let by_src = Flow { nw_src: u32::MAX, ..Flow::ZERO };
    let (mut setup, mut server) = parking(vec![all(vec![out(4)])], Limits::default());
    let rule = (Flow { nw_src: 2, ..Flow::ZERO }, by_src, vec![out(3)]);
    setup.control.rules.lock().unwrap().insert(0, rule);
    let slow = Arc::new(Slow(Arc::clone(&setup.control), AtomicUsize::new(0)));
    setup.datapath.set_handler(slow.clone());
    let established = compose(&tcp(2, 80), b"");
    setup.send(1, &established);
    while server.serve() != 0 {}
    setup.run();
    setup.tx[2].take();
    let (start, turns, mut src) = (CYCLES.get(), 2000, 1000);
    for turn in 0..turns {
        src += 1;
        setup.rx[0].put(&compose(&tcp(src, 80), b""));
        (0..31).for_each(|_| setup.rx[0].put(&established));
        if turn == 500 {
            // A flow that is new on another port is parked like any other, and answered in turn.
            setup.rx[1].put(&compose(&tcp(2, 443), b"other"));
        }
        take_time(20_000);
        setup.worker.poll(Millis(setup.now), counter());
        if turn % 50 == 0 {
            // The server is another thread, so its time does not count for the worker.
            let mine = CYCLES.replace(0);
            server.serve();
            CYCLES.set(mine);
        }
    }
    assert_eq!(setup.tx[2].take().len(), turns * 31 + 1);
    let tally = setup.datapath.tally();
    let busy = (CYCLES.get() - start) as f64;
    let inline = busy - f64::from(turns as u32) * 20_000.0;
    assert!(inline <= busy / 8.0 + 10_000_000.0, "{inline} of {busy}");
    assert!(tally.dropped(DropReason::UpcallBacklog) > 1_000);
    assert_eq!(tally.dropped(DropReason::UpcallBacklog), tally.dropped_total());
    assert_eq!((tally.balance(), tally.parked() <= 512), (0, true));
    let asked = slow.1.load(Ordering::Relaxed) as u64;
    assert!(tally.get(Event::Missed) >= asked - 2 && asked < 500);
}

/// The next step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// A packet of this flow, with this service class, is received.
    Packet(u32, u8),
    Poll,
    /// A request is removed from the queue.
    Fetch,
    /// The n-th removed request is translated and answered, or (1 in 8) dropped.
    Answer(usize, bool),
    Flush,
    Settle,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6u32, 0..3u8).prop_map(|(f, tos)| Step::Packet(f, tos)),
        3 => Just(Step::Poll),
        3 => Just(Step::Fetch),
        3 => (any::<usize>(), prop::bool::weighted(0.12)).prop_map(|(n, lost)| Step::Answer(n, lost)),
        1 => Just(Step::Flush),
        1 => Just(Step::Settle),
    ]
}

/// The packets sent, in order, by source, service class and output port. (Packets of one batch with different
/// megaflows are executed by megaflow, so classes of one 5-tuple may overtake each other.)
type Sent = BTreeMap<(u32, u8, usize), Vec<Vec<u8>>>;

fn sort(tx: &[Wire], sent: &mut Sent) {
    for (port, wire) in tx.iter().enumerate() {
        for bytes in wire.take() {
            let flow = flow::extract::extract_from(&bytes, 1);
            sent.entry((flow.nw_src, flow.nw_tos, port)).or_default().push(bytes);
        }
    }
}

fn play(setup: &mut Setup, server: Option<&UpcallServer>, steps: &[Step]) -> Sent {
    let slow = Slow(Arc::clone(&setup.control), AtomicUsize::new(0));
    setup.datapath.set_handler(Arc::new(slow));
    let second = server.map(|_| setup.datapath.upcall_server());
    let (mut held, mut sent): (Vec<Request>, Sent) = Default::default();
    let mut servers: Vec<UpcallServer> = second.into_iter().collect();
    for (i, step) in steps.iter().enumerate() {
        setup.now += 1;
        match step {
            &Step::Packet(src, tos) => {
                let flow = Flow { nw_tos: tos << 2, ..tcp(src, 80) };
                setup.rx[(src % 2) as usize].put(&compose(&flow, &(i as u32).to_be_bytes()));
            }
            Step::Poll => {
                setup.worker.poll(Millis(setup.now), counter());
            }
            Step::Fetch => held.extend(setup.datapath.next_upcall()),
            &Step::Answer(n, lost) if !held.is_empty() => {
                let request = held.swap_remove(n % held.len());
                if !lost && let Some(server) = servers.first_mut() {
                    server.answer(vec![request]);
                }
            }
            Step::Answer(..) => {}
            Step::Flush => setup.datapath.flow_flush(Millis(setup.now)),
            Step::Settle => setup.worker.translate_parked(PortNo(1), Millis(setup.now)),
        }
        sort(&setup.tx, &mut sent);
    }
    drop(held);
    for _ in 0..10_000 {
        let served = servers.first_mut().is_some_and(|s| s.serve() != 0);
        if !setup.worker.poll(Millis(setup.now), counter()) && !served {
            break;
        }
        sort(&setup.tx, &mut sent);
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Rules match source and service class, so that one 5-tuple has several megaflows, and some recirculate.
    /// (Recirculated packets may be overtaken by others, so either all packets of a 5-tuple recirculate or none.)
    #[test]
    fn as_inline_whatever_the_order_of_answers(steps in prop::collection::vec(any_step(), 1..120), tight: bool) {
        let mask = Flow { nw_src: u32::MAX, nw_tos: 0xfc, recirc_id: u32::MAX, ..Flow::ZERO };
        let rule = |src: u32, tos: u8, pass: u32, actions| {
            (Flow { nw_src: src, nw_tos: tos << 2, recirc_id: pass, ..Flow::ZERO }, mask, actions)
        };
        let mut rules = vec![rule(0, 1, 1, vec![out(2)]), rule(0, 0, 0, vec![out(4), DpAction::Recirc(1)])];
        rules.push(rule(0, 1, 0, vec![DpAction::Recirc(1)]));
        rules.push(rule(0, 2, 0, vec![DpAction::Recirc(1)]));
        rules.extend((1..6).map(|src| rule(src, 1, 0, vec![out(2), out(3)])));
        rules.push(all(vec![out(3)]));
        let limits = if tight { Limits { per_worker: 6, per_flow: 2 } } else { Limits::default() };
        let mut naive = Setup::new(rules.clone());
        let expected = play(&mut naive, None, &steps);
        let (mut setup, server) = parking(rules, limits);
        CYCLES.set(0);
        let sent = play(&mut setup, Some(&server), &steps);
        prop_assert_eq!((setup.balance(), parked(&setup)), (0, 0));
        let (ours, theirs) = (setup.datapath.tally(), naive.datapath.tally());
        prop_assert_eq!(ours.get(Event::Received), theirs.get(Event::Received));
        if ours.dropped_total() == 0 {
            prop_assert_eq!(sent, expected);
            setup.datapath.maintain(Millis(setup.now));
            naive.datapath.maintain(Millis(setup.now));
            let credited = |b: &Setup| b.control.credited.0.load(Ordering::Relaxed);
            prop_assert_eq!(credited(&setup), credited(&naive));
        } else {
            prop_assert!(tight && ours.dropped(DropReason::UpcallBacklog) == ours.dropped_total());
        }
    }
}
