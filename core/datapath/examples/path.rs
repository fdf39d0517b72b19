//! The cost of the path per packet, without devices: received frames are copied from memory, sent ones are
//! freed.
//!
//! `cargo run --release -p datapath --example path [case ...]` prints nanoseconds per packet. If `PACKETS` is
//! set, it processes that many packets of each case without using the clock, as instruction counters need it.
//! The cases `rx`, `rxby8`, `rxby4` and `rxby1` only copy and free frames: subtract the result of the case with the
//! same burst size.
//! With `CAPTURE=PORT` a capture of that port runs meanwhile.

use datapath::batch::BATCH;
use datapath::capture::{Capture, CaptureSpec};
use datapath::port::{FramePool, RX_BURST, Repeat, RxQueue, Sink};
use datapath::{Config, Datapath, Event, Worker};
use dpif::meter::Band;
use dpif::*;
use flow::compose::compose;
use flow::flow::ct_state::{NEW, TRACKED};
use flow::{Flow, Mac, Tunnel};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tunnel::{HeaderConfig, Kind, PerPacket, Request, Template};
use units::{Cycles, Millis, Nanos, PortNo, QueueId, WorkerId};

const ACK: u16 = 0x10;

/// Packets per burst: the number after `by` in the case's name, or a whole batch.
fn burst(case: &str) -> usize {
    case.split_once("by").and_then(|(_, n)| n.parse().ok()).unwrap_or(BATCH)
}

fn output() -> Vec<DpAction> {
    output_to(2)
}

fn output_to(port: u32) -> Vec<DpAction> {
    vec![DpAction::Output(PortNo(port))]
}

