//! The tracker against a reference implementation, TCP by example, and random packets.

use crate::*;
use flow::compose::compose;
use flow::flow::ct_state::{
    ESTABLISHED as EST, INVALID as INV, NEW, RELATED as REL, REPLY_DIR as RPL, TRACKED as TRK,
};
use flow::{Flow, Mac};
use packet::Tcp;
use proptest::prelude::*;
use units::Millis;

const ETHERNET: usize = 14;
const SYN: u16 = 2;
const ACK: u16 = 16;
const FIN: u16 = 1;
const RST: u16 = 4;

pub(crate) fn bytes_of(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    compose(flow, payload)[ETHERNET..].to_vec()
}

/// A packet from host `src` to host `dst`, of some protocol, between ports (or with an ICMP type and identifier).
pub(crate) fn flow_of(v6: bool, proto: u8, (src, a): (u8, u16), (dst, b): (u8, u16)) -> Flow {
    let mut f = Flow {
        dl_dst: Mac([2; 6]),
        dl_type: if v6 { 0x86dd } else { 0x0800 },
        nw_proto: proto,
        nw_ttl: 64,
        tp_src: a,
        tp_dst: b,
        ..Flow::ZERO
    };
    if v6 {
        (f.ipv6_src[15], f.ipv6_dst[15]) = (src, dst);
    } else {
        (f.nw_src, f.nw_dst) = (0x0a00_0000 + u32::from(src), 0x0a00_0000 + u32::from(dst));
    }
    f
}

