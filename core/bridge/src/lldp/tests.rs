//! Messages between sessions, malformed messages, and lifetimes.

use super::auto_attach::{ASSIGNMENTS_MAX, Assignment, Element, Status};
use super::message::{Id, Message, Refusal};
use super::session::{Announcement, FAST_INTERVAL, INTERVAL, Session, TTL};
use super::{Event, tlv};
use flow::Mac;
use proptest::prelude::*;
use units::Millis;

const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HEADER: usize = 14;

fn session(name: &str, last_byte: u8) -> Session {
    Session::new(name, Mac([2, 0, 0, 0, 0, last_byte]))
}

fn announcement(mappings: &[(u32, u16)]) -> Announcement {
    Announcement {
        system_name: "host".to_owned(),
        system_description: "a switch".to_owned(),
        mappings: mappings.iter().copied().collect(),
    }
}

/// A frame with this message.
fn framed(message: &Message) -> Vec<u8> {
    let header = [1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xcc];
    [header.as_slice(), &message.encode()].concat()
}

fn message(ttl: u16) -> Message {
    Message { ttl, ..Message::new(Id::chassis_mac([2, 0, 0, 0, 0, 9]), Id::port_name("eth0")) }
}

#[test]
fn a_sent_message_has_the_bytes_of_the_standard() {
    let mut port = session("p1", 1);
    port.announce(&announcement(&[(0x01_0203, 7)]));
    let frame = port.run(Millis(0)).unwrap();
    let mut wanted = vec![1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    wanted.extend([2, 7, 4, 2, 0, 0, 0, 0, 1]);
    wanted.extend([4, 3, 5, b'p', b'1']);
    wanted.extend([6, 2, 0, 120]);
    wanted.extend([10, 4, b'h', b'o', b's', b't']);
    wanted.extend([12, 8, b'a', b' ', b's', b'w', b'i', b't', b'c', b'h']);
    wanted.extend([14, 4, 0, 4, 0, 4]);
    wanted.extend([254, 50, 0, 4, 13, 11]);
    wanted.extend([0; 32]);
    wanted.extend([14 << 2, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    wanted.extend([254, 41, 0, 4, 13, 12]);
    wanted.extend([0; 32]);
    wanted.extend([0, 7, 1, 2, 3]);
    wanted.extend([0, 0]);
    assert_eq!(frame, wanted);
}

#[test]
fn messages_are_sent_at_once_then_every_interval_and_soon_after_a_change() {
    let mut port = session("p1", 1);
    assert!(port.run(Millis(5)).is_some());
    assert_eq!(port.deadline(), Millis(5) + INTERVAL);
    assert!(port.run(Millis(6)).is_none());
    port.set_mac(OUR_MAC);
    assert_eq!(port.deadline(), Millis(5) + INTERVAL, "the address is the same");
    port.announce(&announcement(&[]));
    assert_eq!(port.deadline(), Millis(5) + FAST_INTERVAL);
    assert!(port.run(Millis(1004)).is_none());
    assert!(port.run(Millis(1005)).is_some());
}

#[test]
fn neighbours_are_stored_until_their_time_to_live_is_over() {
    let (mut here, mut there) = (session("p1", 1), session("p2", 2));
    there.announce(&announcement(&[]));
    here.run(Millis(0));
    here.receive(&there.run(Millis(0)).unwrap(), Millis(10));
    let text = here.show(Millis(10));
    assert!(text.contains("chassis: 02:00:00:00:00:02 (mac)\n    port: p2 (interface name)"), "{text}");
    assert!(text.contains("expires in: 120.0 s"), "{text}");
    assert!(text.contains("system name: host\n    system description: a switch"), "{text}");
    assert!(text.contains("capabilities: bridge (enabled: bridge)"), "{text}");
    let end = Millis(10 + u64::from(TTL) * 1000);
    here.run(Millis(end.0 - 1));
    assert!(here.show(end).contains("neighbours: 1"));
    here.run(end);
    assert!(here.show(end).contains("neighbours: 0"));
    assert!(here.statistics().contains("  ageout cnt: 1\n  insert cnt: 1\n  delete cnt: 0\n"));
}

#[test]
fn a_new_neighbour_gets_four_messages_at_short_intervals() {
    let mut port = session("p1", 1);
    port.run(Millis(0));
    port.receive(&framed(&message(120)), Millis(500));
    let times: Vec<u64> = (0..40_000).step_by(100).filter(|now| port.run(Millis(*now)).is_some()).collect();
    assert_eq!(times, [1_000, 2_000, 3_000, 4_000, 34_000]);
    port.receive(&framed(&message(120)), Millis(40_000));
    assert_eq!(port.deadline(), Millis(64_000), "the neighbour is known");
}

#[test]
fn a_neighbour_takes_its_messages_back() {
    let mut port = session("p1", 1);
    port.receive(&framed(&message(5)), Millis(0));
    port.receive(&framed(&message(0)), Millis(1));
    port.receive(&framed(&message(0)), Millis(1));
    assert!(port.show(Millis(1)).contains("neighbours: 0"));
    assert!(port.statistics().contains("insert cnt: 1\n  delete cnt: 1\n"));
}

#[test]
fn the_number_of_neighbours_is_bounded() {
    let mut port = session("p1", 1);
    for i in 0..100 {
        let other = Message { port: Id::port_name(&format!("eth{i}")), ..message(5) };
        port.receive(&framed(&other), Millis(0));
    }
    assert!(port.show(Millis(0)).contains("neighbours: 32"));
    assert!(port.statistics().contains("insert cnt: 32\n  delete cnt: 0\n  drop cnt: 68\n"));
}

#[test]
fn a_server_decides_about_requested_services_only() {
    let mut port = session("p1", 1);
    port.announce(&announcement(&[(10, 100), (11, 101)]));
    let of = |isid, status| Assignment { isid, vlan: 100, status: Status(status) };
    let element = Some(Element { kind: 2, state: 0, management_vlan: 0, system: [9; 10] });
    let server = Message { element, assignments: vec![of(10, 2), of(11, 0), of(12, 2)], ..message(120) };
    port.receive(&framed(&server), Millis(0));
    let rows: Vec<String> = port.services().lines().skip(2).map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(rows, ["10       100  Switch      Active", "11       101  Switch      Pending"]);
    assert!(port.servers().contains("System Id: 09:09:09:09:09:09:00:00:09:01:09:09\n"));
    assert!(port.take_events().contains(&Event::Assigned { isid: 10, status: "Active" }));
    port.announce(&announcement(&[]));
    assert_eq!(port.services().lines().count(), 2);
}

#[test]
fn malformed_messages_are_refused_with_a_reason() {
    let good = message(5).encode();
    let mut empty_ttl = Vec::new();
    tlv::put(&mut empty_ttl, 1, &[4, 1]);
    tlv::put(&mut empty_ttl, 2, &[5, 1]);
    tlv::put(&mut empty_ttl, 3, &[1]);
    assert_eq!(Message::decode(&empty_ttl), Err(Refusal::TooShort("TTL")));
    assert_eq!(Message::decode(&good[9..]), Err(Refusal::Malformed("a first TLV that is no chassis ID")));
    assert_eq!(Message::decode(&good[..good.len() - 1]), Err(Refusal::Malformed("a truncated message")));
    let with = |kind, value: &[u8]| {
        let mut bytes = good[..good.len() - 2].to_vec();
        tlv::put(&mut bytes, kind, value);
        tlv::put(&mut bytes, 0, &[]);
        Message::decode(&bytes)
    };
    assert_eq!(with(3, &[0, 1]), Err(Refusal::Malformed("a mandatory TLV that is repeated")));
    assert_eq!(with(0, &[1]), Err(Refusal::Malformed("an end TLV that is not empty")));
    assert_eq!(with(127, &[0, 4, 13, 12, 0]), Err(Refusal::TooShort("ISID_VLAN_ASGNS")));
    assert_eq!(with(127, &[0, 4, 13, 11, 0]), Err(Refusal::TooShort("ELEMENT")));
    assert_eq!(with(8, &[5, 1, 10, 0, 0, 1]), Err(Refusal::TooShort("Management address")));
    assert_eq!(
        with(8, &[5, 1, 10, 0, 0, 1, 2, 0, 0, 0, 1, 0]).unwrap().addresses,
        [std::net::IpAddr::from([10, 0, 0, 1])]
    );
    assert_eq!(with(100, &[1, 2]).unwrap().unrecognized, 1);
    assert_eq!(with(127, &[0, 0x80, 0xc2, 1]).unwrap().unrecognized, 1);
}

#[test]
fn frames_that_are_no_messages_are_discarded() {
    let mut port = session("p1", 1);
    port.receive(&[], Millis(0));
    let mut frame = framed(&message(5));
    frame[5] = 0x0d;
    port.receive(&frame, Millis(0));
    assert_eq!(port.take_events(), [Event::OtherDestination]);
    assert!(port.statistics().contains("  rx cnt: 2\n  rx discarded cnt: 2\n"));
}

#[test]
fn a_tagged_message_is_a_message() {
    let mut port = session("p1", 1);
    let mut frame = framed(&message(5));
    frame.splice(12..12, [0x81, 0, 0, 7]);
    port.receive(&frame, Millis(0));
    assert!(port.show(Millis(0)).contains("neighbours: 1"));
}

#[test]
fn as_many_services_are_announced_as_fit() {
    let mut port = session("p1", 1);
    port.announce(&announcement(&(0..200).map(|i| (i, 1)).collect::<Vec<_>>()));
    let frame = port.run(Millis(0)).unwrap();
    let sent = Message::decode(&frame[HEADER..]).unwrap();
    assert_eq!((ASSIGNMENTS_MAX, sent.assignments.len()), (95, 95));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::decode(&bytes);
        let mut port = session("p1", 1);
        port.receive(&bytes, Millis(0));
    }

    /// A valid message with random changes; what is accepted is the same after it is serialized and parsed again.
    #[test]
    fn an_accepted_message_survives_serialization(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
        let mut port = session("p1", 1);
        port.announce(&announcement(&[(1, 2), (3, 4)]));
        let mut bytes = port.run(Millis(0)).unwrap()[HEADER..].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(message) = Message::decode(&bytes) {
            let again = Message::decode(&message.encode());
            // Only texts that are not valid UTF-8 can become longer than the limit, and are truncated then.
            prop_assert_eq!(again.map(|m| Message { unrecognized: message.unrecognized, ..m }), Ok(message));
        }
    }
}
