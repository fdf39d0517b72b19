//! OpenFlow messages: a decoded message is equal after it was encoded and decoded again, and can be printed. Other versions encode
//! it or return an error.
//!
//! The bytes of the version and of the length are set to correct values, so that a search need not find a valid header.

use super::same::assert_same;
use openflow::text::{NoNames, message_text};
use openflow::version::Version;
use openflow::{Body, Continuation, Dialect, Message, decode, encode, message_len};

/// Longer inputs do not reach more code.
const LEN_MAX: usize = 4096;

pub fn v10(data: &[u8]) {
    message(Version::V10, data);
}

pub fn v11(data: &[u8]) {
    message(Version::V11, data);
}

pub fn v12(data: &[u8]) {
    message(Version::V12, data);
}

pub fn v13(data: &[u8]) {
    message(Version::V13, data);
}

pub fn v14(data: &[u8]) {
    message(Version::V14, data);
}

pub fn v15(data: &[u8]) {
    message(Version::V15, data);
}

fn message(version: Version, data: &[u8]) {
    let Ok(len) = u16::try_from(data.len()) else { return };
    if data.len() > LEN_MAX {
        return;
    }
    let mut bytes = data.to_vec();
    if let [v, _, high, low, ..] = bytes.as_mut_slice() {
        *v = version.wire();
        [*high, *low] = len.to_be_bytes();
    }
    check_frame(&bytes);
    for flow_mod_table_id in [false, true] {
        let dialect = Dialect { flow_mod_table_id, debug_actions: true };
        if let Ok(message) = decode(&bytes, dialect) {
            check_equal(&message, dialect);
            check_other_versions(&message, dialect);
        }
    }
    message_text(&bytes, &NoNames, 3);
}

fn check_frame(bytes: &[u8]) {
    match message_len(bytes) {
        Ok(Some(len)) => assert_eq!(len, bytes.len()),
        Ok(None) | Err(_) => assert!(bytes.len() < openflow::wire::HEADER),
    }
    for version in Version::ALL {
        if let Ok(continuation) = Continuation::decode(bytes, version, true) {
            let again = Continuation::decode(&continuation.encode(version), version, true);
            assert_eq!(again.as_ref(), Ok(&continuation));
        }
    }
}

/// Checks that a message is equal after it was written and read again. Actions and the match of OpenFlow 1.0 may be written in
/// another form than they were received; then the written form must not change if it is read and written again.
fn check_equal(message: &Message, dialect: Dialect) {
    let frames = encode(message, dialect).unwrap_or_else(|e| panic!("{e}: {message:?}"));
    let [frame] = frames.as_slice() else { return };
    let again = decode(frame, dialect).unwrap_or_else(|e| panic!("{e}: {message:?}\n{frame:02x?}"));
    if has_other_forms(&message.body) {
        let third = encode(&again, dialect).unwrap_or_else(|e| panic!("{e}: {again:?}"));
        assert_same(&vec![frame], &third.iter().collect(), || format!("{message:?}\n{again:?}"));
    } else {
        assert_same(message, &again, || format!("written as {frame:02x?}"));
    }
}

fn has_other_forms(body: &Body) -> bool {
    match body {
        Body::FlowMod(_) | Body::GroupMod(_) | Body::PacketOut(_) | Body::Resume(_) | Body::BundleAdd(_) => {
            true
        }
        Body::PacketIn(..) | Body::FlowRemoved(_) | Body::FlowStatsRequest(_) | Body::AggregateRequest(_) => {
            true
        }
        Body::FlowStatsReply(_) | Body::GroupDescReply(_) | Body::FlowMonitorReply(_) => true,
        Body::FlowMonitorRequest(_) | Body::RequestForward(_) => true,
        // An unknown count is written as zero if the format has no value for unknown counts.
        Body::AggregateReply(_) => true,
        _ => false,
    }
}

/// Checks that the message can be written for other versions and printed, or is refused.
fn check_other_versions(message: &Message, dialect: Dialect) {
    if matches!(message.body, Body::Hello(_)) {
        return;
    }
    for version in Version::ALL {
        for frame in encode(&Message { version, ..message.clone() }, dialect).into_iter().flatten() {
            message_text(&frame, &NoNames, 1);
        }
    }
}
