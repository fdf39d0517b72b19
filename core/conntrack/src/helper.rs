//! Control connections of FTP and TFTP, and the connections that they announce.
//!
//! A packet of a control connection is passed to `Conntrack::inspect` after it was tracked, with its payload. A
//! connection that was announced is *related* during its whole lifetime. It starts with the mark and label of
//! its control connection, and its packets have the tuple of that connection's first packet.
//!
//! If the control connection is translated, the announced address is replaced by the one that the other end
//! knows, and sequence numbers are shifted from there on if the text has another length. An address that is
//! not that of the sender is refused, because it would open a connection to a third host (RFC 2577 §3).

use crate::key::{Key, Tuple};
use crate::record::Side;
use crate::table::Handle;
use flow::flow::ct_state::RELATED;
use helpers::{Ends, Expectations, Skew};
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

/// The destination of the replies to an expected connection, if it is translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readdress(pub(crate) Option<(Side, [u64; 2])>);

pub(crate) type Parent = helpers::Parent<Readdress>;

/// An expected connection in dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Key of the expected connection, with source port 0: any source port matches.
    pub key: Key,
    /// Key of its control connection.
    pub parent: Key,
    /// Mark that it will have.
    pub mark: u32,
    /// Label that it will have, most significant half first.
    pub label: [u64; 2],
}

/// What a helper wants to change in a packet of a control connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// The packet is invalid: it contains a malformed announcement, or one of another host's address.
    pub invalid: bool,
    /// Replacement of a part of its payload.
    pub edit: Option<Edit>,
    /// Value to add to its sequence number.
    pub seq: i32,
    /// Value to add to its acknowledgement number.
    pub ack: i32,
}

/// A replacement of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes of the payload that are replaced.
    pub range: Range<usize>,
    /// The new text.
    pub text: String,
}

/// A packet of a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    pub(crate) handle: Handle,
    pub(crate) reply: bool,
    /// The packet's addresses were translated in this zone.
    pub(crate) translated: bool,
}

/// State of control connections outside their records.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pub(crate) expectations: Expectations<Readdress>,
    /// Sequence number shifts of both directions, by the key of the connection.
    pub(crate) skews: Mutex<BTreeMap<Ends, [Skew; 2]>>,
}

pub(crate) const HELPER_BITS: u64 = 3;
pub(crate) const RELATED_BIT: u64 = 4;
/// Set if the initiator of the control connection announced this connection.
pub(crate) const BY_COMMAND: u64 = 8;
/// Set if sequence numbers of the control connection are shifted, because a text of another length was written.
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

/// The helper word of a record.
pub(crate) fn helper_word_of(helper: Option<Helper>, key: &Key, parent: Option<&Parent>) -> u64 {
    let helper = match helper.filter(|helper| helper.proto() == key.proto) {
        None => 0,
        Some(Helper::Ftp) => 1,
        Some(Helper::Tftp) => 2,
    };
    let Some(parent) = parent else { return helper };
    let by_command = if parent.ends.src == key.src.address { 0 } else { BY_COMMAND };
    let ports = u64::from(parent.ends.src_port) << 48 | u64::from(parent.ends.dst_port) << 32;
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

pub(crate) fn ends_of(key: &Key) -> Ends {
    let Key { zone, v6, proto, src, dst } = *key;
    let (src_port, dst_port) = key.ports();
    Ends { zone, v6, proto, src: src.address, dst: dst.address, src_port, dst_port }
}

pub(crate) fn key_of(ends: &Ends) -> Key {
    let &Ends { zone, v6, proto, .. } = ends;
    let mut key = Key { zone, v6, proto, ..Key::default() };
    (key.src.address, key.src.port) = (ends.src, ends.src_port.into());
    (key.dst.address, key.dst.port) = (ends.dst, ends.dst_port.into());
    key
}

pub(crate) fn tuple_of(ends: &Ends) -> Tuple {
    key_of(ends).tuple()
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