fn track(ct: &Conntrack, l3: &[u8], meta: &mut Metadata, action: &Action, now: u64) -> u8 {
    let ethertype = if l3[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    ct.track(&Packet { ethertype, l3, sums: crate::UNVERIFIED }, meta, action, Millis(now));
    meta.state
}

/// The state of a packet that was not tracked before.
fn fresh(ct: &Conntrack, l3: &[u8], action: &Action, now: u64) -> u8 {
    track(ct, l3, &mut Metadata::default(), action, now)
}

const LOOK: Action = Action::TRACK;
const COMMIT: Action = Action { commit: true, ..LOOK };

/// One endpoint of a TCP connection, as a generator of its segments.
struct Segment {
    from_first: bool,
    flags: u16,
    seq: u32,
    ack: u32,
    window: u16,
    payload: usize,
}

fn tcp_bytes(s: &Segment) -> Vec<u8> {
    let ends = [(1, 1000), (2, 80)];
    let [src, dst] = if s.from_first { ends } else { [ends[1], ends[0]] };
    let mut flow = flow_of(false, 6, src, dst);
    flow.tcp_flags = s.flags;
    let mut l3 = bytes_of(&flow, &vec![7; s.payload]);
    l3[24..28].copy_from_slice(&s.seq.to_be_bytes());
    l3[28..32].copy_from_slice(&s.ack.to_be_bytes());
    l3[34..36].copy_from_slice(&s.window.to_be_bytes());
    l3[36..38].fill(0);
    let (len, src, dst) = ((l3.len() - 20) as u16, flow.nw_src, flow.nw_dst);
    let sum = packet::checksum::finish(packet::checksum::add(
        packet::checksum::pseudo_v4(src, dst, 6, len),
        &l3[20..],
    ));
    l3[36..38].copy_from_slice(&sum.to_be_bytes());
    assert!(Tcp::parse_checked(&l3[20..]).is_some());
    l3
}

fn segment(from_first: bool, flags: u16, seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    tcp_bytes(&Segment { from_first, flags, seq, ack, window: 1000, payload })
}

fn tcp_state(ct: &Conntrack, now: u64) -> Option<TcpState> {
    ct.dump(None, Millis(now)).first().and_then(ConnectionSnapshot::tcp_state)
}

fn handshake(ct: &Conntrack, now: u64) {
    assert_eq!(fresh(ct, &segment(true, SYN, 99, 0, 0), &COMMIT, now), NEW | TRK);
    assert_eq!(fresh(ct, &segment(false, SYN | ACK, 499, 100, 0), &LOOK, now), EST | RPL | TRK);
    assert_eq!(fresh(ct, &segment(true, ACK, 100, 500, 0), &COMMIT, now), EST | TRK);
}

#[test]
fn tcp_opens_sends_data_closes_and_opens_again() {
    let ct = Conntrack::new(1);
    assert_eq!(fresh(&ct, &segment(false, SYN | ACK, 499, 100, 0), &COMMIT, 0), INV | TRK);
    handshake(&ct, 0);
    assert_eq!(tcp_state(&ct, 0), Some(TcpState::Established));
    assert_eq!(fresh(&ct, &segment(true, ACK, 100, 500, 300), &LOOK, 1), EST | TRK);
    assert_eq!(fresh(&ct, &segment(false, ACK, 500, 400, 10), &LOOK, 2), EST | RPL | TRK);
    // Far outside the window of the other endpoint.
    assert_eq!(fresh(&ct, &segment(true, ACK, 400_000, 510, 300), &LOOK, 3), INV | TRK);
    // A reset with an impossible sequence number, and an invalid combination of flags.
    assert_eq!(fresh(&ct, &segment(true, RST, 300, 0, 0), &LOOK, 3), INV | TRK);
    assert_eq!(fresh(&ct, &segment(true, SYN | FIN, 400, 0, 0), &LOOK, 3), INV | TRK);
    assert_eq!(fresh(&ct, &segment(true, FIN | ACK, 400, 510, 0), &LOOK, 4), EST | TRK);
    assert_eq!(fresh(&ct, &segment(false, FIN | ACK, 510, 401, 0), &LOOK, 5), EST | RPL | TRK);
    assert_eq!(fresh(&ct, &segment(true, ACK, 401, 511, 0), &LOOK, 6), EST | TRK);
    assert_eq!(tcp_state(&ct, 6), Some(TcpState::TimeWait));
    // A new connection with the same ports, before the old one has expired.
    handshake(&ct, 100);
    assert_eq!((ct.count(), tcp_state(&ct, 100)), (1, Some(TcpState::Established)));
}

#[test]
fn without_strict_mode_sequence_numbers_are_not_checked() {
    let ct = Conntrack::new(1);
    ct.set_strict(false);
    handshake(&ct, 0);
    assert_eq!(fresh(&ct, &segment(true, ACK, 400_000, 510, 300), &LOOK, 3), EST | TRK);
    assert_eq!(fresh(&ct, &segment(true, SYN | FIN, 400, 0, 0), &LOOK, 3), INV | TRK);
}

#[test]
fn a_connection_whose_beginning_was_not_seen_is_picked_up() {
    let ct = Conntrack::new(1);
    assert_eq!(fresh(&ct, &segment(true, ACK, 5000, 9000, 10), &COMMIT, 0), NEW | TRK);
    assert_eq!(fresh(&ct, &segment(false, ACK, 9000, 5010, 500), &LOOK, 0), EST | RPL | TRK);
    // Without known scaling, windows are assumed to be as large as possible.
    assert_eq!(fresh(&ct, &segment(true, ACK, 500_000, 9500, 10), &LOOK, 0), EST | TRK);
    assert_eq!(tcp_state(&ct, 0), Some(TcpState::Established));
}

#[test]
fn timeouts_depend_on_the_tcp_state() {
    let ct = Conntrack::new(1);
    let left = |now: u64| ct.dump(None, Millis(now)).first().map(|e| e.left.0);
    fresh(&ct, &segment(true, SYN, 99, 0, 0), &COMMIT, 0);
    assert_eq!((left(0), left(29_999), left(30_000)), (Some(30_000), Some(1), None));
    handshake(&ct, 50_000);
    assert_eq!(left(50_000), Some(86_400_000));
    fresh(&ct, &segment(true, FIN | ACK, 100, 500, 0), &LOOK, 60_000);
    assert_eq!(left(60_000), Some(900_000));
    fresh(&ct, &segment(false, RST, 500, 0, 0), &LOOK, 60_000);
    assert_eq!(left(60_000), Some(30_000));
}

/// An ICMP error from a router (host 9) that quotes the first `quoted` bytes of a packet.
fn error_about(l3: &[u8], to: u8, quoted: usize) -> Vec<u8> {
    let v6 = l3[0] >> 4 == 6;
    let (proto, kind): (u8, u8) = if v6 { (58, 1) } else { (1, 3) };
    // An echo with this payload; its type is changed afterwards.
    let echo = if v6 { 128 } else { 8 };
    let mut out = bytes_of(&flow_of(v6, proto, (9, echo), (to, 0)), &l3[..quoted.min(l3.len())]);
    let (at, sum) = if v6 { (40, 42) } else { (20, 22) };
    out[at] = kind;
    let old = u16::from_be_bytes([out[sum], out[sum + 1]]);
    let new = packet::checksum::update16(old, echo << 8, u16::from(kind) << 8);
    out[sum..sum + 2].copy_from_slice(&new.to_be_bytes());
    out
}

#[test]
fn icmp_errors_are_related_to_the_packets_that_they_quote() {
    for v6 in [false, true] {
        let ct = Conntrack::new(1);
        let header = if v6 { 40 } else { 20 };
        let cause = bytes_of(&flow_of(v6, 17, (1, 1000), (2, 53)), &[0; 100]);
        let error = error_about(&cause, 1, header + 8);
        assert_eq!(fresh(&ct, &error, &COMMIT, 0), INV | TRK);
        fresh(&ct, &cause, &COMMIT, 0);
        assert_eq!(fresh(&ct, &error, &LOOK, 0), REL | RPL | TRK);
        let answer = bytes_of(&flow_of(v6, 17, (2, 53), (1, 1000)), &[0; 100]);
        assert_eq!(fresh(&ct, &error_about(&answer, 2, 4000), &LOOK, 0), REL | TRK);
        // An error for another host than the sender of the cause, and errors that quote too little.
        assert_eq!(fresh(&ct, &error_about(&cause, 3, 4000), &LOOK, 0), INV | TRK);
        assert_eq!(fresh(&ct, &error_about(&cause, 1, header + 7), &LOOK, 0), INV | TRK);
        assert_eq!(ct.count(), 1);
    }
}

#[test]
fn damaged_packets_are_invalid() {
    let ct = Conntrack::new(1);
    let good = bytes_of(&flow_of(false, 17, (1, 1000), (2, 53)), b"hello");
    assert_eq!(fresh(&ct, &good, &LOOK, 0), NEW | TRK);
    for at in [8, 28] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(fresh(&ct, &bad, &LOOK, 0), INV | TRK);
        // Unfinished checksums are accepted.
        let mut meta = Metadata::default();
        ct.track(&Packet { ethertype: 0x0800, l3: &bad, sums: crate::VERIFIED }, &mut meta, &LOOK, Millis(0));
        assert_eq!(meta.state, NEW | TRK);
    }
    let no_port = bytes_of(&flow_of(false, 17, (1, 0), (2, 53)), b"hello");
    assert_eq!(fresh(&ct, &no_port, &LOOK, 0), INV | TRK);
    let answer = bytes_of(&flow_of(false, 1, (1, 0), (2, 0)), &[]);
    assert_eq!(fresh(&ct, &answer, &COMMIT, 0), INV | TRK);
    let neighbour = bytes_of(&flow_of(true, 58, (1, 135), (2, 0)), &[]);
    assert_eq!(fresh(&ct, &neighbour, &COMMIT, 0), INV | TRK);
}

