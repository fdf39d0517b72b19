//! The control packet (RFC 5880 §4.1) without authentication: parsing and serialization.

use bitflags::bitflags;
use std::fmt;
use thiserror::Error;

/// The protocol version.
const VERSION: u8 = 1;
/// Length in bytes without an authentication section.
pub const MESSAGE_LEN: usize = 24;

/// Protocol state; the order is that of the numbers on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Administratively down.
    AdminDown,
    /// No messages are received from the other end.
    #[default]
    Down,
    /// Messages are received, but the other end has not confirmed that it receives ours.
    Init,
    /// Both ends receive each other's messages.
    Up,
}

impl State {
    fn from_bits(bits: u8) -> State {
        match bits & 3 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        }
    }

    /// The name in output, such as `up`.
    pub const fn name(self) -> &'static str {
        match self {
            State::AdminDown => "admin_down",
            State::Down => "down",
            State::Init => "init",
            State::Up => "up",
        }
    }
}

/// The reason of the last state change; five bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic(pub u8);

impl Diagnostic {
    /// No diagnostic.
    pub const NONE: Diagnostic = Diagnostic(0);
    /// The detection time expired without a message.
    pub const EXPIRED: Diagnostic = Diagnostic(1);
    /// The other end signalled that its session is down.
    pub const NEIGHBOR_DOWN: Diagnostic = Diagnostic(3);
    /// The path is down.
    pub const PATH_DOWN: Diagnostic = Diagnostic(5);
    /// A path beyond this end is down.
    pub const CONCATENATED_PATH_DOWN: Diagnostic = Diagnostic(6);
    /// A path beyond the other end is down.
    pub const REVERSE_CONCATENATED_PATH_DOWN: Diagnostic = Diagnostic(8);

    /// The name of RFC 5880.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "No Diagnostic",
            1 => "Control Detection Time Expired",
            2 => "Echo Function Failed",
            3 => "Neighbor Signaled Session Down",
            4 => "Forwarding Plane Reset",
            5 => "Path Down",
            6 => "Concatenated Path Down",
            7 => "Administratively Down",
            8 => "Reverse Concatenated Path Down",
            _ => "Invalid Diagnostic",
        }
    }

    /// Whether an end that signals this diagnostic refuses packets, regardless of its state.
    pub(super) fn refuses_traffic(self) -> bool {
        [Self::PATH_DOWN, Self::CONCATENATED_PATH_DOWN, Self::REVERSE_CONCATENATED_PATH_DOWN].contains(&self)
    }
}

bitflags! {
    /// The flags that follow the state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// Reserved for point-to-multipoint extensions.
        const MULTIPOINT = 1 << 0;
        /// Demand mode: the receiver must not send periodic messages.
        const DEMAND = 1 << 1;
        /// An authentication section is present.
        const AUTH = 1 << 2;
        /// The sender's BFD continues to work if its control plane fails.
        const CONTROL_PLANE_INDEPENDENT = 1 << 3;
        /// Answer to a poll.
        const FINAL = 1 << 4;
        /// An answer is requested.
        const POLL = 1 << 5;
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["multipoint", "demand", "auth", "ctl", "final", "poll"];
        let set: Vec<&str> =
            NAMES.iter().enumerate().filter(|(i, _)| self.bits() >> i & 1 != 0).map(|(_, n)| *n).collect();
        if set.is_empty() { f.write_str("none") } else { f.write_str(&set.join(" ")) }
    }
}

/// One control packet. Intervals are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of RFC 5880 §4.1")]
pub struct Message {
    pub diagnostic: Diagnostic,
    pub state: State,
    pub flags: Flags,
    pub detect_mult: u8,
    pub my_discriminator: u32,
    pub your_discriminator: u32,
    pub desired_min_tx: u32,
    pub required_min_rx: u32,
    pub required_min_echo_rx: u32,
}

/// Why a received packet is discarded (RFC 5880 §6.8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The packet is shorter than its fixed fields.
    #[error("Received too-short BFD control message (only {0} bytes long, at least {MESSAGE_LEN} required)")]
    TooShort(usize),
    /// The protocol version is not supported.
    #[error("Incorrect version")]
    Version,
    /// The packet is authenticated, which is not supported.
    #[error("Authenticated control message with authentication disabled")]
    Authenticated,
    /// The length field is smaller than the fixed fields, or larger than the packet.
    #[error("Unexpected length")]
    Length,
    /// The multiplier is zero, so the detection time would be zero.
    #[error("Zero multiplier")]
    ZeroMultiplier,
    /// The multipoint flag is set; RFC 5880 §4.1 requires zero.
    #[error("Unsupported multipoint flag")]
    Multipoint,
    /// The sender's discriminator is zero.
    #[error("NULL my_disc")]
    NullMyDiscriminator,
    /// The state is beyond `Down` but the receiver's discriminator is zero.
    #[error("Null your_disc")]
    NullYourDiscriminator,
    /// The receiver's discriminator is not that of this session.
    #[error("Incorrect your_disc")]
    YourDiscriminator,
}

