//! Several workers at the same time.

use conntrack::{Action, Conntrack, Filter, Metadata, Nat, Packet, Side, TupleFilter};
use flow::Flow;
use flow::flow::ct_state::SRC_NAT;
use std::net::{IpAddr, Ipv4Addr};
use units::Millis;

mod shared;
use shared::{l3, udp};
#[path = "shared/translated.rs"]
mod translation;
use translation::{reversed, translated};

const SERVER: u32 = 0x1400_0001;

/// A packet of a client to the server.
fn request(client: u32, port: u16) -> Flow {
    udp((0x0a00_0000 + client, port), (SERVER, 53))
}

/// Passes a packet through `ct`; returns the translated packet and its state.
fn send(ct: &Conntrack, flow: &Flow, action: &Action) -> (Flow, u8) {
    let mut meta = Metadata::default();
    let packet = Packet { ethertype: 0x0800, l3: &l3(flow), sums: conntrack::UNVERIFIED };
    let written = ct.track(&packet, &mut meta, action, Millis(0));
    (written.map_or(*flow, |t| translated(*flow, &t)), meta.state)
}

/// Four workers begin, answer and end connections behind one address that has hardly more ports than there
/// are connections: no two connections have the same port, every reply reaches its client, and nothing is
/// left in the end.
#[test]
fn workers_never_choose_the_same_ports() {
    let ct = Conntrack::new(1);
    let address = IpAddr::V4(Ipv4Addr::new(30, 0, 0, 1));
    let nat = Nat {
        side: Some(Side::Source),
        addresses: Some((address, address)),
        ports: Some((7000, 7040)),
        ..Nat::default()
    };
    let commit = Action { commit: true, nat: Some(nat), ..Action::default() };
    let reply_action = Action { nat: Some(Nat::default()), ..Action::default() };
    let worker = |client: u32| {
        for round in 0..400u16 {
            let ports = (0..8).map(|n| 10_000 + (round * 8 + n) % 1000);
            let sent = ports.map(|port| (request(client, port), send(&ct, &request(client, port), &commit)));
            let begun: Vec<(Flow, Flow)> = sent
                .filter(|(_, (_, state))| state & SRC_NAT != 0)
                .map(|(flow, (after, _))| (flow, after))
                .collect();
            for (request, sent) in &begun {
                assert_eq!(send(&ct, &reversed(sent), &reply_action).0, reversed(request));
            }
            for (request, _) in &begun {
                let (src, src_port) = (Some(Ipv4Addr::from(request.nw_src).into()), Some(request.tp_src));
                let original = TupleFilter { src, src_port, ..TupleFilter::default() };
                assert_eq!(ct.flush(None, &Filter { original, ..Filter::default() }), 1);
            }
        }
    };
    std::thread::scope(|scope| {
        let worker = &worker;
        (1..5).for_each(|client| _ = scope.spawn(move || worker(client)));
    });
    assert_eq!((ct.count(), ct.shard_lens().iter().sum::<usize>()), (0, 0));
}
