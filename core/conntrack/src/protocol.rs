//! How far a connection has got, by its protocol.

use crate::subject::Content;
use crate::tcp::{self, Peer};
use crate::timeout::Timeout;

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
