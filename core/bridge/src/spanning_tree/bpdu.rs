//! BPDUs (IEEE 802.1D-2004 §9.3): parsing and serialization.

use super::identifier::BridgeIdentifier;
use bitflags::bitflags;
use thiserror::Error;

/// Length of a topology change notification BPDU in bytes; also of the header of all BPDUs.
const TCN_LEN: usize = 4;
/// Length of a configuration BPDU in bytes.
const CONFIG_LEN: usize = 35;
/// Length of an RST BPDU in bytes.
const RST_LEN: usize = 36;

/// Type of configuration BPDUs.
const CONFIG: u8 = 0;
/// Type of RST BPDUs.
const RST: u8 = 2;
/// Type of topology change notification BPDUs.
const TCN: u8 = 0x80;

/// Protocol version of RST BPDUs; other BPDUs have version 0.
const RAPID: u8 = 2;

bitflags! {
    /// Flags of configuration and RST BPDUs (§9.3.1, §9.3.3), without the role.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct BpduFlags: u8 {
        /// The topology has changed.
        const TOPOLOGY_CHANGE = 1 << 0;
        /// The sending port proposes to become forwarding, and waits for an agreement.
        const PROPOSAL = 1 << 1;
        /// The sending port learns addresses.
        const LEARNING = 1 << 4;
        /// The sending port forwards frames.
        const FORWARDING = 1 << 5;
        /// The sender agrees: the receiving port may become forwarding at once.
        const AGREEMENT = 1 << 6;
        /// The sender acknowledges a topology change notification.
        const TOPOLOGY_CHANGE_ACK = 1 << 7;
    }
}

/// Role of the sending port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The role is unknown; the BPDU is treated as a configuration BPDU (§9.2.9).
    #[default]
    Unknown,
    /// Alternate or backup port.
    AlternateOrBackup,
    /// Root port.
    Root,
    /// Designated port. Only designated ports send configuration BPDUs.
    Designated,
}

/// Position of the role in the byte of flags.
const ROLE_SHIFT: u8 = 2;

impl Role {
    fn of(flags: u8) -> Role {
        match flags >> ROLE_SHIFT & 3 {
            0 => Role::Unknown,
            1 => Role::AlternateOrBackup,
            2 => Role::Root,
            _ => Role::Designated,
        }
    }
}

/// The fields of a configuration or RST BPDU. Times are in 1/256 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub struct Message {
    pub flags: BpduFlags,
    pub role: Role,
    pub root: BridgeIdentifier,
    pub root_path_cost: u32,
    pub bridge: BridgeIdentifier,
    pub port: u16,
    pub message_age: u16,
    pub max_age: u16,
    pub hello_time: u16,
    pub forward_delay: u16,
}

/// A BPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bpdu {
    /// Configuration BPDU.
    Config(Message),
    /// Topology change notification BPDU.
    Tcn,
    /// RST BPDU.
    Rst(Message),
}

/// Why a BPDU is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The header is incomplete.
    #[error("received runt {0}-byte BPDU")]
    Runt(usize),
    /// The protocol identifier is not that of spanning tree.
    #[error("received BPDU with unexpected protocol ID {0}")]
    Protocol(u16),
    /// A configuration BPDU is incomplete.
    #[error("received config BPDU with invalid size {0}")]
    ConfigSize(usize),
    /// A RST BPDU is incomplete.
    #[error("received RST BPDU with invalid size {0}")]
    RstSize(usize),
    /// The BPDU type is unknown.
    #[error("received BPDU of unexpected type {0}")]
    Type(u8),
    /// The message age has reached the maximum age.
    #[error("received config BPDU with message age ({age}) greater than max age ({max})")]
    TooOld {
        /// The message age.
        age: u16,
        /// The maximum age in the BPDU.
        max: u16,
    },
    /// The receiving port itself has sent the BPDU.
    #[error("received own BPDU")]
    Own,
}

impl Bpdu {
    /// Parses a BPDU. Bytes after the fields are ignored (§9.3.4).
    pub fn decode(bytes: &[u8]) -> Result<Bpdu, Refusal> {
        let Some(([high, low, _version, kind], rest)) = bytes.split_first_chunk() else {
            return Err(Refusal::Runt(bytes.len()));
        };
        let protocol = u16::from_be_bytes([*high, *low]);
        if protocol != 0 {
            return Err(Refusal::Protocol(protocol));
        }
        match *kind {
            CONFIG => {
                let message = Message::decode(rest).ok_or(Refusal::ConfigSize(bytes.len()))?;
                Ok(Bpdu::Config(Message { role: Role::Designated, ..message }))
            }
            TCN => Ok(Bpdu::Tcn),
            RST if bytes.len() < RST_LEN => Err(Refusal::RstSize(bytes.len())),
            RST => Message::decode(rest).map(Bpdu::Rst).ok_or(Refusal::RstSize(bytes.len())),
            other => Err(Refusal::Type(other)),
        }
    }

