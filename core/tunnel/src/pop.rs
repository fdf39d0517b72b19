//! Checks and reads the outer headers of a received packet.

use crate::Kind;
use crate::checks::ChecksumCounts;
use crate::outer::{OuterIp, outer};
use crate::pop_kinds;
use crate::popped::{ParserState, PopError, Popped};
use crate::wire::{self, flag};
use packet::checksum;
use packet::rx_checksums::RxChecksum;

/// Checks and reads the outer headers of a frame that a tunnel of this kind has received.
pub fn pop(kind: Kind, frame: &[u8]) -> Result<Popped<'_>, PopError> {
    pop_counted(kind, frame, [RxChecksum::Unknown; 2], &mut ChecksumCounts::default())
}

/// [`pop`] with what the device has [reported](packet::frame::Frame::checksum_states) about the outer checksums: of the IPv4 header and of the
/// transport header. Counts the checksums that are verified.
pub fn pop_counted<'a>(
    kind: Kind,
    frame: &'a [u8],
    stated: [RxChecksum; 2],
    checks: &mut ChecksumCounts,
) -> Result<Popped<'a>, PopError> {
    let mut popped = read(kind, frame, stated, checks)?;
    // Only the shortest frames have padding. A longer frame has none, so its inner packet extends to the end of the frame.
    if frame.len() > PADDED_MAX {
        popped.end = frame.len();
    }
    Ok(popped)
}

/// The longest frame that may have padding (IEEE 802.3), including a VLAN tag that was removed.
pub(crate) const PADDED_MAX: usize = 64;

fn read<'a>(
    kind: Kind,
    frame: &'a [u8],
    [ip, transport]: [RxChecksum; 2],
    checks: &mut ChecksumCounts,
) -> Result<Popped<'a>, PopError> {
    let mut outer = outer(frame, ip, checks)?;
    // The segments of SRv6 are an extension header.
    let over_ipv6 = frame.get(12..14) == Some(&wire::ETHERTYPE_IPV6.to_be_bytes());
    if over_ipv6 && kind != Kind::Srv6 {
        outer = outer.without_extensions()?;
    }
    let mut udp = |outer| udp(outer, transport, checks);
    match kind {
        Kind::Vxlan { gbp } => pop_kinds::vxlan(udp(outer)?, gbp),
        Kind::Geneve => pop_kinds::geneve(udp(outer)?),
        Kind::Gtpu => pop_kinds::gtpu(udp(outer)?, frame.len()),
        Kind::Gre => pop_kinds::gre(of_protocol(outer, wire::PROTO_GRE)?),
        Kind::Erspan => pop_kinds::erspan(of_protocol(outer, wire::PROTO_GRE)?),
        Kind::Srv6 => pop_kinds::srv6(of_protocol(outer, wire::PROTO_ROUTING)?),
    }
}

/// Returns the parser state after an IP header with this protocol.
fn of_protocol(outer: OuterIp<'_>, proto: u8) -> Result<ParserState<'_>, PopError> {
    if outer.proto != proto {
        return Err(PopError::Protocol);
    }
    Ok(ParserState { tunnel: outer.tunnel, data: outer.payload, at: outer.at })
}

/// Checks a UDP header and returns the parser state after it.
fn udp<'a>(
    outer: OuterIp<'a>,
    stated: RxChecksum,
    checks: &mut ChecksumCounts,
) -> Result<ParserState<'a>, PopError> {
    let (pseudo, payload) = (outer.pseudo, outer.payload);
    let mut state = of_protocol(outer, wire::PROTO_UDP)?;
    let (udp, data) = packet::Udp::parse(payload).ok_or(PopError::Short)?;
    if udp.checksum() != 0 {
        let len = u16::try_from(payload.len()).map_err(|_| PopError::Short)?;
        let pseudo = checksum::add16(checksum::add16(pseudo, u16::from(wire::PROTO_UDP)), len);
        if !checks.is_udp_right(stated, || checksum::finish(checksum::add(pseudo, payload)) == 0) {
            return Err(PopError::Checksum);
        }
        state.tunnel.flags |= flag::CSUM;
    }
    (state.tunnel.tp_src, state.tunnel.tp_dst) = (udp.src(), udp.dst());
    state.data = data;
    state.at += wire::UDP;
    Ok(state)
}
