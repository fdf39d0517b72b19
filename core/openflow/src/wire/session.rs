//! Features, configuration, roles, asynchronous configuration, bundles, tunnel option maps, connection
//! tracking flushes.

use super::buf::{Put, Reader};
use super::{port, property};
use crate::error::OfError;
use crate::message::Hello;
use crate::session::*;
use crate::version::{Version, VersionSet};
use std::net::{IpAddr, Ipv6Addr};

/// Type of the hello element that contains the supported versions (`OFPHET_VERSIONBITMAP`).
const BITMAP: u16 = 1;

pub(super) fn decode_hello(r: &mut Reader, header_version: u8) -> Result<Hello, OfError> {
    let mut versions = VersionSet::up_to(header_version);
    while r.len() >= 4 {
        let mut peek = *r;
        let (kind, len) = (peek.u16()?, usize::from(peek.u16()?));
        if len < 4 || len > r.len() {
            break;
        }
        let mut element = Reader::new(r.take(len.next_multiple_of(8).min(r.len()))?, OfError::BrcBadLen);
        element.skip(4)?;
        if kind == BITMAP && len >= 8 {
            versions = VersionSet(element.u32()?);
        }
    }
    Ok(Hello { versions, header_version })
}

pub(super) fn encode_hello(out: &mut Vec<u8>, hello: &Hello) {
    if hello.versions != VersionSet::up_to(hello.header_version) {
        out.u16(BITMAP).u16(8).u32(hello.versions.0);
    }
}

fn capabilities(raw: u32, version: Version) -> Capabilities {
    let bit = |n: u32| raw >> n & 1 != 0;
    let v10 = version == Version::V10;
    Capabilities {
        flow_stats: bit(0),
        table_stats: bit(1),
        port_stats: bit(2),
        stp: v10 && bit(3),
        group_stats: !v10 && bit(3),
        ip_reasm: bit(5),
        queue_stats: bit(6),
        arp_match_ip: version <= Version::V11 && bit(7),
        port_blocked: version >= Version::V12 && bit(8),
        bundles: version >= Version::V14 && bit(9),
        flow_monitoring: version >= Version::V14 && bit(10),
    }
}

fn capability_bits(c: Capabilities, version: Version) -> u32 {
    let bit = |on: bool, n: u32| if on { 1 << n } else { 0 };
    let mut raw = bit(c.flow_stats, 0) | bit(c.table_stats, 1) | bit(c.port_stats, 2) | bit(c.ip_reasm, 5);
    raw |= bit(c.queue_stats, 6);
    raw |= if version == Version::V10 { bit(c.stp, 3) } else { bit(c.group_stats, 3) };
    if version <= Version::V11 {
        raw |= bit(c.arp_match_ip, 7);
    } else {
        raw |= bit(c.port_blocked, 8);
    }
    if version >= Version::V14 {
        raw |= bit(c.bundles, 9) | bit(c.flow_monitoring, 10);
    }
    raw
}

pub(super) fn decode_features(r: &mut Reader, version: Version) -> Result<SwitchFeatures, OfError> {
    let mut f = SwitchFeatures {
        datapath_id: r.u64()?,
        n_buffers: r.u32()?,
        n_tables: r.u8()?,
        ..Default::default()
    };
    let auxiliary = r.u8()?;
    f.auxiliary_id = if version >= Version::V13 { auxiliary } else { 0 };
    r.skip(2)?;
    f.capabilities = capabilities(r.u32()?, version);
    let actions = r.u32()?;
    f.actions = if version == Version::V10 { actions } else { 0 };
    while version < Version::V13 && !r.is_empty() {
        f.ports.push(port::decode(r, version)?);
    }
    Ok(f)
}

pub(super) fn encode_features(out: &mut Vec<u8>, f: &SwitchFeatures, version: Version) {
    out.u64(f.datapath_id).u32(f.n_buffers).u8(f.n_tables);
    out.u8(if version >= Version::V13 { f.auxiliary_id } else { 0 }).zeros(2);
    out.u32(capability_bits(f.capabilities, version)).u32(if version == Version::V10 {
        f.actions
    } else {
        0
    });
    if version < Version::V13 {
        for p in &f.ports {
            // More ports do not fit a message; a controller can request all of them with the port description.
            if out.len() < 0xff00 {
                port::encode(out, p, version);
            }
        }
    }
}

