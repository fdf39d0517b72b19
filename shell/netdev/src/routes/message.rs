//! Parses addresses, routes and rules. No side effects; for a message that is not understood the result is `None`.

use super::entry::{KernelAddress, KernelRoute, KernelRule};
use crate::rtnl::{Attributes, u32_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of bytes in front of the attributes in a message about an address.
const IFADDR: usize = 8;
/// Number of bytes in front of the attributes in a message about a route or a rule.
const RTMSG: usize = 12;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// A next hop of the other address family: the family (2 bytes), and then the address.
const RTA_VIA: u16 = 18;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
/// Flag of a cached route for one destination.
const RTM_F_CLONED: u32 = 0x200;
/// Number of bytes of a multipath next hop in front of its attributes.
const RTNEXTHOP: usize = 8;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_PROTOCOL: u16 = 21;
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

pub(super) fn parse_address(body: &[u8]) -> Option<KernelAddress> {
    let &[family, len, ..] = body else { return None };
    let ifindex = u32_of(body.get(4..8)?)?;
    let (mut local, mut peer) = (None, None);
    for (kind, value) in Attributes(body.get(IFADDR..)?) {
        match kind {
            IFA_LOCAL => local = address(value),
            IFA_ADDRESS => peer = address(value),
            _ => {}
        }
    }
    let addr = local.or(peer).filter(|a| is_of(*a, family))?;
    Some(KernelAddress { ifindex, addr, len })
}

fn is_of(addr: IpAddr, family: u8) -> bool {
    family == if addr.is_ipv4() { AF_INET } else { AF_INET6 }
}

/// The next hop in an `RTA_VIA`.
fn via(value: &[u8]) -> Option<IpAddr> {
    let (family, addr) = value.split_at_checked(2)?;
    let family = u16::from_ne_bytes(*family.first_chunk()?);
    address(addr).filter(|a| u16::from(if a.is_ipv4() { AF_INET } else { AF_INET6 }) == family)
}

fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        AF_INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

/// Parses a unicast or local route. `None` for other routes, and for routes that depend on the source or are cached.
pub(super) fn parse_route(body: &[u8]) -> Option<KernelRoute> {
    let &[family, len, src_len, _tos, table, _protocol, _scope, kind, ..] = body else { return None };
    let flags = u32_of(body.get(8..12)?)?;
    if !matches!(kind, RTN_UNICAST | RTN_LOCAL) || src_len != 0 || flags & RTM_F_CLONED != 0 {
        return None;
    }
    let mut route = KernelRoute {
        table: table.into(),
        dst: unspecified(family)?,
        len,
        ifindex: 0,
        gateway: None,
        source: None,
        metric: 0,
    };
    let of_family = |value: &[u8]| address(value).filter(|a| is_of(*a, family));
    for (kind, value) in Attributes(body.get(RTMSG..)?) {
        match kind {
            RTA_DST => route.dst = of_family(value)?,
            RTA_OIF => route.ifindex = u32_of(value)?,
            RTA_GATEWAY => route.gateway = of_family(value),
            RTA_VIA => route.gateway = via(value),
            RTA_PREFSRC => route.source = of_family(value),
            RTA_PRIORITY => route.metric = u32_of(value)?,
            RTA_TABLE => route.table = u32_of(value)?,
            RTA_MULTIPATH => (route.ifindex, route.gateway) = first_hop(value, family)?,
            _ => {}
        }
    }
    (route.ifindex != 0).then_some(route)
}

/// Interface index and gateway of the first of several next hops.
fn first_hop(value: &[u8], family: u8) -> Option<(u32, Option<IpAddr>)> {
    let len = usize::from(u16::from_ne_bytes(*value.first_chunk()?));
    let ifindex = u32_of(value.get(4..8)?)?;
    let gateway = Attributes(value.get(RTNEXTHOP..len)?).find_map(|(kind, value)| match kind {
        RTA_GATEWAY => address(value).filter(|a| is_of(*a, family)),
        RTA_VIA => via(value),
        _ => None,
    });
    Some((ifindex, gateway))
}

/// Parses a rule that selects a table for all packets or by source. Other rules do not apply to tunnel packets and give `None`.
pub(super) fn parse_rule(body: &[u8]) -> Option<KernelRule> {
    let &[family, dst_len, src_len, tos, table, _, _, action, ..] = body else { return None };
    let flags = u32_of(body.get(8..12)?)?;
    if action != FR_ACT_TO_TBL || dst_len != 0 || tos != 0 {
        return None;
    }
    let ipv4 = unspecified(family)?.is_ipv4();
    let (mut priority, mut from, mut table) = (0, None, u32::from(table));
    for (kind, value) in Attributes(body.get(RTMSG..)?) {
        match kind {
            FRA_SRC => from = Some((address(value).filter(|a| is_of(*a, family))?, src_len)),
            FRA_PRIORITY => priority = u32_of(value)?,
            FRA_TABLE => table = u32_of(value)?,
            FRA_SUPPRESS_PREFIXLEN | FRA_PROTOCOL => {}
            FRA_DST => return None,
            // Other attributes, such as the target of a goto rule, a flow or the l3mdev flag, have no effect if they are 0.
            _ if value.iter().all(|b| *b == 0) => {}
            _ => return None,
        }
    }
    Some(KernelRule { ipv4, priority, invert: flags & FIB_RULE_INVERT != 0, from, table })
}
