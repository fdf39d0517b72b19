//! Rewritten programs compared with the same programs executed operation by operation, on valid and malformed packets
//! of every kind.
//!
//! The seed is printed if they differ; `PROGRAMS_SEED` sets it.

use crate::port::*;
use crate::program::{Op, Program};
use crate::{Config, Datapath, Worker};
use dpif::*;
use flow::compose::compose;
use flow::{Flow, Mac, Nsh, VLAN_CFI, Vlan};
use packet::offload::{Offload, PartialChecksum};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// Programs in one run.
const PROGRAMS: u64 = 100_000;
/// Batches in one run.
const BATCHES: u64 = 3000;
/// Ports to which programs send.
const PORTS: u32 = 3;

/// Random numbers of a seed, which a failed test prints.
struct Random(fastrand::Rng);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Any byte; values at the ends of the range are more frequent.
    fn byte(&mut self) -> u8 {
        match self.below(8) {
            0 => 0,
            1 => 0xff,
            _ => self.0.u8(..),
        }
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// A mask of some bytes, most often of all bits.
    fn mask<const N: usize>(&mut self) -> [u8; N] {
        match self.below(6) {
            0 => self.bytes(),
            1 => [0; N],
            _ => [0xff; N],
        }
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    fn word_mask(&mut self) -> u32 {
        u32::from_be_bytes(self.mask())
    }

    fn half(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes())
    }

    fn half_mask(&mut self) -> u16 {
        u16::from_be_bytes(self.mask())
    }
}

fn seed() -> u64 {
    let given = std::env::var("PROGRAMS_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(0)) | 1
}

/// The bytes of a packet, and its unfinished offloads.
type WithOffload = (Vec<u8>, Offload);

/// A frame that a port sent: the port, the bytes and the unfinished offloads.
type Sent = (u32, Vec<u8>, Offload);

#[derive(Clone)]
struct Recorder(u32, Arc<Mutex<Vec<Sent>>>);

impl TxQueue for Recorder {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut sent = self.1.lock().unwrap();
        sent.extend(frames.iter().map(|f| (self.0, f.bytes().to_vec(), f.offload())));
        TxResult { sent: frames.len() as u32, ..TxResult::default() }
    }
}

/// Delivers frames once.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<Vec<WithOffload>>>);

impl RxQueue for Given {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, _max: usize) -> RxResult {
        for (bytes, offload) in self.0.lock().unwrap().drain(..) {
            let mut frame = pool.frame_of(&bytes).unwrap();
            frame.set_offload(offload);
            out.push(frame);
        }
        RxResult::default()
    }
}

struct TestDatapath {
    datapath: Arc<Datapath>,
    worker: Worker,
    sent: Arc<Mutex<Vec<Sent>>>,
    given: Given,
}

impl TestDatapath {
    fn new() -> TestDatapath {
        let datapath = Datapath::new(&Config { max_flows: 1000, max_masks: 8, seed: 42, advise: None });
        let (sent, given) = (Arc::<Mutex<Vec<Sent>>>::default(), Given::default());
        let mut worker = datapath.worker(WorkerId(0), 0);
        for port in 1..=PORTS {
            let recorder = Recorder(port, Arc::clone(&sent));
            datapath.add_port(PortNo(port), vec![Box::new(recorder)]).unwrap();
        }
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(given.clone()));
        TestDatapath { datapath, worker, sent, given }
    }

    fn execute(&mut self, (bytes, offload): &WithOffload, program: &Program) -> Vec<Sent> {
        self.worker.execute_with_offload(bytes, *offload, program);
        self.taken()
    }

    /// The frames sent since the last call. Frames on different ports have no order.
    fn taken(&self) -> Vec<Sent> {
        let mut sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.sort_by_key(|(port, ..)| *port);
        sent
    }
}

fn flow(r: &mut Random) -> Flow {
    let mut f = Flow { dl_dst: Mac(r.bytes()), dl_src: Mac(r.bytes()), in_port: 1, ..Flow::ZERO };
    f.dl_type = r.of(&[0x0800, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8847, 0x88cc, 0x05ff]);
    for vlan in f.vlans.iter_mut().take(r.of(&[0, 0, 0, 1, 1, 2])) {
        *vlan = Vlan { tpid: r.of(&[0x8100, 0x8100, 0x88a8]), tci: r.half() | VLAN_CFI };
    }
    (f.nw_tos, f.nw_ttl) = (r.byte(), r.byte());
    f.nw_proto = r.of(&[6, 6, 17, 17, 1, 58, 132, 47, 2]);
    (f.nw_src, f.nw_dst) = (r.word(), r.word());
    (f.ipv6_src, f.ipv6_dst, f.ipv6_label) = (r.bytes(), r.bytes(), r.word() & 0xf_ffff);
    (f.tp_src, f.tp_dst) = (r.half(), r.half());
    if matches!(f.nw_proto, 1 | 58) {
        (f.tp_src, f.tp_dst) = (r.of(&[0, 8, 128, 135, 136]), r.below(3) as u16);
    }
    if r.one_in(12) {
        f.nw_frag = r.of(&[1, 3]);
    }
    if f.dl_type == 0x0806 {
        f.nw_proto = r.of(&[1, 2]);
        (f.arp_sha, f.arp_tha) = (Mac(r.bytes()), Mac(r.bytes()));
    }
    if f.dl_type == 0x8847 {
        f.mpls_lse = [r.word() & !0x100, r.word() | 0x100, 0];
    }
    f
}

