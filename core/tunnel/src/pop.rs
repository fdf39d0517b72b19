//! Checks and reads the outer header of a received packet.

use crate::Kind;
use crate::checks::Checks;
use crate::outer::{Outer, outer};
use crate::pop_kinds;
use crate::popped::{PopError, Popped, Reading};
use crate::wire::{self, flag};
use packet::checksum;
use packet::rx_checksums::RxChecksum;

/// Checks and reads the outer header of a frame that was received by a tunnel of this kind.
pub fn pop(kind: Kind, frame: &[u8]) -> Result<Popped<'_>, PopError> {
    pop_counted(kind, frame, [RxChecksum::Nothing; 2], &mut Checks::default())
}

/// As [`pop`], with what a device [stated](packet::frame::Frame::stated) about the checksums of the outer headers; counts
/// which were verified.
pub fn pop_counted<'a>(
    kind: Kind,
    frame: &'a [u8],
    stated: [RxChecksum; 2],
    checks: &mut Checks,
) -> Result<Popped<'a>, PopError> {
    let mut popped = read(kind, frame, stated, checks)?;
    // Only the shortest frames have padding. For longer frames the inner length fields decide.
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
    checks: &mut Checks,
) -> Result<Popped<'a>, PopError> {
    let outer = outer(frame, ip, checks)?;
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

fn of_protocol(outer: Outer<'_>, proto: u8) -> Result<Reading<'_>, PopError> {
    if outer.proto != proto {
        return Err(PopError::Protocol);
    }
    Ok(Reading { tunnel: outer.tunnel, data: outer.payload, at: outer.at })
}

fn udp<'a>(outer: Outer<'a>, stated: RxChecksum, checks: &mut Checks) -> Result<Reading<'a>, PopError> {
    let (pseudo, payload) = (outer.pseudo, outer.payload);
    let mut reading = of_protocol(outer, wire::PROTO_UDP)?;
    let (udp, data) = packet::Udp::parse(payload).ok_or(PopError::Short)?;
    if udp.checksum() != 0 {
        let len = u16::try_from(payload.len()).map_err(|_| PopError::Short)?;
        let pseudo = checksum::add16(checksum::add16(pseudo, u16::from(wire::PROTO_UDP)), len);
        if !checks.is_udp_right(stated, || checksum::finish(checksum::add(pseudo, payload)) == 0) {
            return Err(PopError::Checksum);
        }
        reading.tunnel.flags |= flag::CSUM;
    }
    (reading.tunnel.tp_src, reading.tunnel.tp_dst) = (udp.src(), udp.dst());
    reading.data = data;
    reading.at += wire::UDP;
    Ok(reading)
}
