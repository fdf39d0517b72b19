//! Encodes lists of actions, and the actions of the standard in each version.

use super::headers::Headers;
use super::nicira_encode as nicira;
use crate::action::{Action, SetTlv};
use crate::version::Version;
use crate::wire::buf::Put;
use crate::wire::nxm;
use flow::{FieldId as F, Mac, Match, Subfield, VLAN_CFI};
use units::OfPort;

/// Encodes the actions of a list. Instructions are left out if the version encodes them separately.
pub(crate) fn put_actions(out: &mut Vec<u8>, actions: &[Action], version: Version) {
    put_actions_after(out, actions, Headers::default(), version);
}

/// Encodes the actions of a flow with this match. Instructions are left out if the version encodes them separately.
pub(crate) fn put_flow_actions(out: &mut Vec<u8>, actions: &[Action], matching: &Match, version: Version) {
    put_actions_after(out, actions, Headers::of(matching), version);
}

/// Encodes actions for packets that have these headers.
pub(super) fn put_actions_after(
    out: &mut Vec<u8>,
    actions: &[Action],
    mut headers: Headers,
    version: Version,
) {
    for action in actions {
        if version == Version::V10
            || !action.is_instruction()
            || version >= Version::V15 && matches!(action, Action::Meter(_))
        {
            put_action(out, action, headers, version);
        }
        headers.change(action);
    }
}

/// Encodes a standard action: type, length, the bytes that `body` writes, padding.
fn standard(out: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.u16(kind).u16(0);
    body(out);
    out.pad8(start);
    let len = out.len() - start;
    out.set16(start + 2, len as u16);
}

fn put_action(out: &mut Vec<u8>, action: &Action, headers: Headers, version: Version) {
    let nested: nicira::WriteNested = &|out, list| put_actions_after(out, list, headers, version);
    let v10 = version == Version::V10;
    // The numbers of actions that set addresses are one less in 1.1 than in 1.0. Actions that set ports have the same number
    // in both versions.
    let address = |kind: u16| if v10 { kind + 1 } else { kind };
    match action {
        Action::Output { port, max_len } => output(out, *port, *max_len, v10),
        Action::Enqueue { port, queue } if v10 => {
            standard(out, 11, |o| {
                o.u16(port.0).zeros(6).u32(*queue);
            });
        }
        Action::Enqueue { port, queue } => {
            put_action(out, &Action::SetQueue(*queue), headers, version);
            // The controller gets all bytes of the packet.
            output(out, *port, u16::MAX, false);
            nicira::put(out, &Action::PopQueue, version, nested);
        }
        Action::SetField { field, value, mask } => set_field(out, *field, (*value, *mask), headers, version),
        Action::SetTlv(t) => set_tlv(out, t, version),
        Action::RegLoad { dst, value } if dst.field.tlv_index().is_some() => {
            set_tlv(out, &crate::tlv::set_bits(*dst, *value), version);
        }
        Action::RegLoad { dst, value } if version >= Version::V15 => load_entry(out, *dst, *value, version),
        Action::RegMove { src, dst } if version >= Version::V15 => standard(out, 28, |o| {
            o.u16(dst.n_bits).u16(src.ofs).u16(dst.ofs).zeros(2);
            nxm::put_header(o, *src, version.wire(), false);
            nxm::put_header(o, *dst, version.wire(), false);
        }),
        Action::SetVlanVid { vid, push } => vlan_vid(out, *vid, *push && !headers.has_tag, version),
        Action::SetVlanPcp { pcp, push } => vlan_pcp(out, *pcp, *push && !headers.has_tag, version),
        Action::StripVlan { .. } => standard(out, if v10 { 3 } else { 18 }, |_| ()),
        Action::PushVlan(tpid) => push_vlan(out, *tpid, version),
        Action::SetEthSrc(mac) => mac_or_field(out, address(3), F::EthSrc, *mac, version),
        Action::SetEthDst(mac) => mac_or_field(out, address(4), F::EthDst, *mac, version),
        Action::SetIpv4Src(ip) => number(out, address(5), F::Ipv4Src, ip.to_bits().into(), 4, version),
        Action::SetIpv4Dst(ip) => number(out, address(6), F::Ipv4Dst, ip.to_bits().into(), 4, version),
        Action::SetIpDscp(tos) => {
            let old = version < Version::V12;
            let (field, value) = if old { (F::IpDscp, *tos) } else { (F::IpDscpShifted, tos >> 2) };
            number(out, address(7), field, value.into(), 1, version);
        }
        Action::SetIpEcn(ecn) => match version {
            Version::V10 => nicira::put(out, &load(F::IpEcn, u128::from(*ecn)), version, nested),
            _ => number(out, 8, F::IpEcn, u128::from(*ecn), 1, version),
        },
        Action::SetIpTtl(ttl) if v10 => nicira::put(out, &load(F::IpTtl, u128::from(*ttl)), version, nested),
        Action::SetIpTtl(ttl) => standard(out, 23, |o| {
            o.u8(*ttl);
        }),
        Action::SetL4Src(port) => l4_port(out, 9, (headers.source_port(), *port), version),
        Action::SetL4Dst(port) => l4_port(out, 10, (headers.destination_port(), *port), version),
        Action::SetMplsLabel(label) if !v10 => number(out, 13, F::MplsLabel, u128::from(*label), 4, version),
        Action::SetMplsTc(tc) if !v10 => number(out, 14, F::MplsTc, u128::from(*tc), 1, version),
        Action::SetMplsTtl(ttl) if !v10 => standard(out, 15, |o| {
            o.u8(*ttl);
        }),
        Action::DecMplsTtl if !v10 => standard(out, 16, |_| ()),
        Action::SetTunnel { id, .. } if version >= Version::V12 => {
            field_entry(out, F::TunId, (u128::from(*id), F::TunId.ones()), version);
        }
        Action::PushMpls(t) if !v10 => standard(out, 19, |o| {
            o.u16(*t);
        }),
        Action::PopMpls(t) if !v10 => standard(out, 20, |o| {
            o.u16(*t);
        }),
        Action::SetQueue(q) if !v10 => standard(out, 21, |o| {
            o.u32(*q);
        }),
        Action::Group(g) if !v10 => standard(out, 22, |o| {
            o.u32(*g);
        }),
        Action::DecTtl { ids, .. } if !v10 && ids[..] == [0] => standard(out, 24, |_| ()),
        Action::Meter(id) if version >= Version::V15 => standard(out, 29, |o| {
            o.u32(*id);
        }),
        other => nicira::put(out, other, version, nested),
    }
}