/// A packet of the flow, usually without changes.
fn packet(r: &mut Random, f: &Flow) -> WithOffload {
    let payload: Vec<u8> = (0..r.below(40)).map(|_| r.byte()).collect();
    let mut bytes = compose(f, &payload);
    let tags = f.vlans.iter().filter(|v| v.tci != 0).count();
    let (l3, header) = (14 + 4 * tags, if f.dl_type == 0x86dd { 40 } else { 20 });
    let l4 = l3 + header;
    match r.below(24) {
        0 => bytes.truncate(14 + r.below(bytes.len() as u64) as usize),
        1 | 2 => {
            let at = 6 + r.below(bytes.len().min(90) as u64 - 6) as usize;
            bytes[at] = r.byte();
        }
        3 if f.dl_type == 0x0800 => bytes[l3] = 0x40 | r.below(16) as u8,
        4 if f.dl_type == 0x0800 => {
            let options = 4 * (1 + r.below(10) as u8);
            bytes[l3] += options / 4;
            bytes[l3 + 3] = bytes[l3 + 3].wrapping_add(options);
            (0..options).for_each(|_| bytes.insert(l4, 1));
        }
        5 if f.dl_type == 0x86dd => {
            // Hop-by-hop options, a routing header with a segment left, or a fragment header.
            let kind = r.of(&[0, 43, 44]);
            let header = [bytes[l3 + 6], 0, 0, r.of(&[0, 1, 8]), 1, 2, 3, 4];
            bytes[l3 + 6] = kind;
            bytes[l3 + 5] = bytes[l3 + 5].wrapping_add(8);
            bytes.splice(l4..l4, header);
        }
        6 | 7 if f.nw_proto == 17 && bytes.len() > l4 + 8 => bytes[l4 + 6..l4 + 8].fill(0),
        8 if f.nw_proto == 6 && bytes.len() > l4 + 13 => bytes[l4 + 12] = r.byte(),
        9 => bytes.extend([0; 9]),
        10 => (0..4).for_each(|i| bytes.insert(12 + i, [0x81, 0, 0, 5][i])),
        _ => {}
    }
    bytes.resize(bytes.len().max(14), 0);
    let has_offload = matches!(f.nw_proto, 6 | 17) && bytes.len() >= l4 + 20 && r.one_in(10);
    let csum = PartialChecksum { start: l4 as u16, offset: if f.nw_proto == 6 { 16 } else { 6 } };
    (bytes, Offload { csum: has_offload.then_some(csum), gso: None })
}

