//! The continuity check message (IEEE 802.1ag 21.6): parsing and serialization.

use super::settings::Interval;
use thiserror::Error;
use units::Millis;

/// Length in bytes of a sent message.
const LEN: usize = 75;
/// Shortest accepted message in bytes: old versions of Open vSwitch send messages without the byte that ends the list
/// of TLVs.
const MIN_LEN: usize = 74;
/// The operation code of the message.
const OPCODE: u8 = 1;
/// Value of the field First TLV Offset: bytes between this field and the first TLV.
const TLV_OFFSET: u8 = 70;
/// Bit of the flags: the sender receives no messages (remote defect indication).
const RDI: u8 = 0x80;
/// Bits of the flags: the code of the interval.
const INTERVAL: u8 = 0x07;

/// Offsets of fields in the message.
mod at {
    pub(super) const OPCODE: usize = 1;
    pub(super) const FLAGS: usize = 2;
    pub(super) const TLV_OFFSET: usize = 3;
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const ID: usize = 8;
    pub(super) const ASSOCIATION: usize = 10;
    pub(super) const EXTENDED_INTERVAL: usize = 58;
    pub(super) const EXTENDED_ID: usize = 60;
    pub(super) const IS_DOWN: usize = 68;
}

/// Identifier of the maintenance association (MAID, 21.6.5). The domain and the association both have the name `ovs`.
const ASSOCIATION: [u8; 48] = {
    let mut id = [0; 48];
    let start = *b"\x04\x03ovs\x02\x03ovs";
    let mut i = 0;
    while i < start.len() {
        id[i] = start[i];
        i += 1;
    }
    id
};

/// A continuity check message. Fields of extended mode are 0 in other modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Sequence number of the message.
    pub sequence: u32,
    /// Identifier of the sender, 16 bits.
    pub id: u16,
    /// Identifier of the sender in extended mode.
    pub extended_id: u64,
    /// The sender receives no messages.
    pub rdi: bool,
    /// The sender is operationally down; in extended mode only.
    pub is_down: bool,
    /// The sender belongs to our maintenance association.
    pub is_of_our_association: bool,
    /// The code of the sender's interval; 0: the interval is not one of the standard.
    pub interval_code: u8,
    /// The sender's interval if the code is 0.
    pub extended_interval: Millis,
}

/// Why a message is not a valid continuity check message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The message is too short.
    #[error("Received an unparseable 802.1ag CCM heartbeat.")]
    TooShort,
    /// The message has another operation code, which is given: it is another message of the standard.
    #[error("Received an unsupported 802.1ag message. (opcode {0})")]
    Opcode(u8),
}

impl Message {
    /// Parses a message.
    ///
    /// # Errors
    ///
    /// The message is too short, or another message of the standard.
    pub fn decode(bytes: &[u8]) -> Result<Message, Refusal> {
        let bytes: &[u8; MIN_LEN] = bytes.first_chunk().ok_or(Refusal::TooShort)?;
        if bytes[at::OPCODE] != OPCODE {
            return Err(Refusal::Opcode(bytes[at::OPCODE]));
        }
        let flags = bytes[at::FLAGS];
        Ok(Message {
            sequence: u32::from_be_bytes(array(bytes, at::SEQUENCE)),
            id: u16::from_be_bytes(array(bytes, at::ID)),
            extended_id: u64::from_be_bytes(array(bytes, at::EXTENDED_ID)),
            rdi: flags & RDI != 0,
            is_down: bytes[at::IS_DOWN] != 0,
            is_of_our_association: array(bytes, at::ASSOCIATION) == ASSOCIATION,
            interval_code: flags & INTERVAL,
            extended_interval: Millis(u64::from(u16::from_be_bytes(array(bytes, at::EXTENDED_INTERVAL)))),
        })
    }

    /// Serializes the message, with the identifier of our association.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let extended_interval = u16::try_from(self.extended_interval.0).unwrap_or(u16::MAX);
        bytes[at::OPCODE] = OPCODE;
        bytes[at::FLAGS] = self.interval_code & INTERVAL | if self.rdi { RDI } else { 0 };
        bytes[at::TLV_OFFSET] = TLV_OFFSET;
        bytes[at::SEQUENCE..][..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[at::ID..][..2].copy_from_slice(&self.id.to_be_bytes());
        bytes[at::ASSOCIATION..][..ASSOCIATION.len()].copy_from_slice(&ASSOCIATION);
        bytes[at::EXTENDED_INTERVAL..][..2].copy_from_slice(&extended_interval.to_be_bytes());
        bytes[at::EXTENDED_ID..][..8].copy_from_slice(&self.extended_id.to_be_bytes());
        bytes[at::IS_DOWN] = u8::from(self.is_down);
        bytes
    }

    /// Whether the sender's interval is `interval`.
    pub(super) fn has_interval(&self, interval: Interval) -> bool {
        self.interval_code == interval.code
            && (self.interval_code != 0 || self.extended_interval == interval.time)
    }
}

/// The `N` bytes that begin at offset `at`.
fn array<const N: usize>(bytes: &[u8; MIN_LEN], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}
