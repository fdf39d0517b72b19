//! The complete path, compared with a reference implementation: a list of rules that is scanned for every packet.

use crate::batch::Batch;
use crate::packet::{Meta, Packet};
use crate::path::extract::{line, read, wide_key};
use crate::port::*;
use crate::{Config, Datapath, Event, Worker};
use classifier::megaflow::Depth;
use classifier::megaflow::convert::line_of;
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac, Vlan};
use flowcache::{CacheParams, Kind};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// The rx queue or tx queue of a device without hardware. As a tx queue it refuses frames longer than 1,500 bytes.
#[derive(Clone, Default)]
pub(crate) struct Wire(pub(crate) Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Wire {
    pub(crate) fn put(&self, bytes: &[u8]) {
        self.0.lock().unwrap().push_back(bytes.to_vec());
    }

    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

impl RxQueue for Wire {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut queue = self.0.lock().unwrap();
        while out.len() < max
            && let Some(bytes) = queue.pop_front()
        {
            out.extend(pool.frame_of(&bytes));
        }
        RxResult { more: !queue.is_empty(), ..RxResult::default() }
    }
}

impl TxQueue for Wire {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        for f in frames.iter() {
            if f.len() > 1500 {
                result.too_long += 1;
                continue;
            }
            self.put(f.bytes());
            result.sent += 1;
            result.sent_bytes += f.len() as u64;
        }
        result
    }
}

/// A rule: its match and its actions.
pub(crate) type Rule = (Flow, Flow, Vec<DpAction>);

/// A control half that translates each packet by the first rule that matches.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) rules: Mutex<Vec<Rule>>,
    pub(crate) version: AtomicU64,
    pub(crate) credited: Arc<Credited>,
    pub(crate) delivered: Mutex<Vec<(Vec<u8>, Flow)>>,
}

/// The packets and bytes that were credited to the owner.
#[derive(Default)]
pub(crate) struct Credited(pub(crate) AtomicU64, AtomicU64);

impl FlowOwner for Credited {
    fn credit(&self, delta: &FlowStats) {
        self.0.fetch_add(delta.packets, Ordering::Relaxed);
        self.1.fetch_add(delta.bytes, Ordering::Relaxed);
    }
}

impl Control {
    /// Returns the actions of the first rule that matches, and the bits that were consulted.
    pub(crate) fn scan(&self, flow: &Flow) -> (Vec<DpAction>, Flow) {
        let mut mask = Flow::ZERO;
        for (key, rule_mask, actions) in self.rules.lock().unwrap().iter() {
            mask.or_assign(rule_mask);
            if flow.equal_under(key, rule_mask) {
                return (actions.clone(), mask);
            }
        }
        (Vec::new(), mask)
    }
}

impl UpcallHandler for Control {
    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        let (actions, mask) = self.scan(upcall.flow);
        Translation {
            actions: actions.into(),
            mask: Box::new(mask),
            slow_path: None,
            install: true,
            version: self.version.load(Ordering::Relaxed),
            owner: self.credited.clone(),
            dependency_set: 0,
            error: None,
        }
    }

    fn userspace(&self, packet: &[u8], flow: &Flow, _: &Userspace) {
        self.delivered.lock().unwrap().push((packet.to_vec(), *flow));
    }

    fn is_current(&self, version: u64) -> bool {
        version == self.version.load(Ordering::Relaxed)
    }
}

/// A datapath with one worker and four ports, whose control half answers from a list of rules.
pub(crate) struct Setup {
    pub(crate) datapath: Arc<Datapath>,
    pub(crate) control: Arc<Control>,
    pub(crate) worker: Worker,
    pub(crate) rx: Vec<Wire>,
    pub(crate) tx: Vec<Wire>,
    pub(crate) now: u64,
}

