//! Frames with absent tails have the same results in random programs as complete frames, and no tail outlives its
//! iteration.

use crate::park::Limits;
use crate::port::*;
use crate::tests::{Setup, all, out, tcp};
use crate::{EgressClock, EgressSpec, UpcallServer};
use dpif::text::{NoNames, parse_actions};
use dpif::{DpAction, MeterSpec, Meters as _};
use flow::Flow;
use flow::compose::compose;
use packet::frame::TailOwner;
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use packet::segment;
use qos::ShaperSpec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use units::{Cycles, Millis, Nanos, PortNo, QueueId};

const SEEDS: u64 = 150;
/// Number of present bytes of the frames.
const HEAD: usize = 128;

type Sent = (Vec<u8>, Offload);

/// Receives packets with or without absent tails.
struct Source {
    packets: Arc<Mutex<VecDeque<Sent>>>,
    /// `None`: frames are complete.
    tail_owner: Option<TailOwner>,
}

impl RxQueue for Source {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut packets = self.packets.lock().unwrap();
        let mut needs_return = false;
        while out.len() < max
            && let Some((bytes, offload)) = packets.pop_front()
        {
            let mut frame = pool.frame_of(&bytes).unwrap();
            if let Some(tail_owner) = &mut self.tail_owner
                && bytes.len() >= 2 * HEAD
            {
                // The buffer must not contain the bytes of the tail, so they are overwritten.
                frame.bytes_mut()[HEAD..].fill(0xee);
                needs_return |= tail_owner
                    .with_tail(&bytes[HEAD..], bytes.len() % 700, |tail| frame.attach_tail(HEAD, tail));
                assert!(!frame.is_complete());
            }
            frame.set_offload(offload);
            out.push(frame);
        }
        RxResult { more: !packets.is_empty(), needs_return, ..RxResult::default() }
    }

    fn return_buffers(&mut self) -> bool {
        self.tail_owner.as_mut().is_none_or(TailOwner::free_released)
    }
}

/// Keeps the packets that are sent. Some ports copy an absent tail into the frame, others to another place.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<Sent>>>, bool, Arc<AtomicU64>);

impl TxQueue for Taken {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let bytes = |frame: &Frame| {
            let mut bytes = vec![0; frame.len()];
            match self.1 {
                true => frame.read(&mut bytes),
                false => bytes.copy_from_slice(frame.bytes()),
            }
            (bytes, frame.offload())
        };
        let parts = frames.iter().filter(|frame| !frame.is_complete()).count();
        self.2.fetch_add(parts as u64, Ordering::Relaxed);
        self.0.lock().unwrap().extend(frames.iter().map(bytes));
        let sent_bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        TxResult { sent: frames.len() as u32, sent_bytes, ..TxResult::default() }
    }

    fn accepts_large(&self) -> bool {
        self.1
    }
}

/// A datapath with the ports 1 to 4, and the ports 5 and 6, which keep the frames that are sent.
struct Side {
    setup: Setup,
    packets: Arc<Mutex<VecDeque<Sent>>>,
    taken: [Taken; 2],
    /// Answers upcalls, if misses are parked.
    server: Option<UpcallServer>,
    /// The time of the shaper, in nanoseconds.
    time: Arc<AtomicU64>,
}

/// All results of sending packets.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The frames of each wire.
    wires: Vec<Vec<Vec<u8>>>,
    /// The frames of the ports 5 and 6.
    taken: Vec<Vec<Sent>>,
    /// The packets that the control half received.
    delivered: Vec<Vec<u8>>,
}