pub(super) fn decode_config(r: &mut Reader, version: Version) -> Result<SwitchConfig, OfError> {
    let flags = r.u16()?;
    // OpenFlow 1.0 does not define the flag, but switches accept it.
    let ttl = version < Version::V13;
    if flags & !(3 | if ttl { 4 } else { 0 }) != 0 {
        return Err(OfError::ScfcBadFlags);
    }
    let frag = [FragMode::Normal, FragMode::Drop, FragMode::Reassemble, FragMode::NxMatch];
    Ok(SwitchConfig {
        frag: frag[usize::from(flags & 3)],
        invalid_ttl_to_controller: ttl.then_some(flags & 4 != 0),
        miss_send_len: r.u16()?,
    })
}

pub(super) fn encode_config(out: &mut Vec<u8>, c: &SwitchConfig, version: Version) {
    let ttl = version < Version::V13 && c.invalid_ttl_to_controller == Some(true);
    out.u16(c.frag as u16 | if ttl { 4 } else { 0 }).u16(c.miss_send_len);
}

/// Decodes a role. In Nicira's form the numbers begin with 0 for equal ("other").
pub(super) fn decode_role(r: &mut Reader, version: Version, nicira: bool) -> Result<RoleContent, OfError> {
    let raw = r.u32()?;
    if nicira {
        let roles = [Role::Equal, Role::Primary, Role::Secondary];
        let role = *roles.get(raw as usize).ok_or(OfError::RrfcBadRole)?;
        return Ok(RoleContent { role, ..RoleContent::default() });
    }
    let roles = [Role::NoChange, Role::Equal, Role::Primary, Role::Secondary];
    let role = *roles.get(raw as usize).ok_or(OfError::RrfcBadRole)?;
    let id = r.u16()?;
    r.skip(2)?;
    let generation = r.u64()?;
    let has = !matches!(role, Role::NoChange | Role::Equal) && generation != u64::MAX;
    let controller_id = (version >= Version::V15 && id != 0xffff).then_some(id);
    Ok(RoleContent { role, generation_id: has.then_some(generation), controller_id })
}

pub(super) fn encode_role(out: &mut Vec<u8>, role: &RoleContent, version: Version, nicira: bool) {
    if nicira {
        let raw = match role.role {
            Role::NoChange | Role::Equal => 0,
            Role::Primary => 1,
            Role::Secondary => 2,
        };
        out.u32(raw);
        return;
    }
    let id = if version >= Version::V15 { role.controller_id.unwrap_or(0xffff) } else { 0 };
    out.u32(role.role as u32).u16(id).zeros(2).u64(role.generation_id.unwrap_or(u64::MAX));
}

pub(super) fn decode_role_status(r: &mut Reader) -> Result<RoleStatus, OfError> {
    let roles = [Role::NoChange, Role::Equal, Role::Primary, Role::Secondary];
    let role = *roles.get(r.u32()? as usize).ok_or(OfError::RrfcBadRole)?;
    let reason = r.u8()?;
    r.skip(3)?;
    Ok(RoleStatus { role, reason, generation_id: r.u64()? })
}

pub(super) fn encode_role_status(out: &mut Vec<u8>, s: &RoleStatus) {
    out.u32(s.role as u32).u8(s.reason).zeros(3).u64(s.generation_id);
}

fn masks(a: &mut AsyncConfig) -> [&mut [Option<u32>; 2]; 6] {
    [
        &mut a.packet_in,
        &mut a.port_status,
        &mut a.flow_removed,
        &mut a.role_status,
        &mut a.table_status,
        &mut a.request_forward,
    ]
}

pub(super) fn decode_async_13(r: &mut Reader) -> Result<AsyncConfig, OfError> {
    let mut a = AsyncConfig::default();
    for pair in &mut masks(&mut a)[..3] {
        **pair = [Some(r.u32()?), Some(r.u32()?)];
    }
    Ok(a)
}