/// A case: name, number of different packets, masks of its megaflows, actions.
type Case = (&'static str, u32, Vec<Flow>, Vec<DpAction>);

fn cases() -> Vec<Case> {
    let mac = Mac([255; 6]);
    let tagged =
        Flow { vlans: [flow::Vlan { tpid: u16::MAX, tci: u16::MAX }, Default::default()], ..Flow::ZERO };
    let ip = Flow { dl_type: u16::MAX, nw_frag: 3, ..Flow::ZERO };
    let src = Flow { nw_src: 0xff00_0000, ..ip };
    let normal = Flow { dl_src: mac, dl_dst: mac, dl_type: u16::MAX, ..tagged };
    let five =
        Flow { nw_src: u32::MAX, nw_dst: u32::MAX, nw_proto: 255, tp_src: 0xffff, tp_dst: 0xffff, ..ip };
    let two = vec![Flow { nw_ttl: 255, ..five }, five];
    let look_up = DpAction::Ct(Box::default());
    let track = DpAction::Ct(Box::new(Ct { commit: true, ..Ct::default() }));
    let address = std::net::IpAddr::from([30, 0, 0, 1]);
    let nat = CtNat { snat: Some(true), addresses: Some((address, address)), ..CtNat::default() };
    let translate = DpAction::Ct(Box::new(Ct { commit: true, nat: Some(nat), ..Ct::default() }));
    let look_up_nat = DpAction::Ct(Box::new(Ct { nat: Some(CtNat::default()), ..Ct::default() }));
    let push = DpAction::PushVlan { tpid: 0x8100, tci: 0x1005 };
    let eth = EthKey { src: Mac([1; 6]), dst: Mac([2; 6]) };
    let set = DpAction::Set(SetField::Eth(Masked::new(eth, EthKey { src: mac, dst: mac })));
    let ipv4 = |ttl, dst, mask| {
        let whole = Ipv4Key { ttl: mask, dst: if dst == 0 { 0 } else { u32::MAX }, ..Ipv4Key::default() };
        DpAction::Set(SetField::Ipv4(Masked::new(Ipv4Key { ttl, dst, ..Ipv4Key::default() }, whole)))
    };
    let hash = DpAction::Hash { alg: HashAlg::L4, basis: 0 };
    let edits = vec![set.clone(), ipv4(63, 0, 255)];
    let ttl = Flow { nw_ttl: 255, ..ip };
    let ports = |src, dst| PortsKey { src, dst };
    let nat = vec![
        ipv4(0, 0x1e00_0001, 0),
        DpAction::Set(SetField::Udp(Masked::new(ports(0, 8080), ports(0, 0xffff)))),
    ];
    vec![
        ("in", 1, vec![Flow::ZERO], output()),
        ("drop", 1, vec![Flow::ZERO], vec![]),
        ("kind1000", 1000, vec![ip], output()),
        ("kinddrop1000", 1000, vec![ip], vec![]),
        ("src", 1, vec![src], output()),
        ("src1000", 1000, vec![src], output()),
        ("src100000", 100_000, vec![src], output()),
        ("normal1000", 1000, vec![normal], output()),
        ("vlan", 1, vec![src], [vec![push.clone()], output()].concat()),
        ("mac", 1, vec![src], [vec![set], output()].concat()),
        ("flows32", 32, vec![five], output()),
        ("flows1000", 1000, vec![five], output()),
        ("flows50000", 50_000, vec![five], output()),
        ("masks1000", 1000, two.clone(), output()),
        ("masks50000", 50_000, two, output()),
        ("route", 1, vec![src], [edits.clone(), output()].concat()),
        ("route10000", 10_000, networks(&ttl), [edits.clone(), output()].concat()),
        ("push10000", 10_000, networks(&ttl), [edits.clone(), vec![push.clone()], output()].concat()),
        ("nat10000", 10_000, networks(&Flow { nw_proto: 255, ..ip }), [nat, output()].concat()),
        ("two10000", 10_000, networks(&ip), [output(), output()].concat()),
        ("meter10000", 10_000, networks(&ip), [vec![DpAction::Meter(0)], output()].concat()),
        ("pop10000", 10_000, vec![normal], [vec![DpAction::PopVlan], output()].concat()),
        ("group10000", 10_000, networks(&ip), vec![hash, DpAction::Recirc(1)]),
        ("bond10000", 10_000, networks(&ip), vec![DpAction::LbOutput(LbOutput { bond_id: 1 })]),
        ("recirc", 1, vec![src], vec![DpAction::Recirc(1)]),
        ("ct1000", 1000, vec![src], [vec![track.clone()], output()].concat()),
        ("est20", 20, vec![ip], vec![look_up.clone(), DpAction::Recirc(1)]),
        ("esttcp20", 20, vec![ip], vec![look_up.clone(), DpAction::Recirc(1)]),
        ("est1000", 1000, vec![src], vec![track.clone(), DpAction::Recirc(1)]),
        ("est100000", 100_000, vec![src], vec![track.clone(), DpAction::Recirc(1)]),
        ("estsix1000", 1000, vec![ip], vec![track.clone(), DpAction::Recirc(1)]),
        ("estsix20000", 20_000, vec![ip], vec![track.clone(), DpAction::Recirc(1)]),
        ("esttcp1000", 1000, vec![src], vec![track, DpAction::Recirc(1)]),
        ("snat1000", 1000, vec![src], vec![translate.clone(), DpAction::Recirc(1)]),
        ("new256000", 256_000, vec![ip], vec![look_up, DpAction::Recirc(1)]),
        ("newsnat256000", 256_000, vec![ip], vec![look_up_nat, DpAction::Recirc(1)]),
        ("newsix256000", 256_000, vec![ip], vec![DpAction::Ct(Box::default()), DpAction::Recirc(1)]),
        ("single10000", 10_000, vec![src], output()),
        ("table10000", 10_000, networks(&ip), output()),
        ("ports10000", 10_000, networks(&ip), output()),
        ("table10000by8", 10_000, networks(&ip), output()),
        ("table10000by4", 10_000, networks(&ip), output()),
        ("table10000by1", 10_000, networks(&ip), output()),
        ("route10000by4", 10_000, networks(&ttl), [edits.clone(), output()].concat()),
        ("route10000by1", 10_000, networks(&ttl), [edits.clone(), output()].concat()),
        ("six10000", 10_000, networks6(), output()),
        ("tag10000", 10_000, vec![Flow { dl_type: u16::MAX, nw_frag: 3, ..tagged }], output()),
        ("tagtable10000", 10_000, tagged_networks(&tagged), output()),
        ("encap1000", 1000, vec![src], vec![push_header(false, 0), output_to(2)[0].clone()]),
        ("encapsix1000", 1000, vec![src], vec![push_header(true, 0), output_to(2)[0].clone()]),
        ("encapends1000", 1000, vec![Flow { nw_src: u32::MAX, ..ip }], output()),
        ("decap1000", 1000, vec![outer_mask()], vec![DpAction::TunnelPop(TUNNEL)]),
        ("decapsix1000", 1000, vec![outer_mask()], vec![DpAction::TunnelPop(TUNNEL)]),
        ("decapends1000", 1000, vec![outer_mask()], vec![DpAction::TunnelPop(TUNNEL)]),
    ]
}

/// The tunnel port.
const TUNNEL: PortNo = PortNo(9);
const VXLAN: u16 = 4789;
const KEY: u64 = 100;

/// Local and remote address. `end`: number of the remote tunnel endpoint.
fn ends(six: bool, end: u32) -> (IpAddr, IpAddr) {
    match six {
        false => ([192, 168, 50, 1].into(), std::net::Ipv4Addr::from(0xac10_0000 + end).into()),
        true => (
            [0xfc00, 0, 0, 0, 0, 0, 0, 1].into(),
            std::net::Ipv6Addr::from(0xfc01_u128 << 112 | u128::from(end)).into(),
        ),
    }
}

/// The VXLAN header towards remote tunnel endpoint `end`; over IPv6 with a checksum.
fn push_header(six: bool, end: u32) -> DpAction {
    let (own, remote) = ends(six, end);
    header(own, remote)
}

fn header(src: IpAddr, dst: IpAddr) -> DpAction {
    let six = src.is_ipv6();
    let flags = if six { 4 } else { 2 };
    let tunnel = Tunnel { tun_id: KEY, ip_ttl: 64, flags, ..Tunnel::default() };
    let request = Request {
        kind: Kind::Vxlan { gbp: false },
        dst_mac: Mac([2, 0, 0, 0, 0, 0x92]),
        src_mac: Mac([2, 0, 0, 0, 0, 0x88]),
        src,
        dst,
        dst_port: VXLAN,
        tunnel: &tunnel,
        options: &[],
        packet_type: 0,
        dl_type: 0x0800,
        config: &HeaderConfig::default(),
    };
    let built = tunnel::build(&request).unwrap();
    let header = TunnelHeader(built.bytes);
    let push =
        TunnelPush { tunnel_port: TUNNEL, out_port: PortNo(2), tunnel_type: built.tunnel_type, header };
    DpAction::TunnelPush(Box::new(push))
}

/// The fields of a tunnel packet that megaflows match.
fn outer_mask() -> Flow {
    Flow {
        dl_dst: Mac([255; 6]),
        dl_type: u16::MAX,
        nw_frag: 3,
        nw_dst: u32::MAX,
        ipv6_dst: [255; 16],
        nw_proto: 255,
        tp_dst: u16::MAX,
        ..Flow::ZERO
    }
}

/// The bytes of packet `n` of a case.
fn bytes(case: &str, n: u32) -> Vec<u8> {
    let inner = compose(&packet(case, n), &[0; 18]);
    if !case.starts_with("decap") {
        return inner;
    }
    let end = if case.starts_with("decapends") { n } else { 0 };
    let (own, remote) = ends(case.starts_with("decapsix"), end);
    let DpAction::TunnelPush(push) = header(remote, own) else { return inner };
    let header = push.header.0;
    let mut outer = [vec![0; header.len()], inner].concat();
    let each = PerPacket { source_port: 32_768 + n as u16, ..PerPacket::default() };
    Template::new(&header, push.tunnel_type).and_then(|template| template.write(&mut outer, &each)).unwrap();
    outer
}

/// Adds the tunnel port and the megaflows of a case with a tunnel. Its packets leave by port 2.
fn add_tunnel(datapath: &Datapath, case: &str, n: u32) {
    datapath.set_tunnel(TUNNEL, Kind::Vxlan { gbp: false }).unwrap();
    for i in 0..n {
        let mut flow = Flow { in_port: 1, ..Flow::ZERO };
        let mut mask =
            Flow { in_port: u32::MAX, dl_type: u16::MAX, nw_frag: 3, nw_src: u32::MAX, ..Flow::ZERO };
        let actions = if case.starts_with("encapends") {
            flow = Flow { in_port: 1, ..packet(case, i) };
            vec![push_header(false, i), output_to(2)[0].clone()]
        } else if case.starts_with("encap") {
            return;
        } else {
            flow::extract::extract(&bytes(case, i), 2, &mut flow);
            mask = Flow { in_port: u32::MAX, ..outer_mask() };
            vec![DpAction::TunnelPop(TUNNEL)]
        };
        let _ = datapath.flow_put(&flow, &mask, actions.into(), Arc::new(NoOwner));
        if case.starts_with("encap") {
            continue;
        }
        let (dst, src) =
            ends(case.starts_with("decapsix"), if case.starts_with("decapends") { i } else { 0 });
        let six = case.starts_with("decapsix");
        let mut tunnel = Tunnel { tun_id: KEY, flags: if six { 4 } else { 0 }, ..Tunnel::default() };
        let mut whole = Tunnel { tun_id: u64::MAX, flags: 4, ..Tunnel::default() };
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                (tunnel.ip_src, tunnel.ip_dst) = (src.into(), dst.into());
                (whole.ip_src, whole.ip_dst) = (u32::MAX, u32::MAX);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                (tunnel.ipv6_src, tunnel.ipv6_dst) = (src.octets(), dst.octets());
                (whole.ipv6_src, whole.ipv6_dst) = ([255; 16], [255; 16]);
            }
            _ => {}
        }
        let inner = Flow { in_port: TUNNEL.0, tunnel, ..packet(case, i) };
        let mask = Flow {
            in_port: u32::MAX,
            tunnel: whole,
            dl_type: u16::MAX,
            nw_frag: 3,
            nw_src: 0xff00_0000,
            ..Flow::ZERO
        };
        let _ = datapath.flow_put(&inner, &mask, output().into(), Arc::new(NoOwner));
    }
}

