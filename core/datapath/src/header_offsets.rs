//! Offsets of a packet's headers, for the actions that write into them.

use packet::ether::{Ethernet, VlanTag, ethertype, ethertype_of};
use packet::ip::{Fragment, Ipv4, Ipv6, ipproto, skip_extensions};

/// Offsets from the start of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderOffsets {
    /// Ethernet type after all VLAN tags; 0 if the frame is truncated.
    pub dl_type: u16,
    /// Start of the data after Ethernet and its tags: an MPLS label or the network header.
    pub l3: u16,
    /// Start of the transport header; `None` if the packet has none.
    pub l4: Option<u16>,
    /// End of the network packet; padding may follow.
    pub end: u32,
    /// IP protocol of the transport header.
    pub proto: u8,
    /// The packet has an IPv6 routing header with segments left, which contains the destination address that the transport checksum
    /// covers.
    pub routed: bool,
}

impl HeaderOffsets {
    /// Length of the transport header and its payload in bytes, without padding.
    pub fn l4_len(&self) -> usize {
        self.l4.map_or(0, |l4| (self.end as usize).saturating_sub(usize::from(l4)))
    }

    /// Finds the headers of an Ethernet frame (`packet_type` 0) or of a layer 3 packet.
    pub fn of(data: &[u8], packet_type: u32) -> HeaderOffsets {
        let mut out = HeaderOffsets::default();
        let rest = if packet_type == 0 {
            let Some((dl_type, rest)) = ethernet(data) else { return out };
            out.dl_type = dl_type;
            rest
        } else {
            out.dl_type = packet_type as u16;
            data
        };
        let l3 = data.len() - rest.len();
        // An offset beyond 64 KiB, after very many VLAN tags.
        let Ok(narrow) = u16::try_from(l3) else { return HeaderOffsets::default() };
        out.l3 = narrow;
        let transport = match out.dl_type {
            ethertype::IPV4 => Ipv4::parse_checked(rest)
                .filter(|(ip, _)| ip.fragment() != Fragment::Later)
                .map(|(ip, payload)| (ip.proto(), l3 + ip.header_len(), payload.len())),
            ethertype::IPV6 => Ipv6::parse_checked(rest).and_then(|(ip, payload)| {
                let inner = skip_extensions(ip.next_header(), payload)?;
                out.routed = has_routing(ip.next_header(), payload);
                let l4 = l3 + Ipv6::LEN + payload.len() - inner.data.len();
                (inner.fragment != Fragment::Later).then_some((inner.proto, l4, inner.data.len()))
            }),
            _ => None,
        };
        if let Some((proto, l4, len)) = transport
            && let Ok(narrow) = u16::try_from(l4)
        {
            (out.proto, out.l4, out.end) = (proto, Some(narrow), (l4 + len) as u32);
        }
        out
    }
}

fn ethernet(data: &[u8]) -> Option<(u16, &[u8])> {
    let (_, mut rest) = Ethernet::parse(data)?;
    while let Some((tag, after)) = VlanTag::parse(rest) {
        if !ethertype::is_vlan(tag.tpid()) || after.len() < 2 {
            break;
        }
        rest = after;
    }
    ethertype_of(rest)
}

/// Returns whether the extension headers contain a routing header with segments left (RFC 8200 §4.4).
fn has_routing(mut next: u8, mut data: &[u8]) -> bool {
    while matches!(next, ipproto::HOPOPTS | ipproto::ROUTING | ipproto::DSTOPTS) {
        let &[following, len, _, segments_left, ..] = data else { return false };
        if next == ipproto::ROUTING && segments_left != 0 {
            return true;
        }
        let Some(after) = data.get(usize::from(len) * 8 + 8..) else { return false };
        (next, data) = (following, after);
    }
    false
}
