//! Fragments through `ct`: all fragments get the state of the connection and are sent unchanged.

use crate::tests::{Setup, tcp};
use dpif::{Ct, DpAction, DropReason};
use flow::Flow;
use flow::compose::compose;
use flow::flow::ct_state::{ESTABLISHED, INVALID, NEW, TRACKED};
use packet::checksum::checksum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Millis, PortNo};

const ETHERNET: usize = 14;
/// Shorter than the MTU of the ports of a [`Setup`], and longer than the minimum size of a fragment.
const CHUNK: usize = 1240;
const NOTHING: [Vec<Vec<u8>>; 3] = [const { Vec::new() }; 3];

fn out(port: u32) -> DpAction {
    DpAction::Output(PortNo(port))
}

fn udp(v6: bool, [src, dst]: [u8; 2], ports: (u16, u16)) -> Flow {
    let mut flow = Flow { nw_proto: 17, tp_src: ports.0, tp_dst: ports.1, tcp_flags: 0, ..tcp(0, 0) };
    match v6 {
        false => (flow.nw_src, flow.nw_dst) = (src.into(), dst.into()),
        true => {
            flow.dl_type = 0x86dd;
            (flow.nw_src, flow.nw_dst) = (0, 0);
            (flow.ipv6_src[15], flow.ipv6_dst[15]) = (src, dst);
        }
    }
    flow
}