#[test]
fn sctp_has_a_checksum_and_chunks_of_its_own() {
    let ct = Conntrack::new(1);
    // The ports of UDP, a tag of zeros, a checksum, a chunk of six bytes.
    let mut good = bytes_of(&flow_of(false, 17, (1, 1000), (2, 53)), &[0; 12]);
    good[24..].fill(0);
    (good[32], good[35], good[36]) = (1, 6, 9);
    let sum = packet::checksum::crc32c(&[&good[20..]]).to_le_bytes();
    good[28..32].copy_from_slice(&sum);
    good[9] = 132;
    good[10..12].fill(0);
    let sum = packet::checksum::checksum(&good[..20]).to_be_bytes();
    good[10..12].copy_from_slice(&sum);
    assert_eq!(fresh(&ct, &good, &LOOK, 0), NEW | TRK);
    for (at, value) in [(36, 1), (35, 3), (35, 12)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(fresh(&ct, &bad, &LOOK, 0), INV | TRK);
    }
    // A packet that its chunks do not fill is invalid even if checksums are not verified.
    good[35] = 12;
    let mut meta = Metadata::default();
    ct.track(&Packet { ethertype: 0x0800, l3: &good, sums: crate::VERIFIED }, &mut meta, &LOOK, Millis(0));
    assert_eq!(meta.state, INV | TRK);
}

