//! Connections for those who look at them, and which of them are to be forgotten.

use crate::connection::Connection;
use crate::key::{Key, is_icmp};
use crate::protocol::Protocol;
use crate::tcp::{Peer, Scale, TcpState};
use std::net::IpAddr;
use units::Millis;

/// A connection as it was when somebody looked.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// As its first packet had it.
    pub original: Key,
    /// As the answers have it.
    pub reply: Key,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: u128,
    /// Until its time is over.
    pub left: Millis,
    /// Of TCP: both ends, who began first.
    pub(crate) tcp: Option<[Peer; 2]>,
}

/// Of both directions of a connection, what counts of one; `None`: anything will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TupleFilter {
    pub src: Option<IpAddr>,
    pub dst: Option<IpAddr>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    /// Identifier, type, code.
    pub icmp: Option<(u16, u8, u8)>,
}

/// Which connections are meant. The default means all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// IP protocol.
    pub proto: Option<u8>,
    /// The direction of the first packet.
    pub original: TupleFilter,
    /// That of the answers.
    pub reply: TupleFilter,
    /// Mark and the bits of it that count.
    pub mark: (u32, u32),
    /// Label and the bits of it that count.
    pub label: (u128, u128),
}

pub(crate) fn whole([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

impl Entry {
    pub(crate) fn new(c: &Connection, now: Millis) -> Entry {
        let tcp = match c.protocol {
            Protocol::Tcp(peers) => Some(peers),
            _ => None,
        };
        let (original, reply) = (c.key, c.key.reverse());
        Entry { original, reply, mark: c.mark, label: whole(c.label), left: c.expires.since(now), tcp }
    }

    /// Of TCP: the state that says more, of the two ends'. `FinWait2` counts as `TimeWait`.
    pub fn tcp_state(&self) -> Option<TcpState> {
        let [a, b] = self.tcp?;
        Some(match a.state.max(b.state) {
            TcpState::FinWait2 => TcpState::TimeWait,
            TcpState::SynRecv => TcpState::Established,
            other => other,
        })
    }
}

impl TupleFilter {
    fn matches(&self, key: &Key) -> bool {
        let address = |wanted: Option<IpAddr>, is: IpAddr| wanted.is_none_or(|w| w == is);
        if !address(self.src, key.src()) || !address(self.dst, key.dst()) {
            return false;
        }
        if is_icmp(key.proto) {
            return self.icmp.is_none_or(|wanted| wanted == key.icmp());
        }
        let (src, dst) = key.ports();
        self.src_port.is_none_or(|p| p == src) && self.dst_port.is_none_or(|p| p == dst)
    }
}

impl Filter {
    pub(crate) fn matches(&self, c: &Connection) -> bool {
        self.proto.is_none_or(|proto| proto == c.key.proto)
            && (c.mark ^ self.mark.0) & self.mark.1 == 0
            && (whole(c.label) ^ self.label.0) & self.label.1 == 0
            && self.original.matches(&c.key)
            && self.reply.matches(&c.key.reverse())
    }
}

impl Peer {
    /// How far it shifts its windows, where that is known.
    pub(crate) fn shift(&self) -> u8 {
        match self.scale {
            Scale::By(bits) => bits,
            _ => 0,
        }
    }
}