fn load(field: F, value: u128) -> Action {
    Action::RegLoad { dst: Subfield::whole(field), value }
}

fn output(out: &mut Vec<u8>, port: OfPort, max_len: u16, v10: bool) {
    standard(out, 0, |o| {
        match v10 {
            true => o.u16(port.0).u16(max_len),
            false => o.u32(port.to_u32()).u16(max_len),
        };
    });
}

/// Encodes the write of a number: up to 1.1 as the action for this field, later as set-field.
fn number(out: &mut Vec<u8>, kind: u16, field: F, value: u128, size: usize, version: Version) {
    if version >= Version::V12 {
        return field_entry(out, field, (value, field.ones()), version);
    }
    standard(out, kind, |o| {
        o.number(value, size);
    });
}

fn mac_or_field(out: &mut Vec<u8>, kind: u16, field: F, mac: Mac, version: Version) {
    number(out, kind, field, u128::from(mac.to_u64()), 6, version);
}

/// Encodes the write of a transport port: from 1.2 on as set-field of the protocol that the match requires. If the match requires no
/// protocol, the action of 1.1 is used in all versions.
fn l4_port(out: &mut Vec<u8>, kind: u16, (field, port): (Option<F>, u16), version: Version) {
    if let Some(field) = field.filter(|_| version >= Version::V12) {
        return field_entry(out, field, (port.into(), field.ones()), version);
    }
    standard(out, kind, |o| {
        o.u16(port);
    });
}

/// Encodes the write of a VLAN id. `push`: packets without a tag get one. In 1.0 the action itself adds a tag; in later versions a
/// push action precedes it.
fn vlan_vid(out: &mut Vec<u8>, vid: u16, push: bool, version: Version) {
    if push {
        push_vlan(out, 0x8100, version);
    }
    if version >= Version::V12 {
        let value = u128::from(vid | VLAN_CFI);
        return field_entry(out, F::VlanVid, (value, F::VlanVid.ones()), version);
    }
    standard(out, 1, |o| {
        o.u16(vid);
    });
}