impl Message {
    /// Serializes the packet.
    pub fn encode(&self) -> [u8; MESSAGE_LEN] {
        let mut out = [0; MESSAGE_LEN];
        out[0] = VERSION << 5 | self.diagnostic.0 & 0x1f;
        out[1] = (self.state as u8) << 6 | self.flags.bits();
        out[2] = self.detect_mult;
        out[3] = MESSAGE_LEN as u8;
        let words = [
            self.my_discriminator,
            self.your_discriminator,
            self.desired_min_tx,
            self.required_min_rx,
            self.required_min_echo_rx,
        ];
        for (place, word) in out[4..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// Parses the payload of a datagram, and makes all checks of RFC 5880 that do not depend on the session.
    pub fn decode(payload: &[u8]) -> Result<Message, Refusal> {
        let bytes = payload.first_chunk::<MESSAGE_LEN>().ok_or(Refusal::TooShort(payload.len()))?;
        let [first, second, detect_mult, length, ..] = *bytes;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let message = Message {
            diagnostic: Diagnostic(first & 0x1f),
            state: State::from_bits(second >> 6),
            flags: Flags::from_bits_truncate(second),
            detect_mult,
            my_discriminator: word(4),
            your_discriminator: word(8),
            desired_min_tx: word(12),
            required_min_rx: word(16),
            required_min_echo_rx: word(20),
        };
        let length = usize::from(length);
        let refusal = if first >> 5 != VERSION {
            Refusal::Version
        } else if message.flags.contains(Flags::AUTH) {
            Refusal::Authenticated
        } else if !(MESSAGE_LEN..=payload.len()).contains(&length) {
            Refusal::Length
        } else if detect_mult == 0 {
            Refusal::ZeroMultiplier
        } else if message.flags.contains(Flags::MULTIPOINT) {
            Refusal::Multipoint
        } else if message.my_discriminator == 0 {
            Refusal::NullMyDiscriminator
        } else if message.your_discriminator == 0 && message.state > State::Down {
            Refusal::NullYourDiscriminator
        } else {
            return Ok(message);
        };
        Err(refusal)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "diag:\"{}\" state:{} mult:{} flags:{} my_disc:{:#x} your_disc:{:#x} min_tx:{}us min_rx:{}us min_rx_echo:{}us",
            self.diagnostic.name(),
            self.state.name(),
            self.detect_mult,
            self.flags,
            self.my_discriminator,
            self.your_discriminator,
            self.desired_min_tx,
            self.required_min_rx,
            self.required_min_echo_rx
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGE: Message = Message {
        diagnostic: Diagnostic::EXPIRED,
        state: State::Up,
        flags: Flags::POLL,
        detect_mult: 3,
        my_discriminator: 0x0102_0304,
        your_discriminator: 0x0506_0708,
        desired_min_tx: 1_000_000,
        required_min_rx: 300_000,
        required_min_echo_rx: 0,
    };

    #[test]
    fn fields_have_the_offsets_of_the_rfc() {
        let bytes = MESSAGE.encode();
        assert_eq!(bytes[..12], [0x21, 0xe0, 3, 24, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[12..], [0, 0x0f, 0x42, 0x40, 0, 4, 0x93, 0xe0, 0, 0, 0, 0]);
    }

    #[test]
    fn invalid_messages_are_discarded() {
        let with = |at: usize, byte: u8| {
            let mut bytes = MESSAGE.encode().to_vec();
            bytes[at] = byte;
            Message::decode(&bytes)
        };
        assert_eq!(Message::decode(&MESSAGE.encode()[..23]), Err(Refusal::TooShort(23)));
        assert_eq!(with(0, 0x41), Err(Refusal::Version));
        assert_eq!(with(1, 0xc4), Err(Refusal::Authenticated));
        assert_eq!(with(1, 0xc1), Err(Refusal::Multipoint));
        assert_eq!(with(2, 0), Err(Refusal::ZeroMultiplier));
        assert_eq!([with(3, 23), with(3, 25)], [Err(Refusal::Length); 2]);
        let unknown = |state, mine, yours| {
            let m = Message { state, my_discriminator: mine, your_discriminator: yours, ..MESSAGE };
            Message::decode(&m.encode()).err()
        };
        assert_eq!(unknown(State::Up, 0, 1), Some(Refusal::NullMyDiscriminator));
        assert_eq!(unknown(State::Init, 1, 0), Some(Refusal::NullYourDiscriminator));
        assert_eq!(unknown(State::Down, 1, 0), None);
    }

    #[test]
    fn flags_are_printed_by_name() {
        assert_eq!(Flags::empty().to_string(), "none");
        assert_eq!((Flags::POLL | Flags::DEMAND).to_string(), "demand poll");
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(message) = Message::decode(&bytes) {
                let again = message.encode();
                prop_assert_eq!(Message::decode(&again), Ok(message));
                prop_assert_eq!(&again[..3], &bytes[..3]);
                prop_assert_eq!(&again[4..], &bytes[4..MESSAGE_LEN]);
            }
        }
    }
}