impl Setup {
    /// Makes a datapath with the ports 1 to 4.
    pub(crate) fn new(rules: Vec<Rule>) -> Setup {
        let datapath = Datapath::new(&Config { max_flows: 5000, max_masks: 8, seed: 42, advise: None });
        let control = Arc::new(Control { rules: Mutex::new(rules), ..Control::default() });
        datapath.set_handler(control.clone());
        let mut worker = datapath.worker(WorkerId(0), 0);
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for no in 1..5 {
            rx.push(Wire::default());
            tx.push(Wire::default());
            datapath.add_port(PortNo(no), vec![Box::new(tx[no as usize - 1].clone())]).unwrap();
            worker.add_rxq(PortNo(no), QueueId(0), Box::new(rx[no as usize - 1].clone()));
        }
        Setup { datapath, control, worker, rx, tx, now: 1000 }
    }

    /// Runs iterations until one finds nothing to do.
    pub(crate) fn run(&mut self) {
        while self.worker.poll(Millis(self.now), Cycles(self.now)) {
            self.now += 1;
        }
    }

    pub(crate) fn send(&mut self, port: usize, bytes: &[u8]) {
        self.rx[port - 1].put(bytes);
        self.run();
    }

    pub(crate) fn balance(&self) -> i128 {
        self.datapath.tally().balance()
    }
}

pub(crate) fn out(port: u32) -> DpAction {
    DpAction::Output(PortNo(port))
}

/// A rule that matches all packets.
pub(crate) fn all(actions: Vec<DpAction>) -> Rule {
    (Flow::ZERO, Flow::ZERO, actions)
}

pub(crate) fn tcp(src: u32, tp_dst: u16) -> Flow {
    Flow {
        dl_type: 0x0800,
        dl_src: Mac([2; 6]),
        nw_proto: 6,
        nw_ttl: 64,
        nw_src: src,
        nw_dst: 9,
        tp_dst,
        tcp_flags: 0x10,
        ..Flow::ZERO
    }
}

#[test]
fn one_upcall_then_hits_and_the_statistics_arrive() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"hello");
    for _ in 0..3 {
        setup.rx[0].put(&bytes);
    }
    setup.run();
    setup.send(1, &bytes);
    assert_eq!(setup.tx[1].take(), vec![bytes.clone(); 4]);
    let tally = setup.datapath.worker_tally(WorkerId(0));
    assert_eq!(
        (tally.get(Event::Missed), tally.get(Event::MegaflowHit), tally.get(Event::FrontHit)),
        (1, 2, 1)
    );
    setup.datapath.maintain(Millis(2000));
    assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 4);
    assert_eq!(setup.control.credited.1.load(Ordering::Relaxed), 4 * bytes.len() as u64);
    let dump = setup.datapath.flow_dump_by_worker(WorkerId(7), Millis(2000));
    assert_eq!((dump.len(), dump[0].worker, dump[0].stats.packets), (1, Some(WorkerId(0)), 3));
    assert_eq!(dump[0].stats.used, Some(Millis(1001)));
    assert_eq!(dump[0].created, Some(Millis(1000)));
    assert_eq!(setup.datapath.port_stats(PortNo(2)).unwrap().tx_packets, 4);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn a_megaflow_is_shown_under_each_worker_that_knows_it() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"hello");
    setup.send(1, &bytes);
    let mut second = setup.datapath.worker(WorkerId(1), 0);
    second.add_rxq(PortNo(1), QueueId(1), Box::new(setup.rx[0].clone()));
    let mut shown = |packets| {
        (0..packets).for_each(|_| setup.rx[0].put(&bytes));
        while second.poll(Millis(2000), Cycles(2000)) {}
        let dump = setup.datapath.flow_dump_by_worker(WorkerId(7), Millis(2000));
        dump.iter().map(|f| (f.worker.unwrap().0, f.stats.packets, f.stats.bytes)).collect::<Vec<_>>()
    };
    // The packets that created a megaflow are not in its statistics.
    let len = bytes.len() as u64;
    assert_eq!(shown(0), [(0, 0, 0)]);
    assert_eq!(shown(1), [(0, 0, 0), (1, 0, 0)]);
    assert_eq!(shown(3), [(0, 0, 0), (1, 3, 3 * len)]);
    assert_eq!(setup.datapath.flow_dump(Millis(2000))[0].stats.packets, 4);
}