#[test]
fn connections_as_scripts_read_them() {
    let ct = Conntrack::new(1);
    let udp = bytes_of(&flow_of(false, 17, (1, 1000), (2, 53)), &[]);
    let mark = Some((5, 0xff));
    let label = Some(([0, 0x12], [0, u64::MAX]));
    fresh(&ct, &udp, &Action { zone: 7, mark, label, ..COMMIT }, 0);
    fresh(&ct, &bytes_of(&flow_of(true, 58, (1, 128), (2, 0)), &[]), &COMMIT, 0);
    handshake(&ct, 0);
    let lines: Vec<String> =
        ct.dump(None, Millis(1500)).iter().map(|e| e.text(false, e.original.zone() == 7)).collect();
    assert_eq!(
        lines,
        [
            "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=80),reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,\
             dport=1000),protoinfo=(state=ESTABLISHED)",
            "icmpv6,orig=(src=::1,dst=::2,id=0,type=128,code=0),reply=(src=::2,dst=::1,id=0,type=129,code=0)",
            "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=53),reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,\
             dport=1000),zone=7,timeout=58,mark=5,labels=0x12",
        ]
    );
    let tcp = ct.dump(Some(0), Millis(0)).remove(0);
    assert!(tcp.text(true, false).ends_with(
        ",id=0,status=0,protoinfo=(state_orig=ESTABLISHED,state_reply=ESTABLISHED,flags_orig=0,flags_reply=0)"
    ));
}

/// A dump in pieces equals a dump at once, with and without a zone, for any size of the pieces.
#[test]
fn pieces_of_a_dump_make_the_dump() {
    let ct = Conntrack::new(1);
    for n in 0..300u16 {
        let flow = flow_of(n % 3 == 0, 17, (1, 1000 + n), (2, 53));
        fresh(&ct, &bytes_of(&flow, &[]), &Action { zone: n % 2, ..COMMIT }, u64::from(n % 5) * 30_000);
    }
    let now = Millis(100_000);
    for (zone, most) in [(None, 1), (None, 64), (Some(1), 7), (Some(9), 100), (None, u32::MAX)] {
        let (mut pieces, mut next) = (Vec::new(), 0);
        loop {
            next = ct.dump_some((next, most), zone, now, |entry| pieces.push(entry.text(true, true)));
            if next == 0 {
                break;
            }
        }
        let mut whole: Vec<_> = ct.dump(zone, now).iter().map(|entry| entry.text(true, true)).collect();
        pieces.sort();
        whole.sort();
        assert_eq!(pieces, whole);
        assert!(zone == Some(9) || (whole.len() > 50 && whole.len() < 300), "{}", whole.len());
    }
}

#[test]
fn zones_are_held_to_their_limits() {
    let ct = Conntrack::new(1);
    let begin = |zone: u16, port: u16| {
        let l3 = bytes_of(&flow_of(false, 17, (1, port), (2, 53)), &[]);
        fresh(&ct, &l3, &Action { zone, ..COMMIT }, 0);
    };
    begin(1, 1);
    ct.set_limit(Some(1), 1);
    (2..5).for_each(|port| begin(1, port));
    // Connections from before the limit do not count towards it.
    assert_eq!(ct.limit(Some(1)), ZoneLimit { zone: Some(1), limit: 1, count: 1 });
    ct.set_limit(None, 2);
    (0..5).for_each(|port| begin(2, port + 1));
    assert_eq!(ct.limit(Some(2)), ZoneLimit { zone: Some(2), limit: 2, count: 2 });
    assert_eq!(ct.limits().len(), 2);
    assert!(ct.remove_limit(Some(1)) && !ct.remove_limit(Some(9)));
    assert_eq!(ct.limit(Some(1)), ZoneLimit { zone: Some(1), limit: 2, count: 1 });
    assert_eq!(ct.count(), 4);
    ct.set_limit(None, 0);
    begin(2, 9);
    assert_eq!((ct.count(), ct.limit(Some(2)).limit), (5, 0));
    assert_eq!(ct.flush(Some(2), &Filter::default()), 3);
    assert_eq!(ct.count(), 2);
}

