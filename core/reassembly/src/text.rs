//! Text form of incomplete datagrams: the output of `dpctl/ipf-get-status -m`.

use crate::datagram::IncompleteDatagram;
use packet::ether::ethertype;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A snapshot of an incomplete datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    recirc_id: u32,
    id: u32,
    zone: u16,
    proto: u8,
    /// Number of fragments that have arrived.
    pub fragments: usize,
    /// Whether the first fragment has arrived, and whether the last has.
    first_and_last: (bool, bool),
}

impl Entry {
    pub(crate) fn of<T>(incomplete: &IncompleteDatagram<T>) -> Entry {
        let key = &incomplete.key;
        let address = |[high, low]: [u64; 2]| match key.v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))),
            false => IpAddr::V4(Ipv4Addr::from_bits(low as u32)),
        };
        Entry {
            src: address(key.src),
            dst: address(key.dst),
            recirc_id: key.recirc_id,
            id: key.id,
            zone: key.zone,
            proto: key.proto,
            fragments: incomplete.parts.len(),
            first_and_last: incomplete.has_first_and_last(),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { src, dst, recirc_id, id, zone, proto, fragments, first_and_last } = self;
        let dl_type = if src.is_ipv6() { ethertype::IPV6 } else { ethertype::IPV4 };
        let state = match first_and_last {
            (false, false) => "other frag",
            (true, false) => "first frag",
            (false, true) => "last frag",
            (true, true) => "first/last frag",
        };
        write!(f, "(src={src},dst={dst},recirc_id={recirc_id},ip_id={id},dl_type={dl_type:#x},zone={zone},")?;
        write!(f, "nw_proto={proto},num_fragments={fragments},state={state})")
    }
}