#[test]
fn a_port_without_megaflows_does_not_use_what_another_port_found() {
    let rule = |port, action| {
        (Flow { in_port: port, ..Flow::ZERO }, Flow { in_port: u32::MAX, ..Flow::ZERO }, vec![action])
    };
    let mut setup = Setup::new(vec![rule(1, out(3)), rule(2, out(4))]);
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    setup.send(1, &bytes);
    setup.send(2, &bytes);
    assert_eq!((setup.tx[2].take().len(), setup.tx[3].take().len()), (2, 1));
}

#[test]
fn packets_to_send_are_held_for_more_to_come() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"");
    // A microsecond is a thousand cycles.
    setup.worker.set_cycles_per_ms(1_000_000);
    setup.datapath.set_tx_flush_interval(50);
    let at = |setup: &mut Setup, micros: u64, packets: usize| {
        (0..packets).for_each(|_| setup.rx[0].put(&bytes));
        setup.worker.poll(Millis(1000), Cycles(1000 * micros));
        setup.tx[1].take().len()
    };
    assert_eq!(
        [at(&mut setup, 7, 2), at(&mut setup, 30, 3), at(&mut setup, 56, 0), at(&mut setup, 57, 0)],
        [0, 0, 0, 5]
    );
    // The hold time of the next burst starts at its first frame; a full burst is sent at once.
    assert_eq!([at(&mut setup, 60, 1), at(&mut setup, 100, 31), at(&mut setup, 101, 1)], [0, 32, 0]);
    // A worker that hands a queue over or goes to sleep first sends what it holds.
    setup.worker.remove_rxq(PortNo(3), QueueId(0));
    assert_eq!(setup.tx[1].take().len(), 1);
    assert_eq!(at(&mut setup, 102, 4), 0);
    setup.worker.go_idle();
    assert_eq!(setup.tx[1].take().len(), 4);
    setup.datapath.set_tx_flush_interval(0);
    assert_eq!(at(&mut setup, 103, 1), 1);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn a_busy_thread_publishes_its_counters_now_and_then_and_when_it_is_idle_or_rests() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"");
    let poll = |setup: &mut Setup, packets: usize| {
        (0..packets).for_each(|_| setup.rx[0].put(&bytes));
        setup.worker.poll_publishing_rarely(Millis(1000), Cycles(1000), || Cycles(1000));
        setup.datapath.worker_tally(WorkerId(0)).get(Event::Received)
    };
    let seen: Vec<u64> = (1..=16).map(|_| poll(&mut setup, 1)).collect();
    assert!((1..=16).zip(&seen).any(|(sent, seen)| sent == *seen), "{seen:?}");
    assert!((1..=16).zip(&seen).all(|(sent, seen)| sent < seen + 8), "{seen:?}");
    assert_eq!(poll(&mut setup, 0), 16);
    poll(&mut setup, 1);
    setup.worker.go_idle();
    assert_eq!(setup.datapath.worker_tally(WorkerId(0)).get(Event::Received), 17);
}

#[test]
fn removed_flows_miss_again_and_credit_all_they_counted() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    let ufid = setup.datapath.flow_dump(Millis(0))[0].ufid;
    setup.send(1, &bytes);
    let gone = setup.datapath.flow_del(ufid, Millis(setup.now)).unwrap();
    assert_eq!(gone.stats.packets, 1);
    setup.send(1, &bytes);
    setup.datapath.flow_flush(Millis(setup.now));
    setup.send(1, &bytes);
    setup.datapath.maintain(Millis(setup.now));
    assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 4);
    assert_eq!(setup.datapath.tally().get(Event::Missed), 3);
    let datapath = setup.datapath.clone();
    drop(setup.worker);
    assert_eq!(datapath.tally().get(Event::Missed), 3);
    let dump = datapath.flow_dump_by_worker(WorkerId(7), Millis(0));
    assert_eq!((dump[0].stats, dump[0].worker), (FlowStats::default(), Some(WorkerId(0))));
}

#[test]
fn a_modified_flow_keeps_its_statistics() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    let ufid = setup.datapath.flow_dump(Millis(0))[0].ufid;
    setup.send(1, &bytes);
    setup.datapath.flow_modify(ufid, Arc::new([out(3)]), None, Millis(setup.now)).unwrap();
    setup.send(1, &bytes);
    setup.datapath.maintain(Millis(setup.now));
    assert_eq!(setup.tx[2].take().len(), 1);
    assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 3);
    assert_eq!(setup.datapath.tally().get(Event::Missed), 1);
}

