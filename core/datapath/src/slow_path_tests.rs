//! The slow path: a megaflow that passes each of its packets to the control half for translation.

use crate::tests::{Credited, Setup, out, tcp};
use crate::{Event, UpcallServer};
use dpif::*;
use flow::Flow;
use flow::compose::compose;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Millis;

/// A control half that sends each packet by the port with the number of its TCP destination port; one megaflow covers
/// all packets of a port.
#[derive(Default)]
struct Slow {
    credited: Arc<Credited>,
    misses: AtomicU64,
    translated: AtomicU64,
}

fn pass_on() -> DpAction {
    DpAction::Userspace(Box::new(Userspace::slow_path(SlowReason::ACTION)))
}

impl Slow {
    fn translate(&self, flow: &Flow) -> Translation {
        Translation {
            actions: Arc::new([out(u32::from(flow.tp_dst))]),
            slow_path: Some(Arc::new([pass_on()])),
            mask: Box::new(Flow { in_port: u32::MAX, ..Flow::ZERO }),
            install: true,
            version: 0,
            owner: self.credited.clone(),
            dependency_set: 0,
            error: None,
        }
    }
}

impl UpcallHandler for Slow {
    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        self.misses.fetch_add(1, Ordering::Relaxed);
        self.translate(upcall.flow)
    }

    fn slow_path(&self, upcall: Upcall<'_>) -> Translation {
        self.translated.fetch_add(1, Ordering::Relaxed);
        self.translate(upcall.flow)
    }

    fn userspace(&self, _: &[u8], _: &Flow, _: &Userspace) {
        panic!("the packet is translated instead");
    }

    fn is_current(&self, _: u64) -> bool {
        true
    }
}

/// Sends bursts of packets to the ports 2 and 3 in turn.
fn forward(served: bool) {
    let mut setup = Setup::new(vec![]);
    let slow = Arc::new(Slow::default());
    setup.datapath.set_handler(slow.clone());
    let mut server: Option<UpcallServer> = served.then(|| setup.datapath.upcall_server());
    let packet = |i: u32| compose(&tcp(i, 2 + (i % 2) as u16), &i.to_be_bytes());
    for burst in [1, 1, 7, 32, 100] {
        (0..burst).for_each(|i| setup.rx[0].put(&packet(i)));
        setup.run();
        while server.as_mut().is_some_and(|server| server.serve() != 0) {
            setup.run();
        }
        for port in 0..2 {
            let sent: Vec<_> = (0..burst).filter(|i| i % 2 == port).map(packet).collect();
            assert_eq!(setup.tx[1 + port as usize].take(), sent, "{burst} packets, port {}", 2 + port);
        }
    }
    setup.datapath.maintain(Millis(setup.now));
    let flows = setup.datapath.flow_dump(Millis(setup.now));
    assert_eq!((flows.len(), &*flows[0].actions), (1, &[pass_on()][..]));
    let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
    assert_eq!((count(&slow.misses), count(&slow.translated)), (1, 140));
    assert_eq!((count(&slow.credited.0), flows[0].stats.packets), (141, 140));
    let tally = setup.datapath.tally();
    assert_eq!((tally.get(Event::Missed), tally.get(Event::Lost), setup.balance()), (1, 0, 0));
}

#[test]
fn packets_of_one_megaflow_are_translated_one_by_one() {
    forward(false);
}

#[test]
fn the_worker_translates_them_also_beside_handler_threads() {
    forward(true);
}

/// The action may also be one of several, or be in a nested program.
#[test]
fn copies_are_translated_as_well() {
    let half = Sample { probability: u32::MAX, actions: vec![pass_on()] };
    for actions in [
        vec![pass_on(), out(4)],
        vec![DpAction::Sample(Box::new(half)), out(4)],
        vec![pass_on(), pass_on(), out(4)],
    ] {
        let setup = Setup::new(vec![]);
        setup.datapath.set_handler(Arc::new(Slow::default()));
        let bytes = compose(&tcp(1, 2), b"x");
        let copies = actions.len() - 1;
        let flow = Flow { in_port: 1, ..Flow::ZERO };
        setup.datapath.execute(&bytes, &flow, &actions, Millis(1));
        assert_eq!((setup.tx[1].take().len(), setup.tx[3].take().len()), (copies, 1), "{actions:?}");
        assert_eq!(setup.balance(), 0);
    }
}
