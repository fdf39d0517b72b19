//! Messages about group membership: IGMPv1 (RFC 1112), IGMPv2 (RFC 2236), IGMPv3 (RFC 3376), MLDv1 (RFC 2710) and MLDv2
//! (RFC 3810).
//!
//! The bytes are untrusted. A message with a wrong checksum, or one that is too short for its type, is refused. If a
//! report ends within a record, the records before it are used.

use flow::Flow;
use flow::extract::extract;
use flow::flow::{VLANS_MAX, frag};
use packet::checksum::{checksum, finish, pseudo_v6};
use packet::{ethertype, ipproto};
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Types of IGMP messages.
pub mod igmp {
    /// Membership query.
    pub const QUERY: u8 = 0x11;
    /// Membership report of version 1.
    pub const V1_REPORT: u8 = 0x12;
    /// Membership report of version 2.
    pub const V2_REPORT: u8 = 0x16;
    /// Leave group.
    pub const LEAVE: u8 = 0x17;
    /// Membership report of version 3.
    pub const V3_REPORT: u8 = 0x22;
}

/// Types of ICMPv6 messages that belong to MLD.
pub mod mld {
    /// Listener query.
    pub const QUERY: u8 = 130;
    /// Listener report of version 1.
    pub const V1_REPORT: u8 = 131;
    /// Listener done.
    pub const DONE: u8 = 132;
    /// Listener report of version 2.
    pub const V2_REPORT: u8 = 143;
}

/// Length of the header of each message, in bytes: type, code, checksum and four more bytes.
const HEADER: usize = 8;

/// Types of records (RFC 3376 §4.2.12).
mod record {
    pub(super) const IS_INCLUDE: u8 = 1;
    pub(super) const TO_INCLUDE: u8 = 3;
    pub(super) const LAST: u8 = 6;
}

/// The protocol by which a port joined a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// IGMPv1
    IgmpV1,
    /// IGMPv2
    IgmpV2,
    /// IGMPv3
    IgmpV3,
    /// MLDv1
    MldV1,
    /// MLDv2
    MldV2,
}

impl Protocol {
    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::IgmpV1 => "IGMPv1",
            Protocol::IgmpV2 => "IGMPv2",
            Protocol::IgmpV3 => "IGMPv3",
            Protocol::MldV1 => "MLDv1",
            Protocol::MldV2 => "MLDv2",
        }
    }
}

/// A record of a report: the membership of the sender in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The group. An IPv4 address is mapped into IPv6 (RFC 4291 §2.5.5.2).
    pub group: Ipv6Addr,
    /// The sender joins the group; otherwise it leaves the group.
    pub joins: bool,
}

/// A message about group membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A query of a multicast router.
    Query,
    /// A query without a source address: the sender is not a router, but a switch that queries in place of a
    /// router (RFC 4541 §2.1.1).
    AnonymousQuery,
    /// A report of a host.
    Report {
        /// The protocol of the report.
        protocol: Protocol,
        /// The records, in their order.
        records: Vec<Record>,
    },
}

/// Why a packet is not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The packet has another protocol or type, or is a fragment.
    #[error("not a message of group membership")]
    Other,
    /// The packet ends before the end of the message.
    #[error("truncated message")]
    Truncated,
    /// The checksum of the message is wrong.
    #[error("wrong checksum")]
    Checksum,
}

impl Message {
    /// Parses a frame.
    pub fn parse(frame: &[u8]) -> Result<Message, MessageError> {
        let mut flow = Flow::ZERO;
        let layers = extract(frame, VLANS_MAX, &mut flow);
        let end = frame.len().saturating_sub(layers.l2_pad);
        let data = layers.l4.and_then(|at| frame.get(at..end)).ok_or(MessageError::Other)?;
        if flow.nw_frag & frag::LATER != 0 {
            return Err(MessageError::Other);
        }
        match (flow.dl_type, flow.nw_proto) {
            (ethertype::IPV4, ipproto::IGMP) => igmp_message(data, flow.nw_src == 0),
            (ethertype::IPV6, ipproto::ICMPV6) => mld_message(data, &flow),
            _ => Err(MessageError::Other),
        }
    }
}

