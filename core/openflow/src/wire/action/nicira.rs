//! Decodes Nicira's actions. The layouts are those of Open vSwitch; the match in `decode` lists the numbers.

use super::context::{Context, ReadNested};
use super::learn;
use super::parts::{check_len, mpls_label, mpls_tc, push_mpls};
use super::subfield::{move_operands, ofs_nbits, source, target};
use crate::action::*;
use crate::error::OfError;
use crate::version::Version;
use crate::wire::buf::Reader;
use crate::wire::{nxm, property};
use std::net::{Ipv4Addr, Ipv6Addr};
use units::OfPort;

/// Minimum length of an action in bytes, and whether it may be longer.
fn lengths(subtype: u16) -> Option<(usize, bool)> {
    Some(match subtype {
        1 | 2 | 4 | 5 | 14 | 17..=20 | 22..=26 | 30 | 31 | 34 | 39 | 40 | 43 | 44 | 48 | 254 | 255 => {
            match subtype {
                22 => (32, false),
                _ => (16, false),
            }
        }
        8 | 21 | 33 | 36 | 37 | 42 | 46 | 47 => (16, true),
        6 => (16, true),
        7 | 9 | 15 | 27..=29 | 32 | 50 => (24, false),
        49 => (24, true),
        10 => (32, false),
        12 | 13 | 16 => (32, true),
        35 => (24, true),
        38 | 41 => (32, false),
        45 => (40, true),
        51 => (40, false),
        _ => return None,
    })
}

/// Returns whether this version has the action.
fn known(subtype: u16, cx: Context) -> bool {
    match subtype {
        4 | 18 | 23..=26 | 30 | 31 | 40 => cx.version == Version::V10,
        6 | 7 | 33 => cx.version < Version::V15,
        46..=48 => cx.version >= Version::V13,
        254 | 255 => cx.debug,
        _ => true,
    }
}

/// Decodes an action. `nested`: function that decodes the actions within an action.
pub(super) fn decode(
    subtype: u16,
    len: usize,
    mut r: Reader,
    cx: Context,
    nested: ReadNested,
) -> Result<Action, OfError> {
    let (least, is_variable) =
        lengths(subtype).filter(|_| known(subtype, cx)).ok_or(OfError::BacBadVendorType)?;
    if !is_variable {
        check_len(len, least)?;
    } else if len < least {
        return Err(OfError::BacBadLen);
    }
    Ok(match subtype {
        1 => Action::Resubmit { port: in_port(r.u16()?), table: None, with_ct: false },
        14 | 44 => resubmit(r, subtype == 44)?,
        2 => {
            r.skip(2)?;
            Action::SetTunnel { id: u64::from(r.u32()?), wide: false }
        }
        9 => {
            r.skip(6)?;
            Action::SetTunnel { id: r.u64()?, wide: true }
        }
        4 | 40 => {
            r.skip(2)?;
            let v = r.u32()?;
            if subtype == 4 { Action::SetQueue(v) } else { Action::Group(v) }
        }
        5 => Action::PopQueue,
        6 => {
            let (n_bits, src, dst) = (r.u16()?, r.u16()?, r.u16()?);
            let (src, dst) = move_operands(&mut r, n_bits, src, dst)?;
            Action::RegMove { src, dst }
        }
        7 => reg_load(r)?,
        33 => reg_load2(r)?,
        8 => Action::Note(r.rest().to_vec()),
        10 => multipath(r)?,
        12 | 13 => bundle(r, subtype == 13)?,
        15 | 32 => output_reg(r, subtype == 32)?,
        16 | 45 => learn::decode(r, subtype == 45)?,
        17 => Action::Exit,
        18 => Action::DecTtl { ids: vec![0], nicira: false },
        19 => Action::FinTimeout { idle: r.u16()?, hard: r.u16()? },
        20 => controller(r)?,
        37 => controller2(r)?,
        21 => dec_ttl(r)?,
        22 => {
            r.zeros(6, OfError::NxbrcMustBeZero)?;
            Action::WriteMetadata { value: r.u64()?, mask: r.u64()? }
        }
        23 => push_mpls(r.u16()?)?,
        24 => Action::PopMpls(r.u16()?),
        25 => Action::SetMplsTtl(r.u8()?),
        26 => Action::DecMplsTtl,
        27 | 28 => stack(r, subtype == 28)?,
        29 | 38 | 41 | 51 => sample(r, subtype)?,
        30 => {
            r.skip(2)?;
            mpls_label(r.u32()?)?
        }
        31 => mpls_tc(r.u8()?)?,
        34 => conjunction(r)?,
        35 => ct(r, cx, nested)?,
        36 => nat(r)?,
        39 => {
            let (port, max_len) = (OfPort(r.u16()?), r.u32()?);
            if max_len < 14 {
                return Err(OfError::BacBadArgument);
            }
            Action::OutputTrunc { port, max_len }
        }
        42 => {
            r.skip(6)?;
            Action::Clone(nested(r.rest(), Context { depth: cx.depth + 1, ..cx })?)
        }
        43 => Action::CtClear,
        46 => encap(r)?,
        47 => {
            r.skip(2)?;
            Action::Decap { packet_type: r.u32()? }
        }
        48 => Action::DecNshTtl,
        49 => {
            let (len, ofs) = (r.u16()?, r.u16()?);
            let field = nxm::field_header(&mut r)?;
            Action::CheckPktLarger { len, dst: target(field, ofs, 1)? }
        }
        50 => Action::DeleteField(nxm::field_header(&mut r)?),
        254 => Action::DebugSlow,
        _ => Action::DebugRecirc,
    })
}

