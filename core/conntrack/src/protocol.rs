//! How far a connection has got, by its protocol.

use crate::key::is_icmp;
use crate::record::Words;
use crate::subject::Content;
use crate::tcp::{self, Peer};
use crate::timeout::Timeout;
use packet::ipproto;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Protocol {
    /// Who began, and the other end.
    Tcp([Peer; 2]),
    /// Whether there was an answer.
    Icmp { answered: bool },
    /// UDP and the like.
    Other(Talk),
}

/// Who has spoken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Talk {
    Once,
    OneSided,
    BothSided,
}

/// What a packet is to its connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Update {
    /// Not one of it.
    Invalid,
    /// One of a connection that has an answer; how long to wait for the next, if that changes.
    Valid(Option<Timeout>),
    /// One of a connection that has no answer yet.
    New(Timeout),
    /// The connection is over, and this is the first packet of another one between the same ends.
    Again,
}

impl Protocol {
    /// As a record keeps it.
    #[inline(always)]
    pub(crate) fn words(&self) -> Words {
        match self {
            Protocol::Tcp(peers) => tcp::pack(peers),
            Protocol::Icmp { answered } => [u64::from(*answered), 0, 0],
            Protocol::Other(talk) => [*talk as u64, 0, 0],
        }
    }

    /// What a record keeps of a connection of this IP protocol.
    #[inline(always)]
    pub(crate) fn of_words(proto: u8, words: Words) -> Protocol {
        match proto {
            ipproto::TCP => Protocol::Tcp(tcp::unpack(words)),
            proto if is_icmp(proto) => Protocol::Icmp { answered: words[0] != 0 },
            _ => Protocol::Other(match words[0] {
                0 => Talk::Once,
                1 => Talk::OneSided,
                _ => Talk::BothSided,
            }),
        }
    }

    /// It has no answer yet, or it closes: where there is no room for more connections, it goes first.
    pub(crate) fn is_dispensable(&self) -> bool {
        match self {
            Protocol::Tcp(peers) => tcp::is_dispensable(peers),
            Protocol::Icmp { answered } => !answered,
            Protocol::Other(talk) => *talk != Talk::BothSided,
        }
    }

    /// Of the connection that a packet begins, and how long to wait for the next; `None`: it begins none.
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

    /// A packet of the connection; `reply`: from the end that did not begin. `strict`: sequence numbers count.
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
            (Protocol::Other(talk), Content::Other) => {
                *talk = match *talk {
                    _ if reply => Talk::BothSided,
                    Talk::Once => Talk::OneSided,
                    other => other,
                };
                match talk {
                    Talk::BothSided => Update::Valid(Some(Timeout::OtherMultiple)),
                    _ => Update::New(Timeout::OtherSingle),
                }
            }
            // The protocol is part of the key.
            _ => Update::Invalid,
        }
    }
}