#[test]
fn a_new_owner_is_credited_for_what_comes_after_it() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    setup.send(1, &bytes);
    let ufid = setup.datapath.flow_dump(Millis(0))[0].ufid;
    setup.send(1, &bytes);
    let new_owner = Arc::new(Credited::default());
    setup.datapath.flow_set_owner(ufid, (new_owner.clone(), 0), Millis(setup.now)).unwrap();
    setup.send(1, &bytes);
    setup.datapath.maintain(Millis(setup.now));
    assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 3);
    assert_eq!(new_owner.0.load(Ordering::Relaxed), 1);
    assert_eq!(setup.datapath.flow_dump(Millis(setup.now))[0].stats.packets, 3);
    assert_eq!(setup.datapath.tally().get(Event::Missed), 1);
}

#[test]
fn a_translation_that_is_no_longer_current_is_not_published() {
    struct Stale(Arc<Credited>);
    impl UpcallHandler for Stale {
        fn miss(&self, _: Upcall<'_>) -> Translation {
            let actions: Arc<[DpAction]> = Arc::new([DpAction::Output(PortNo(2))]);
            let owner = self.0.clone();
            Translation {
                actions,
                mask: Box::new(Flow::ZERO),
                slow_path: None,
                install: true,
                version: 1,
                owner,
                dependency_set: 0,
                error: None,
            }
        }
        fn userspace(&self, _: &[u8], _: &Flow, _: &Userspace) {}
        fn is_current(&self, _: u64) -> bool {
            false
        }
    }
    let mut setup = Setup::new(vec![]);
    let credited = Arc::new(Credited::default());
    setup.datapath.set_handler(Arc::new(Stale(credited.clone())));
    setup.send(1, &compose(&tcp(1, 80), b""));
    assert_eq!((setup.tx[1].take().len(), setup.datapath.flow_count()), (1, 0));
    assert_eq!(credited.0.load(Ordering::Relaxed), 1);
}

#[test]
fn copies_are_not_changed_by_what_follows() {
    let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 };
    let trunc = [DpAction::Trunc(20), out(4)];
    let inner = DpAction::Clone(vec![push.clone(), out(3)]);
    let list = [vec![out(2), inner], trunc.to_vec(), vec![push, out(2)]].concat();
    let mut setup = Setup::new(vec![all(list)]);
    let plain = tcp(1, 80);
    let tagged = Flow { vlans: [Vlan { tpid: 0x8100, tci: 0x1007 }, Vlan::default()], ..plain };
    let (plain, tagged) = (compose(&plain, b"x"), compose(&tagged, b"x"));
    setup.send(1, &plain);
    assert_eq!(setup.tx[1].take(), [plain.clone(), tagged.clone()]);
    assert_eq!(setup.tx[2].take(), [tagged]);
    assert_eq!(setup.tx[3].take(), [plain[..20].to_vec()]);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn a_truncation_leaves_out_the_end_whatever_is_pushed_or_popped_before_the_output() {
    let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 };
    let list =
        vec![DpAction::Trunc(20), push, out(2), DpAction::Trunc(20), DpAction::PopVlan, out(3), out(2)];
    let mut setup = Setup::new(vec![all(list)]);
    let bytes = compose(&tcp(1, 80), b"some payload");
    setup.send(1, &bytes);
    let lengths = |frames: Vec<Vec<u8>>| frames.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(setup.tx[1].take()), [24, bytes.len()]);
    assert_eq!(lengths(setup.tx[2].take()), [16]);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn what_a_branch_of_check_pkt_len_does_ends_with_it() {
    let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 };
    let check = |pkt_len, greater: Vec<DpAction>, less_equal| {
        DpAction::CheckPktLen(Box::new(CheckPktLen { pkt_len, greater, less_equal }))
    };
    let mut bytes = compose(&tcp(1, 80), b"");
    let tagged = bytes.len() + 4;
    // Padding does not change the length of a packet.
    bytes.resize(bytes.len() + 30, 0);
    let limit = bytes.len() as u16 - 30;
    let list =
        vec![check(limit, vec![out(3)], vec![push, out(2)]), out(2), check(limit - 1, vec![out(4)], vec![])];
    let mut setup = Setup::new(vec![all(list)]);
    setup.send(1, &bytes);
    let lengths = |frames: Vec<Vec<u8>>| frames.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(setup.tx[1].take()), [tagged + 30, bytes.len()]);
    assert_eq!((setup.tx[2].take().len(), setup.tx[3].take().len()), (0, 1));
    assert_eq!(setup.balance(), 0);
}