/// As `networks`, for IPv6.
fn networks6() -> Vec<Flow> {
    let mask = |bits: u32| (u128::MAX << (128 - bits)).to_be_bytes();
    (24..29).map(|bits| Flow { dl_type: u16::MAX, nw_frag: 3, ipv6_src: mask(bits), ..Flow::ZERO }).collect()
}

/// As `networks`, for IPv4 in VLANs.
fn tagged_networks(tagged: &Flow) -> Vec<Flow> {
    networks(&Flow { dl_type: u16::MAX, nw_frag: 3, ..*tagged })
}

/// Masks of networks with five prefix lengths.
fn networks(ip: &Flow) -> Vec<Flow> {
    let mut masks = vec![*ip; 5];
    (8..13).zip(&mut masks).for_each(|(bits, mask)| mask.nw_src = u32::MAX << (32 - bits));
    masks
}

/// Packet `n` of a case: cases with 10,000 packets use twenty networks and a different destination for each
/// packet.
fn packet(case: &str, n: u32) -> Flow {
    if case.starts_with("six") || case.starts_with("newsix") {
        udp6(n)
    } else if case.starts_with("new") {
        Flow { nw_dst: 0x1400_0000 + n, ..udp(0) }
    } else if case.starts_with("estsix") {
        let there = udp6(n / 2);
        let Flow { ipv6_src, ipv6_dst, tp_src, tp_dst, .. } = there;
        match n % 2 {
            0 => there,
            _ => Flow { ipv6_src: ipv6_dst, ipv6_dst: ipv6_src, tp_src: tp_dst, tp_dst: tp_src, ..there },
        }
    } else if case.contains("10000") && !case.contains("100000") {
        let tag = flow::Vlan { tpid: 0x8100, tci: 0x1001 + (n % 64) as u16 };
        let is_tagged = case.starts_with("pop") || case.starts_with("tag");
        let vlans = if is_tagged { [tag, Default::default()] } else { Default::default() };
        Flow { nw_src: (10 + n % 20) << 24 | 1, nw_dst: 0x1400_0000 + n, vlans, ..udp(0) }
    } else if case.starts_with("est") || case.starts_with("snat") {
        let there = udp(n / 2);
        let (nw_src, nw_dst, tp_src) = (there.nw_dst, there.nw_src, there.tp_dst);
        // Replies are sent to the address that the server sees; each client has its own port there.
        let host = if case.starts_with("snat") { 0x1e00_0001 } else { nw_dst };
        let port = 1024 + (n / 2 % 60_000) as u16;
        let there = match case.starts_with("esttcp") {
            true => Flow { nw_proto: 6, tcp_flags: ACK, ..there },
            false => there,
        };
        match n % 2 {
            0 => Flow { tp_src: port, ..there },
            _ => Flow { nw_src, nw_dst: host, tp_src, tp_dst: port, ..there },
        }
    } else {
        udp(n)
    }
}