fn igmp_message(data: &[u8], anonymous: bool) -> Result<Message, MessageError> {
    let (header, rest) = data.split_first_chunk::<HEADER>().ok_or(MessageError::Truncated)?;
    if checksum(data) != 0 {
        return Err(MessageError::Checksum);
    }
    let [kind, _, _, _, group @ ..] = *header;
    let group = Ipv4Addr::from(group);
    let report = |protocol, joins| Ok(single_report(protocol, group.to_ipv6_mapped(), joins));
    match kind {
        igmp::QUERY => Ok(query(anonymous)),
        igmp::V1_REPORT => report(Protocol::IgmpV1, true),
        igmp::V2_REPORT => report(Protocol::IgmpV2, true),
        igmp::LEAVE => report(Protocol::IgmpV2, false),
        igmp::V3_REPORT => {
            let address = |bytes: [u8; 4]| Ipv4Addr::from(bytes).to_ipv6_mapped();
            Ok(Message::Report { protocol: Protocol::IgmpV3, records: records(header, rest, address) })
        }
        _ => Err(MessageError::Other),
    }
}

fn mld_message(data: &[u8], flow: &Flow) -> Result<Message, MessageError> {
    let (header, rest) = data.split_first_chunk::<HEADER>().ok_or(MessageError::Truncated)?;
    let [kind, ..] = *header;
    if !is_mld(kind) {
        return Err(MessageError::Other);
    }
    let pseudo = pseudo_v6(&flow.ipv6_src, &flow.ipv6_dst, ipproto::ICMPV6, data.len() as u32);
    if finish(packet::checksum::add(pseudo, data)) != 0 {
        return Err(MessageError::Checksum);
    }
    if kind == mld::QUERY {
        return Ok(query(flow.ipv6_src == [0; 16]));
    }
    let first = rest.first_chunk::<16>().copied().map(Ipv6Addr::from).ok_or(MessageError::Truncated)?;
    Ok(match kind {
        mld::V1_REPORT => single_report(Protocol::MldV1, first, true),
        mld::DONE => single_report(Protocol::MldV1, first, false),
        _ => Message::Report {
            protocol: Protocol::MldV2,
            records: records(header, rest, |bytes: [u8; 16]| Ipv6Addr::from(bytes)),
        },
    })
}

/// Whether an ICMPv6 type belongs to MLD.
pub fn is_mld(kind: u8) -> bool {
    matches!(kind, mld::QUERY | mld::V1_REPORT | mld::DONE | mld::V2_REPORT)
}

fn query(anonymous: bool) -> Message {
    if anonymous { Message::AnonymousQuery } else { Message::Query }
}

fn is_group(address: Ipv6Addr) -> bool {
    address.is_multicast() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_multicast())
}

/// A report about one group. If the address is not a multicast address, the report has no records.
fn single_report(protocol: Protocol, group: Ipv6Addr, joins: bool) -> Message {
    let records = Some(Record { group, joins }).filter(|r| is_group(r.group)).into_iter().collect();
    Message::Report { protocol, records }
}