#[test]
fn tags_that_hide_a_length_do_not_hide_the_padding() {
    let tags = vec![DpAction::PushVlan { tpid: 0x8100, tci: 0x1007 }; 3];
    let mut bytes = compose(&tcp(1, 80), b"");
    let limit = bytes.len() as u16 + 12;
    bytes.resize(bytes.len() + 30, 0);
    for (pkt_len, port) in [(limit, 1), (limit - 1, 2)] {
        let check = CheckPktLen { pkt_len, greater: vec![out(3)], less_equal: vec![out(2)] };
        let nested = CheckPktLen {
            pkt_len: 9,
            greater: vec![DpAction::CheckPktLen(Box::new(check))],
            less_equal: vec![],
        };
        let mut setup =
            Setup::new(vec![all([tags.clone(), vec![DpAction::CheckPktLen(Box::new(nested))]].concat())]);
        setup.send(1, &bytes);
        assert_eq!(setup.tx[port].take().len(), 1, "{pkt_len}");
        assert_eq!(setup.balance(), 0);
    }
}

#[test]
fn recirculation_looks_up_again_and_ends() {
    let mark = DpAction::Set(SetField::Mark(Masked::new(5, u32::MAX)));
    let second = Flow { recirc_id: 1, pkt_mark: 5, ..Flow::ZERO };
    let second_mask = Flow { recirc_id: u32::MAX, pkt_mark: u32::MAX, ..Flow::ZERO };
    let first_mask = Flow { recirc_id: u32::MAX, ..Flow::ZERO };
    let mut setup = Setup::new(vec![
        (second, second_mask, vec![out(3)]),
        (Flow::ZERO, first_mask, vec![mark, out(2), DpAction::Recirc(1)]),
        all(vec![DpAction::Recirc(9)]),
    ]);
    let bytes = compose(&tcp(1, 80), b"");
    setup.send(1, &bytes);
    assert_eq!((setup.tx[1].take().len(), setup.tx[2].take().len()), (1, 1));
    assert_eq!(setup.datapath.tally().get(Event::Recirculated), 1);
    let flow = Flow { in_port: 1, ..Flow::ZERO };
    setup.datapath.execute(&bytes, &flow, &[DpAction::Recirc(9)], Millis(1));
    assert_eq!(setup.datapath.tally().dropped(DropReason::RecircError), 1);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn packet_accounting_balances_whatever_happens() {
    let user = DpAction::Userspace(Box::new(Userspace::slow_path(SlowReason::LACP)));
    let half = Sample { probability: u32::MAX / 2, actions: vec![out(2), out(3)] };
    let check = CheckPktLen { pkt_len: 100, greater: vec![out(2)], less_equal: vec![out(3), user.clone()] };
    let lists = [
        vec![user.clone(), out(2)],
        vec![out(2), user],
        vec![DpAction::Sample(Box::new(half.clone())), out(4)],
        vec![DpAction::Sample(Box::new(half))],
        vec![DpAction::CheckPktLen(Box::new(check)), out(4)],
        vec![DpAction::Ct(Box::default()), out(2)],
        vec![out(99), out(2)],
        vec![DpAction::Clone(vec![]), out(2)],
        vec![],
        vec![DpAction::Meter(1)],
    ];
    for list in lists {
        let mut setup = Setup::new(vec![all(list.clone())]);
        for i in 0..100 {
            setup.rx[i % 3].put(&compose(&tcp(i as u32, 80), &vec![0; i * 20]));
        }
        setup.rx[0].put(&[0; 13]);
        setup.run();
        assert_eq!(setup.datapath.tally().get(Event::Received), 101);
        assert_eq!(setup.datapath.tally().dropped(DropReason::RxInvalidPacket), 1);
        assert_eq!(setup.balance(), 0, "{list:?}");
    }
}

#[test]
fn ports_come_and_go() {
    let mut setup = Setup::new(vec![all(vec![out(2)])]);
    let bytes = compose(&tcp(1, 80), b"");
    setup.datapath.del_port(PortNo(2)).unwrap();
    setup.send(1, &bytes);
    assert_eq!(setup.datapath.drops(), [(DropReason::InvalidPort, 1)]);
    setup.datapath.add_port(PortNo(2), vec![Box::new(setup.tx[1].clone())]).unwrap();
    setup.send(1, &bytes);
    assert_eq!(setup.tx[1].take().len(), 1);
    assert!(setup.worker.remove_rxq(PortNo(1), QueueId(0)).is_some());
    setup.send(1, &bytes);
    assert_eq!(setup.rx[0].take().len(), 1);
    assert_eq!(setup.datapath.ports(), [1, 2, 3, 4].map(PortNo));
}

#[test]
fn flows_put_by_hand() {
    let setup = Setup::new(vec![]);
    let (key, mask) = (Flow { in_port: 1, ..tcp(1, 80) }, Flow { nw_src: u32::MAX, ..Flow::ZERO });
    let put = |n| setup.datapath.flow_put(&key, &mask, Arc::new([out(n)]), Arc::new(NoOwner));
    let ufid = put(2).unwrap();
    assert_eq!(put(3), Err(crate::PutError::Exists));
    assert_eq!(setup.datapath.ufid(&key, &mask), ufid);
    assert_eq!(*setup.datapath.flow_get(ufid, Millis(0)).unwrap().actions, [out(2)]);
    setup.datapath.set_flow_limits(usize::MAX, 1);
    let other = Flow { nw_src: 7, ..key };
    let result = setup.datapath.flow_put(&other, &mask, Arc::new([]), Arc::new(NoOwner));
    assert_eq!(result, Err(crate::PutError::LimitReached));
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let types = prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8847, 0x9999, 0x05ff]);
    let protos = prop::sample::select(vec![1u8, 2, 6, 17, 58, 132, 47]);
    (types, protos, 0..3u32, 0..3u16, 0..3u8, 0..3usize).prop_map(
        |(dl_type, nw_proto, addr, port, tos, tags)| {
            let mut f = Flow {
                dl_type,
                dl_src: Mac([2, 0, 0, 0, 0, addr as u8]),
                nw_proto: if dl_type == 0x0806 { 1 } else { nw_proto },
                nw_tos: tos << 2,
                nw_ttl: 64,
                tp_src: port,
                tp_dst: 1,
                ..Flow::ZERO
            };
            for tag in f.vlans.iter_mut().take(tags) {
                *tag = Vlan { tpid: 0x8100, tci: 0x1000 | port };
            }
            match dl_type {
                0x86dd => f.ipv6_src[15] = addr as u8,
                0x8847 => f.mpls_lse[0] = addr << 12 | 0x140,
                _ => f.nw_src = addr,
            }
            f
        },
    )
}