#[test]
fn a_full_table_evicts_unanswered_connections_only() {
    let ct = Conntrack::new(1);
    ct.set_max(100);
    let packet = |host: u8, port: u16, reply: bool| {
        let (client, server) = ((host, port), (200, 53));
        let [src, dst] = if reply { [server, client] } else { [client, server] };
        bytes_of(&flow_of(false, 17, src, dst), &[])
    };
    for port in 1..61 {
        fresh(&ct, &packet(1, port, false), &COMMIT, 0);
        fresh(&ct, &packet(1, port, true), &LOOK, 0);
    }
    // A flood that gets no replies, and between its packets clients that soon get replies.
    for n in 1..5000u16 {
        fresh(&ct, &packet(2 + (n % 100) as u8, n, false), &COMMIT, 1);
        assert!(ct.count() <= 100);
        if n % 500 == 0 {
            assert_eq!(fresh(&ct, &packet(150, n, false), &COMMIT, 1), NEW | TRK);
            fresh(&ct, &packet(2, n + 1, false), &COMMIT, 1);
            assert_eq!(fresh(&ct, &packet(150, n, true), &LOOK, 1), EST | RPL | TRK);
        }
    }
    for port in 1..61 {
        assert_eq!(fresh(&ct, &packet(1, port, false), &LOOK, 2), EST | TRK);
    }
    // If all connections have replies, a new one is refused.
    ct.set_max(50);
    ct.flush(
        None,
        &Filter { original: TupleFilter { src_port: Some(60), ..Default::default() }, ..Default::default() },
    );
    for port in 61..111 {
        fresh(&ct, &packet(3, port, false), &COMMIT, 2);
        fresh(&ct, &packet(3, port, true), &LOOK, 2);
    }
    assert_eq!(fresh(&ct, &packet(1, 59, true), &LOOK, 2), EST | RPL | TRK);
}

/// A worker that evicts a connection gets its place, also if another worker begins connections at the same time.
#[test]
fn a_full_table_admits_the_connections_of_all_workers() {
    let ct = Conntrack::new(1);
    ct.set_max(200);
    std::thread::scope(|scope| {
        for worker in 1..4u8 {
            let ct = &ct;
            scope.spawn(move || {
                for n in 0..20_000u32 {
                    let (host, port) = (worker * 50 + (n >> 12) as u8, 1 + (n & 0xfff) as u16);
                    let (there, back) = ((host, port), (250, 53));
                    let packet = bytes_of(&flow_of(false, 17, there, back), &[]);
                    let mut meta = Metadata::default();
                    track(ct, &packet, &mut meta, &COMMIT, 0);
                    assert!(meta.earlier.has_connection(), "worker {worker}, connection {n} was refused");
                    assert!(ct.count() <= 200);
                }
            });
        }
    });
    assert_eq!((ct.count(), ct.shard_lens().iter().sum::<usize>()), (200, 200));
}