fn in_port(port: u16) -> Option<OfPort> {
    Some(OfPort(port)).filter(|&p| p != OfPort::IN_PORT)
}

fn resubmit(mut r: Reader, with_ct: bool) -> Result<Action, OfError> {
    let (port, table) = (in_port(r.u16()?), r.u8()?);
    r.zeros(3, OfError::BacBadArgument)?;
    // 255 means the current table.
    Ok(Action::Resubmit { port, table: Some(table).filter(|t| *t != 0xff), with_ct })
}

fn reg_load(mut r: Reader) -> Result<Action, OfError> {
    let (ofs, n_bits) = ofs_nbits(r.u16()?);
    let dst = target(nxm::field_of_u32(r.u32()?)?, ofs, n_bits)?;
    let value = r.u64()?;
    if n_bits < 64 && value >> n_bits != 0 {
        return Err(OfError::BacBadArgument);
    }
    Ok(Action::RegLoad { dst, value: u128::from(value) })
}

/// Decodes `load2`. The field entry follows the subtype without padding.
fn reg_load2(mut r: Reader) -> Result<Action, OfError> {
    let entry = nxm::entry(&mut r, true)?;
    if !r.all_zero() {
        return Err(OfError::BacBadSetArgument);
    }
    match entry {
        nxm::Entry::Tlv(t) => Ok(Action::SetTlv(Box::new(t))),
        nxm::Entry::Number(field, value, mask) if field.info().writable => {
            Ok(Action::SetField { field, value, mask })
        }
        nxm::Entry::Number(..) => Err(OfError::BacBadSetArgument),
    }
}

fn hash_fields(v: u16) -> Result<HashFields, OfError> {
    use HashFields::*;
    [EthSrc, SymmetricL4, SymmetricL3L4, SymmetricL3L4Udp, NwSrc, NwDst, SymmetricL3]
        .into_iter()
        .find(|&h| h as u16 == v)
        .ok_or(OfError::BacBadArgument)
}

