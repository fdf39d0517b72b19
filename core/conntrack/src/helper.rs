//! Control connections of FTP and TFTP, and the connections that they announce.
//!
//! A packet of a control connection is passed to `Conntrack::inspect` with its payload, after it was tracked. An announced connection is
//! *related* during its complete lifetime. It starts with the mark and label of its control connection, and its packets have the tuple of
//! the control connection's first packet.
//!
//! If the control connection is translated, the announced address is replaced by the address that the other endpoint knows. If the new text
//! has another length, the sequence numbers of later segments are shifted. An announced address that is not the sender's own is refused,
//! because it would open a connection to a third host (RFC 2577 §3).

use crate::key::{Key, Tuple};
use crate::record::Side;
use crate::table::Handle;
use flow::flow::ct_state::RELATED;
use helpers::{Endpoints, Expectations, Skew};
use packet::ipproto;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// A protocol with control connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// RFC 959.
    Ftp,
    /// RFC 1350: the server replies from another port.
    Tftp,
}

/// Translation of an expected connection: the translated side, and the new address. `None`: not translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpectedNat(pub(crate) Option<(Side, [u64; 2])>);

pub(crate) type Parent = helpers::Parent<ExpectedNat>;

/// An expected connection in dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedConnection {
    /// Key of the expected connection. Its source port is 0, which matches any source port.
    pub key: Key,
    /// Key of its control connection.
    pub parent: Key,
    /// Mark that the expected connection will have.
    pub mark: u32,
    /// Label that the expected connection will have, most significant half first.
    pub label: [u64; 2],
}

/// Result of the inspection of a control connection's packet: what the datapath must change in the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InspectionResult {
    /// The packet is invalid: it contains a malformed announcement, or announces an address of another host.
    pub invalid: bool,
    /// Replacement of a part of the payload.
    pub edit: Option<TextEdit>,
    /// Value to add to the packet's sequence number.
    pub seq: i32,
    /// Value to add to the packet's acknowledgement number.
    pub ack: i32,
}

/// A replacement of text in a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The bytes of the payload that the text replaces.
    pub range: Range<usize>,
    /// The new text.
    pub text: String,
}

/// A packet of a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPacket {
    pub(crate) handle: Handle,
    pub(crate) reply: bool,
    /// The packet's addresses were translated in this zone.
    pub(crate) translated: bool,
}

/// State of control connections that is not in their records.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pub(crate) expectations: Expectations<ExpectedNat>,
    /// Sequence number shifts of both directions, by the endpoints of the control connection.
    pub(crate) skews: Mutex<BTreeMap<Endpoints, [Skew; 2]>>,
}

/// The bits of a helper word that contain the helper.
pub(crate) const HELPER_BITS: u64 = 3;
/// The bit of a helper word that is set if the connection was announced.
pub(crate) const RELATED_BIT: u64 = 4;
/// The bit of a helper word that is set if the initiator of the control connection announced this connection.
pub(crate) const BY_COMMAND: u64 = 8;
/// The bit of a helper word that is set if sequence numbers of this control connection are shifted, because an edit changed the length of
/// its text.
pub(crate) const SKEWED: u64 = 16;

impl Helper {
    /// The helper with this name.
    pub fn of_name(name: &str) -> Option<Helper> {
        [Helper::Ftp, Helper::Tftp].into_iter().find(|helper| helper.name() == name)
    }

    /// The name in actions and dumps.
    pub fn name(self) -> &'static str {
        match self {
            Helper::Ftp => "ftp",
            Helper::Tftp => "tftp",
        }
    }

    fn proto(self) -> u8 {
        match self {
            Helper::Ftp => ipproto::TCP,
            Helper::Tftp => ipproto::UDP,
        }
    }
}

/// The helper word of a new record. `parent`: the control connection that announced the connection.
pub(crate) fn helper_word_of(helper: Option<Helper>, key: &Key, parent: Option<&Parent>) -> u64 {
    let helper = match helper.filter(|helper| helper.proto() == key.proto) {
        None => 0,
        Some(Helper::Ftp) => 1,
        Some(Helper::Tftp) => 2,
    };
    let Some(parent) = parent else { return helper };
    let by_command = if parent.endpoints.src == key.src.address { 0 } else { BY_COMMAND };
    let ports = u64::from(parent.endpoints.src_port) << 48 | u64::from(parent.endpoints.dst_port) << 32;
    helper | RELATED_BIT | by_command | ports
}

/// The helper in a helper word.
pub(crate) fn helper_of(helper_word: u64) -> Option<Helper> {
    match helper_word & HELPER_BITS {
        1 => Some(Helper::Ftp),
        2 => Some(Helper::Tftp),
        _ => None,
    }
}

/// The bits of `ct_state` that a helper word adds.
#[inline(always)]
pub(crate) fn state_of(helper_word: u64) -> u8 {
    if helper_word & RELATED_BIT != 0 { RELATED } else { 0 }
}

pub(crate) fn endpoints_of(key: &Key) -> Endpoints {
    let Key { zone, v6, proto, src, dst } = *key;
    let (src_port, dst_port) = key.ports();
    Endpoints { zone, v6, proto, src: src.address, dst: dst.address, src_port, dst_port }
}

pub(crate) fn key_of(endpoints: &Endpoints) -> Key {
    let &Endpoints { zone, v6, proto, .. } = endpoints;
    let mut key = Key { zone, v6, proto, ..Key::default() };
    (key.src.address, key.src.port) = (endpoints.src, endpoints.src_port.into());
    (key.dst.address, key.dst.port) = (endpoints.dst, endpoints.dst_port.into());
    key
}

pub(crate) fn tuple_of(endpoints: &Endpoints) -> Tuple {
    key_of(endpoints).tuple()
}

/// The reply key of an expected connection, and which side is translated; `None` without translation.
pub(crate) fn reply_of(key: &Key, parent: &Parent) -> Option<(Key, Side)> {
    let (side, address) = parent.nat.0?;
    let mut reply = key.reverse();
    match side {
        Side::Source => reply.dst.address = address,
        Side::Destination => reply.src.address = address,
    }
    (reply != key.reverse()).then_some((reply, side))
}
