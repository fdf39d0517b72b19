//! Address translation compared with a list of all taken addresses and ports, and both directions through the
//! tracker.

use super::*;
use crate::{Action, Conntrack, Metadata, Packet};
use flow::compose::compose;
use flow::flow::ct_state::{DST_NAT, ESTABLISHED, NEW, RELATED, REPLY_DIR, SRC_NAT, TRACKED};
use flow::{Flow, Mac};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use units::Millis;

static DRAWS: AtomicU64 = AtomicU64::new(7);
static RANDOM: RandomSource<'_> = RandomSource { secret: [1, 2], draws: &DRAWS };

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn key_of(proto: u8, (src, a): (u8, u16), (dst, b): (u8, u16)) -> Key {
    let end =
        |host: u8, port: u16| Endpoint { address: [0, 0x0a00_0000 + u64::from(host)], port: port.into() };
    Key { zone: 0, v6: false, proto, src: end(src, a), dst: end(dst, b) }
}

fn range(side: Side, addresses: (u8, u8), ports: Option<(u16, u16)>) -> Nat {
    let addresses = Some((v4(addresses.0), v4(addresses.1)));
    Nat { side: Some(side), addresses, ports, ..Nat::default() }
}

#[test]
fn ports_stay_if_free_and_else_stay_in_their_class() {
    let nat = range(Side::Source, (9, 9), None);
    for (port, low, high) in [(300, 1, 511), (550, 600, 1023), (5000, 1024, u16::MAX)] {
        let key = key_of(17, (1, port), (2, 53));
        let reply = nat.choose(&key, RANDOM, |_| true);
        assert_eq!(
            reply.map(|r| (r.src, r.dst)),
            Some((
                key_of(17, (2, 53), (9, port)).src,
                Endpoint { address: [0, 0x0a00_0009], port: port.into() }
            ))
        );
        let other = nat.choose(&key, RANDOM, |r| r.dst.port != u32::from(port)).map(|r| r.dst.port as u16);
        assert!(other.is_some_and(|p| p != port && (low..=high).contains(&p)), "{other:?}");
    }
}

#[test]
fn zero_addresses_mean_no_translation() {
    for address in ["0.0.0.0", "::"] {
        let address: IpAddr = address.parse().expect("an address");
        let nat = Nat { addresses: Some((address, address)), ..range(Side::Source, (0, 0), None) };
        let key = Key { v6: address.is_ipv6(), ..key_of(6, (1, 5000), (2, 80)) };
        assert_eq!(nat.choose(&key, RANDOM, |_| true), Some(key.reverse()));
        let other = nat.choose(&key, RANDOM, |r| *r != key.reverse());
        assert_eq!(other.map(|r| (r.dst.address, r.dst.port)), Some((key.src.address, 5001)));
    }
    // A range of the other address family contains no address for the connection.
    assert_eq!(
        range(Side::Source, (1, 1), None).choose(
            &Key { v6: true, ..key_of(6, (1, 1), (2, 2)) },
            RANDOM,
            |_| true
        ),
        None
    );
}