fn multipath(mut r: Reader) -> Result<Action, OfError> {
    use MultipathAlgorithm::*;
    let (fields, basis) = (r.u16()?, r.u16()?);
    r.skip(2)?;
    let (algorithm, max_link, arg) = (r.u16()?, r.u16()?, r.u32()?);
    r.skip(2)?;
    let (ofs, n_bits) = ofs_nbits(r.u16()?);
    let field = nxm::field_of_u32(r.u32()?)?;
    let fields = hash_fields(fields)?;
    let algorithm = [ModuloN, HashThreshold, Hrw, IterHash]
        .into_iter()
        .find(|&a| a as u16 == algorithm)
        .ok_or(OfError::BacBadArgument)?;
    if n_bits < 16 && u32::from(max_link) + 1 > 1 << n_bits {
        return Err(OfError::BacBadArgument);
    }
    let dst = target(field, ofs, n_bits)?;
    Ok(Action::Multipath(Box::new(Multipath { fields, basis, algorithm, max_link, arg, dst })))
}

fn bundle(mut r: Reader, load: bool) -> Result<Action, OfError> {
    let (algorithm, fields, basis) = (r.u16()?, r.u16()?, r.u16()?);
    let (member_type, n_members) = (r.u32()?, r.u16()?);
    let (range, dst) = (r.u16()?, r.u32()?);
    let zero = r.zeros(4, OfError::BacBadArgument);
    let fields = hash_fields(fields)?;
    let algorithm = match algorithm {
        0 => BundleAlgorithm::ActiveBackup,
        1 => BundleAlgorithm::Hrw,
        _ => return Err(OfError::BacBadArgument),
    };
    if n_members > 2048 || member_type != 0x0000_0002 {
        return Err(OfError::BacBadArgument);
    }
    zero?;
    let dst = if load {
        let (ofs, n_bits) = ofs_nbits(range);
        let field = nxm::field_of_u32(dst)?;
        if n_bits < 16 {
            return Err(OfError::BacBadArgument);
        }
        Some(target(field, ofs, n_bits)?)
    } else if range != 0 || dst != 0 {
        return Err(OfError::BacBadArgument);
    } else {
        None
    };
    let members = (0..n_members).map(|_| r.u16().map(OfPort)).collect::<Result<_, _>>()?;
    Ok(Action::Bundle(Box::new(Bundle { algorithm, fields, basis, dst, members })))
}

fn output_reg(mut r: Reader, is_output_reg2: bool) -> Result<Action, OfError> {
    let (ofs, n_bits) = ofs_nbits(r.u16()?);
    let (field, max_len);
    if is_output_reg2 {
        max_len = r.u16()?;
        field = nxm::field_header(&mut r)?;
    } else {
        field = nxm::field_of_u32(r.u32()?)?;
        max_len = r.u16()?;
    }
    if !r.all_zero() {
        return Err(if is_output_reg2 { OfError::NxbrcMustBeZero } else { OfError::BacBadArgument });
    }
    Ok(Action::OutputReg { src: source(field, ofs, n_bits)?, max_len })
}

fn controller(mut r: Reader) -> Result<Action, OfError> {
    let (max_len, controller_id, reason) = (r.u16()?, r.u16()?, r.u8()?);
    Ok(Action::Controller(Box::new(Controller { max_len, controller_id, reason, ..Controller::default() })))
}

fn controller2(mut r: Reader) -> Result<Action, OfError> {
    r.zeros(6, OfError::NxbrcMustBeZero)?;
    let mut c = Controller::default();
    while !r.is_empty() {
        let (kind, mut p) = property::pull(&mut r)?;
        match kind {
            0 => c.max_len = p.u16()?,
            1 => c.controller_id = p.u16()?,
            2 => c.reason = p.u8()?,
            3 => c.userdata = p.rest().to_vec(),
            4 => c.pause = true,
            5 => {
                if p.len() > 4 {
                    p.skip(4)?;
                }
                c.meter = p.u32()?;
            }
            _ => return Err(OfError::BpcBadType),
        }
    }
    Ok(Action::Controller(Box::new(c)))
}

fn dec_ttl(mut r: Reader) -> Result<Action, OfError> {
    let n = r.u16()?;
    r.zeros(4, OfError::NxbrcMustBeZero)?;
    if r.len() < usize::from(n) * 2 {
        return Err(OfError::BacBadLen);
    }
    let ids = (0..n).map(|_| r.u16()).collect::<Result<_, _>>()?;
    Ok(Action::DecTtl { ids, nicira: true })
}