/// Returns whether the form of OpenFlow 1.3 can express the configuration.
pub(super) fn is_async_13(a: &AsyncConfig) -> bool {
    let mut a = *a;
    let [kinds_13 @ .., role, table, forward] = masks(&mut a);
    kinds_13.into_iter().flatten().all(|m| m.is_some())
        && [role, table, forward].into_iter().flatten().all(|m| m.is_none())
}

pub(super) fn encode_async_13(out: &mut Vec<u8>, a: &AsyncConfig) {
    for pair in [a.packet_in, a.port_status, a.flow_removed] {
        out.u32(pair[0].unwrap_or(0)).u32(pair[1].unwrap_or(0));
    }
}

/// Decodes properties. There are two properties for each kind of message: for the role secondary, and for the other roles.
pub(super) fn decode_async_14(r: &mut Reader) -> Result<AsyncConfig, OfError> {
    let mut a = AsyncConfig::default();
    while !r.is_empty() {
        let (kind, mut p) = property::pull(r)?;
        let mut all = masks(&mut a);
        let pair = all.get_mut(usize::from(kind / 2)).ok_or(OfError::BpcBadType)?;
        pair[usize::from(1 - kind % 2)] = Some(p.u32()?);
    }
    Ok(a)
}

pub(super) fn encode_async_14(out: &mut Vec<u8>, a: &AsyncConfig) {
    let mut a = *a;
    for (n, pair) in masks(&mut a).into_iter().enumerate() {
        for (at, mask) in [(1, pair[1]), (0, pair[0])] {
            if let Some(mask) = mask {
                property::put(out, 2 * n as u16 + 1 - at, &mask.to_be_bytes());
            }
        }
    }
}

pub(super) fn decode_bundle(r: &mut Reader) -> Result<BundleControl, OfError> {
    use BundleControlType::*;
    let (bundle, kind, flags) = (r.u32()?, r.u16()?, r.u16()?);
    let all = [
        OpenRequest,
        OpenReply,
        CloseRequest,
        CloseReply,
        CommitRequest,
        CommitReply,
        DiscardRequest,
        DiscardReply,
    ];
    let kind = *all.get(usize::from(kind)).ok_or(OfError::BfcBadType)?;
    r.skip(r.len())?;
    Ok(BundleControl { bundle, kind, flags })
}

pub(super) fn decode_bundle_add(r: &mut Reader) -> Result<BundleAdd, OfError> {
    let bundle = r.u32()?;
    r.skip(2)?;
    let flags = r.u16()?;
    let mut inner = *r;
    let _version_and_type = inner.u16()?;
    let len = usize::from(inner.u16()?);
    if len < 8 || len > r.len() {
        return Err(OfError::BrcBadLen);
    }
    let message = r.take(len)?.to_vec();
    r.skip(r.len())?;
    Ok(BundleAdd { bundle, flags, message })
}

pub(super) fn decode_tlv_maps(r: &mut Reader) -> Result<Vec<TlvMap>, OfError> {
    let mut maps = Vec::new();
    while !r.is_empty() {
        let map = TlvMap { class: r.u16()?, kind: r.u8()?, len: r.u8()?, index: r.u16()? };
        r.skip(2)?;
        if map.index >= 64 {
            return Err(OfError::NxttmfcBadFieldIdx);
        }
        if !map.len.is_multiple_of(4) || map.len > 124 {
            return Err(OfError::NxttmfcBadOptLen);
        }
        maps.push(map);
    }
    Ok(maps)
}

pub(super) fn decode_tlv_mod(r: &mut Reader) -> Result<TlvTableMod, OfError> {
    let command = r.u16()?;
    r.skip(6)?;
    let maps = decode_tlv_maps(r)?;
    Ok(match command {
        0 => TlvTableMod::Add(maps),
        1 => TlvTableMod::Delete(maps),
        2 => TlvTableMod::Clear,
        _ => return Err(OfError::NxttmfcBadCommand),
    })
}

pub(super) fn encode_tlv_mod(out: &mut Vec<u8>, m: &TlvTableMod) {
    let (command, maps): (u16, &[TlvMap]) = match m {
        TlvTableMod::Add(maps) => (0, maps),
        TlvTableMod::Delete(maps) => (1, maps),
        TlvTableMod::Clear => (2, &[]),
    };
    out.u16(command).zeros(6);
    encode_tlv_maps(out, maps);
}

