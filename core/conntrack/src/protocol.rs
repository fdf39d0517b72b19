//! The protocol state of a connection.

use crate::key::is_icmp;
use crate::packet_fields::Content;
use crate::record::Words;
use crate::tcp::{self, Peer};
use crate::timeout::Timeout;
use crate::update::Update;
use packet::ipproto;

/// The protocol state of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Protocol {
    /// The initiator, and the other end.
    Tcp([Peer; 2]),
    /// Whether there was a reply.
    Icmp { answered: bool },
    /// UDP and similar protocols.
    Other(UdpState),
}

/// State of UDP and similar protocols: which ends have sent packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UdpState {
    Once,
    OneSided,
    BothSided,
}

impl UdpState {
    /// Decodes the state word of a record.
    #[inline(always)]
    pub(crate) fn of(word: u64) -> UdpState {
        match word {
            0 => UdpState::Once,
            1 => UdpState::OneSided,
            _ => UdpState::BothSided,
        }
    }

    /// Updates the state for a packet. `reply`: from the end that did not begin.
    #[inline(always)]
    pub(crate) fn update(&mut self, reply: bool) -> Update {
        *self = match *self {
            _ if reply => UdpState::BothSided,
            UdpState::Once => UdpState::OneSided,
            other => other,
        };
        match self {
            UdpState::BothSided => Update::Valid(Some(Timeout::OtherMultiple)),
            _ => Update::New(Timeout::OtherSingle),
        }
    }
}

impl Protocol {
    /// Packs the state into the words of a record.
    #[inline(always)]
    pub(crate) fn words(&self) -> Words {
        match self {
            Protocol::Tcp(peers) => tcp::pack(peers),
            Protocol::Icmp { answered } => [u64::from(*answered), 0, 0],
            Protocol::Other(udp) => [*udp as u64, 0, 0],
        }
    }

    /// Unpacks the state of a connection of this IP protocol from the words of a record.
    #[inline(always)]
    pub(crate) fn of_words(proto: u8, words: Words) -> Protocol {
        match proto {
            ipproto::TCP => Protocol::Tcp(tcp::unpack(words)),
            proto if is_icmp(proto) => Protocol::Icmp { answered: words[0] != 0 },
            _ => Protocol::Other(UdpState::of(words[0])),
        }
    }

    /// Updates the state in the words of a record for a packet: [`update`](Self::update) on packed state. Returns the new words.
    #[inline]
    pub(crate) fn step(
        proto: u8,
        words: Words,
        content: &Content,
        reply: bool,
        strict: bool,
    ) -> (Words, Update) {
        let mut protocol = Protocol::of_words(proto, words);
        let update = protocol.update(content, reply, strict);
        (protocol.words(), update)
    }

    /// Returns whether the connection has no answer yet or is closing: such connections are evicted when the table is full.
    pub(crate) fn is_dispensable(&self) -> bool {
        match self {
            Protocol::Tcp(peers) => tcp::is_dispensable(peers),
            Protocol::Icmp { answered } => !answered,
            Protocol::Other(udp) => *udp != UdpState::BothSided,
        }
    }

    /// The state of the connection that a packet begins, and its timeout; `None` if the packet cannot begin
    /// one.
    pub(crate) fn begin(content: &Content) -> Option<(Protocol, Timeout)> {
        match content {
            Content::Tcp(segment) => {
                segment.may_begin().then(|| (Protocol::Tcp(tcp::begin(segment)), Timeout::TcpFirst))
            }
            Content::Icmp { asks } => {
                asks.then_some((Protocol::Icmp { answered: false }, Timeout::IcmpFirst))
            }
            Content::Other => Some((Protocol::Other(UdpState::Once), Timeout::OtherFirst)),
        }
    }

    /// Updates the state for a packet. `reply`: from the end that did not begin. `strict`: sequence numbers
    /// are checked.
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
            (Protocol::Other(udp), Content::Other) => udp.update(reply),
            // The protocol is part of the key.
            _ => Update::Invalid,
        }
    }
}
