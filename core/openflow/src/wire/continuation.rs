//! The continuation: state of a paused translation, sent in `NXT_PACKET_IN2` and returned in `NXT_RESUME`.
//!
//! The continuation is opaque to the controller. The layout is that of Open vSwitch, because its tools print the content.
//! It is decoded from a message of a peer, so decoding checks it like any other message.

use super::action::{Context, actions, put_actions};
use super::buf::Reader;
use super::property::{pull, put, put_u8, put_u64, u64};
use crate::action::Action;
use crate::error::OfError;
use crate::version::Version;

/// The state of a paused translation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// Id of the bridge.
    pub bridge: u128,
    /// Values pushed by `push`; the top is last.
    pub stack: Vec<Vec<u8>>,
    /// Bit mask of the mirrors to which the packet was already sent.
    pub mirrors: u32,
    /// Whether the packet has passed connection tracking.
    pub conntracked: bool,
    /// Remaining actions: for each flow its table, its cookie and a list of actions.
    pub actions: Vec<(u8, u64, Vec<Action>)>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// Datapath port that received the packet.
    pub datapath_port: u32,
}

/// Length of the widest field that can be pushed, in bytes.
const STACK_BYTES_MAX: usize = flow::tlv::FIELD_BYTES_MAX;

/// Types of properties, as in Open vSwitch.
mod kind {
    pub const BRIDGE: u16 = 0x8000;
    pub const STACK: u16 = 0x8001;
    pub const MIRRORS: u16 = 0x8002;
    pub const CONNTRACKED: u16 = 0x8003;
    pub const TABLE_ID: u16 = 0x8004;
    pub const COOKIE: u16 = 0x8005;
    pub const ACTIONS: u16 = 0x8006;
    pub const ACTION_SET: u16 = 0x8007;
    pub const DATAPATH_PORT: u16 = 0x8008;
}

impl Continuation {
    /// Encodes the continuation for a connection of this version.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut out = Vec::new();
        let nested = |actions: &[Action]| {
            let mut list = vec![0; 4];
            put_actions(&mut list, actions, version);
            list
        };
        if self.bridge != 0 {
            put(&mut out, kind::BRIDGE, &self.bridge.to_be_bytes());
        }
        for item in self.stack.iter().rev() {
            put(&mut out, kind::STACK, item);
        }
        if self.mirrors != 0 {
            put(&mut out, kind::MIRRORS, &self.mirrors.to_be_bytes());
        }
        if self.conntracked {
            put(&mut out, kind::CONNTRACKED, &[]);
        }
        let mut known = (0, 0);
        for (table, cookie, actions) in &self.actions {
            if known.0 != *table {
                put_u8(&mut out, kind::TABLE_ID, *table);
            }
            if known.1 != *cookie {
                put_u64(&mut out, kind::COOKIE, *cookie);
            }
            known = (*table, *cookie);
            put(&mut out, kind::ACTIONS, &nested(actions));
        }
        if !self.action_set.is_empty() {
            put(&mut out, kind::ACTION_SET, &nested(&self.action_set));
        }
        if self.datapath_port != 0 {
            put(&mut out, kind::DATAPATH_PORT, &self.datapath_port.to_be_bytes());
        }
        out
    }

    /// Decodes a continuation that `encode` wrote for a connection of this version. `debug`: accept actions for tests.
    pub fn decode(bytes: &[u8], version: Version, debug: bool) -> Result<Continuation, OfError> {
        let mut out = Continuation::default();
        let (mut table, mut cookie) = (0, 0);
        let mut r = Reader::new(bytes, OfError::BpcBadLen);
        let list = |p: &mut Reader| {
            p.skip(4)?;
            actions(p.rest(), Context::new(version, debug))
        };
        while !r.is_empty() {
            let (property_type, mut p) = pull(&mut r)?;
            match property_type {
                kind::BRIDGE => out.bridge = p.u128()?,
                kind::STACK => {
                    if p.len() > STACK_BYTES_MAX {
                        return Err(OfError::BpcBadLen);
                    }
                    out.stack.push(p.rest().to_vec());
                }
                kind::MIRRORS => out.mirrors = p.u32()?,
                kind::CONNTRACKED => out.conntracked = true,
                kind::TABLE_ID => table = p.u8()?,
                kind::COOKIE => cookie = u64(&mut p)?,
                kind::ACTIONS => out.actions.push((table, cookie, list(&mut p)?)),
                kind::ACTION_SET => out.action_set = list(&mut p)?,
                kind::DATAPATH_PORT => out.datapath_port = p.u32()?,
                _ => return Err(OfError::BpcBadType),
            }
        }
        // On the wire the top of the stack is first.
        out.stack.reverse();
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::OfPort;

    #[test]
    fn survives_encoding() {
        let output = |n| vec![Action::output(OfPort(n))];
        let c = Continuation {
            bridge: 7,
            stack: vec![vec![0, 0, 0, 1], vec![0x12, 0x34], vec![7; 124]],
            mirrors: 5,
            conntracked: true,
            actions: vec![(0, 0, output(1)), (3, 0x99, output(2)), (3, 0x99, output(3))],
            action_set: output(4),
            datapath_port: 5,
        };
        for version in [Version::V10, Version::V13, Version::V15] {
            let bytes = c.encode(version);
            assert_eq!(bytes.len() % 8, 0);
            assert_eq!(Continuation::decode(&bytes, version, false), Ok(c.clone()));
        }
        assert_eq!(Continuation::decode(&[], Version::V13, false), Ok(Continuation::default()));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Continuation::decode(&bytes, Version::V13, false);
        }
    }
}
