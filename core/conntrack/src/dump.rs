//! Snapshots of connections for dumps, and filters for flushes.

use crate::helper::{self, Helper};
use crate::key::{Endpoint, Key, icmp_counterpart, icmp_port, is_icmp};
use crate::nat::{address_bits, halves};
use crate::protocol::Protocol;
use crate::record::Record;
use crate::table::{Handle, Table};
use crate::tcp::{Scale, TcpEndpoint, TcpState};
use std::net::IpAddr;
use units::Millis;

/// A snapshot of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionSnapshot {
    /// Key of the original direction.
    pub original: Key,
    /// Key of the reply direction.
    pub reply: Key,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: u128,
    /// Time until the connection expires.
    pub left: Millis,
    /// For TCP: state of both endpoints, the initiator first.
    pub(crate) tcp: Option<[TcpEndpoint; 2]>,
    /// The helper, if it is a control connection.
    pub helper: Option<Helper>,
}

/// Filter for one direction of a connection. `None` matches every value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TupleFilter {
    pub src: Option<IpAddr>,
    pub dst: Option<IpAddr>,
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
    /// ICMP identifier, type and code.
    pub icmp: Option<(u16, u8, u8)>,
}

/// Filter for connections. The default matches all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// IP protocol.
    pub proto: Option<u8>,
    /// Filter of the original direction.
    pub original: TupleFilter,
    /// Filter of the reply direction.
    pub reply: TupleFilter,
    /// Mark and mask.
    pub mark: (u32, u32),
    /// Label and mask.
    pub label: (u128, u128),
}

/// The number with these halves.
pub(crate) fn u128_of([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

impl ConnectionSnapshot {
    /// A snapshot of the connection with this handle, if it still exists.
    pub(crate) fn new(table: &Table, handle: Handle, now: Millis) -> Option<ConnectionSnapshot> {
        let [original, reply] = table.keys(handle)?;
        let record = table.get(handle)?;
        let tcp = match Protocol::of_words(original.proto, record.state_words(handle.generation)?) {
            Protocol::Tcp(peers) => Some(peers),
            _ => None,
        };
        let (mark, label) = (record.mark(), u128_of(record.label()));
        let helper = helper::helper_of(record.helper_word());
        Some(ConnectionSnapshot {
            original,
            reply,
            mark,
            label,
            left: record.expires().since(now),
            tcp,
            helper,
        })
    }

    /// For TCP: the state of the endpoint that has advanced further. `FinWait2` counts as `TimeWait`, `SynRecv` as `Established`.
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
    /// The key of the direction that this filter describes completely. `None`: an address is missing, or the addresses are of different
    /// families.
    pub(crate) fn key(&self, zone: u16, proto: u8) -> Option<Key> {
        let (src, dst) = (self.src?, self.dst?);
        let v6 = src.is_ipv6();
        let ports = match self.icmp.filter(|_| is_icmp(proto)) {
            Some((id, kind, code)) => {
                [icmp_port(id, kind, code), icmp_port(id, icmp_counterpart(v6, kind), code)]
            }
            None => [self.src_port, self.dst_port].map(|port| port.unwrap_or(0).into()),
        };
        let end = |address, port| Endpoint { address: halves(address_bits(address)), port };
        let key = Key { zone, v6, proto, src: end(src, ports[0]), dst: end(dst, ports[1]) };
        (v6 == dst.is_ipv6()).then_some(key)
    }

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
    pub(crate) fn matches(&self, table: &Table, handle: Handle, record: &Record) -> bool {
        let by_record = self.proto.is_none_or(|proto| proto == record.meta().proto())
            && (record.mark() ^ self.mark.0) & self.mark.1 == 0
            && (u128_of(record.label()) ^ self.label.0) & self.label.1 == 0;
        let by_keys =
            || table.keys(handle).is_some_and(|[a, b]| self.original.matches(&a) && self.reply.matches(&b));
        by_record && by_keys()
    }
}

impl TcpEndpoint {
    /// Window scale of this endpoint; 0 if it is unknown.
    pub(crate) fn shift(&self) -> u8 {
        match self.scale {
            Scale::By(bits) => bits,
            _ => 0,
        }
    }
}
