//! FTP control messages: the text of an announced address is within the payload, and a message that is built from the address is
//! parsed to the same address.

use helpers::ftp::{MESSAGE_MAX, Message, Mode, address_text, read};

/// The first byte selects the IP version, the rest is the payload of a segment.
pub fn run(data: &[u8]) {
    let Some((&first, payload)) = data.split_first() else { return };
    let v6 = first & 1 != 0;
    let Message::Announces(found) = read(payload, v6) else { return };
    assert!(found.port != 0 && found.text.end <= payload.len().min(MESSAGE_MAX));
    let message = match found.address {
        None => format!("229 Entering Extended Passive Mode (|||{}|)\r\n", found.port),
        Some(address) => {
            let text = address_text(address, found.is_rfc959);
            match (found.is_rfc959, found.mode) {
                (false, _) => {
                    format!("EPRT |{}|{text}|{}|\r\n", if address.is_ipv4() { 1 } else { 2 }, found.port)
                }
                (true, Mode::Active) => format!("PORT {text},{},{}\r\n", found.port >> 8, found.port & 255),
                (true, Mode::Passive) => {
                    format!("227 ({text},{},{}).\r\n", found.port >> 8, found.port & 255)
                }
            }
        }
    };
    let Message::Announces(again) = read(message.as_bytes(), v6) else { panic!("{message:?} is not read") };
    let what = |a: &helpers::ftp::Announcement| (a.mode, a.address, a.port, a.is_rfc959);
    assert_eq!(what(&again), what(&found));
}