fn field(r: &mut Random, f: &Flow) -> SetField {
    let wide = |r: &mut Random| [r.half(), r.half(), r.half_mask(), r.half_mask()];
    match r.below(if f.is_ip() { 13 } else { 16 }) {
        0..=2 => {
            let value = EthKey { src: Mac(r.bytes()), dst: Mac(r.bytes()) };
            SetField::Eth(Masked::new(value, EthKey { src: Mac(r.mask()), dst: Mac(r.mask()) }))
        }
        3..=6 if f.dl_type == 0x86dd => {
            let [tclass, hlimit] = r.bytes();
            let value = Ipv6Key {
                src: r.bytes(),
                dst: r.bytes(),
                label: r.word(),
                tclass,
                hlimit,
                ..Ipv6Key::default()
            };
            let [tclass, hlimit] = r.mask();
            let mask =
                Ipv6Key { src: r.mask(), dst: r.mask(), label: r.word_mask(), tclass, hlimit, ..value };
            SetField::Ipv6(Box::new(Masked::new(value, mask)))
        }
        3..=6 => {
            let [tos, ttl] = r.bytes();
            let value = Ipv4Key { src: r.word(), dst: r.word(), tos, ttl, ..Ipv4Key::default() };
            let [tos, ttl] = r.mask();
            let mask = Ipv4Key { src: r.word_mask(), dst: r.word_mask(), tos, ttl, ..Ipv4Key::default() };
            SetField::Ipv4(Masked::new(value, mask))
        }
        7..=9 => {
            let [src, dst, src_mask, dst_mask] = wide(r);
            let m = Masked::new(PortsKey { src, dst }, PortsKey { src: src_mask, dst: dst_mask });
            match r.below(8) {
                0 => SetField::Sctp(m),
                1 => SetField::Tcp(m),
                _ if f.nw_proto == 6 => SetField::Tcp(m),
                _ => SetField::Udp(m),
            }
        }
        10 | 11 => {
            let ([icmp_type, code], [t, c]) = (r.bytes(), r.mask());
            let m = Masked::new(IcmpKey { icmp_type, code }, IcmpKey { icmp_type: t, code: c });
            if f.dl_type == 0x86dd { SetField::Icmpv6(m) } else { SetField::Icmp(m) }
        }
        12 => {
            let nd = |target, a, b| NdKey { target, sll: Mac(a), tll: Mac(b) };
            let value = nd(r.bytes(), r.bytes(), r.bytes());
            SetField::Nd(Box::new(Masked::new(value, nd(r.mask(), r.mask(), r.mask()))))
        }
        13 | 14 => {
            let key = |sip, tip, op, a, b| ArpKey { sip, tip, op, sha: Mac(a), tha: Mac(b) };
            let value = key(r.word(), r.word(), r.half(), r.bytes(), r.bytes());
            let mask = key(r.word_mask(), r.word_mask(), r.half_mask(), r.mask(), r.mask());
            SetField::Arp(Masked::new(value, mask))
        }
        _ => SetField::Mpls(Masked::new(r.word(), r.word_mask())),
    }
}

fn actions(r: &mut Random, f: &Flow, nesting: u64) -> Vec<DpAction> {
    let push = |md2: Vec<u8>| DpAction::PushNsh(Box::new(PushNsh { nsh: Nsh::NEW, md2 }));
    let mut list: Vec<DpAction> = (0..1 + r.below(8))
        .map(|_| match r.below(24) {
            0..=11 => DpAction::Set(field(r, f)),
            12 | 13 => DpAction::PushVlan { tpid: r.of(&[0x8100, 0x8100, 0x88a8, 0x9100]), tci: r.half() },
            14 | 15 => DpAction::PopVlan,
            16 => DpAction::PushMpls { ethertype: r.of(&[0x8847, 0x8848]), lse: r.word() },
            17 => DpAction::PopMpls { ethertype: r.of(&[0x0800, 0x86dd, 0x8847, 0x8100, 0x0300]) },
            18 if r.one_in(2) => DpAction::Set(SetField::Mark(Masked::new(7, 7))),
            18 => DpAction::Set(SetField::Priority(Masked::new(r.word() % 3, u32::MAX))),
            19 | 20 => DpAction::Output(PortNo(2 + r.below(2) as u32)),
            21 if nesting < 2 => DpAction::Clone(actions(r, f, nesting + 1)),
            22 if r.one_in(3) => push(vec![]),
            22 if r.one_in(3) => DpAction::PopEth,
            22 => DpAction::PushEth { dst: Mac(r.bytes()), src: Mac(r.bytes()) },
            _ => DpAction::Trunc(r.of(&[20, 60, 200])),
        })
        .collect();
    list.push(DpAction::Output(PortNo(2 + r.below(2) as u32)));
    list
}

/// A mask that a megaflow of the flow may have.
fn mask(r: &mut Random) -> Flow {
    let mut mask = Flow::ZERO;
    if r.one_in(4) {
        return mask;
    }
    let all = r.one_in(2);
    let mut some = || if all || r.one_in(2) { u32::MAX } else { 0 };
    (mask.nw_src, mask.nw_dst) = (some(), some());
    (mask.nw_ttl, mask.nw_tos, mask.nw_proto) = (some() as u8, some() as u8, some() as u8);
    (mask.tp_src, mask.tp_dst) = (some() as u16, some() as u16);
    (mask.ipv6_src, mask.ipv6_dst) = ([some() as u8; 16], [some() as u8; 16]);
    mask
}

/// Returns whether both lists of frames are equal, except that a checksum may be either of the two zeros: a receiver
/// does not distinguish them, and changing several words at once may give the other zero.
fn same(a: &[Sent], b: &[Sent]) -> bool {
    let equal = |a: &[u8], b: &[u8]| {
        let first = a.iter().zip(b).position(|(a, b)| a != b);
        a.len() == b.len()
            && first.is_none_or(|at| {
                let zeros = |x: &[u8]| matches!(x[at..at + 2], [0, 0] | [0xff, 0xff]);
                at + 2 <= a.len() && zeros(a) && zeros(b) && same_rest(&a[at + 2..], &b[at + 2..])
            })
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a.0, a.2) == (b.0, b.2) && equal(&a.1, &b.1))
}