/// The frames of a fragmented datagram.
fn cut(flow: &Flow, len: usize, id: u16) -> Vec<Vec<u8>> {
    let whole = compose(flow, &vec![id as u8; len]);
    let header = if flow.dl_type == 0x86dd { 40 } else { 20 };
    let (link, l3) = whole.split_at(ETHERNET);
    let (ip, payload) = l3.split_at(header);
    let last = payload.len().div_ceil(CHUNK) - 1;
    let part = |(i, chunk): (usize, &[u8])| {
        let (start, more) = ((i * CHUNK) as u16, u16::from(i != last));
        let mut head = ip.to_vec();
        if header == 20 {
            head[2..4].copy_from_slice(&((20 + chunk.len()) as u16).to_be_bytes());
            head[4..6].copy_from_slice(&id.to_be_bytes());
            head[6..8].copy_from_slice(&((start / 8) | (more << 13)).to_be_bytes());
            head[10..12].fill(0);
            let sum = checksum(&head);
            head[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            head[4..6].copy_from_slice(&((8 + chunk.len()) as u16).to_be_bytes());
            let next = std::mem::replace(&mut head[6], 44);
            head.extend([next, 0]);
            head.extend((start | more).to_be_bytes());
            head.extend(u32::from(id).to_be_bytes());
        }
        [link, &head, chunk].concat()
    };
    payload.chunks(CHUNK).enumerate().map(part).collect()
}

fn ct(commit: bool) -> DpAction {
    DpAction::Ct(Box::new(Ct { zone: 7, commit, mark: commit.then_some((5, u32::MAX)), ..Ct::default() }))
}

/// Packets from port 1 are committed and sent to port 2; packets from port 2 are sent to port 1 if they are replies,
/// and to port 3 if they are invalid.
fn firewall() -> Setup {
    let by = |port, id| Flow { in_port: port, recirc_id: id, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::ZERO };
    let answers = Flow { ct_state: TRACKED | ESTABLISHED, ct_zone: 7, ct_mark: 5, ..by(2, 1) };
    let seen = Flow {
        ct_state: TRACKED | ESTABLISHED | NEW | INVALID,
        ct_zone: u16::MAX,
        ct_mark: u32::MAX,
        ..mask
    };
    let invalid = Flow { ct_state: TRACKED | INVALID, ct_zone: 7, ..by(2, 1) };
    Setup::new(vec![
        (by(1, 0), mask, vec![ct(true), out(2)]),
        (by(2, 0), mask, vec![ct(false), DpAction::Recirc(1)]),
        (answers, seen, vec![out(1)]),
        (invalid, seen, vec![out(3)]),
        (by(2, 1), seen, vec![]),
    ])
}

fn sent(setup: &mut Setup) -> [Vec<Vec<u8>>; 3] {
    [setup.tx[0].take(), setup.tx[1].take(), setup.tx[2].take()]
}

fn send(setup: &mut Setup, port: usize, frames: &[Vec<u8>]) -> [Vec<Vec<u8>>; 3] {
    frames.iter().for_each(|frame| setup.send(port, frame));
    sent(setup)
}

#[test]
fn fragments_have_the_state_of_their_connection() {
    for v6 in [false, true] {
        let mut setup = firewall();
        let request = cut(&udp(v6, [1, 2], (1000, 53)), 4000, 1);
        let mut answer = cut(&udp(v6, [2, 1], (53, 1000)), 3000, 2);
        assert_eq!(send(&mut setup, 1, &request[..3]), NOTHING);
        assert_eq!((setup.datapath.tally().waiting_fragments(), setup.balance()), (3, 0));
        assert_eq!(send(&mut setup, 1, &request[3..]), [vec![], request.clone(), vec![]]);
        // Fragments that are received out of order are sent in order, both by the megaflow that the last fragment
        // installs and by an existing one.
        for _ in 0..2 {
            answer.reverse();
            let backwards = send(&mut setup, 2, &answer);
            answer.reverse();
            assert_eq!(backwards, [answer.clone(), vec![], vec![]]);
        }
        // In one burst.
        answer.iter().for_each(|frame| setup.rx[1].put(frame));
        setup.run();
        assert_eq!(sent(&mut setup), [answer, vec![], vec![]]);
        let counts = setup.datapath.reassembly().status();
        let counts = if v6 { counts.v6.counts } else { counts.v4.counts };
        assert_eq!((counts.accepted, counts.completed), (13, 13));
        assert_eq!((setup.datapath.tally().waiting_fragments(), setup.balance()), (0, 0));
        assert_eq!(setup.datapath.conntrack().count(), 1);
    }
}

#[test]
fn addresses_are_translated_in_every_fragment() {
    for v6 in [false, true] {
        let address =
            if v6 { IpAddr::V6(Ipv6Addr::from_bits(9)) } else { IpAddr::V4(Ipv4Addr::from_bits(9)) };
        let source =
            dpif::CtNat { snat: Some(true), addresses: Some((address, address)), ..Default::default() };
        let with =
            |nat| DpAction::Ct(Box::new(Ct { zone: 7, commit: true, nat: Some(nat), ..Ct::default() }));
        let by = |port| Flow { in_port: port, ..Flow::ZERO };
        let mask = Flow { in_port: u32::MAX, ..Flow::ZERO };
        let mut setup = Setup::new(vec![
            (by(1), mask, vec![with(source), out(2)]),
            (by(2), mask, vec![with(dpif::CtNat::default()), out(1)]),
        ]);
        let request = cut(&udp(v6, [1, 2], (1000, 53)), 4000, 1);
        let wanted = cut(&udp(v6, [9, 2], (1000, 53)), 4000, 1);
        assert_eq!(send(&mut setup, 1, &request), [vec![], wanted, vec![]]);
        let answer = cut(&udp(v6, [2, 9], (53, 1000)), 3000, 2);
        let wanted = cut(&udp(v6, [2, 1], (53, 1000)), 3000, 2);
        assert_eq!(send(&mut setup, 2, &answer), [wanted, vec![], vec![]]);
        assert_eq!(setup.balance(), 0);
    }
}

#[test]
fn fragments_that_are_no_replies_do_not_reach_port_1() {
    let mut setup = firewall();
    send(&mut setup, 1, &cut(&udp(false, [1, 2], (1000, 53)), 4000, 1));
    let other = cut(&udp(false, [2, 1], (54, 1000)), 3000, 2);
    assert_eq!(send(&mut setup, 2, &other), NOTHING);
    // A duplicate and a datagram whose transport checksum is wrong are invalid.
    let mut answer = cut(&udp(false, [2, 1], (53, 1000)), 3000, 3);
    let twice = [answer[0].clone(), answer[0].clone()];
    assert_eq!(send(&mut setup, 2, &twice), [vec![], vec![], vec![answer[0].clone()]]);
    answer[2][40] ^= 1;
    assert_eq!(send(&mut setup, 2, &answer[1..]), [vec![], vec![], answer]);
    assert_eq!(setup.balance(), 0);
}

#[test]
fn fragments_of_incomplete_datagrams_are_accounted_for() {
    let mut setup = firewall();
    for id in 1..4 {
        send(&mut setup, 1, &cut(&udp(false, [1, 2], (1000, 53)), 4000, id)[..2]);
    }
    assert_eq!((setup.datapath.tally().waiting_fragments(), setup.balance()), (6, 0));
    setup.now += 16_000;
    send(&mut setup, 1, &cut(&udp(false, [1, 2], (1000, 53)), 4000, 9)[..1]);
    let dropped = |setup: &Setup, reason| setup.datapath.tally().dropped(reason);
    assert_eq!((dropped(&setup, DropReason::FragmentExpired), setup.balance()), (4, 0));
    setup.datapath.purge_fragments(Millis(setup.now + 10_000));
    assert_eq!(
        (dropped(&setup, DropReason::FragmentPurged), setup.datapath.tally().waiting_fragments()),
        (2, 1)
    );
    setup.datapath.del_port(PortNo(1)).unwrap();
    assert_eq!(
        (dropped(&setup, DropReason::FragmentPurged), setup.datapath.tally().waiting_fragments()),
        (3, 0)
    );
    assert_eq!(setup.balance(), 0);
}

#[test]
fn too_long_a_datagram_is_dropped_and_reported() {
    let mut setup = firewall();
    let mut frames = cut(&udp(false, [1, 2], (1000, 53)), 60_000, 1);
    assert_eq!(send(&mut setup, 1, &frames)[1], frames);
    // The maximum length of IPv4, which exceeds the maximum length of a frame.
    frames = cut(&udp(false, [1, 2], (1000, 53)), 65_507, 2);
    assert_eq!(send(&mut setup, 1, &frames), NOTHING);
    let too_long = setup.datapath.tally().dropped(DropReason::DatagramTooLong);
    assert_eq!((too_long, setup.balance()), (frames.len() as u64, 0));
    assert!(
        setup
            .datapath
            .reassembly()
            .take_oversize()
            .is_some_and(|o| !o.v6 && o.head[..20] == frames[0][14..34])
    );
}

#[test]
fn a_flood_of_fragments_leaves_others_alone() {
    let mut setup = firewall();
    let flood = |setup: &mut Setup, from: u32, n: u32| {
        for id in from..from + n {
            let spoofed = Flow { nw_src: id, ..udp(false, [0, 2], (1, 2)) };
            setup.rx[0].put(&cut(&spoofed, 3000, id as u16)[0]);
        }
        setup.run();
    };
    flood(&mut setup, 1000, 1100);
    assert_eq!(setup.datapath.reassembly().fragments(), 1000);
    assert_eq!(setup.datapath.tally().dropped(DropReason::FragmentEvicted), 100);
    let request = cut(&udp(false, [1, 2], (1000, 53)), 4000, 1);
    for (i, frame) in request.iter().enumerate() {
        setup.send(1, frame);
        flood(&mut setup, 3000 + 300 * i as u32, 300);
    }
    assert_eq!(sent(&mut setup), [vec![], request, vec![]]);
    assert_eq!((setup.balance(), setup.datapath.reassembly().fragments()), (0, 1000));
}