fn any_mask() -> impl Strategy<Value = Flow> {
    (0..9u8, 0..9u8).prop_map(|(a, b)| {
        let mut mask = Flow::ZERO;
        for which in [a, b] {
            match which {
                0 => mask.dl_type = 0xffff,
                1 => mask.dl_src = Mac([0xff; 6]),
                2 => mask.nw_src = 0x1,
                3 => mask.tp_src = 0xffff,
                4 => mask.nw_tos = 0xfc,
                5 => mask.vlans[0].tci = 0x1fff,
                6 => mask.ipv6_src = [0xff; 16],
                7 => mask.mpls_lse[0] = 0xffff_f000,
                _ => mask.nw_proto = 0xff,
            }
        }
        mask
    })
}

/// Programs of one operation and of several, including some that send no packet.
fn any_actions() -> impl Strategy<Value = Vec<DpAction>> {
    let push = DpAction::PushVlan { tpid: 0x88a8, tci: 0x1009 };
    (0..6u8, 2..5u32).prop_map(move |(which, port)| match which {
        0 => vec![],
        1 => vec![push.clone(), out(port)],
        2 => vec![out(port), push.clone(), out(4)],
        _ => vec![out(port)],
    })
}

/// Returns the packets that each port sends.
fn sent(actions: &[DpAction], mut bytes: Vec<u8>) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for action in actions {
        match *action {
            DpAction::Output(port) => all.push((port.0, bytes.clone())),
            DpAction::PushVlan { tpid, tci } => {
                let tag = [tpid.to_be_bytes(), (tci & 0xfff).to_be_bytes()].concat();
                bytes.splice(12..12, tag);
            }
            _ => unreachable!(),
        }
    }
    all
}