proptest! {
    /// A flush of the connection between two endpoints removes what a flush by filters removes, in each direction.
    #[test]
    fn one_connection_is_flushed_as_by_filters(
        begun in prop::collection::vec((any::<bool>(), prop::sample::select(vec![1u8, 6, 17]), 0..3u8, 0..3u8, 1..3u16), 1..12),
        v6: bool, proto in prop::sample::select(vec![1u8, 6, 17]), ends in (0..3u8, 0..3u8), port in 1..3u16, reply: bool,
    ) {
        let tables = [Conntrack::new(1), Conntrack::new(1)];
        let nat = Nat { side: Some(Side::Source), ..Nat::default() };
        for (v6, proto, src, dst, port) in begun {
            let (proto, port, other) = match (proto, v6) {
                (1, false) => (1, 8, 0),
                (1, true) => (58, 128, 0),
                _ => (proto, port, 53),
            };
            let l3 = bytes_of(&flow_of(v6, proto, (src, port), (dst, other)), &[1; 8]);
            let nat = Some(nat).filter(|_| port == 2);
            tables.iter().for_each(|ct| _ = fresh(ct, &l3, &Action { nat, ..COMMIT }, 0));
        }
        let key = match proto {
            1 => flow_of(v6, if v6 { 58 } else { 1 }, (ends.0, 0), (ends.1, 0)),
            _ => flow_of(v6, proto, (ends.0, port), (ends.1, 53)),
        };
        let address = |v6: std::net::Ipv6Addr, v4: u32| match key.dl_type {
            0x86dd => v6.into(),
            _ => std::net::IpAddr::V4(v4.into()),
        };
        let (src, dst) = (address(key.ipv6_src.into(), key.nw_src), address(key.ipv6_dst.into(), key.nw_dst));
        let is_icmp = proto == 1;
        // The types of echo requests and replies. The identifier of these packets is 0.
        let kinds = if v6 { (128, 129) } else { (8, 0) };
        let icmp = is_icmp.then_some((0, if reply { kinds.1 } else { kinds.0 }, 0));
        let mut ends = TupleFilter { src: Some(src), dst: Some(dst), icmp, ..TupleFilter::default() };
        if !is_icmp {
            (ends.src_port, ends.dst_port) = (Some(key.tp_src), Some(key.tp_dst));
        }
        if reply {
            (ends.src, ends.dst) = (ends.dst, ends.src);
            (ends.src_port, ends.dst_port) = (ends.dst_port, ends.src_port);
        }
        let [one, filtered] = &tables;
        let of_proto = Filter { proto: Some(key.nw_proto), ..Filter::default() };
        let gone = filtered.flush(Some(0), &Filter { original: ends, ..of_proto })
            + filtered.flush(Some(0), &Filter { reply: ends, ..of_proto });
        prop_assert_eq!(usize::from(one.flush_one(0, key.nw_proto, &ends, Millis(1))), gone);
        prop_assert_eq!(one.dump(None, Millis(1)), filtered.dump(None, Millis(1)));
        prop_assert!(!one.flush_one(1, key.nw_proto, &ends, Millis(1)));
    }
}

#[test]
fn packets_of_the_same_moment_renew_the_expiry_time_once() {
    let ct = Conntrack::new(1);
    let there = bytes_of(&flow_of(false, 17, (1, 1000), (2, 53)), b"x");
    let back = bytes_of(&flow_of(false, 17, (2, 53), (1, 1000)), b"x");
    fresh(&ct, &there, &COMMIT, 0);
    let expires_after = |now: u64| {
        assert_eq!(fresh(&ct, &back, &LOOK, now), EST | RPL | TRK);
        ct.dump(None, Millis(now)).first().map(|entry| entry.left)
    };
    let first = expires_after(1000);
    let timeout = first.expect("it is listed");
    assert_eq!(expires_after(1063), Some(Millis(timeout.0 - 63)), "not written again");
    assert_eq!(expires_after(1064), first, "written again");
    // Frequent packets keep the connection.
    assert!((1064..2 * timeout.0).step_by(50).all(|now| expires_after(now) > Some(Millis(timeout.0 - 64))));
}

#[test]
fn timeouts_are_those_of_the_policy() {
    let ct = Conntrack::new(1);
    let mut seconds = [None; 11];
    (seconds[6], seconds[8]) = (Some(5), Some(7));
    ct.set_timeout_policy(3, Some(TimeoutPolicy::new(seconds)));
    let packet = |reply: bool| {
        let [a, b] = [(1, 1000), (2, 53)];
        let [src, dst] = if reply { [b, a] } else { [a, b] };
        bytes_of(&flow_of(false, 17, src, dst), &[])
    };
    let left = || ct.dump(None, Millis(0)).first().map(|e| e.left.0);
    fresh(&ct, &packet(false), &Action { timeout: 3, ..COMMIT }, 0);
    assert_eq!(left(), Some(5000));
    fresh(&ct, &packet(true), &LOOK, 0);
    assert_eq!(left(), Some(7000));
    ct.set_timeout_policy(3, None);
    fresh(&ct, &packet(true), &LOOK, 0);
    assert_eq!(left(), Some(30_000));
}

