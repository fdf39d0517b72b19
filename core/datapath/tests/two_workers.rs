//! Two workers forward while flows are removed under them: no packet is lost, and every packet is credited.

use datapath::port::{FrameBatch, FramePool, RxQueue, RxResult, Sink};
use datapath::{Config, Datapath, Event};
use dpif::*;
use flow::Flow;
use flow::compose::compose;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// One packet at a time, of fifty flows in turn.
struct Source(u32);

impl RxQueue for Source {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, _: usize) -> RxResult {
        self.0 += 1;
        let flow = Flow { dl_type: 0x0800, nw_proto: 6, nw_src: self.0 % 50, ..Flow::ZERO };
        out.extend(pool.frame_of(&compose(&flow, &[])));
        RxResult::default()
    }
}

#[derive(Default)]
struct Credited(AtomicU64);

impl FlowOwner for Credited {
    fn credit(&self, delta: &FlowStats) {
        self.0.fetch_add(delta.packets, Ordering::Relaxed);
    }
}

struct Control(Arc<Credited>);

impl UpcallHandler for Control {
    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        // Three masks, so that the cache is used.
        let mask = Flow { nw_src: [0xff, 0x1ff, 0x3ff][upcall.flow.nw_src as usize % 3], ..Flow::ZERO };
        let (actions, mask): (Arc<[DpAction]>, _) = (Arc::new([DpAction::Output(PortNo(3))]), Box::new(mask));
        Translation {
            actions,
            mask,
            slow_path: None,
            install: true,
            version: 0,
            owner: self.0.clone(),
            dependency_set: 0,
            error: None,
        }
    }

    fn userspace(&self, _: &[u8], _: &Flow, _: &Userspace) {}

    fn is_current(&self, _: u64) -> bool {
        true
    }
}

#[test]
fn no_packet_is_lost_to_a_removed_flow() {
    const TURNS: u64 = 2000;
    let datapath = Datapath::new(&Config::default());
    let credited = Arc::new(Credited::default());
    datapath.set_handler(Arc::new(Control(credited.clone())));
    datapath.add_port(PortNo(3), vec![Box::new(Sink)]).unwrap();
    std::thread::scope(|s| {
        for id in [1, 2] {
            let datapath = &datapath;
            s.spawn(move || {
                let mut worker = datapath.worker(WorkerId(id), 0);
                worker.add_rxq(PortNo(u32::from(id)), QueueId(0), Box::new(Source(0)));
                for i in 0..TURNS {
                    worker.poll(Millis(i), Cycles(i));
                }
            });
        }
        s.spawn(|| {
            for i in 0..300 {
                datapath.flow_flush(Millis(i));
                datapath.maintain(Millis(i));
            }
        });
    });
    datapath.maintain(Millis(TURNS));
    let tally = datapath.tally();
    assert_eq!(
        (tally.get(Event::Received), tally.get(Event::Sent), tally.balance()),
        (2 * TURNS, 2 * TURNS, 0)
    );
    assert_eq!(credited.0.load(Ordering::Relaxed), 2 * TURNS);
}