#[test]
fn persistent_clients_keep_their_address() {
    let nat = |persistent| Nat { persistent, ..range(Side::Source, (10, 250), None) };
    let address = |nat: Nat, port, secret| {
        let random = RandomSource { secret, ..RANDOM };
        nat.choose(&key_of(17, (1, port), (2, 53)), random, |_| true).map(|r| r.dst.address)
    };
    let of_all = |persistent| {
        let mut all: Vec<_> =
            (1000..1100).map(|port| address(nat(persistent), port, [u64::from(port), 5])).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    assert_eq!(of_all(true), 1);
    assert!(of_all(false) > 50);
}

/// Applies a translation to a flow.
fn translated(mut flow: Flow, t: &Translation) -> Flow {
    assert!(!t.v6 && t.quoted.is_none());
    t.src.into_iter().for_each(|a| flow.nw_src = a[1] as u32);
    t.dst.into_iter().for_each(|a| flow.nw_dst = a[1] as u32);
    match t.transport {
        Transport::Same | Transport::Id(_) => {}
        Transport::Ports(src, dst) => (flow.tp_src, flow.tp_dst) = (src, dst),
    }
    flow
}

fn flow_of(proto: u8, (src, a): (u8, u16), (dst, b): (u8, u16)) -> Flow {
    let network = 0x0a00_0000;
    Flow {
        dl_dst: Mac([2; 6]),
        dl_type: 0x0800,
        nw_proto: proto,
        nw_ttl: 64,
        nw_src: network + u32::from(src),
        nw_dst: network + u32::from(dst),
        tp_src: a,
        tp_dst: b,
        ..Flow::ZERO
    }
}

fn reversed(f: &Flow) -> Flow {
    Flow { nw_src: f.nw_dst, nw_dst: f.nw_src, tp_src: f.tp_dst, tp_dst: f.tp_src, ..*f }
}

/// Passes a packet through `ct`; returns the translated packet and its state.
fn send(ct: &Conntrack, flow: &Flow, meta: &mut Metadata, action: &Action, now: u64) -> Flow {
    let l3 = &compose(flow, &[])[14..];
    let packet = Packet { ethertype: 0x0800, l3, sums: crate::UNVERIFIED };
    let written = ct.track(&packet, meta, action, Millis(now));
    written.map_or(*flow, |t| translated(*flow, &t))
}

const LOOK: Action = Action {
    zone: 0,
    commit: false,
    force: false,
    mark: None,
    label: None,
    nat: Some(NAT),
    timeout: 0,
    helper: None,
};
const NAT: Nat = Nat { side: None, addresses: None, ports: None, persistent: false, random: false };

fn commit(nat: Nat) -> Action {
    Action { commit: true, nat: Some(nat), ..LOOK }
}

#[test]
fn replies_are_translated_back() {
    for (side, out, state) in [(Side::Source, (9, 2), SRC_NAT), (Side::Destination, (1, 9), DST_NAT)] {
        let ct = Conntrack::new(1);
        let request = flow_of(17, (1, 5000), (2, 53));
        let mut meta = Metadata::default();
        let sent = send(&ct, &request, &mut meta, &commit(range(side, (9, 9), None)), 0);
        assert_eq!(meta.state, NEW | TRACKED | state);
        assert_eq!(
            (sent.nw_src & 255, sent.nw_dst & 255, sent.tp_src, sent.tp_dst),
            (out.0, out.1, 5000, 53)
        );
        // In the same zone the packet is not translated twice, and its connection is found.
        let again = send(&ct, &sent, &mut meta, &Action { commit: true, nat: None, ..LOOK }, 0);
        assert_eq!((again, meta.state, meta.tuple.src[1] & 255), (sent, NEW | TRACKED | state, 1));
        assert_eq!(ct.count(), 1);
        let mut meta = Metadata::default();
        let back = send(&ct, &reversed(&sent), &mut meta, &LOOK, 0);
        assert_eq!(back, reversed(&request));
        let other = SRC_NAT ^ DST_NAT ^ state;
        assert_eq!((meta.state, meta.tuple.dst[1] & 255), (ESTABLISHED | REPLY_DIR | TRACKED | other, 2));
        let text = ct.dump(None, Millis(0))[0].text(false, false);
        assert!(text.contains("orig=(src=10.0.0.1,dst=10.0.0.2,sport=5000,dport=53)"), "{text}");
        let reply = format!("reply=(src=10.0.0.{},dst=10.0.0.{},sport=53,dport=5000)", out.1, out.0);
        assert!(text.contains(&reply), "{text}");
        // Without `nat` the packet is not translated.
        let mut meta = Metadata::default();
        assert_eq!(send(&ct, &request, &mut meta, &Action { nat: None, ..LOOK }, 1), request);
        assert_eq!(meta.state, ESTABLISHED | TRACKED);
        // Its connection is stored in the metadata now, so it is translated without another look-up.
        assert_eq!(send(&ct, &request, &mut meta, &LOOK, 1), sent);
        // The connection is removed together with both keys.
        assert_eq!(ct.flush(None, &crate::Filter::default()), 1);
        let mut meta = Metadata::default();
        send(&ct, &reversed(&sent), &mut meta, &LOOK, 1);
        assert_eq!((meta.state, ct.count()), (NEW | TRACKED, 0));
    }
}

#[test]
fn zones_translate_one_after_another() {
    let ct = Conntrack::new(1);
    let zone = |zone, action| Action { zone, ..action };
    let (request, mut meta) = (flow_of(6, (1, 5000), (2, 80)), Metadata::default());
    let request = Flow { tcp_flags: 2, ..request };
    let to_server = send(
        &ct,
        &request,
        &mut meta,
        &zone(1, commit(range(Side::Destination, (5, 5), Some((8080, 8080))))),
        0,
    );
    assert_eq!((to_server.nw_dst & 255, to_server.tp_dst, meta.state), (5, 8080, NEW | TRACKED | DST_NAT));
    let sent = send(&ct, &to_server, &mut meta, &zone(2, commit(range(Side::Source, (9, 9), None))), 0);
    assert_eq!((sent.nw_src & 255, meta.state), (9, NEW | TRACKED | SRC_NAT));
    let answer = Flow { tcp_flags: 0x12, ..reversed(&sent) };
    let mut meta = Metadata::default();
    let back = send(&ct, &answer, &mut meta, &zone(2, LOOK), 0);
    let back = send(&ct, &back, &mut meta, &zone(1, LOOK), 0);
    assert_eq!(back, Flow { tcp_flags: 0x12, ..reversed(&request) });
    assert_eq!(meta.state, ESTABLISHED | REPLY_DIR | TRACKED | SRC_NAT);
}

#[test]
fn icmp_errors_and_the_packets_that_they_quote_are_translated() {
    let ct = Conntrack::new(1);
    let request = flow_of(17, (1, 5000), (2, 53));
    let sent = send(
        &ct,
        &request,
        &mut Metadata::default(),
        &commit(range(Side::Source, (9, 9), Some((40_000, 40_000)))),
        0,
    );
    assert_eq!(sent.tp_src, 40_000);
    let error = |from: u8, about: &Flow| {
        let quoted = &compose(about, &[0; 20])[14..];
        // An echo with this payload; the message then becomes "port unreachable". Checksums are computed over
        // words.
        let outer = flow_of(1, (from, 8), ((about.nw_src & 255) as u8, 0));
        let mut l3 = compose(&outer, quoted)[14..].to_vec();
        let sum = packet::checksum::update16(u16::from_be_bytes([l3[22], l3[23]]), 0x0800, 0x0303);
        (l3[20], l3[21]) = (3, 3);
        l3[22..24].copy_from_slice(&sum.to_be_bytes());
        l3
    };
    let track = |l3: &[u8]| {
        let mut meta = Metadata::default();
        let written =
            ct.track(&Packet { ethertype: 0x0800, l3, sums: crate::UNVERIFIED }, &mut meta, &LOOK, Millis(0));
        (meta.state, written)
    };
    // A router on the way to the server sends an error: for the client it must quote the packet that the
    // client sent.
    let quoted =
        Quoted { src: [0, 0x0a00_0001], dst: [0, 0x0a00_0002], transport: Transport::Ports(5000, 53) };
    let expected = Translation {
        v6: false,
        src: None,
        dst: Some([0, 0x0a00_0001]),
        transport: Transport::Same,
        quoted: Some(quoted),
    };
    assert_eq!(track(&error(77, &sent)), (RELATED | REPLY_DIR | TRACKED | DST_NAT, Some(expected)));
    // The client sends an error: for the server it must quote the packet that the server sent to the address
    // that it knows.
    let quoted =
        Quoted { src: [0, 0x0a00_0002], dst: [0, 0x0a00_0009], transport: Transport::Ports(53, 40_000) };
    let expected = Translation { src: Some([0, 0x0a00_0009]), dst: None, quoted: Some(quoted), ..expected };
    assert_eq!(track(&error(1, &reversed(&request))), (RELATED | TRACKED | SRC_NAT, Some(expected)));
}

#[test]
fn two_hosts_with_the_same_identifier_get_different_ones() {
    let ct = Conntrack::new(1);
    let nat = commit(range(Side::Source, (9, 9), None));
    let echo = |host: u8| {
        let mut l3 = compose(&flow_of(1, (host, 8), (2, 0)), &[])[14..].to_vec();
        // Identifier 7, and the checksum for it.
        l3[22..26].copy_from_slice(&[0xf7, 0xf8, 0, 7]);
        l3
    };
    let id = |host: u8| {
        let packet = Packet { ethertype: 0x0800, l3: &echo(host), sums: crate::UNVERIFIED };
        ct.track(&packet, &mut Metadata::default(), &nat, Millis(0)).map(|t| t.transport)
    };
    assert_eq!(
        [id(1), id(3), id(4)],
        [Some(Transport::Same), Some(Transport::Id(8)), Some(Transport::Id(9))]
    );
}

#[test]
fn without_a_free_port_no_connection_begins() {
    let ct = Conntrack::new(1);
    let nat = commit(range(Side::Source, (9, 9), Some((1000, 1003))));
    let outcomes: Vec<(u8, bool)> = (0..6)
        .map(|n| {
            let request = flow_of(17, (1, 5000 + n), (2, 53));
            let mut meta = Metadata::default();
            let sent = send(&ct, &request, &mut meta, &nat, 0);
            (meta.state, sent == request)
        })
        .collect();
    let (good, bad) = ((NEW | TRACKED | SRC_NAT, false), (NEW | TRACKED, true));
    assert_eq!(outcomes, [good, good, good, good, bad, bad]);
    assert_eq!((ct.count(), ct.take_exhausted()), (4, 2));
}

#[test]
fn a_range_of_the_other_address_family_is_not_counted_as_exhausted() {
    let ct = Conntrack::new(1);
    let address: IpAddr = "2001:db8::9".parse().expect("an address");
    let nat = Nat { addresses: Some((address, address)), ..range(Side::Source, (9, 9), None) };
    let request = flow_of(17, (1, 5000), (2, 53));
    assert_eq!(send(&ct, &request, &mut Metadata::default(), &commit(nat), 0), request);
    assert_eq!((ct.count(), ct.take_exhausted()), (0, 0));
}

/// Returns whether the search must find a free port, by comparing the list of taken ports.
fn has_free_port(ports: Ports, taken: &[u16]) -> bool {
    let inside = (ports.low..=ports.high).any(|p| !taken.contains(&p));
    // The sender's port, if it is outside a small range, replaces the last port of the range.
    inside || !taken.contains(&ports.first)
}

proptest! {
    #[test]
    fn in_a_small_range_every_port_is_found(low in 1..60000u16, size in 1..128u16, hash: u32, taken in prop::collection::vec(0..128u16, 0..300)) {
        let ports = Ports::from(low, low + size - 1, hash);
        let taken: Vec<u16> = taken.into_iter().map(|n| low + n).collect();
        let found = ports.search(&mut || RANDOM.draw(), |p| !taken.contains(&p));
        prop_assert_eq!(found.is_some(), has_free_port(ports, &taken));
        prop_assert!(found.is_none_or(|p| (low..low + size).contains(&p) && !taken.contains(&p)));
    }

    /// In a large range at most 128 + 64 + 32 + 16 + 8 ports are tried, and a free one is found unless nearly
    /// all are taken.
    #[test]
    fn in_a_large_range_the_search_is_bounded(first in 1024..u16::MAX, one_of in 2..8u16) {
        let (mut tries, ports) = (0, Ports { first, low: 1024, high: u16::MAX });
        prop_assert_eq!(ports.search(&mut || RANDOM.draw(), |_| { tries += 1; false }), None);
        prop_assert_eq!(tries, 248);
        prop_assert!(ports.search(&mut || RANDOM.draw(), |p| p % one_of == 0).is_some());
    }

    /// Random clients, servers, translations and answers: an answer always reaches the client that asked,
    /// with the addresses that it used, and no two connections look the same from outside.
    #[test]
    fn there_and_back(steps in prop::collection::vec((0..4u8, 0..6u16, any::<bool>(), any::<bool>(), 0..3u8), 1..80)) {
        let ct = Conntrack::new(5);
        let mut known: Vec<(Flow, Flow)> = Vec::new();
        for (host, port, source, ports, addresses) in steps {
            let request = flow_of(17, (1 + host, 5000 + port), (100, 53));
            let side = if source { Side::Source } else { Side::Destination };
            let nat = range(side, (50, 50 + addresses), ports.then_some((7000, 7004)));
            let mut meta = Metadata::default();
            let sent = send(&ct, &request, &mut meta, &commit(nat), 0);
            match known.iter().position(|(r, _)| *r == request) {
                Some(at) => prop_assert_eq!(sent, known[at].1),
                None if meta.state & (SRC_NAT | DST_NAT) != 0 => {
                    prop_assert!(!known.iter().any(|(_, s)| *s == sent), "{:?} twice", sent);
                    known.push((request, sent));
                }
                None => prop_assert!(ports, "only a range of ports can be too small"),
            }
            for (request, sent) in &known {
                let mut meta = Metadata::default();
                prop_assert_eq!(send(&ct, &reversed(sent), &mut meta, &LOOK, 0), reversed(request));
                prop_assert!(meta.state & REPLY_DIR != 0);
            }
        }
        prop_assert_eq!(ct.count() as usize, known.len());
    }
}