fn udp6(n: u32) -> Flow {
    let ipv6_src = (0x2001_u128 << 112 | u128::from(n % 20) << 104 | u128::from(n)).to_be_bytes();
    let ipv6_dst = (0x2002_u128 << 112 | u128::from(n)).to_be_bytes();
    Flow { dl_type: 0x86dd, nw_src: 0, nw_dst: 0, ipv6_src, ipv6_dst, ..udp(0) }
}

fn udp(n: u32) -> Flow {
    let (dl_src, dl_dst) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let (nw_src, nw_dst) = (0x0a00_0000 + n, 0x1400_0001);
    Flow {
        dl_type: 0x0800,
        dl_src,
        dl_dst,
        nw_proto: 17,
        nw_src,
        nw_dst,
        nw_ttl: 64,
        tp_src: 1,
        tp_dst: 2,
        ..Flow::ZERO
    }
}

fn setup((name, n, masks, actions): &Case) -> (Arc<Datapath>, Worker) {
    let datapath = Datapath::new(&Config { max_flows: 65_535, max_masks: 64, seed: 42, advise: None });
    let mut worker = datapath.worker(WorkerId(0), 0);
    datapath.add_port(PortNo(1), vec![Box::new(Sink)]).unwrap();
    (2..6).for_each(|port| datapath.add_port(PortNo(port), vec![Box::new(Sink)]).unwrap());
    let meter =
        MeterSpec { packets: true, bands: vec![Band { rate: u32::MAX, burst: u32::MAX, remark: None }] };
    datapath.set(0, &meter, Millis(0));
    datapath.bonds().put(1, 0, &std::array::from_fn(|bucket| Some(PortNo(2 + bucket as u32 % 4))));
    if name.contains("cap") {
        add_tunnel(&datapath, name, *n);
    }
    let address = IpAddr::from([30, 0, 0, 1]);
    let source = CtNat { snat: Some(true), addresses: Some((address, address)), ..CtNat::default() };
    for i in 0..*n {
        if name.starts_with("decap") || name.starts_with("encapends") {
            break;
        }
        let key = Flow { in_port: 1, ..packet(name, i) };
        let mask = &masks[i as usize % masks.len()];
        let actions = if name.starts_with("ports") { output_to(2 + i % 4) } else { actions.clone() };
        let _ = datapath.flow_put(&key, mask, actions.into(), Arc::new(NoOwner));
        let again = Flow { recirc_id: 1, ..key };
        if name == &"recirc" {
            datapath.flow_put(&again, mask, output().into(), Arc::new(NoOwner)).unwrap();
        }
        if name.starts_with("est") || name.starts_with("snat") || name.starts_with("new") {
            let again = Flow { ct_state: TRACKED, ..again };
            let mask = Flow { dl_type: u16::MAX, nw_frag: 3, ct_state: TRACKED | NEW, ..Flow::ZERO };
            let _ = datapath.flow_put(&again, &mask, output().into(), Arc::new(NoOwner));
            let new = Flow { ct_state: TRACKED | NEW, ..again };
            let nat = name.starts_with("newsnat").then(|| source.clone());
            let commit = DpAction::Ct(Box::new(Ct { commit: true, nat, ..Ct::default() }));
            let _ =
                datapath.flow_put(&new, &mask, [vec![commit], output()].concat().into(), Arc::new(NoOwner));
        }
    }
    if name.starts_with("group") {
        for dp_hash in 0..4 {
            let key = Flow { in_port: 1, recirc_id: 1, dp_hash, ..packet(name, 0) };
            let mask = Flow { dp_hash: 3, dl_type: u16::MAX, nw_frag: 3, ..Flow::ZERO };
            datapath.flow_put(&key, &mask, output().into(), Arc::new(NoOwner)).unwrap();
        }
    }
    let packets = (0..*n).map(|i| bytes(name, i)).collect();
    worker.add_rxq(PortNo(1), QueueId(0), Box::new(Repeat::new(packets, burst(name))));
    (datapath, worker)
}

