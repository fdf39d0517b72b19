//! Names of message types, for messages whose body is missing or invalid.

use crate::error::NX_VENDOR;
use crate::version::Version;

/// Types of OpenFlow 1.0; later versions agree up to 14.
const OF10_TYPES: [&str; 22] = [
    "HELLO",
    "ERROR",
    "ECHO_REQUEST",
    "ECHO_REPLY",
    "",
    "FEATURES_REQUEST",
    "FEATURES_REPLY",
    "GET_CONFIG_REQUEST",
    "GET_CONFIG_REPLY",
    "SET_CONFIG",
    "PACKET_IN",
    "FLOW_REMOVED",
    "PORT_STATUS",
    "PACKET_OUT",
    "FLOW_MOD",
    "PORT_MOD",
    "",
    "",
    "BARRIER_REQUEST",
    "BARRIER_REPLY",
    "QUEUE_GET_CONFIG_REQUEST",
    "QUEUE_GET_CONFIG_REPLY",
];
/// Types from 15 on, since OpenFlow 1.1.
const OF11_TYPES: [&str; 14] = [
    "GROUP_MOD",
    "PORT_MOD",
    "TABLE_MOD",
    "",
    "",
    "BARRIER_REQUEST",
    "BARRIER_REPLY",
    "QUEUE_GET_CONFIG_REQUEST",
    "QUEUE_GET_CONFIG_REPLY",
    "ROLE_REQUEST",
    "ROLE_REPLY",
    "GET_ASYNC_REQUEST",
    "GET_ASYNC_REPLY",
    "SET_ASYNC",
];
/// Types of multipart messages by number.
const STATS: [&str; 15] = [
    "DESC",
    "FLOW",
    "AGGREGATE",
    "TABLE",
    "PORT",
    "QUEUE",
    "GROUP",
    "GROUP_DESC",
    "GROUP_FEATURES",
    "METER",
    "METER_CONFIG",
    "METER_FEATURES",
    "TABLE_FEATURES",
    "PORT_DESC",
    "TABLE_DESC",
];
/// Nicira's messages by subtype.
const NICIRA: [(u32, &str); 16] = [
    (10, "ROLE_REQUEST"),
    (11, "ROLE_REPLY"),
    (12, "SET_FLOW_FORMAT"),
    (13, "FLOW_MOD"),
    (14, "FLOW_REMOVED"),
    (15, "FLOW_MOD_TABLE_ID"),
    (16, "SET_PACKET_IN_FORMAT"),
    (17, "PACKET_IN"),
    (18, "FLOW_AGE"),
    (19, "SET_ASYNC_CONFIG"),
    (20, "SET_CONTROLLER_ID"),
    (21, "FLOW_MONITOR_CANCEL"),
    (24, "TLV_TABLE_MOD"),
    (28, "RESUME"),
    (30, "PACKET_IN2"),
    (31, "GROUP_MOD"),
];

/// The name of the type of a message; `None`: unknown. `bytes` may be only the beginning of the message.
pub fn message_type_name(bytes: &[u8]) -> Option<String> {
    type_name(bytes, Version::from_wire(*bytes.first()?)?)
}

/// The name of the message's type; `None`: unknown.
pub(super) fn type_name(bytes: &[u8], version: Version) -> Option<String> {
    let kind = usize::from(*bytes.get(1)?);
    let long = |at: usize| bytes.get(at..at + 4)?.first_chunk().map(|b| u32::from_be_bytes(*b));
    if kind == 4 && long(8)? == NX_VENDOR {
        let subtype = long(12)?;
        return NICIRA.iter().find(|(n, _)| *n == subtype).map(|(_, name)| format!("NXT_{name}"));
    }
    let multipart = if version == Version::V10 { 16 } else { 18 };
    if kind == multipart || kind == multipart + 1 {
        let which = usize::from(u16::from_be_bytes(*bytes.get(8..10)?.first_chunk()?));
        let end = if kind == multipart { "request" } else { "reply" };
        return STATS.get(which).map(|name| format!("OFPST_{name} {end}"));
    }
    let name = match kind {
        _ if version == Version::V10 => OF10_TYPES.get(kind),
        0..15 => OF10_TYPES.get(kind),
        33 => Some(&"BUNDLE_CONTROL"),
        34 => Some(&"BUNDLE_ADD_MESSAGE"),
        29 => Some(&"METER_MOD"),
        _ => OF11_TYPES.get(kind - 15),
    };
    name.filter(|n| !n.is_empty()).map(|n| format!("OFPT_{n}"))
}