/// The records of a report (RFC 3376 §4.2.4, RFC 3810 §5.2.5), with addresses of `N` bytes. Records of unknown types
/// are skipped (§4.2.12). A record in include mode without a source means that the host leaves the group.
fn records<const N: usize>(
    header: &[u8; HEADER],
    mut rest: &[u8],
    address: impl Fn([u8; N]) -> Ipv6Addr,
) -> Vec<Record> {
    let [.., high, low] = *header;
    let mut found = Vec::new();
    for _ in 0..u16::from_be_bytes([high, low]) {
        let Some((&[kind, aux, high, low], after)) = rest.split_first_chunk::<4>() else { break };
        let Some((&group, after)) = after.split_first_chunk::<N>() else { break };
        let sources = usize::from(u16::from_be_bytes([high, low]));
        let group = address(group);
        if (record::IS_INCLUDE..=record::LAST).contains(&kind) && is_group(group) {
            let leaves = sources == 0 && matches!(kind, record::IS_INCLUDE | record::TO_INCLUDE);
            found.push(Record { group, joins: !leaves });
        }
        // Auxiliary data is counted in words of four bytes.
        let Some(next) = after.get(sources * N + usize::from(aux) * 4..) else { break };
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const V4: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

    fn with_checksum(mut message: Vec<u8>, pseudo: u32) -> Vec<u8> {
        let sum = finish(packet::checksum::add(pseudo, &message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        message
    }

    fn ethernet(dl_type: u16) -> Vec<u8> {
        let mut frame = vec![0x01, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1];
        frame.extend(dl_type.to_be_bytes());
        frame
    }

    /// A frame with an IGMP message from 10.0.0.`host`; if `host` is 0, without a source address.
    fn igmp_frame(message: Vec<u8>, host: u8) -> Vec<u8> {
        let message = with_checksum(message, 0);
        let mut frame = ethernet(ethertype::IPV4);
        frame.extend([0x46, 0xc0]);
        frame.extend((24 + message.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 1, ipproto::IGMP, 0, 0]);
        frame.extend(if host == 0 { [0; 4] } else { [10, 0, 0, host] });
        frame.extend(V4.octets());
        // The router alert option.
        frame.extend([0x94, 4, 0, 0]);
        frame.extend(message);
        frame
    }

    /// A frame with an MLD message, after a hop-by-hop header.
    fn mld_frame(message: Vec<u8>, src: Ipv6Addr) -> Vec<u8> {
        let dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
        let pseudo = pseudo_v6(&src.octets(), &dst.octets(), ipproto::ICMPV6, message.len() as u32);
        let message = with_checksum(message, pseudo);
        let mut frame = ethernet(ethertype::IPV6);
        frame.extend([0x60, 0, 0, 0]);
        frame.extend((8 + message.len() as u16).to_be_bytes());
        frame.extend([ipproto::HOPOPTS, 1]);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        frame.extend([ipproto::ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
        frame.extend(message);
        frame
    }

    fn host() -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)
    }

    fn igmp(kind: u8, group: Ipv4Addr) -> Vec<u8> {
        [&[kind, 0, 0, 0][..], &group.octets()].concat()
    }

    fn report(protocol: Protocol, group: Ipv6Addr, joins: bool) -> Result<Message, MessageError> {
        Ok(Message::Report { protocol, records: vec![Record { group, joins }] })
    }

    #[test]
    fn messages_of_igmp() {
        let parse = |kind, host| Message::parse(&igmp_frame(igmp(kind, V4), host));
        let group = V4.to_ipv6_mapped();
        assert_eq!(parse(igmp::V1_REPORT, 1), report(Protocol::IgmpV1, group, true));
        assert_eq!(parse(igmp::V2_REPORT, 1), report(Protocol::IgmpV2, group, true));
        assert_eq!(parse(igmp::LEAVE, 1), report(Protocol::IgmpV2, group, false));
        assert_eq!(parse(igmp::QUERY, 1), Ok(Message::Query));
        assert_eq!(parse(igmp::QUERY, 0), Ok(Message::AnonymousQuery));
        assert_eq!(parse(0x13, 1), Err(MessageError::Other));
    }

    #[test]
    fn messages_of_mld() {
        let group = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 5);
        let parse = |kind, src| {
            let message = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
            Message::parse(&mld_frame(message, src))
        };
        assert_eq!(parse(mld::V1_REPORT, host()), report(Protocol::MldV1, group, true));
        assert_eq!(parse(mld::DONE, host()), report(Protocol::MldV1, group, false));
        assert_eq!(parse(mld::QUERY, host()), Ok(Message::Query));
        assert_eq!(parse(mld::QUERY, Ipv6Addr::UNSPECIFIED), Ok(Message::AnonymousQuery));
        assert_eq!(parse(128, host()), Err(MessageError::Other));
        let short = mld_frame(vec![mld::V1_REPORT, 0, 0, 0, 0, 0, 0, 0], host());
        assert_eq!(Message::parse(&short), Err(MessageError::Truncated));
    }

    #[test]
    fn an_address_that_is_no_group_is_left_out() {
        let frame = igmp_frame(igmp(igmp::V2_REPORT, Ipv4Addr::new(10, 0, 0, 1)), 1);
        let nothing = Message::Report { protocol: Protocol::IgmpV2, records: Vec::new() };
        assert_eq!(Message::parse(&frame), Ok(nothing));
    }

    /// A record with the given number of sources and words of auxiliary data.
    #[derive(Clone, Debug)]
    struct Raw {
        kind: u8,
        group: u32,
        sources: u16,
        aux: u8,
    }

    impl Raw {
        fn v4(&self) -> Ipv4Addr {
            Ipv4Addr::from_bits(0xef00_0000 | self.group)
        }

        fn v6(&self) -> Ipv6Addr {
            Ipv6Addr::from_bits(0xff05 << 112 | u128::from(self.group))
        }

        fn bytes(&self, group: &[u8]) -> Vec<u8> {
            let mut bytes = vec![self.kind, self.aux];
            bytes.extend(self.sources.to_be_bytes());
            bytes.extend(group);
            bytes
                .resize(bytes.len() + usize::from(self.sources) * group.len() + usize::from(self.aux) * 4, 7);
            bytes
        }

        fn expected(&self, group: Ipv6Addr) -> Option<Record> {
            match (self.kind, self.sources) {
                (1 | 3, 0) => Some(Record { group, joins: false }),
                (1..=6, _) => Some(Record { group, joins: true }),
                _ => None,
            }
        }
    }

    fn raw() -> impl Strategy<Value = Raw> {
        (0u8..9, 0u32..0x100_0000, 0u16..4, 0u8..3).prop_map(|(kind, group, sources, aux)| Raw {
            kind,
            group,
            sources,
            aux,
        })
    }

    fn many(kind: u8, count: u16, records: Vec<Vec<u8>>) -> Vec<u8> {
        let [high, low] = count.to_be_bytes();
        [vec![kind, 0, 0, 0, 0, 0, high, low], records.concat()].concat()
    }

    proptest! {
        #[test]
        fn reports_with_records(raws in prop::collection::vec(raw(), 0..20), more in 0u16..3) {
            let count = raws.len() as u16 + more;
            let v4 = many(igmp::V3_REPORT, count, raws.iter().map(|r| r.bytes(&r.v4().octets())).collect());
            let records = raws.iter().filter_map(|r| r.expected(r.v4().to_ipv6_mapped())).collect();
            let expected = Message::Report { protocol: Protocol::IgmpV3, records };
            prop_assert_eq!(Message::parse(&igmp_frame(v4, 1)), Ok(expected));
            let v6 = many(mld::V2_REPORT, count, raws.iter().map(|r| r.bytes(&r.v6().octets())).collect());
            let records = raws.iter().filter_map(|r| r.expected(r.v6())).collect();
            let expected = match raws.is_empty() {
                true => Err(MessageError::Truncated),
                false => Ok(Message::Report { protocol: Protocol::MldV2, records }),
            };
            prop_assert_eq!(Message::parse(&mld_frame(v6, host())), expected);
        }

        #[test]
        fn a_changed_bit_is_noticed(raws in prop::collection::vec(raw(), 1..5), bit in any::<prop::sample::Index>()) {
            let records = raws.iter().map(|r| r.bytes(&r.v4().octets())).collect();
            let frame = igmp_frame(many(igmp::V3_REPORT, raws.len() as u16, records), 1);
            let start = 14 + 24;
            let bit = bit.index((frame.len() - start) * 8);
            let mut changed = frame;
            changed[start + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Message::parse(&changed), Err(MessageError::Checksum));
        }

        #[test]
        fn any_bytes_give_a_message_or_an_error(
            raws in prop::collection::vec(raw(), 0..5),
            v6 in any::<bool>(),
            len in 0usize..200,
            noise in prop::collection::vec((0usize..200, any::<u8>()), 0..8),
        ) {
            let mut frame = match v6 {
                true => mld_frame(many(mld::V2_REPORT, 9, raws.iter().map(|r| r.bytes(&r.v6().octets())).collect()), host()),
                false => igmp_frame(many(igmp::V3_REPORT, 9, raws.iter().map(|r| r.bytes(&r.v4().octets())).collect()), 1),
            };
            for (at, byte) in noise {
                if let Some(b) = frame.get_mut(at) {
                    *b = byte;
                }
            }
            frame.truncate(len);
            if let Ok(Message::Report { records, .. }) = Message::parse(&frame) {
                prop_assert!(records.len() <= frame.len() / 8);
            }
        }
    }
}
