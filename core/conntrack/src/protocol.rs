//! The protocol state of a connection.

use crate::key::is_icmp;
use crate::packet_fields::Content;
use crate::record::StateWords;
use crate::tcp::{self, TcpEndpoint};
use crate::timeout::Timeout;
use crate::update::Update;
use packet::ipproto;

/// The protocol state of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Protocol {
    /// State of the initiator, and of the other endpoint.
    Tcp([TcpEndpoint; 2]),
    /// `answered`: there was a reply.
    Icmp { answered: bool },
    /// UDP and similar protocols.
    Other(UdpState),
}

/// State of UDP and similar protocols: which endpoints have sent packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UdpState {
    /// One packet.
    OnePacket,
    /// Several packets, all from the initiator.
    OneDirection,
    /// Packets in both directions.
    BothDirections,
}

impl UdpState {
    /// Decodes the state word of a record.
    #[inline(always)]
    pub(crate) fn of(word: u64) -> UdpState {
        match word {
            0 => UdpState::OnePacket,
            1 => UdpState::OneDirection,
            _ => UdpState::BothDirections,
        }
    }

    /// Updates the state for a packet. `reply`: the packet is in the reply direction.
    #[inline(always)]
    pub(crate) fn update(&mut self, reply: bool) -> Update {
        *self = match *self {
            _ if reply => UdpState::BothDirections,
            UdpState::OnePacket => UdpState::OneDirection,
            other => other,
        };
        match self {
            UdpState::BothDirections => Update::Valid(Some(Timeout::OtherMultiple)),
            _ => Update::New(Timeout::OtherSingle),
        }
    }
}

impl Protocol {
    /// Packs the state into the state words of a record.
    #[inline(always)]
    pub(crate) fn words(&self) -> StateWords {
        match self {
            Protocol::Tcp(endpoints) => tcp::pack(endpoints),
            Protocol::Icmp { answered } => [u64::from(*answered), 0, 0],
            Protocol::Other(udp) => [*udp as u64, 0, 0],
        }
    }

    /// Unpacks the state of a connection of this IP protocol from the words of a record.
    #[inline(always)]
    pub(crate) fn of_words(proto: u8, words: StateWords) -> Protocol {
        match proto {
            ipproto::TCP => Protocol::Tcp(tcp::unpack(words)),
            proto if is_icmp(proto) => Protocol::Icmp { answered: words[0] != 0 },
            _ => Protocol::Other(UdpState::of(words[0])),
        }
    }

    /// [`update`](Self::update) on the packed state of a record. Returns the new state words.
    #[inline]
    pub(crate) fn update_words(
        proto: u8,
        words: StateWords,
        content: &Content,
        reply: bool,
        strict: bool,
    ) -> (StateWords, Update) {
        let mut protocol = Protocol::of_words(proto, words);
        let update = protocol.update(content, reply, strict);
        (protocol.words(), update)
    }

    /// Returns whether the connection has no reply yet or is closing: such connections are evicted when the table is full.
    pub(crate) fn is_dispensable(&self) -> bool {
        match self {
            Protocol::Tcp(endpoints) => tcp::is_dispensable(endpoints),
            Protocol::Icmp { answered } => !answered,
            Protocol::Other(udp) => *udp != UdpState::BothDirections,
        }
    }

    /// The state of the connection that a packet begins, and its timeout. `None`: the packet cannot begin a connection.
    pub(crate) fn begin(content: &Content) -> Option<(Protocol, Timeout)> {
        match content {
            Content::Tcp(segment) => {
                segment.may_begin().then(|| (Protocol::Tcp(tcp::begin(segment)), Timeout::TcpFirst))
            }
            Content::Icmp { is_request } => {
                is_request.then_some((Protocol::Icmp { answered: false }, Timeout::IcmpFirst))
            }
            Content::UdpOrOther => Some((Protocol::Other(UdpState::OnePacket), Timeout::OtherFirst)),
        }
    }

    /// Updates the state for a packet. `reply`: the packet is in the reply direction. `strict`: TCP sequence numbers are checked.
    pub(crate) fn update(&mut self, content: &Content, reply: bool, strict: bool) -> Update {
        match (self, content) {
            (Protocol::Tcp([first, second]), Content::Tcp(segment)) => match reply {
                false => tcp::update(first, second, segment, strict),
                true => tcp::update(second, first, segment, strict),
            },
            (Protocol::Icmp { answered }, Content::Icmp { .. }) => {
                *answered |= reply;
                match answered {
                    true => Update::Valid(Some(Timeout::IcmpReply)),
                    false => Update::New(Timeout::IcmpFirst),
                }
            }
            (Protocol::Other(udp), Content::UdpOrOther) => udp.update(reply),
            // Not reached, because the protocol is part of the key.
            _ => Update::Invalid,
        }
    }
}
