//! Control connections of FTP and TFTP, and the connections that they announce.
//!
//! A packet of a control connection is passed to `Conntrack::hear` after it was tracked, with its payload. A connection that was
//! announced is *related* for as long as it lives, and begins with mark and label of its control connection, whose first packet's
//! tuple its packets have.
//!
//! Where the control connection is translated, the announced address is replaced by the one that the other end knows, and sequence
//! numbers are shifted from there on if the text has another length. An address that is not that of the sender is refused: it
//! would open the way to a third host (RFC 2577 §3).

use crate::key::{Key, Tuple};
use crate::record::Side;
use crate::table::Handle;
use flow::flow::ct_state::RELATED;
use helpers::{Ends, Expectations, Skew};
use packet::ipproto;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// A protocol whose connections announce others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// RFC 959.
    Ftp,
    /// RFC 1350: the server answers from another port.
    Tftp,
}

/// How the replies to an expected connection are to be addressed, if it is translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readdress(pub(crate) Option<(Side, [u64; 2])>);

pub(crate) type Parent = helpers::Parent<Readdress>;

/// A connection that is expected, as dumps show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its key, with source port 0.
    pub key: Key,
    /// That of its control connection.
    pub parent: Key,
    /// Mark and label that it will have.
    pub mark: u32,
    /// Most significant half first.
    pub label: [u64; 2],
}

/// What is to be done with a packet of a control connection, beside what was done to track it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// It is invalid: it begins like an announcement and is none, or names another host.
    pub invalid: bool,
    /// Text that replaces a part of its payload.
    pub edit: Option<Edit>,
    /// What is added to its sequence number.
    pub seq: i32,
    /// What is added to the number that it acknowledges.
    pub ack: i32,
}

/// A replacement of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Which bytes of the payload are replaced.
    pub range: Range<usize>,
    /// By these.
    pub text: String,
}

/// A packet of a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    pub(crate) handle: Handle,
    pub(crate) reply: bool,
    /// Addresses were written into the packet in this zone, just now.
    pub(crate) translated: bool,
}

/// Everything that is known of control connections beside their records.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pub(crate) expectations: Expectations<Readdress>,
    /// Shifts of both directions, by the key of the connection.
    pub(crate) skews: Mutex<BTreeMap<Ends, [Skew; 2]>>,
}

pub(crate) const HELPER_BITS: u64 = 3;
pub(crate) const RELATED_BIT: u64 = 4;
/// The control connection announced it in the direction of its first packet.
pub(crate) const BY_COMMAND: u64 = 8;
pub(crate) const SKEWED: u64 = 16;

impl Helper {
    /// The helper of a name.
    pub fn of_name(name: &str) -> Option<Helper> {
        [Helper::Ftp, Helper::Tftp].into_iter().find(|helper| helper.name() == name)
    }

    /// Its name in actions and dumps.
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

/// The special word of a record.
pub(crate) fn special_of(helper: Option<Helper>, key: &Key, parent: Option<&Parent>) -> u64 {
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

/// The helper that a special word names.
pub(crate) fn helper_of(special: u64) -> Option<Helper> {
    match special & HELPER_BITS {
        1 => Some(Helper::Ftp),
        2 => Some(Helper::Tftp),
        _ => None,
    }
}

/// What a special word adds to the state of packets.
#[inline(always)]
pub(crate) fn state_of(special: u64) -> u8 {
    if special & RELATED_BIT != 0 { RELATED } else { 0 }
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

/// The key of the replies to an expected connection, and what of it is translated; `None`: nothing is.
pub(crate) fn reply_of(key: &Key, parent: &Parent) -> Option<(Key, Side)> {
    let (side, address) = parent.nat.0?;
    let mut reply = key.reverse();
    match side {
        Side::Source => reply.dst.address = address,
        Side::Destination => reply.src.address = address,
    }
    (reply != key.reverse()).then_some((reply, side))
}