fn stack(mut r: Reader, pop: bool) -> Result<Action, OfError> {
    let ofs = r.u16()?;
    let field = nxm::field_header(&mut r)?;
    let n_bits = r.u16()?;
    if !r.all_zero() {
        return Err(OfError::NxbrcMustBeZero);
    }
    Ok(match pop {
        true => Action::StackPop(target(field, ofs, n_bits)?),
        false => Action::StackPush(source(field, ofs, n_bits)?),
    })
}

fn sample(mut r: Reader, subtype: u16) -> Result<Action, OfError> {
    let (probability, collector_set_id) = (r.u16()?, r.u32()?);
    let number = |r: &mut Reader| -> Result<NumberOrField, OfError> {
        if subtype != 51 {
            return Ok(NumberOrField::Number(r.u32()?));
        }
        let (src, word) = (r.u32()?, r.u32()?);
        if src == 0 {
            return Ok(NumberOrField::Number(word));
        }
        let (ofs, n_bits) = ofs_nbits((word >> 16) as u16);
        if word & 0xffff != 0 || n_bits > 32 {
            return Err(OfError::BacBadSetLen);
        }
        Ok(NumberOrField::Field(source(nxm::field_of_u32(src)?, ofs, n_bits)?))
    };
    let (obs_domain, obs_point) = (number(&mut r)?, number(&mut r)?);
    let (mut sampling_port, mut direction) = (OfPort::NONE, SampleDirection::Default);
    if subtype != 29 {
        sampling_port = OfPort(r.u16()?);
        direction = match (subtype, r.u8()?) {
            (38, _) | (_, 0) => SampleDirection::Default,
            (_, 1) => SampleDirection::Ingress,
            (_, 2) => SampleDirection::Egress,
            _ => return Err(OfError::BacBadArgument),
        };
        r.zeros(5, OfError::NxbrcMustBeZero)?;
    }
    if probability == 0 {
        return Err(OfError::BacBadArgument);
    }
    let s = Sample { probability, collector_set_id, obs_domain, obs_point, sampling_port, direction };
    Ok(Action::Sample(Box::new(s)))
}

fn conjunction(mut r: Reader) -> Result<Action, OfError> {
    let (clause, n_clauses, id) = (r.u8()?, r.u8()?, r.u32()?);
    if clause >= n_clauses || !(2..=64).contains(&n_clauses) {
        return Err(OfError::NxbacBadConjunction);
    }
    Ok(Action::Conjunction { id, clause, n_clauses })
}

fn ct(mut r: Reader, cx: Context, nested: ReadNested) -> Result<Action, OfError> {
    let flags = r.u16()?;
    let (zone_src, zone) = (r.u32()?, r.u16()?);
    let recirc = r.u8()?;
    r.skip(3)?;
    let alg = r.u16()?;
    let (commit, force) = (flags & 1 != 0, flags & 2 != 0);
    if force && !commit {
        return Err(OfError::BacBadArgument);
    }
    let zone = if zone_src == 0 {
        NumberOrField::Number(u32::from(zone))
    } else {
        let (ofs, n_bits) = ofs_nbits(zone);
        let sf = source(nxm::field_of_u32(zone_src)?, ofs, n_bits)?;
        if n_bits != 16 {
            return Err(OfError::BacBadSetLen);
        }
        NumberOrField::Field(sf)
    };
    let actions = nested(r.rest(), Context { depth: cx.depth + 1, ..cx })?;
    let plain = |a: &Action| matches!(a, Action::Nat(n) if **n == Nat::default());
    if !commit && !actions.iter().all(plain) {
        return Err(OfError::BacBadArgument);
    }
    let recirc_table = Some(recirc).filter(|&t| t != 0xff);
    Ok(Action::Ct(Box::new(Ct { commit, force, zone, recirc_table, alg, actions })))
}

