//! FTP and TFTP through `ct`: announced connections are related, and announced addresses are translated.

use crate::tests::{Setup, out, tcp};
use dpif::{Ct, CtNat, DpAction};
use flow::Flow;
use flow::compose::compose;
use flow::flow::ct_state::{ESTABLISHED, INVALID, NEW, RELATED, REPLY_DIR, TRACKED};
use packet::Tcp;
use packet::checksum::{add, finish, pseudo_v4, pseudo_v6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERNET: usize = 14;
const SYN: u16 = 2;
const ACK: u16 = 16;

/// An endpoint: address and port.
type End = (IpAddr, u16);

fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 1, 1, last))
}

fn v6(last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, last))
}

fn flow(proto: u8, (src, sport): End, (dst, dport): End) -> Flow {
    let mut f = Flow { nw_proto: proto, tp_src: sport, tp_dst: dport, tcp_flags: 0, ..tcp(0, 0) };
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => (f.nw_src, f.nw_dst) = (src.to_bits(), dst.to_bits()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            (f.dl_type, f.nw_src, f.nw_dst) = (0x86dd, 0, 0);
            (f.ipv6_src, f.ipv6_dst) = (src.octets(), dst.octets());
        }
        _ => panic!("one family"),
    }
    f
}

/// A TCP segment.
fn segment(src: End, dst: End, flags: u16, (seq, ack): (u32, u32), text: &str) -> Vec<u8> {
    let f = Flow { tcp_flags: flags, ..flow(6, src, dst) };
    let mut frame = compose(&f, text.as_bytes());
    let l4 = if f.dl_type == 0x86dd { ETHERNET + 40 } else { ETHERNET + 20 };
    frame[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
    frame[l4 + 8..l4 + 12].copy_from_slice(&ack.to_be_bytes());
    frame[l4 + 14..l4 + 18].copy_from_slice(&[0x7f, 0xff, 0, 0]);
    let len = frame.len() - l4;
    let pseudo = match f.dl_type {
        0x86dd => pseudo_v6(&f.ipv6_src, &f.ipv6_dst, 6, len as u32),
        _ => pseudo_v4(f.nw_src, f.nw_dst, 6, len as u16),
    };
    let sum = finish(add(pseudo, &frame[l4..]));
    frame[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn look() -> DpAction {
    DpAction::Userspace(Box::new(dpif::Userspace::slow_path(dpif::SlowReason::LACP)))
}

/// On both ports, control connections are committed with their helper, and with NAT if given; then packets go to
/// table 1 and to the other port.
fn setup(helper: &str, nat: Option<CtNat>) -> Setup {
    let ct = |nat| {
        let helper = Some(helper.to_owned());
        DpAction::Ct(Box::new(Ct { zone: 7, commit: true, helper, nat, ..Ct::default() }))
    };
    let by = |port, id| Flow { in_port: port, recirc_id: id, ..Flow::ZERO };
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::ZERO };
    let bare = nat.as_ref().map(|_| CtNat::default());
    Setup::new(vec![
        (by(1, 0), mask, vec![ct(nat), DpAction::Recirc(1)]),
        (by(2, 0), mask, vec![ct(bare), DpAction::Recirc(1)]),
        (by(1, 1), mask, vec![look(), out(2)]),
        (by(2, 1), mask, vec![look(), out(1)]),
    ])
}

/// Sends a frame; returns what is sent, and the fields after `ct`.
fn pass(setup: &mut Setup, port: usize, frame: &[u8]) -> (Vec<u8>, Flow) {
    setup.send(port, frame);
    let mut sent = setup.tx[2 - port].take();
    let (_, flow) = setup.control.delivered.lock().unwrap().pop().expect("a packet");
    assert_eq!((sent.len(), setup.balance()), (1, 0));
    (sent.remove(0), flow)
}

fn state(setup: &mut Setup, port: usize, frame: &[u8]) -> u8 {
    pass(setup, port, frame).1.ct_state
}

/// Opens the control connection: client and server have each used one sequence number.
fn open(setup: &mut Setup, client: End, server: End, seen: End) {
    assert_eq!(state(setup, 1, &segment(client, server, SYN, (100, 0), "")) & (NEW | RELATED), NEW);
    let answer = state(setup, 2, &segment(server, seen, SYN | ACK, (500, 101), ""));
    assert_eq!(answer & (ESTABLISHED | REPLY_DIR), ESTABLISHED | REPLY_DIR);
    assert_eq!(state(setup, 1, &segment(client, server, ACK, (101, 501), "")) & INVALID, 0);
}

#[test]
fn announced_connections_are_related() {
    for (a, b, active, passive) in [
        (v4(1), v4(2), "PORT 10,1,1,1,4,1\r\n", "227 Entering Passive Mode (10,1,1,2,4,2).\r\n"),
        (v4(1), v4(2), "EPRT |1|10.1.1.1|1025|\r\n", "229 Extended (|||1026|)\r\n"),
        (v6(1), v6(2), "EPRT |2|fc00::1|1025|\r\n", "229 Extended (|||1026|)\r\n"),
    ] {
        let mut setup = setup("ftp", None);
        let (client, server) = ((a, 4000), (b, 21));
        open(&mut setup, client, server, client);
        let data = |from: End, to: End| segment(from, to, SYN, (1, 0), "");
        // Nothing was announced yet, so the connection is not expected.
        assert_eq!(state(&mut setup, 2, &data((b, 20), (a, 1024))), TRACKED | NEW);
        let command = segment(client, server, ACK, (101, 501), active);
        assert_eq!(pass(&mut setup, 1, &command).0, command);
        let (_, flow) = pass(&mut setup, 2, &data((b, 20), (a, 1025)));
        assert_eq!(flow.ct_state, TRACKED | NEW | RELATED);
        // Packets of the expected connection have the tuple of the control connection.
        assert_eq!((flow.ct_tp_src, flow.ct_tp_dst, flow.ct_nw_proto), (4000, 21, 6));
        assert_eq!((flow.ct_nw_src, flow.ct_ipv6_src), (flow.nw_dst, flow.ipv6_dst));
        let answer = segment((a, 1025), (b, 20), SYN | ACK, (9, 2), "");
        assert_eq!(state(&mut setup, 1, &answer), TRACKED | ESTABLISHED | RELATED | REPLY_DIR);
        let reply = segment(server, client, ACK, (501, 101 + active.len() as u32), passive);
        assert_eq!(pass(&mut setup, 2, &reply).0, reply);
        let (_, flow) = pass(&mut setup, 1, &data((a, 5000), (b, 1026)));
        assert_eq!(
            (flow.ct_state, flow.ct_tp_src, flow.ct_nw_src),
            (TRACKED | NEW | RELATED, 4000, flow.nw_src)
        );
        let listed: Vec<String> =
            setup.datapath.conntrack().dump_expected(None).iter().map(|e| e.to_string()).collect();
        assert_eq!(listed.len(), 2);
        let of = |x: IpAddr, y: IpAddr, port| format!("src={x},dst={y},sport=0,dport={port}");
        let parent = format!("parent=(src={a},dst={b},sport=4000,dport=21)");
        assert!(listed.contains(&format!("tcp,orig=({}),zone=7,{parent}", of(b, a, 1025))), "{listed:?}");
        assert!(listed.contains(&format!("tcp,orig=({}),zone=7,{parent}", of(a, b, 1026))), "{listed:?}");
        let entries = setup.datapath.conntrack().dump(None, units::Millis(setup.now));
        let helped = entries.iter().filter(|e| e.text(false, false).ends_with(",helper=ftp"));
        assert!(helped.count() >= 1);
        // When the control connection is removed, its expected connections are removed, too.
        setup.datapath.conntrack().flush(None, &Default::default());
        assert!(setup.datapath.conntrack().dump_expected(None).is_empty());
    }
}

#[test]
fn other_hosts_cannot_be_announced() {
    let mut setup = setup("ftp", None);
    let (client, server) = ((v4(1), 4000), (v4(2), 21));
    open(&mut setup, client, server, client);
    for text in ["PORT 10,1,1,9,4,1\r\n", "PORT 10,1,1,1,4\r\n", "EPRT |1|10.1.1.9|1025|\r\n"] {
        assert_eq!(
            state(&mut setup, 1, &segment(client, server, ACK, (101, 501), text)) & INVALID,
            INVALID,
            "{text}"
        );
    }
    let bounce = segment(server, client, ACK, (501, 101), "227 x (10,1,1,9,4,1)\r\n");
    assert_eq!(state(&mut setup, 2, &bounce) & INVALID, INVALID);
    // Replies of the client and commands of the server are ignored.
    let reply = segment(client, server, ACK, (101, 501), "227 x (10,1,1,1,4,1)\r\n");
    assert_eq!(state(&mut setup, 1, &reply) & INVALID, 0);
    assert!(setup.datapath.conntrack().dump_expected(None).is_empty());
}

#[test]
fn announced_addresses_are_translated() {
    for (a, nat, b, active, wanted) in [
        (v4(1), v4(240), v4(2), "PORT 10,1,1,1,4,1\r\n", "PORT 10,1,1,240,4,1\r\n"),
        (v4(101), v4(4), v4(2), "EPRT |1|10.1.1.101|1025|\r\n", "EPRT |1|10.1.1.4|1025|\r\n"),
        (v6(1), v6(0x240), v6(2), "EPRT |2|fc00::1|1025|\r\n", "EPRT |2|fc00::240|1025|\r\n"),
    ] {
        let source = CtNat { snat: Some(true), addresses: Some((nat, nat)), ..CtNat::default() };
        let mut setup = setup("ftp", Some(source));
        let (client, server, seen) = ((a, 4000), (b, 21), (nat, 4000));
        open(&mut setup, client, server, seen);
        let (old, new) = (active.len() as u32, wanted.len() as u32);
        // Twice, because the command may be retransmitted.
        for _ in 0..2 {
            let command = segment(client, server, ACK, (101, 501), active);
            assert_eq!(pass(&mut setup, 1, &command).0, segment(seen, server, ACK, (101, 501), wanted));
        }
        // From here on sequence numbers of the client and acknowledgement numbers of the server are shifted.
        let reply = segment(server, seen, ACK, (501, 101 + new), "200 ok\r\n");
        assert_eq!(
            pass(&mut setup, 2, &reply).0,
            segment(server, client, ACK, (501, 101 + old), "200 ok\r\n")
        );
        let next = segment(client, server, ACK, (101 + old, 509), "LIST\r\n");
        assert_eq!(pass(&mut setup, 1, &next).0, segment(seen, server, ACK, (101 + new, 509), "LIST\r\n"));
        // The server connects to the address that it knows.
        let data = segment((b, 20), (nat, 1025), SYN, (1, 0), "");
        let (sent, flow) = pass(&mut setup, 2, &data);
        assert_eq!(sent, segment((b, 20), (a, 1025), SYN, (1, 0), ""));
        assert_eq!(flow.ct_state & (NEW | RELATED), NEW | RELATED);
        let answer = segment((a, 1025), (b, 20), SYN | ACK, (9, 2), "");
        assert_eq!(pass(&mut setup, 1, &answer).0, segment((nat, 1025), (b, 20), SYN | ACK, (9, 2), ""));
    }
}

#[test]
fn a_server_behind_another_address_announces_that() {
    let (virtual_address, real) = (v4(200), v4(2));
    let target = CtNat { snat: Some(false), addresses: Some((real, real)), ..CtNat::default() };
    let mut setup = setup("ftp", Some(target));
    let (client, server, seen) = ((v4(1), 4000), (real, 21), (virtual_address, 21));
    assert_eq!(state(&mut setup, 1, &segment(client, seen, SYN, (100, 0), "")) & NEW, NEW);
    state(&mut setup, 2, &segment(server, client, SYN | ACK, (500, 101), ""));
    state(&mut setup, 1, &segment(client, seen, ACK, (101, 501), ""));
    let reply = segment(server, client, ACK, (501, 101), "227 ok (10,1,1,2,4,2)\r\n");
    let wanted = segment(seen, client, ACK, (501, 101), "227 ok (10,1,1,200,4,2)\r\n");
    assert_eq!(pass(&mut setup, 2, &reply).0, wanted);
    let data = segment((v4(1), 5000), (virtual_address, 1026), SYN, (1, 0), "");
    let (sent, flow) = pass(&mut setup, 1, &data);
    assert_eq!(
        (sent, flow.ct_state & RELATED),
        (segment((v4(1), 5000), (real, 1026), SYN, (1, 0), ""), RELATED)
    );
}

#[test]
fn a_tftp_server_answers_from_another_port() {
    let mut setup = setup("tftp", None);
    let (client, server) = ((v4(1), 3000), (v4(2), 69));
    let request = compose(&flow(17, client, server), b"\0\x01file\0octet\0");
    assert_eq!(state(&mut setup, 1, &request), TRACKED | NEW);
    let data = compose(&flow(17, (v4(2), 5555), client), b"\0\x03\0\x01");
    assert_eq!(state(&mut setup, 2, &data), TRACKED | NEW | RELATED);
    let other = compose(&flow(17, (v4(2), 5555), (v4(1), 3001)), b"\0\x03\0\x01");
    assert_eq!(state(&mut setup, 2, &other), TRACKED | NEW);
}

#[test]
fn headers_are_where_the_tests_look() {
    let frame = segment((v4(1), 1), (v4(2), 2), ACK, (7, 8), "x");
    let (tcp, payload) = Tcp::parse_checked(&frame[34..]).unwrap();
    assert_eq!((tcp.seq(), tcp.ack(), tcp.flags() & 0xff, payload), (7, 8, ACK, &b"x"[..]));
}
