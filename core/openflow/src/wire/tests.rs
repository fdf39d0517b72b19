//! Whole messages, there and back.

use super::*;
use crate::message::{Body, Message, Xid};
use crate::version::Version;

fn round(m: &Message) -> Message {
    let frames = encode(m, Dialect::default()).unwrap();
    assert_eq!(frames.len(), 1);
    decode(&frames[0], Dialect::default()).unwrap_or_else(|e| panic!("{e}: {m:?} {:02x?}", frames[0]))
}

#[test]
fn simple_messages_come_back() {
    for v in Version::ALL {
        for body in [
            Body::FeaturesRequest,
            Body::BarrierRequest,
            Body::BarrierReply,
            Body::DescRequest,
            Body::TableStatsRequest,
        ] {
            let m = Message::new(v, Xid(7), body);
            assert_eq!(round(&m), m);
        }
    }
}