fn nat(mut r: Reader) -> Result<Action, OfError> {
    r.skip(2)?;
    let (flags, present) = (r.u16()?, r.u16()?);
    let bit = |n: u16| flags >> n & 1 != 0;
    let mut nat =
        Nat { src: bit(0), dst: bit(1), persistent: bit(2), hash: bit(3), random: bit(4), ..Nat::default() };
    if flags & !0x1f != 0 || nat.src && nat.dst || nat.hash && nat.random {
        return Err(OfError::BacBadArgument);
    }
    nat_range(&mut nat, present, r).ok_or(OfError::BacBadArgument)?;
    Ok(Action::Nat(Box::new(nat)))
}

/// Decodes a range of addresses and ports; `None`: invalid.
fn nat_range(nat: &mut Nat, present: u16, mut r: Reader) -> Option<()> {
    let has = |n: u16| present >> n & 1 != 0;
    match (has(0), has(2)) {
        (true, _) if has(2) || has(3) => return None,
        (true, _) => {
            let min = r.u32().ok().filter(|&v| v != 0)?;
            let max = if has(1) { r.u32().ok().filter(|&v| v >= min)? } else { 0 };
            nat.range = NatRange::V4(Ipv4Addr::from(min), Ipv4Addr::from(max));
        }
        (false, _) if has(1) => return None,
        (false, true) => {
            let min = r.u128().ok().filter(|&v| v != 0)?;
            let max = if has(3) { r.u128().ok().filter(|&v| v >= min)? } else { 0 };
            nat.range = NatRange::V6(Ipv6Addr::from(min), Ipv6Addr::from(max));
        }
        (false, false) if has(3) => return None,
        _ => {}
    }
    match (has(4), has(5)) {
        (true, _) if nat.range == NatRange::None => return None,
        (true, more) => {
            nat.ports.0 = r.u16().ok().filter(|&v| v != 0)?;
            if more {
                nat.ports.1 = r.u16().ok().filter(|&v| v >= nat.ports.0)?;
            }
        }
        (false, true) => return None,
        (false, false) => {}
    }
    Some(())
}

fn encap(mut r: Reader) -> Result<Action, OfError> {
    let (header_size, packet_type) = (r.u16()?, r.u32()?);
    if !matches!(packet_type, 0 | 0x0001_894f | 0x0001_8847 | 0x0001_8848) {
        return Err(OfError::NxbacBadHeaderType);
    }
    let mut properties = Vec::new();
    while !r.is_empty() {
        properties.push(encap_property(&mut r)?);
    }
    Ok(Action::Encap(Encap { packet_type, header_size, properties }))
}

/// Decodes a property of `encap`, with its padding to a multiple of eight bytes.
fn encap_property(r: &mut Reader) -> Result<EncapProperty, OfError> {
    const HEADER: usize = 4;
    const TLV_HEADER: usize = 8;
    let short = |_| OfError::BacBadLen;
    let (class, kind) = (r.u16().map_err(short)?, r.u8().map_err(short)?);
    let len = usize::from(r.u8().map_err(short)?);
    let size = len.checked_sub(HEADER).ok_or(OfError::BacBadLen)?;
    let mut body = r.sub(size).map_err(short)?;
    r.skip(len.next_multiple_of(8) - len).map_err(short)?;
    let bad = |_| OfError::NxbacBadEdProp;
    match (class, kind) {
        (4, 1) if len <= 8 => Ok(EncapProperty::NshMdType(body.u8().map_err(bad)?)),
        (4, 2) => {
            let (class, kind) = (body.u16().map_err(bad)?, body.u8().map_err(bad)?);
            let n = usize::from(body.u8().map_err(bad)?);
            if len != TLV_HEADER + n.next_multiple_of(8) {
                return Err(OfError::NxbacBadEdProp);
            }
            Ok(EncapProperty::NshTlv { class, kind, data: body.take(n).map_err(bad)?.to_vec() })
        }
        (4, 1) => Err(OfError::NxbacBadEdProp),
        _ => Err(OfError::NxbacUnknownEdProp),
    }
}
