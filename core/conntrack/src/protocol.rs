//! The protocol state of a connection.

use crate::key::is_icmp;
use crate::record::Words;
use crate::subject::Content;
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
    Other(Talk),
}

/// Which ends have sent packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Talk {
    Once,
    OneSided,
    BothSided,
}

impl Talk {
    /// As a record keeps it.
    #[inline(always)]
    pub(crate) fn of(word: u64) -> Talk {
        match word {
            0 => Talk::Once,
            1 => Talk::OneSided,
            _ => Talk::BothSided,
        }
    }

    /// A packet of the connection, which may be a reply.
    #[inline(always)]
    pub(crate) fn update(&mut self, reply: bool) -> Update {
        *self = match *self {
            _ if reply => Talk::BothSided,
            Talk::Once => Talk::OneSided,
            other => other,
        };
        match self {
            Talk::BothSided => Update::Valid(Some(Timeout::OtherMultiple)),
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
            Protocol::Other(talk) => [*talk as u64, 0, 0],
        }
    }

    /// Unpacks the state of a connection of this IP protocol from the words of a record.
    #[inline(always)]
    pub(crate) fn of_words(proto: u8, words: Words) -> Protocol {
        match proto {
            ipproto::TCP => Protocol::Tcp(tcp::unpack(words)),
            proto if is_icmp(proto) => Protocol::Icmp { answered: words[0] != 0 },
            _ => Protocol::Other(Talk::of(words[0])),
        }
    }

    /// What a packet with this content makes of the state that a record keeps, and what it is to the connection; see
    /// [`update`](Self::update).
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

    /// It has no answer yet, or it closes: where there is no room for more connections, it goes first.
    pub(crate) fn is_dispensable(&self) -> bool {
        match self {
            Protocol::Tcp(peers) => tcp::is_dispensable(peers),
            Protocol::Icmp { answered } => !answered,
            Protocol::Other(talk) => *talk != Talk::BothSided,
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
            Content::Other => Some((Protocol::Other(Talk::Once), Timeout::OtherFirst)),
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
            (Protocol::Other(talk), Content::Other) => talk.update(reply),
            // The protocol is part of the key.
            _ => Update::Invalid,
        }
    }
}