/// The packets of a port sorted by ingress port and flow; packets of one flow keep their order.
fn by_flow(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    // Bytes 7 to 9 (source MAC address) contain ingress port, flow and sequence number. Bytes 12 and 13 (Ethernet type) separate
    // the copies that a program sends with and without its pushed tag, because such copies may overtake each other.
    packets.sort_by_key(|p| [p[7], p[8], p[12], p[13]]);
    packets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the rules, their actions and the order of the packets, each packet is sent as a linear search
    /// of the rules says, and packets of a flow keep their order.
    #[test]
    fn in_order_as_a_scan_of_the_rules(
        rules in prop::collection::vec((any_flow(), any_mask(), any_actions()), 0..8),
        flows in prop::collection::vec(any_flow(), 1..12),
        order in prop::collection::vec((0..12u8, 1..3u8), 1..150),
    ) {
        let rules: Vec<Rule> = rules.into_iter().map(|(k, m, actions)| {
            (flow::extract::extract_from(&compose(&k, b"some data"), 0), m, actions)
        }).collect();
        let mut setup = Setup::new(rules);
        for _ in 0..3 {
            let mut expected: [Vec<Vec<u8>>; 5] = Default::default();
            for (at, &(which, from)) in order.iter().enumerate() {
                let which = usize::from(which) % flows.len();
                let mut bytes = compose(&flows[which], b"some data");
                bytes[7..10].copy_from_slice(&[from, which as u8, at as u8]);
                let flow = flow::extract::extract_from(&bytes, u32::from(from));
                for (port, bytes) in sent(&setup.control.scan(&flow).0, bytes.clone()) {
                    expected[port as usize].push(bytes);
                }
                setup.rx[usize::from(from) - 1].put(&bytes);
            }
            setup.run();
            for (port, expected) in expected.into_iter().enumerate().skip(2) {
                prop_assert_eq!(by_flow(setup.tx[port - 1].take()), by_flow(expected), "port {}", port);
            }
        }
        prop_assert_eq!(setup.balance(), 0);
        prop_assert_eq!(setup.datapath.lookup_differences(), 0);
        setup.datapath.maintain(Millis(setup.now));
        prop_assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 3 * order.len() as u64);
    }

    /// Whatever the rules, the caches and the order of the packets, each packet leaves by the port that a
    /// linear search of the rules says.
    #[test]
    fn as_a_scan_of_the_rules(
        rules in prop::collection::vec((any_flow(), any_mask(), 2..5u32), 0..12),
        flows in prop::collection::vec(any_flow(), 1..80),
        (_, kind) in prop::sample::select(&Kind::ALL[..]),
    ) {
        let rules: Vec<Rule> = rules.into_iter().map(|(k, m, port)| {
            let key = flow::extract::extract_from(&compose(&k, b"data"), 0);
            (key, m, vec![out(port)])
        }).collect();
        let mut setup = Setup::new(rules);
        setup.datapath.set_validate(true);
        for round in 0..3 {
            if round == 1 {
                setup.datapath.set_flow_cache(CacheParams { kind, emc_insert_inv_prob: 1, smc: true });
            }
            let mut expected: [Vec<Vec<u8>>; 5] = Default::default();
            for f in &flows {
                let bytes = compose(f, b"data");
                let flow = flow::extract::extract_from(&bytes, 1);
                if let Some(DpAction::Output(port)) = setup.control.scan(&flow).0.first() {
                    expected[port.0 as usize].push(bytes.clone());
                }
                setup.rx[0].put(&bytes);
            }
            setup.run();
            for (port, expected) in expected.iter_mut().enumerate().skip(2) {
                let mut sent = setup.tx[port - 1].take();
                sent.sort();
                expected.sort();
                prop_assert_eq!(&sent, &*expected, "round {} port {}", round, port);
            }
        }
        prop_assert_eq!(setup.balance(), 0);
        setup.datapath.maintain(Millis(setup.now));
        prop_assert_eq!(setup.control.credited.0.load(Ordering::Relaxed), 3 * flows.len() as u64);
    }

    /// The optimised extraction equals the reference implementation, cut off at the depth.
    #[test]
    fn fast_is_naive(f in any_flow(), noise in prop::collection::vec((0..90usize, any::<u8>()), 0..4), cut in 0..100usize) {
        let mut bytes = compose(&f, b"some payload that is long enough");
        for (at, value) in noise {
            if let Some(b) = bytes.get_mut(at) {
                *b = value;
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut / 3).max(14));
        check_extract(&bytes)?;
    }

    #[test]
    fn fast_is_naive_on_anything(bytes in prop::collection::vec(any::<u8>(), 14..120), dl_type in prop::sample::select(
        vec![0x0800u16, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x8847, 0x0010])) {
        let mut bytes = bytes;
        bytes[12..14].copy_from_slice(&dl_type.to_be_bytes());
        if bytes.len() > 40 && dl_type == 0x0800 {
            bytes[14] = 0x45;
            bytes[16..18].copy_from_slice(&30u16.to_be_bytes());
        }
        check_extract(&bytes)?;
    }
}