    /// Serializes the BPDU.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Bpdu::Tcn => vec![0, 0, 0, TCN],
            Bpdu::Config(message) => message.encode([0, CONFIG], message.flags.bits()),
            Bpdu::Rst(message) => {
                let flags = message.flags.bits() | (message.role as u8) << ROLE_SHIFT;
                let mut bytes = message.encode([RAPID, RST], flags);
                // Version 1 Length: the length of the version 1 information, which is empty.
                bytes.push(0);
                bytes
            }
        }
    }
}

impl Message {
    /// Parses the fields after the header.
    fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; CONFIG_LEN - TCN_LEN] = bytes.first_chunk()?;
        let (flags, rest) = bytes.split_first()?;
        let (root, rest) = rest.split_first_chunk()?;
        let (cost, rest) = rest.split_first_chunk()?;
        let (bridge, rest) = rest.split_first_chunk()?;
        let words = rest.as_chunks::<2>().0.first_chunk::<5>()?;
        let [port, message_age, max_age, hello_time, forward_delay] = words.map(u16::from_be_bytes);
        Some(Message {
            flags: BpduFlags::from_bits_truncate(*flags),
            role: Role::of(*flags),
            root: BridgeIdentifier(u64::from_be_bytes(*root)),
            root_path_cost: u32::from_be_bytes(*cost),
            bridge: BridgeIdentifier(u64::from_be_bytes(*bridge)),
            port,
            message_age,
            max_age,
            hello_time,
            forward_delay,
        })
    }

    fn encode(&self, [version, kind]: [u8; 2], flags: u8) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(RST_LEN);
        bytes.extend([0, 0, version, kind, flags]);
        bytes.extend(self.root.0.to_be_bytes());
        bytes.extend(self.root_path_cost.to_be_bytes());
        bytes.extend(self.bridge.0.to_be_bytes());
        let words = [self.port, self.message_age, self.max_age, self.hello_time, self.forward_delay];
        bytes.extend(words.into_iter().flat_map(u16::to_be_bytes));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(seed: u64) -> Message {
        let mut random = fastrand::Rng::with_seed(seed);
        let word = |random: &mut fastrand::Rng| random.u16(..);
        Message {
            flags: BpduFlags::from_bits_truncate(random.u8(..)),
            role: Role::of(random.u8(..)),
            root: BridgeIdentifier(random.u64(..)),
            root_path_cost: random.u32(..),
            bridge: BridgeIdentifier(random.u64(..)),
            port: word(&mut random),
            message_age: word(&mut random),
            max_age: word(&mut random),
            hello_time: word(&mut random),
            forward_delay: word(&mut random),
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(seed: u64, padding in 0usize..20) {
            let message = message(seed);
            let config = Message {
                role: Role::Designated,
                flags: message.flags & (BpduFlags::TOPOLOGY_CHANGE | BpduFlags::TOPOLOGY_CHANGE_ACK),
                ..message
            };
            for bpdu in [Bpdu::Config(config), Bpdu::Tcn, Bpdu::Rst(message)] {
                let mut bytes = bpdu.encode();
                bytes.extend(vec![0xff; padding]);
                prop_assert_eq!(Bpdu::decode(&bytes), Ok(bpdu));
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = Bpdu::decode(&bytes);
        }
    }

    #[test]
    fn lengths_and_refusals() {
        let message = message(1);
        let lengths = [Bpdu::Config(message), Bpdu::Tcn, Bpdu::Rst(message)].map(|b| b.encode().len());
        assert_eq!(lengths, [CONFIG_LEN, TCN_LEN, RST_LEN]);
        let cut = |bpdu: Bpdu, len: usize| Bpdu::decode(&bpdu.encode()[..len]);
        assert_eq!(cut(Bpdu::Tcn, 3), Err(Refusal::Runt(3)));
        assert_eq!(cut(Bpdu::Config(message), 34), Err(Refusal::ConfigSize(34)));
        assert_eq!(cut(Bpdu::Rst(message), 35), Err(Refusal::RstSize(35)));
        assert_eq!(Bpdu::decode(&[1, 2, 0, 0]), Err(Refusal::Protocol(0x102)));
        assert_eq!(Bpdu::decode(&[0, 0, 3, 7]), Err(Refusal::Type(7)));
    }

    /// An RST BPDU that a switch of another make sent.
    #[test]
    fn a_known_bpdu_is_decoded() {
        let mut bytes = vec![0, 0, 2, 2, 0x7c];
        bytes.extend([0x80, 1, 0, 0x19, 6, 0xea, 0xb8, 0x80, 0, 0, 0, 0]);
        bytes.extend([0x80, 1, 0, 0x19, 6, 0xea, 0xb8, 0x80, 0x80, 5]);
        bytes.extend([0, 0, 0x14, 0, 2, 0, 0x0f, 0, 0]);
        let Ok(Bpdu::Rst(message)) = Bpdu::decode(&bytes) else { panic!("it is a RST BPDU") };
        assert_eq!(message.role, Role::Designated);
        assert_eq!(message.flags, BpduFlags::LEARNING | BpduFlags::FORWARDING | BpduFlags::AGREEMENT);
        assert_eq!((message.root.priority(), message.port), (0x8001, 0x8005));
        assert_eq!((message.max_age, message.hello_time, message.forward_delay), (20 << 8, 2 << 8, 15 << 8));
    }
}