impl Side {
    fn new(
        rules: &[(Flow, Flow, Vec<DpAction>)],
        with_tails: bool,
        hold: u32,
        [shaped, parks]: [bool; 2],
    ) -> Side {
        let mut setup = Setup::new(rules.to_vec());
        let packets = Arc::<Mutex<VecDeque<Sent>>>::default();
        let source = Source { packets: packets.clone(), tail_owner: with_tails.then(TailOwner::default) };
        setup.worker.add_rxq(PortNo(1), QueueId(1), Box::new(source));
        let taken = [false, true].map(|by_read| Taken(Arc::default(), by_read, Arc::default()));
        for (no, taken) in [5, 6].into_iter().zip(&taken) {
            setup.datapath.add_port(PortNo(no), vec![Box::new(taken.clone())]).unwrap();
        }
        setup.worker.set_cycles_per_ms(1_000_000);
        setup.datapath.set_tx_flush_interval(hold);
        let server = parks.then(|| {
            setup.worker.park_misses(Limits::default(), Arc::new(|| {}), || Cycles(0));
            setup.datapath.upcall_server()
        });
        assert_eq!(setup.datapath.allocate(), Some(0));
        setup.datapath.set(0, &MeterSpec::default(), Millis(0));
        let time = Arc::<AtomicU64>::default();
        if shaped {
            let read = time.clone();
            let clock: EgressClock = Arc::new(move || Nanos(read.load(Ordering::Relaxed)));
            let spec = ShaperSpec { rate: 8_000_000, mtu: 1500, classes: Default::default() };
            setup.datapath.set_egress(PortNo(5), Some(EgressSpec::Shaper(spec)), &clock).unwrap();
        }
        Side { setup, packets, taken, server, time }
    }

    fn pass(&mut self, packets: &[Sent]) -> Outcome {
        self.packets.lock().unwrap().extend(packets.iter().cloned());
        for turn in 0..8 {
            let now = self.setup.now + turn;
            self.setup.worker.poll(Millis(now), Cycles(now * 1000));
            self.time.fetch_add(1_000_000, Ordering::Relaxed);
            while self.server.as_mut().is_some_and(|server| server.serve() != 0) {}
        }
        self.setup.now += 100;
        self.setup.worker.send_held();
        let wires = self.setup.tx.iter().map(|wire| wire.take()).collect();
        let taken = self.taken.iter().map(|taken| std::mem::take(&mut *taken.0.lock().unwrap())).collect();
        let delivered = std::mem::take(&mut *self.setup.control.delivered.lock().unwrap());
        let delivered = delivered.into_iter().map(|(bytes, _)| bytes).collect();
        Outcome { wires, taken, delivered }
    }
}

fn packet(dice: &mut fastrand::Rng) -> Sent {
    let mut f = Flow { nw_proto: dice.choice([6, 6, 17, 1]).unwrap(), ..tcp(dice.u32(1..4), 80) };
    if dice.u8(..3) == 0 {
        (f.dl_type, f.nw_src, f.nw_dst) = (0x86dd, 0, 0);
        (f.ipv6_src, f.ipv6_dst) = ([dice.u8(1..4); 16], [9; 16]);
        f.nw_proto = if f.nw_proto == 1 { 17 } else { f.nw_proto };
    }
    if dice.u8(..3) == 0 {
        f.vlans[0] = flow::Vlan { tpid: 0x8100, tci: 0x1005 };
    }
    let large = dice.u8(..6) == 0;
    let len = dice.usize(if large { 2000..9000 } else { 0..1400 });
    let payload: Vec<u8> = std::iter::repeat_with(|| dice.u8(..)).take(len).collect();
    let mut bytes = compose(&f, &payload);
    match dice.u8(..12) {
        // A tail that is padding; a wrong length; a fragment.
        0 => bytes.extend(vec![0; dice.usize(..500)]),
        1 if bytes.len() > 60 => bytes[17] ^= 0x40,
        2 if f.dl_type == 0x0800 && bytes.len() > 60 => bytes[20] |= 0x20,
        _ => {}
    }
    if !matches!(f.nw_proto, 6 | 17) || dice.u8(..2) == 0 {
        return (bytes, Offload::default());
    }
    let Some((start, offset)) = segment::make_partial_checksum(&mut bytes) else {
        return (bytes, Offload::default());
    };
    let kind = GsoKind::of(f.nw_proto, f.dl_type == 0x86dd).filter(|_| large);
    let gso = kind.map(|kind| Gso { kind, size: 1000, ecn: false });
    let offload = Offload { csum: Some(PartialChecksum { start, offset }), gso };
    if offload.fits(&bytes) { (bytes, offload) } else { (bytes, Offload::default()) }
}

