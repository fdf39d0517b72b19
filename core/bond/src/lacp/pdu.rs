//! Parses and composes the bytes of a message (IEEE 802.1AX-2014 §6.4.2.3). The bytes are untrusted.

use super::info::{Info, State};
use flow::Mac;

/// Destination address of messages.
pub const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x02]);
/// Ethernet type of the slow protocols.
pub const ETHERTYPE: u16 = 0x8809;
/// Length of a message after the Ethernet header, in bytes.
pub const PDU_LEN: usize = 110;

const SUBTYPE_LACP: u8 = 1;
const SUBTYPE_MARKER: u8 = 2;
const VERSION: u8 = 1;

/// Type and length of the TLV about the sender.
const ACTOR: [u8; 2] = [1, 20];
/// Type and length of the TLV about the receiver.
const PARTNER: [u8; 2] = [2, 20];
/// Type and length of the TLV about the collector.
const COLLECTOR: [u8; 2] = [3, 16];
/// Offset of the TLV about the sender.
const ACTOR_AT: usize = 2;
/// Offset of the TLV about the receiver.
const PARTNER_AT: usize = 22;
/// Offset of the TLV about the collector.
const COLLECTOR_AT: usize = 42;
/// Length of the information about an end, in bytes.
const INFO_LEN: usize = 15;

/// The result of parsing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A LACP message.
    Message {
        /// The sender's information about itself.
        actor: Info,
        /// The sender's information about this end.
        partner: Info,
    },
    /// A marker (§6.5), which is counted, but not answered.
    Marker,
    /// Another message, or an incomplete one.
    Bad,
}

/// Parses a frame. `bytes`: the bytes after the Ethernet header.
pub fn parse(bytes: &[u8]) -> Received {
    let Some(pdu) = bytes.first_chunk::<PDU_LEN>() else { return Received::Bad };
    let part = |at: usize| [pdu[at], pdu[at + 1]];
    match pdu[0] {
        SUBTYPE_LACP if part(ACTOR_AT) == ACTOR && part(PARTNER_AT) == PARTNER => {
            Received::Message { actor: info_at(pdu, ACTOR_AT + 2), partner: info_at(pdu, PARTNER_AT + 2) }
        }
        SUBTYPE_MARKER => Received::Marker,
        _ => Received::Bad,
    }
}

/// Composes a message. `actor`: the information about this end; `partner`: about the other end.
pub fn compose(actor: &Info, partner: &Info) -> [u8; PDU_LEN] {
    let mut pdu = [0; PDU_LEN];
    (pdu[0], pdu[1]) = (SUBTYPE_LACP, VERSION);
    for (at, kind) in [(ACTOR_AT, ACTOR), (PARTNER_AT, PARTNER), (COLLECTOR_AT, COLLECTOR)] {
        pdu[at..at + 2].copy_from_slice(&kind);
    }
    put_info(&mut pdu, ACTOR_AT + 2, actor);
    put_info(&mut pdu, PARTNER_AT + 2, partner);
    pdu
}

fn info_at(pdu: &[u8; PDU_LEN], at: usize) -> Info {
    let number = |i: usize| u16::from_be_bytes([pdu[at + i], pdu[at + i + 1]]);
    Info {
        system_priority: number(0),
        system: Mac(std::array::from_fn(|i| pdu[at + 2 + i])),
        key: number(8),
        port_priority: number(10),
        port: number(12),
        state: State(pdu[at + INFO_LEN - 1]),
    }
}

fn put_info(pdu: &mut [u8; PDU_LEN], at: usize, info: &Info) {
    let numbers = [(0, info.system_priority), (8, info.key), (10, info.port_priority), (12, info.port)];
    for (i, number) in numbers {
        pdu[at + i..at + i + 2].copy_from_slice(&number.to_be_bytes());
    }
    pdu[at + 2..at + 8].copy_from_slice(&info.system.0);
    pdu[at + INFO_LEN - 1] = info.state.0;
}
