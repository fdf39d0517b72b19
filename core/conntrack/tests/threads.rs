//! One tracker used by several threads.

use conntrack::{Action, Conntrack, Filter, Helper, Metadata, Nat, Packet, Side};
use flow::Flow;
use flow::flow::ct_state::{DST_NAT, ESTABLISHED, REPLY_DIR, TRACKED};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Millis;

mod shared;
use shared::{l3, udp};
#[path = "shared/translated.rs"]
mod translation;
use translation::{reversed, translated};

const NETWORK: u32 = 0x0a00_0000;
const SERVER: u32 = NETWORK + 200;
/// Ports of the shared address. With more than 128 a single search may miss a free port.
const PORTS: u16 = 100;

fn request(host: u8, port: u16) -> Flow {
    udp((NETWORK + u32::from(host), port), (SERVER, 53))
}

/// Passes a packet through `ct`; returns the translated packet and its state.
fn send(ct: &Conntrack, flow: &Flow, action: &Action) -> (Flow, u8) {
    let mut meta = Metadata::default();
    let packet = Packet { ethertype: 0x0800, l3: &l3(flow), sums: conntrack::UNVERIFIED };
    let written = ct.track(&packet, &mut meta, action, Millis(0));
    (written.map_or(*flow, |t| translated(*flow, &t)), meta.state)
}

/// Commits with the source translated to 10.0.0.9.
fn commit(zone: u16) -> Action {
    let address = Ipv4Addr::from_bits(NETWORK + 9).into();
    let nat = Nat {
        side: Some(Side::Source),
        addresses: Some((address, address)),
        ports: Some((2000, 2000 + PORTS - 1)),
        ..Nat::default()
    };
    Action { zone, commit: true, nat: Some(nat), ..Action::default() }
}

/// Sends a request and its reply. `false`: no port is left.
fn ask(ct: &Conntrack, host: u8, port: u16) -> bool {
    let request = request(host, port);
    let (sent, _) = send(ct, &request, &commit(0));
    if sent == request {
        return false;
    }
    let reply_action = Action { nat: Some(Nat::default()), ..Action::default() };
    let back = send(ct, &reversed(&sent), &reply_action);
    assert_eq!(back, (reversed(&request), ESTABLISHED | REPLY_DIR | TRACKED | DST_NAT));
    true
}

/// Four threads share one address and its ports, while a fifth begins and removes connections of another
/// zone, so that records are reused all the time. A reply reaches the host that sent the request, or none,
/// and no record is lost.
#[test]
fn threads_do_not_get_the_answers_of_others() {
    let (ct, ended) = (Conntrack::new(1), AtomicBool::new(false));
    let everything = Filter::default();
    std::thread::scope(|scope| {
        let other_zone = scope.spawn(|| {
            let mut rounds = 0;
            while !ended.load(Ordering::Relaxed) {
                for port in 1..=100 {
                    send(&ct, &request(5, port), &commit(1));
                }
                assert_eq!(ct.flush(Some(1), &everything), 100);
                rounds += 1;
            }
            rounds
        });
        let ct = &ct;
        let ask_all = |host: u8| (0..5_000u32).filter(|n| ask(ct, host, 1000 + (n * 7 % 61) as u16)).count();
        let askers = [1, 2, 3, 4].map(|host| scope.spawn(move || ask_all(host)));
        let answered = askers.map(|asker| asker.join().expect("an asker ends"));
        ended.store(true, Ordering::Relaxed);
        assert!(answered.into_iter().sum::<usize>() > 2_500, "{answered:?}");
        assert!(other_zone.join().expect("the other zone ends") > 0);
    });
    // 61 ports for each of four hosts are more than the shared address has.
    assert_eq!((ct.count(), ct.dump(None, Millis(0)).len()), (PORTS.into(), PORTS.into()));
    assert_eq!(ct.flush(None, &everything), PORTS.into());
    assert!((0..PORTS).all(|n| ask(&ct, 6, 1000 + n)) && !ask(&ct, 6, 1), "all ports are free again");
}

/// A thread inspects packets of a control connection while another thread removes the connection: no expectation stays.
#[test]
fn no_expectation_survives_its_control_connection() {
    let ct = Conntrack::new(1);
    let action = Action { commit: true, helper: Some(Helper::Tftp), ..Action::default() };
    for port in 1..2000 {
        let l3 = l3(&udp((NETWORK, port), (SERVER, 69)));
        let packet = Packet { ethertype: 0x0800, l3: &l3, sums: conntrack::UNVERIFIED };
        let mut meta = Metadata::default();
        ct.track(&packet, &mut meta, &action, Millis(0));
        let control = meta.control.expect("a control connection");
        let is_removed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_removed.load(Ordering::Relaxed) {
                    ct.inspect(&control, &packet);
                }
            });
            assert_eq!(ct.flush(None, &Filter::default()), 1);
            is_removed.store(true, Ordering::Relaxed);
        });
        assert!(ct.dump_expected(None).is_empty(), "port {port}");
    }
}
