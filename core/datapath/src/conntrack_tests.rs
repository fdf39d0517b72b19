//! Connections: megaflows match the results of `ct`, whichever way a packet takes through the datapath.

use crate::tests::{Setup, tcp};
use dpif::{Ct, CtNat, DpAction, DropReason};
use flow::Flow;
use flow::compose::compose;
use flow::flow::ct_state::{ESTABLISHED, NEW, TRACKED};
use units::{Millis, PortNo};

fn out(port: u32) -> DpAction {
    DpAction::Output(PortNo(port))
}

fn ct(commit: bool, mark: Option<(u32, u32)>) -> DpAction {
    let label = mark.map(|(mark, _)| ([0, mark.into()], [0, u64::MAX]));
    DpAction::Ct(Box::new(Ct { zone: 7, commit, mark, label, ..Ct::default() }))
}

fn udp(src: u32, dst: u32, ports: (u16, u16)) -> Flow {
    Flow {
        nw_proto: 17,
        nw_src: src,
        nw_dst: dst,
        tp_src: ports.0,
        tp_dst: ports.1,
        tcp_flags: 0,
        ..tcp(0, 0)
    }
}

/// A firewall: packets from port 1 are committed and sent, packets from port 2 pass if they are replies.
fn firewall() -> Setup {
    let by = |port, id| Flow { in_port: port, recirc_id: id, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::ZERO };
    let answers = Flow { ct_state: TRACKED | ESTABLISHED, ct_zone: 7, ct_mark: 5, ..by(2, 1) };
    let answers = Flow { ct_label: [0, 5], ct_nw_src: 1, ct_nw_dst: 2, ..answers };
    let answers = Flow { ct_nw_proto: 17, ct_tp_src: 1000, ct_tp_dst: 53, ..answers };
    let all = Flow { ct_state: TRACKED | ESTABLISHED | NEW, ct_zone: u16::MAX, ct_mark: u32::MAX, ..mask };
    let all = Flow { ct_label: [u64::MAX; 2], ct_nw_src: u32::MAX, ct_nw_dst: u32::MAX, ..all };
    let all = Flow { ct_nw_proto: u8::MAX, ct_tp_src: u16::MAX, ct_tp_dst: u16::MAX, ..all };
    Setup::new(vec![
        (by(1, 0), mask, vec![ct(true, Some((5, u32::MAX))), out(2)]),
        (by(2, 0), mask, vec![ct(false, None), DpAction::Recirc(1)]),
        (answers, all, vec![out(1)]),
        (by(2, 1), all, vec![]),
    ])
}