/// Encodes push-VLAN. OpenFlow 1.0 has no such action: its actions that write a tag add one.
fn push_vlan(out: &mut Vec<u8>, tpid: u16, version: Version) {
    if version != Version::V10 {
        standard(out, 17, |o| {
            o.u16(tpid);
        });
    }
}

fn vlan_pcp(out: &mut Vec<u8>, pcp: u8, push: bool, version: Version) {
    if push {
        push_vlan(out, 0x8100, version);
    }
    number(out, 2, F::VlanPcp, u128::from(pcp), 1, version);
}

/// Encodes `OFPAT_SET_FIELD`; from 1.5 on with a mask if necessary.
fn field_entry(out: &mut Vec<u8>, field: F, (value, mask): (u128, u128), version: Version) {
    standard(out, 25, |o| nxm::put_entry(o, field, version.wire(), value, mask));
}

/// Encodes a load as `OFPAT_SET_FIELD`. As in Open vSwitch, the mask is left out only if the load writes all bits of the entry. A load of
/// ECN always has a mask, because it writes only two bits of an entry of one byte.
fn load_entry(out: &mut Vec<u8>, dst: Subfield, value: u128, version: Version) {
    let bytes = usize::from(dst.field.info().n_bytes);
    let has_mask = usize::from(dst.n_bits) != 8 * bytes;
    standard(out, 25, |o| {
        nxm::put_header(o, Subfield::whole(dst.field), version.wire(), has_mask);
        o.number(value << dst.ofs, bytes);
        if has_mask {
            o.number(dst.field_mask(), bytes);
        }
    });
}

fn set_field(out: &mut Vec<u8>, field: F, (value, mask): (u128, u128), headers: Headers, version: Version) {
    let whole = mask & field.ones() == field.ones();
    if version >= Version::V15 || version >= Version::V12 && whole {
        return field_entry(out, field, (value, mask), version);
    }
    if version >= Version::V12 || !legacy(out, field, value, headers, version) {
        nicira::put_field(out, field, value, mask);
    }
}

/// Encodes a write to a field of tunnel options. In older versions only the form with a mask exists.
fn set_tlv(out: &mut Vec<u8>, t: &SetTlv, version: Version) {
    if version >= Version::V15 || version >= Version::V12 && t.mask.is_none() {
        return standard(out, 25, |o| {
            nxm::put_tlv(o, t.field.field, version.wire(), &t.value, t.mask.as_deref());
        });
    }
    nicira::put_tlv(out, t);
}

/// Encodes a write as an action of 1.0 or 1.1. Returns false if the version has no action for the field.
fn legacy(out: &mut Vec<u8>, field: F, value: u128, headers: Headers, version: Version) -> bool {
    let v = value as u16;
    let mut one = |a: Action| put_action(out, &a, headers, version);
    match field {
        F::VlanTci if v & VLAN_CFI == 0 => one(Action::StripVlan { pop: false }),
        F::VlanTci => {
            one(Action::SetVlanVid { vid: v & 0xfff, push: true });
            one(Action::SetVlanPcp { pcp: (v >> 13) as u8, push: false });
        }
        F::VlanVid => one(Action::SetVlanVid { vid: v & 0xfff, push: false }),
        F::VlanPcp => one(Action::SetVlanPcp { pcp: v as u8 & 7, push: false }),
        F::EthSrc => one(Action::SetEthSrc(Mac::from_u64(value as u64))),
        F::EthDst => one(Action::SetEthDst(Mac::from_u64(value as u64))),
        F::Ipv4Src => one(Action::SetIpv4Src((value as u32).into())),
        F::Ipv4Dst => one(Action::SetIpv4Dst((value as u32).into())),
        F::IpDscp => one(Action::SetIpDscp(v as u8)),
        F::IpDscpShifted => one(Action::SetIpDscp((v as u8) << 2)),
        F::IpEcn => one(Action::SetIpEcn(v as u8)),
        F::TcpSrc | F::UdpSrc => one(Action::SetL4Src(v)),
        F::TcpDst | F::UdpDst => one(Action::SetL4Dst(v)),
        _ => return false,
    }
    true
}