#[test]
fn expired_connections_are_swept_in_time_and_their_memory_is_reused() {
    let ct = Conntrack::new(1);
    ct.sweep(Millis(0));
    for port in 1..2000 {
        fresh(&ct, &bytes_of(&flow_of(false, 17, (1, port), (2, 53)), &[]), &COMMIT, 0);
    }
    assert_eq!(ct.shard_lens().iter().sum::<usize>(), 1999);
    ct.sweep(Millis(60_000 - 1));
    assert_eq!(ct.count(), 1999);
    for second in 60..82 {
        ct.sweep(Millis(second * 1000));
        assert_eq!(ct.dump(None, Millis(second * 1000)).len(), 0);
    }
    assert_eq!(ct.count(), 0);
}

/// A connection in the reference implementation.
#[derive(Clone, Debug)]
struct ReferenceConnection {
    zone: u16,
    packet: (bool, u8, (u8, u16), (u8, u16)),
    answered: bool,
    expires: u64,
    mark: u32,
}

#[derive(Clone, Debug)]
enum Step {
    Packet { v6: bool, proto: u8, ends: [(u8, u16); 2], action: Action },
    Pass(u64),
    Flush(Option<u16>),
}

fn steps() -> impl Strategy<Value = Step> {
    let end = || (1..4u8, 1..3u16);
    let action =
        (0..2u16, any::<bool>(), prop::bool::weighted(0.1), prop::option::of((any::<u32>(), any::<u32>())))
            .prop_map(|(zone, commit, force, mark)| {
                let mark = mark.map(|(value, mask)| (value & mask, mask));
                Action { zone, commit: commit || force, force, mark, ..LOOK }
            });
    let packet = (any::<bool>(), prop::sample::select(vec![17u8, 1, 47]), [end(), end()], action).prop_map(
        |(v6, proto, ends, action)| {
            let proto = if v6 && proto == 1 { 58 } else { proto };
            Step::Packet { v6, proto, ends, action }
        },
    );
    prop_oneof![
        20 => packet,
        2 => (0..40_000u64).prop_map(Step::Pass),
        1 => (0..100u64).prop_map(Step::Pass),
        1 => prop::option::of(0..2u16).prop_map(Step::Flush),
    ]
}

/// The reference implementation: a list that is searched linearly.
#[derive(Default)]
struct Reference {
    connections: Vec<ReferenceConnection>,
    /// Limit of each zone.
    max: usize,
}

impl Reference {
    /// State and mark of a packet. ICMP is echo: hosts with an odd port send requests, others replies.
    fn track(&mut self, v6: bool, proto: u8, ends: [(u8, u16); 2], action: &Action, now: u64) -> (u8, u32) {
        self.connections.retain(|k| k.expires > now);
        let [src, dst] = ends;
        let (forward, back) = ((v6, proto, src, dst), (v6, proto, dst, src));
        let icmp = matches!(proto, 1 | 58);
        let asks = !icmp || src.1 == 1;
        let find =
            |k: &ReferenceConnection| k.zone == action.zone && (k.packet == forward || k.packet == back);
        let mut at = self.connections.iter().position(find);
        if let Some(i) = at
            && action.force
            && self.connections[i].packet != forward
        {
            self.connections.remove(i);
            at = None;
        }
        let mut state = TRK;
        match at {
            Some(i) => {
                let k = &mut self.connections[i];
                let reply = k.packet != forward;
                k.answered |= reply;
                // Renewed only if it is earlier, or later by at least the precision of expiry times.
                let expires = now + if k.answered { 30_000 } else { 60_000 };
                if expires < k.expires || expires - k.expires >= 64 {
                    k.expires = expires;
                }
                state |= if k.answered { EST } else { NEW } | if reply { RPL } else { 0 };
            }
            None if !asks => state |= INV,
            None => {
                state |= NEW;
                let zone = self.connections.iter().filter(|k| k.zone == action.zone).count();
                if action.commit && zone < self.max {
                    let expires = now + 60_000;
                    let k = ReferenceConnection {
                        zone: action.zone,
                        packet: forward,
                        answered: false,
                        expires,
                        mark: 0,
                    };
                    self.connections.push(k);
                    at = Some(self.connections.len() - 1);
                }
            }
        }
        let Some(k) = at.map(|i| &mut self.connections[i]) else { return (state, 0) };
        if let Some((value, mask)) = action.mark {
            k.mark = value | k.mark & !mask;
        }
        (state, k.mark)
    }
}