fn same_in_any_order(a: &[Sent], b: &[Sent]) -> bool {
    let mut left: Vec<&Sent> = b.iter().collect();
    let mut found = |x: &Sent| {
        let at = left.iter().position(|y| same(std::slice::from_ref(x), std::slice::from_ref(y)));
        at.map(|at| left.swap_remove(at)).is_some()
    };
    a.len() == b.len() && a.iter().all(&mut found)
}

fn same_rest(a: &[u8], b: &[u8]) -> bool {
    same(&[(0, a.to_vec(), Offload::default())], &[(0, b.to_vec(), Offload::default())])
}

/// Returns whether the program has rewrites, and whether the first one fits the packet if it is the first operation.
fn rewrites(program: &Program, (bytes, offload): &WithOffload) -> (bool, bool) {
    let mut frame = FramePool::new(1).frame_of(bytes).unwrap();
    frame.set_offload(*offload);
    let fits = program.rewrite().is_some_and(|rewrite| rewrite.apply(&mut frame));
    (program.ops.iter().any(|op| matches!(op, Op::Rewrite(_))), fits)
}

#[test]
fn programs_do_what_their_operations_do() {
    let seed = seed();
    let (mut r, mut test) = (Random(fastrand::Rng::with_seed(seed)), TestDatapath::new());
    let (mut rewritten, mut fit) = (0, 0);
    for n in 0..PROGRAMS {
        let f = flow(&mut r);
        let list = actions(&mut r, &f, 0);
        let packet = packet(&mut r, &f);
        let mask = mask(&mut r);
        let naive = Program::compile(&list);
        let fast = Program::compile_for(&list, &f, &mask);
        let (has, fits) = rewrites(&fast, &packet);
        (rewritten, fit) = (rewritten + u64::from(has), fit + u64::from(fits));
        let (want, got) = (test.execute(&packet, &naive), test.execute(&packet, &fast));
        assert!(
            same(&want, &got),
            "PROGRAMS_SEED={seed}, program {n}\nflow {f:?}\n{packet:02x?}\n{list:?}\n{fast:?}\nwant {want:02x?}\n got {got:02x?}"
        );
    }
    assert!(rewritten > PROGRAMS / 3, "of {PROGRAMS} programs only {rewritten} have rewrites");
    assert!(fit > PROGRAMS / 5 && fit < rewritten, "{fit} of {rewritten} rewrites fit their packets");
}

/// Whole batches of up to four megaflows, in which some packets have another layout than the packet that installed
/// the megaflow.
#[test]
fn batches_do_what_their_packets_do() {
    let seed = seed();
    let (mut r, mut test, mut reference) =
        (Random(fastrand::Rng::with_seed(seed)), TestDatapath::new(), TestDatapath::new());
    for n in 0..BATCHES {
        let whole = Flow { dl_dst: Mac([0xff; 6]), ..mask(&mut r) };
        let masks = Flow { dl_dst: whole.dl_dst, ..Flow::ZERO };
        let count = 1 + r.below(4);
        let one_way = r.one_in(2);
        let flows: Vec<(Flow, Vec<DpAction>)> = (0..count)
            .map(|i| {
                let f = Flow { dl_dst: Mac([2, 0, 0, 0, 0, i as u8]), ..flow(&mut r) };
                let mut list = actions(&mut r, &f, 0);
                if one_way {
                    list.retain(|a| {
                        !matches!(a, DpAction::Output(_) | DpAction::Clone(_) | DpAction::Trunc(_))
                    });
                    list.push(DpAction::Output(PortNo(2)));
                } else if r.one_in(8) {
                    list.clear();
                }
                (f, list)
            })
            .collect();
        for (f, list) in &flows {
            test.datapath.flow_put(f, &masks, list.clone().into(), Arc::new(NoOwner)).unwrap();
        }
        let mut want = Vec::new();
        for _ in 0..1 + r.below(64) {
            let (f, list) = &flows[r.below(count) as usize];
            let packet = packet(&mut r, f);
            want.extend(reference.execute(&packet, &Program::compile(list)));
            test.given.0.lock().unwrap().push(packet);
        }
        test.worker.poll(Millis(n), Cycles(n));
        let got = test.taken();
        want.sort_by_key(|(port, ..)| *port);
        // A group is executed operation by operation: packets that are sent more than once have no order.
        let ordered = count == 1 && one_way;
        assert!(
            if ordered { same(&want, &got) } else { same_in_any_order(&want, &got) },
            "PROGRAMS_SEED={seed}, batch {n}\n{flows:?}\nwant {want:02x?}\n got {got:02x?}"
        );
        test.datapath.flow_flush(Millis(n));
    }
}