pub(super) fn encode_tlv_maps(out: &mut Vec<u8>, maps: &[TlvMap]) {
    for m in maps {
        out.u16(m.class).u8(m.kind).u8(m.len).u16(m.index).zeros(2);
    }
}

fn address(p: &mut Reader) -> Result<Option<IpAddr>, OfError> {
    let ip = Ipv6Addr::from(p.u128()?);
    Ok(Some(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)).filter(|ip| !ip.is_unspecified()))
}

fn tuple(mut r: Reader) -> Result<CtTuple, OfError> {
    let mut t = CtTuple::default();
    while !r.is_empty() {
        let (kind, mut p) = property::pull(&mut r)?;
        match kind {
            0 => t.src = address(&mut p)?,
            1 => t.dst = address(&mut p)?,
            2 => t.src_port = Some(p.u16()?),
            3 => t.dst_port = Some(p.u16()?),
            4 => t.icmp_id = Some(p.u16()?),
            5 => t.icmp_type = Some(p.u8()?),
            6 => t.icmp_code = Some(p.u8()?),
            _ => return Err(OfError::BpcBadType),
        }
    }
    Ok(t)
}

pub(super) fn decode_ct_flush(r: &mut Reader) -> Result<CtFlush, OfError> {
    let mut f = CtFlush { ip_proto: r.u8()?, ..CtFlush::default() };
    r.zeros(7, OfError::NxbrcMustBeZero)?;
    let (mut mark, mut labels) = ((None, None), (None, None));
    while !r.is_empty() {
        let (kind, mut p) = property::pull(r)?;
        match kind {
            0 | 1 => {
                // The properties inside the tuple are aligned to eight bytes.
                p.skip(4.min(p.len()))?;
                let t = tuple(p)?;
                if kind == 0 { f.original = t } else { f.reply = t }
            }
            2 => f.zone = Some(p.u16()?),
            3 => mark.0 = Some(p.u32()?),
            4 => mark.1 = Some(p.u32()?),
            5 => labels.0 = Some(p.u128()?),
            6 => labels.1 = Some(p.u128()?),
            _ => return Err(OfError::BpcBadType),
        }
    }
    f.mark = (mark != (None, None)).then(|| (mark.0.unwrap_or(0), mark.1.unwrap_or(u32::MAX)));
    f.labels = (labels != (None, None)).then(|| (labels.0.unwrap_or(0), labels.1.unwrap_or(u128::MAX)));
    Ok(f)
}

fn put_tuple(out: &mut Vec<u8>, kind: u16, t: &CtTuple) {
    let mut body = vec![0; 4];
    let mapped = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let mut inner = Vec::new();
    for (kind, ip) in [(0, t.src), (1, t.dst)] {
        if let Some(ip) = ip {
            property::put(&mut inner, kind, &mapped(ip));
        }
    }
    for (kind, n) in [(2, t.src_port), (3, t.dst_port), (4, t.icmp_id)] {
        if let Some(n) = n {
            property::put_u16(&mut inner, kind, n);
        }
    }
    for (kind, n) in [(5, t.icmp_type), (6, t.icmp_code)] {
        if let Some(n) = n {
            property::put_u8(&mut inner, kind, n);
        }
    }
    if !inner.is_empty() {
        body.append(&mut inner);
        property::put(out, kind, &body);
    }
}

pub(super) fn encode_ct_flush(out: &mut Vec<u8>, f: &CtFlush) {
    out.u8(f.ip_proto).zeros(7);
    put_tuple(out, 0, &f.original);
    put_tuple(out, 1, &f.reply);
    if let Some(zone) = f.zone {
        property::put_u16(out, 2, zone);
    }
    if let Some((mark, mask)) = f.mark {
        property::put(out, 3, &mark.to_be_bytes());
        if mask != u32::MAX {
            property::put(out, 4, &mask.to_be_bytes());
        }
    }
    if let Some((labels, mask)) = f.labels {
        property::put(out, 5, &labels.to_be_bytes());
        if mask != u128::MAX {
            property::put(out, 6, &mask.to_be_bytes());
        }
    }
}