fn program(dice: &mut fastrand::Rng, depth: u8) -> String {
    let mut ops: Vec<String> = Vec::new();
    for _ in 0..dice.usize(0..5) {
        let port = dice.u8(2..7);
        ops.push(match dice.u8(..20) {
            0..=3 => port.to_string(),
            4 => format!("trunc({}),{port}", dice.choice([64, 100, 128, 129, 300, 1000]).unwrap()),
            5 => "push_vlan(vid=7,pcp=1)".to_owned(),
            6 => "pop_vlan".to_owned(),
            7 => "set(eth(src=02:00:00:00:00:07))".to_owned(),
            8 => "set(ipv4(src=10.0.0.7,ttl=9))".to_owned(),
            9 => "set(ipv6(hlimit=9))".to_owned(),
            10 => "set(tcp(src=77))".to_owned(),
            11 => "meter(0)".to_owned(),
            12 => "userspace(pid=0,slow_path(bfd))".to_owned(),
            13 => "push_mpls(label=7,tc=0,ttl=9,bos=1,eth_type=0x8847)".to_owned(),
            14 => "hash(l4(0))".to_owned(),
            15 => format!("ct(commit,zone={}),recirc(1)", dice.u8(1..3)),
            16 => "recirc(1)".to_owned(),
            17 if depth < 2 => format!("clone({})", program(dice, depth + 1)),
            18 if depth < 2 => format!("sample(sample=100.0%,actions({}))", program(dice, depth + 1)),
            19 if depth < 2 => {
                let [a, b] = [0; 2].map(|_| program(dice, depth + 1));
                format!("check_pkt_len(size=500,gt({a}),le({b}))")
            }
            _ => port.to_string(),
        });
    }
    ops.push(dice.u8(2..7).to_string());
    ops.join(",")
}

#[test]
fn absent_tails_do_not_change_results() {
    let mut without_tails = 0;
    for seed in 0..SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let texts = [program(&mut dice, 0), program(&mut dice, 1)];
        let actions = texts
            .each_ref()
            .map(|text| parse_actions(text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}")));
        let [first, second] = actions;
        // The fields that megaflows match determine how deep packets are parsed.
        let masks = [
            Flow::ZERO,
            Flow { dl_type: 0xffff, ..Flow::ZERO },
            Flow {
                dl_type: 0xffff,
                nw_src: u32::MAX,
                ipv6_src: [0xff; 16],
                tp_dst: 0xffff,
                nw_proto: 0xff,
                ..Flow::ZERO
            },
        ];
        let mask = Flow { recirc_id: u32::MAX, in_port: u32::MAX, ..dice.choice(masks).unwrap() };
        let with_mask = |recirc_id, actions: Vec<DpAction>| {
            let packets = Flow { recirc_id, ..Flow::ZERO };
            (packets, Flow { recirc_id: u32::MAX, ..Flow::ZERO }, actions)
        };
        let narrow = (Flow { in_port: 9, ..Flow::ZERO }, mask, vec![out(2)]);
        let rules = [narrow, with_mask(0, first), with_mask(1, second), all(vec![])];
        let (hold, ways) = (dice.choice([0, 0, 3]).unwrap(), [dice.u8(..4) == 0, dice.bool()]);
        let mut sides = [false, true].map(|with_tails| Side::new(&rules, with_tails, hold, ways));
        for round in 0..3 {
            let packets: Vec<Sent> = (0..dice.usize(1..50)).map(|_| packet(&mut dice)).collect();
            let [complete, with_tails] = sides.each_mut().map(|side| side.pass(&packets));
            assert_eq!(complete.wires, with_tails.wires, "seed {seed}, round {round}: {texts:?}");
            assert!(complete.taken == with_tails.taken, "seed {seed}, round {round}: {texts:?}");
            assert!(complete.delivered == with_tails.delivered, "seed {seed}, round {round}: {texts:?}");
        }
        let [complete, with_tails] =
            sides.each_ref().map(|side| (side.setup.datapath.tally().dropped_total(), side.setup.balance()));
        assert_eq!((complete.0, complete.1), (with_tails.0, with_tails.1), "seed {seed}: {texts:?}");
        without_tails += sides[1].taken.iter().map(|taken| taken.2.load(Ordering::Relaxed)).sum::<u64>();
    }
    assert!(without_tails > 400, "{without_tails} frames were sent without their tails");
}