proptest! {
    #[test]
    fn it_tracks_as_the_reference(seed: u64, steps in prop::collection::vec(steps(), 0..150)) {
        let ct = Conntrack::new(seed);
        ct.set_sweep_interval(1);
        ct.set_limit(None, 6);
        let mut reference = Reference { max: 6, ..Reference::default() };
        let mut now = 0;
        for step in steps {
            match step {
                Step::Packet { v6, proto, mut ends, action } => {
                    // ICMP endpoints have the types of request and reply; other protocols have no ports.
                    match proto {
                        1 | 58 => ends[1].1 = 3 - ends[0].1,
                        47 => (ends[0].1, ends[1].1) = (0, 0),
                        _ => {}
                    }
                    let kind = if v6 { [128, 129] } else { [8, 0] }[usize::from(ends[0].1 != 1)];
                    let (a, b) = if matches!(proto, 1 | 58) { (kind, 0) } else { (ends[0].1, ends[1].1) };
                    let l3 = bytes_of(&flow_of(v6, proto, (ends[0].0, a), (ends[1].0, b)), &[]);
                    let mut meta = Metadata::default();
                    let state = track(&ct, &l3, &mut meta, &action, now);
                    prop_assert_eq!((state, meta.mark), reference.track(v6, proto, ends, &action, now));
                }
                Step::Pass(millis) => {
                    // An expired connection counts towards the limit until it is swept; in the reference implementation it does not.
                    ct.sweep(Millis(now));
                    now += millis + 1;
                    ct.sweep(Millis(now));
                }
                Step::Flush(zone) => {
                    ct.flush(zone, &Filter::default());
                    reference.connections.retain(|k| zone.is_some_and(|z| z != k.zone));
                }
            }
            reference.connections.retain(|k| k.expires > now);
            let dumped = ct.dump(None, Millis(now));
            prop_assert_eq!(dumped.len(), reference.connections.len());
            let mut ours: Vec<_> = dumped.iter().map(|e| (e.original.zone(), e.mark, now + e.left.0)).collect();
            let mut theirs: Vec<_> = reference.connections.iter().map(|k| (k.zone, k.mark, k.expires)).collect();
            ours.sort_unstable();
            theirs.sort_unstable();
            prop_assert_eq!(ours, theirs);
        }
    }

    /// No packet makes the tracker panic.
    #[test]
    fn any_bytes(v6: bool, proto in prop::sample::select(vec![1u8, 6, 17, 58, 132, 47]), kind: u8,
                 mut bytes in prop::collection::vec(any::<u8>(), 0..120), verify: bool) {
        let ct = Conntrack::new(3);
        let (ethertype, header) = if v6 { (0x86dd, 40) } else { (0x0800, 20) };
        if bytes.len() > header {
            let len = (bytes.len() - if v6 { 40 } else { 0 }) as u16;
            let at = if v6 { 4 } else { 2 };
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
            bytes[0] = if v6 { 0x60 } else { 0x45 };
            bytes[if v6 { 6 } else { 9 }] = proto;
            bytes[header] = kind;
            if !v6 {
                bytes[6..8].fill(0);
            }
        }
        let mut meta = Metadata::default();
        for l3 in [&bytes[..], &bytes[..bytes.len() / 2]] {
            ct.track(&Packet { ethertype, l3, sums: if verify { crate::UNVERIFIED } else { crate::VERIFIED } }, &mut meta, &COMMIT, Millis(0));
            prop_assert!(meta.state & TRK != 0);
        }
        prop_assert_eq!(ct.dump(None, Millis(0)).len(), ct.count() as usize);
    }
}