#[test]
fn answers_pass_and_nothing_else() {
    let mut setup = firewall();
    let (request, answer) = (udp(1, 2, (1000, 53)), udp(2, 1, (53, 1000)));
    let send = |setup: &mut Setup, port, flow: &Flow| {
        setup.send(port, &compose(flow, b"x"));
        [setup.tx[0].take().len(), setup.tx[1].take().len()]
    };
    assert_eq!(send(&mut setup, 2, &answer), [0, 0]);
    assert_eq!(send(&mut setup, 1, &request), [0, 1]);
    // The first reply installs a megaflow, the second one hits it; a reply of another host does not pass.
    assert_eq!(send(&mut setup, 2, &answer), [1, 0]);
    assert_eq!(send(&mut setup, 2, &answer), [1, 0]);
    assert_eq!(send(&mut setup, 2, &Flow { nw_src: 3, ..answer }), [0, 0]);
    assert_eq!(setup.datapath.conntrack().count(), 1);
    setup.now += 31_000;
    assert_eq!(send(&mut setup, 2, &answer), [0, 0]);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn packets_of_the_control_half_are_tracked_too() {
    let setup = firewall();
    let request = compose(&udp(1, 2, (1000, 53)), b"x");
    let actions = [ct(true, Some((5, u32::MAX))), out(2)];
    setup.datapath.execute(&request, &Flow { in_port: 1, ..Flow::ZERO }, &actions, Millis(setup.now));
    let answer = compose(&udp(2, 1, (53, 1000)), b"x");
    let back = [ct(false, None), DpAction::Recirc(1)];
    setup.datapath.execute(&answer, &Flow { in_port: 2, ..Flow::ZERO }, &back, Millis(setup.now));
    assert_eq!([setup.tx[0].take().len(), setup.tx[1].take().len()], [1, 1]);
    // After `ct_clear` nothing matches.
    let cleared = [ct(false, None), DpAction::CtClear, DpAction::Recirc(1)];
    setup.datapath.execute(&answer, &Flow { in_port: 2, ..Flow::ZERO }, &cleared, Millis(setup.now));
    assert_eq!((setup.tx[0].take().len(), setup.datapath.tally().dropped(DropReason::NoOutput)), (0, 1));
    assert_eq!(setup.balance(), 0);
}

/// A gateway: packets from port 1 are sent to port 2 with one source address, and replies are translated back.
#[test]
fn addresses_are_translated_and_answers_find_their_way_back() {
    let by = |port, id| Flow { in_port: port, recirc_id: id, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::ZERO };
    let nat = |snat: Option<bool>, commit| {
        let address = std::net::IpAddr::from([0, 0, 0, 9]);
        let addresses = snat.map(|_| (address, address));
        let nat = Some(CtNat { snat, addresses, ..CtNat::default() });
        DpAction::Ct(Box::new(Ct { zone: 7, commit, nat, ..Ct::default() }))
    };
    let client = Flow { ct_state: TRACKED | ESTABLISHED, nw_dst: 1, ..by(2, 1) };
    let client_mask = Flow { ct_state: TRACKED | ESTABLISHED, nw_dst: u32::MAX, ..mask };
    let mut setup = Setup::new(vec![
        (by(1, 0), mask, vec![nat(Some(true), true), out(2)]),
        (by(2, 0), mask, vec![nat(None, false), DpAction::Recirc(1)]),
        (client, client_mask, vec![out(1)]),
        (by(2, 1), client_mask, vec![]),
    ]);
    let (request, sent) = (udp(1, 2, (1000, 53)), udp(9, 2, (1000, 53)));
    setup.send(1, &compose(&request, b"x"));
    assert_eq!(setup.tx[1].take(), [compose(&sent, b"x")]);
    for _ in 0..2 {
        setup.send(2, &compose(&udp(2, 9, (53, 1000)), b"y"));
        assert_eq!(setup.tx[0].take(), [compose(&udp(2, 1, (53, 1000)), b"y")]);
    }
    setup.send(2, &compose(&udp(3, 9, (53, 1000)), b"y"));
    assert_eq!((setup.tx[0].take().len(), setup.balance()), (0, 0));
}

#[test]
fn a_changed_packet_is_of_another_connection() {
    use dpif::{Ipv4Key, Masked, SetField};
    let by = |id| Flow { in_port: 1, recirc_id: id, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::ZERO };
    let key = |dst| Ipv4Key { dst, ..Ipv4Key::default() };
    let dst = DpAction::Set(SetField::Ipv4(Masked { value: key(9), mask: key(u32::MAX) }));
    let inner = DpAction::Clone(vec![ct(true, None), out(2)]);
    let mut setup = Setup::new(vec![
        (by(0), mask, vec![ct(true, None), dst.clone(), DpAction::Recirc(1)]),
        (
            by(1),
            mask,
            vec![ct(true, None), DpAction::Set(SetField::Udp(Masked { value: PORTS, mask: PORTS })), inner],
        ),
    ]);
    for _ in 0..2 {
        setup.send(1, &compose(&udp(1, 2, (1000, 53)), b"x"));
        assert_eq!(setup.tx[1].take().len(), 1);
        // The connections to 2, to 9, and to 9 with other ports.
        assert_eq!(setup.datapath.conntrack().count(), 3);
    }
}

const PORTS: dpif::PortsKey = dpif::PortsKey { src: u16::MAX, dst: u16::MAX };