fn check_extract(bytes: &[u8]) -> Result<(), TestCaseError> {
    let meta = Meta { recirc_id: 7, pkt_mark: 8, ct_state: 1, ct_zone: 2, ct_mark: 3, ..Meta::received(1) };
    let packet = Packet::new(FramePool::new(1).frame_of(bytes).unwrap(), meta.clone());
    let flow = packet.flow();
    let naive = line_of(&flow);
    let (key, flags) = wide_key(bytes, &meta);
    prop_assert_eq!(key.line, naive);
    // A key of a lower depth has the fields of this depth, and zeros for the others.
    let l4 = Flow { tp_src: 0, tp_dst: 0, tcp_flags: 0, ..flow };
    let l3 = Flow { nw_src: 0, nw_dst: 0, nw_proto: 0, nw_tos: 0, nw_ttl: 0, nw_frag: 0, ..l4 };
    let depths = [
        (Depth::L4, naive),
        (Depth::L3, line_of(&l4)),
        (Depth::L2, line_of(&l3)),
        (Depth::Port, line_of(&meta.to_flow())),
    ];
    for (depth, expected) in depths {
        prop_assert_eq!(line(bytes, &meta, depth).0, expected);
        let flags = if depth >= Depth::L3 { flags } else { 0 };
        for keys in [in_batch(bytes, &meta, depth, false), in_batch(bytes, &meta, depth, true)] {
            prop_assert_eq!(keys, [(expected, flags), (expected, flags)], "{:?}", depth);
        }
    }
    Ok(())
}

/// Returns both keys of a packet that is in a batch twice, among others. `own`: each packet has its own metadata, as after recirculation.
fn in_batch(bytes: &[u8], meta: &Meta, depth: Depth, own: bool) -> [(cpu::Line, u16); 2] {
    let tagged = Flow { vlans: [flow::Vlan { tpid: 0x8100, tci: 0x1005 }, Default::default()], ..tcp(1, 2) };
    let six = Flow { dl_type: 0x86dd, nw_src: 0, nw_dst: 0, ..tcp(1, 2) };
    let mut batch = Batch { common: meta.clone(), ..Batch::default() };
    let mut pool = FramePool::new(8);
    for bytes in [bytes, &compose(&tagged, b""), bytes, &compose(&six, b"")] {
        batch.frames.extend(pool.frame_of(bytes));
        batch.own.extend(own.then(|| meta.clone()));
    }
    read(&mut batch, depth, 0);
    let key = |i: usize| (batch.lines[if batch.shares_key { 0 } else { i }], batch.tcp_flags[i]);
    [key(0), key(2)]
}
