//! After its first packets, a worker allocates nothing: not for a cache hit, nor for header changes, copies or
//! recirculation.

use cpu::counting::CountingAllocator;
use datapath::port::{Repeat, Sink};
use datapath::{Config, Datapath, Event};
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac};
use std::sync::Arc;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn tcp(src: u32) -> Flow {
    Flow { dl_type: 0x0800, nw_proto: 6, nw_src: src, nw_ttl: 64, ..Flow::ZERO }
}

#[test]
fn the_hit_path_allocates_nothing() {
    let datapath = Datapath::new(&Config::default());
    let mut worker = datapath.worker(WorkerId(0), 0);
    for port in [1, 2, 3] {
        datapath.add_port(PortNo(port), vec![Box::new(Sink)]).unwrap();
    }
    let ttl = Ipv4Key { ttl: 63, ..Ipv4Key::default() };
    let mask = Ipv4Key { ttl: 255, ..Ipv4Key::default() };
    let src = Masked::new(
        EthKey { src: Mac([1; 6]), dst: Mac([2; 6]) },
        EthKey { src: Mac([255; 6]), dst: Mac([255; 6]) },
    );
    let output = |n| DpAction::Output(PortNo(n));
    let actions: [Arc<[DpAction]>; 3] = [
        Arc::new([
            DpAction::Set(SetField::Eth(src)),
            DpAction::Set(SetField::Ipv4(Masked::new(ttl, mask))),
            output(2),
        ]),
        Arc::new([DpAction::PushVlan { tpid: 0x8100, tci: 0x1005 }, output(2), DpAction::PopVlan, output(3)]),
        Arc::new([DpAction::Clone(vec![output(3)]), DpAction::Recirc(1)]),
    ];
    for (n, actions) in actions.into_iter().enumerate() {
        let key = Flow { in_port: 1, ..tcp(n as u32) };
        let mask = Flow { nw_src: u32::MAX, nw_frag: 3, ..Flow::ZERO };
        datapath.flow_put(&key, &mask, actions, Arc::new(NoOwner)).unwrap();
    }
    let second = Flow { in_port: 1, recirc_id: 1, ..tcp(0) };
    let wide = Flow { dl_type: 0xffff, tp_src: 0xffff, ..Flow::ZERO };
    datapath.flow_put(&second, &wide, Arc::new([output(3)]), Arc::new(NoOwner)).unwrap();
    let packets = (0..3).map(|n| compose(&tcp(n), b"payload")).collect();
    worker.add_rxq(PortNo(1), QueueId(0), Box::new(Repeat::new(packets, usize::MAX)));
    for i in 0..100 {
        worker.poll(Millis(i), Cycles(i));
    }
    let before = CountingAllocator::count();
    for i in 0..1000 {
        worker.poll(Millis(i), Cycles(i));
    }
    assert_eq!(CountingAllocator::count() - before, 0);
    let tally = datapath.tally();
    assert_eq!((tally.get(Event::Missed) + tally.get(Event::Lost), tally.balance()), (0, 0));
    assert!(tally.get(Event::CacheHit) > 30_000);
}
