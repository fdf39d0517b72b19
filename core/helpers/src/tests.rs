//! FTP messages, by example and with random bytes; shifts of sequence numbers.

use crate::ftp::{Announcement, MESSAGE_MAX, Message, Mode, address_text, read};
use crate::*;
use proptest::prelude::*;
use std::net::IpAddr;

fn announced(text: &str, v6: bool) -> Option<Announcement> {
    match read(text.as_bytes(), v6) {
        Message::Announces(announcement) => Some(announcement),
        Message::Malformed | Message::Other => None,
    }
}

/// Mode, address as it stands in the message, port.
fn summary(text: &str, v6: bool) -> Option<(Mode, String, u16)> {
    let found = announced(text, v6)?;
    if let Some(address) = found.address {
        assert_eq!(address_text(address, found.is_rfc959), text[found.text.clone()]);
    }
    Some((found.mode, text[found.text].to_owned(), found.port))
}

#[test]
fn announcements_of_all_kinds_are_read() {
    let of = |mode, address: &str, port| Some((mode, address.to_owned(), port));
    for (text, v6, wanted) in [
        ("PORT 10,1,1,1,200,7\r\n", false, of(Mode::Active, "10,1,1,1", 51_207)),
        ("port 10,1,1,1,0,1\r\n", false, of(Mode::Active, "10,1,1,1", 1)),
        ("EPRT |1|10.1.1.1|51207|\r\n", false, of(Mode::Active, "10.1.1.1", 51_207)),
        ("EPRT !2!fc00::1!65535!\r\n", true, of(Mode::Active, "fc00::1", 65_535)),
        ("227 Entering Passive Mode (10,1,1,2,4,1).\r\n", false, of(Mode::Passive, "10,1,1,2", 1025)),
        ("227 =10,1,1,2,4,1\r\n", false, of(Mode::Passive, "10,1,1,2", 1025)),
        ("229 Entering Extended Passive Mode (|||6446|)\r\n", true, of(Mode::Passive, "", 6446)),
        ("229 ok (|||6446|)\r\n", false, of(Mode::Passive, "", 6446)),
    ] {
        assert_eq!(summary(text, v6), wanted, "{text}");
    }
}

#[test]
fn what_announces_nothing_is_other_or_malformed() {
    for text in [
        "",
        "USER anonymous\r\n",
        "PASV\r\n",
        "EPSV\r\n",
        "PORTER 1\r\n",
        "2270 (1,2,3,4,5,6)\r\n",
        " PORT 1,2,3,4,5,6\r\n",
    ] {
        assert_eq!(read(text.as_bytes(), false), Message::Other, "{text}");
    }
    // The messages of RFC 959 do not exist for IPv6.
    assert_eq!(read(b"PORT 1,2,3,4,5,6\r\n", true), Message::Other);
    assert_eq!(read(b"227 (1,2,3,4,5,6)\r\n", true), Message::Other);
    for text in [
        "PORT \r\n",
        "PORT 10,1,1,1,200\r\n",
        "PORT 10,1,1,256,200,7\r\n",
        "PORT 10,1,1,1,256,7\r\n",
        "PORT 10,1,1,1,0,0\r\n",
        "PORT 10,1,1,1,0000000000200,7\r\n",
        // The number may continue in the next segment.
        "PORT 10,1,1,1,200,7",
        "227 Entering Passive Mode\r\n",
        "229 Entering Extended Passive Mode |||6446|\r\n",
        "229 x (|||65536|)\r\n",
        "229 x (|||6446\r\n",
        "229 x (1116446 1)\r\n",
        "EPRT |3|10.1.1.1|51207|\r\n",
        "EPRT |1|fc00::1|51207|\r\n",
        "EPRT |1|10.1.1.1|512071|\r\n",
        "EPRT |1|10.1.1.1,51207|\r\n",
        "EPRT :2:fc00::1:1:\r\n",
    ] {
        assert_eq!(read(text.as_bytes(), false), Message::Malformed, "{text}");
    }
    let long = format!("229 {} (|||6446|)\r\n", "x".repeat(MESSAGE_MAX));
    assert_eq!(read(long.as_bytes(), false), Message::Malformed);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>, v6: bool, start in 0usize..5) {
        let start = ["PORT ", "EPRT |", "227 (", "229 (|||", ""][start];
        let payload = [start.as_bytes(), &bytes].concat();
        if let Message::Announces(found) = read(&payload, v6) {
            prop_assert!(found.port != 0 && found.text.end <= payload.len().min(MESSAGE_MAX));
        }
    }

    #[test]
    fn every_announcement_is_read_back(address: IpAddr, port in 1u16.., active: bool, classic: bool) {
        let text = address_text(address, classic && address.is_ipv4());
        let numbers = format!("{text},{},{}", port >> 8, port & 255);
        let message = match (classic && address.is_ipv4(), active) {
            (true, true) => format!("PORT {numbers}\r\n"),
            (true, false) => format!("227 Entering Passive Mode ({numbers}).\r\n"),
            (false, true) => format!("EPRT |{}|{text}|{port}|\r\n", if address.is_ipv4() { 1 } else { 2 }),
            (false, false) => format!("229 Entering Extended Passive Mode (|||{port}|)\r\n"),
        };
        let found = announced(&message, address.is_ipv6()).expect("an announcement");
        prop_assert_eq!((found.port, found.mode == Mode::Active), (port, active));
        if found.address.is_some() {
            prop_assert_eq!((found.address, &message[found.text]), (Some(address), text.as_str()));
        }
    }
}

#[test]
fn sequence_numbers_are_shifted_from_the_change_on() {
    let mut skew = Skew::default();
    assert_eq!((skew.seq_shift(5), skew.ack_shift(5)), (0, 0));
    // 20 bytes at 100 become 23, and are sent twice.
    skew.record_change(100, 3);
    skew.record_change(100, 3);
    assert_eq!([skew.seq_shift(99), skew.seq_shift(100), skew.seq_shift(120)], [0, 0, 3]);
    assert_eq!([skew.ack_shift(100), skew.ack_shift(123)], [0, 3]);
    // 10 bytes at 120, which the receiver knows as 123, become 4.
    skew.record_change(120, -6);
    assert_eq!([skew.seq_shift(120), skew.seq_shift(130)], [3, -3]);
    assert_eq!([skew.ack_shift(123), skew.ack_shift(127)], [3, -3]);
    // Around sequence number zero.
    let mut skew = Skew::default();
    skew.record_change(u32::MAX - 4, 2);
    assert_eq!([skew.seq_shift(u32::MAX - 4), skew.seq_shift(5), skew.ack_shift(7)], [0, 2, 2]);
}