/// Full bursts (64 packets) per millisecond at about 40 million packets per second, so that work done once per
/// millisecond is as rare as in practice.
const TURNS_PER_MS: u64 = 600;

/// Nanoseconds per packet: the minimum of several windows.
fn measure(mut poll: impl FnMut(u64) -> u64, fixed: Option<u64>) -> f64 {
    let mut turn = 0;
    let mut window = |packets: u64| {
        let (start, mut n) = (Instant::now(), 0);
        while n < packets {
            n += poll(turn);
            turn += 1;
        }
        start.elapsed().as_nanos() as f64 / n as f64
    };
    if let Some(n) = fixed {
        return window(n);
    }
    window(400_000);
    (0..7).map(|_| window(400_000)).fold(f64::MAX, f64::min)
}

/// A capture of all packets of this port.
fn capture_of(port: u32) -> Arc<Capture> {
    let spec = CaptureSpec { ports: [port].into(), ..CaptureSpec::everything(1 << 18, 8 << 20) };
    Arc::new(Capture::new(spec, Arc::new(|| Nanos(0))))
}

fn main() {
    let fixed = std::env::var("PACKETS").ok().and_then(|n| n.parse().ok());
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|a| a == name);
    for ports in ["rx", "rxby8", "rxby4", "rxby1"].into_iter().filter(|name| wanted(name)) {
        let mut source = Repeat::new(vec![compose(&udp(0), &[0; 18])], burst(ports));
        let (mut pool, mut out) = (FramePool::new(100), Vec::new());
        let poll = |_| {
            source.rx(&mut pool, &mut out, RX_BURST);
            out.drain(..).map(|f| pool.free(f)).count() as u64
        };
        println!("{ports:12} {:7.2} ns", measure(poll, fixed));
    }
    for case in cases().iter().filter(|c| wanted(c.0)) {
        let (datapath, mut worker) = setup(case);
        let capture = std::env::var("CAPTURE").ok().and_then(|port| port.parse().ok()).map(capture_of);
        capture.iter().for_each(|capture| datapath.start_capture(capture).expect("it is the only one"));
        let packets = burst(case.0) as u64;
        let poll = |turn| {
            worker.poll_publishing_rarely(Millis(turn / TURNS_PER_MS), Cycles(turn), || Cycles(turn));
            packets
        };
        let ns = measure(poll, fixed);
        worker.go_idle();
        let tally = datapath.tally();
        assert_eq!((tally.get(Event::Missed) + tally.get(Event::Lost), tally.balance()), (0, 0));
        println!("{:12} {ns:7.2} ns", case.0);
    }
}
