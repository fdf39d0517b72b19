//! Decodes lists of actions, and the actions of the standard.

use super::context::{Context, MAX_DEPTH};
use super::nicira;
use super::parts::{check_len, mpls_label, mpls_tc, push_mpls};
use super::subfield::move_operands;
use crate::action::Action;
use crate::error::{NX_VENDOR, ONF_VENDOR, OfError};
use crate::version::Version;
use crate::wire::buf::Reader;
use crate::wire::nxm;
use flow::FieldId;
use std::net::Ipv4Addr;
use units::OfPort;

/// Decodes a list of actions without checking their order.
pub(crate) fn actions(bytes: &[u8], cx: Context) -> Result<Vec<Action>, OfError> {
    if cx.depth > MAX_DEPTH {
        return Err(OfError::BacTooMany);
    }
    let mut r = Reader::new(bytes, OfError::BacBadLen);
    let mut list = Vec::new();
    while !r.is_empty() {
        let mut head = r;
        let (kind, len) = (head.u16()?, usize::from(head.u16()?));
        if len < 8 {
            return Err(OfError::BacBadLen);
        }
        let mut body = r.sub(len)?;
        body.skip(4)?;
        let action = decode_action(kind, len, body, cx)?;
        if len % 8 != 0 {
            return Err(OfError::BacBadLen);
        }
        list.push(action);
    }
    Ok(list)
}

/// Decodes an action set; refuses actions that are not allowed in an action set.
pub(crate) fn action_set(bytes: &[u8], cx: Context) -> Result<Vec<Action>, OfError> {
    let list = actions(bytes, cx)?;
    if list.iter().all(may_be_in_set) { Ok(list) } else { Err(OfError::BacBadType) }
}

fn may_be_in_set(a: &Action) -> bool {
    use Action::*;
    !matches!(
        a,
        Bundle(_)
            | Exit
            | FinTimeout { .. }
            | Learn(_)
            | Conjunction { .. }
            | Multipath(_)
            | Note(_)
            | OutputReg { .. }
            | OutputTrunc { .. }
            | PopQueue
            | StackPop(_)
            | StackPush(_)
            | Sample(_)
            | Clone(_)
            | DebugRecirc
            | DebugSlow
            | Controller(_)
            | Enqueue { .. }
            | CheckPktLarger { .. }
            | DeleteField(_)
            | WriteMetadata { .. }
            | Meter(_)
    )
}

fn decode_action(kind: u16, len: usize, mut body: Reader, cx: Context) -> Result<Action, OfError> {
    if kind == 0xffff {
        let vendor = body.u32()?;
        let known = vendor == NX_VENDOR || vendor == ONF_VENDOR;
        if !known {
            return Err(OfError::BacBadVendor);
        }
        let subtype = body.u16()?;
        return match vendor {
            NX_VENDOR => nicira::decode(subtype, len, body, cx, actions),
            _ => onf(subtype, body, cx),
        };
    }
    match cx.version {
        Version::V10 => standard_10(kind, len, body),
        _ => standard_11(kind, len, body, cx),
    }
}

fn onf(subtype: u16, mut r: Reader, cx: Context) -> Result<Action, OfError> {
    if subtype != 3200 || !matches!(cx.version, Version::V13 | Version::V14) {
        return Err(OfError::BacBadVendorType);
    }
    r.skip(2)?;
    let (n_bits, src, dst) = (r.u16()?, r.u16()?, r.u16()?);
    r.skip(2)?;
    let (src, dst) = move_operands(&mut r, n_bits, src, dst)?;
    Ok(Action::RegMove { src, dst })
}

fn vid(v: u16) -> Result<u16, OfError> {
    if v & !0xfff == 0 { Ok(v) } else { Err(OfError::BacBadArgument) }
}

fn pcp(v: u8) -> Result<u8, OfError> {
    if v & !7 == 0 { Ok(v) } else { Err(OfError::BacBadArgument) }
}

fn out_port(port: OfPort) -> Result<OfPort, OfError> {
    let reserved = port >= OfPort::IN_PORT && port != OfPort::NONE;
    if reserved || port < OfPort::MAX { Ok(port) } else { Err(OfError::BacBadOutPort) }
}

fn standard_10(kind: u16, len: usize, mut r: Reader) -> Result<Action, OfError> {
    let wanted = if matches!(kind, 4 | 5 | 11) { 16 } else { 8 };
    if kind > 11 {
        return Err(OfError::BacBadType);
    }
    check_len(len, wanted)?;
    Ok(match kind {
        0 => Action::Output { port: out_port(OfPort(r.u16()?))?, max_len: r.u16()? },
        1 => Action::SetVlanVid { vid: vid(r.u16()?)?, push: true },
        2 => Action::SetVlanPcp { pcp: pcp(r.u8()?)?, push: true },
        3 => Action::StripVlan { pop: false },
        11 => {
            let port = OfPort(r.u16()?);
            r.skip(6)?;
            if port >= OfPort::MAX && port != OfPort::IN_PORT && port != OfPort::LOCAL {
                return Err(OfError::BacBadOutPort);
            }
            Action::Enqueue { port, queue: r.u32()? }
        }
        _ => set_address(kind - 1, r)?,
    })
}

/// Decodes an action that sets an address, the DSCP or a port. `kind`: its number in 1.0, minus one. In 1.1, addresses and the DSCP have
/// this number; ports have the number of 1.0.
fn set_address(kind: u16, mut r: Reader) -> Result<Action, OfError> {
    Ok(match kind {
        3 => Action::SetEthSrc(r.mac()?),
        4 => Action::SetEthDst(r.mac()?),
        5 => Action::SetIpv4Src(Ipv4Addr::from(r.u32()?)),
        6 => Action::SetIpv4Dst(Ipv4Addr::from(r.u32()?)),
        7 => match r.u8()? {
            tos if tos & 3 == 0 => Action::SetIpDscp(tos),
            _ => return Err(OfError::BacBadArgument),
        },
        8 => Action::SetL4Src(r.u16()?),
        _ => Action::SetL4Dst(r.u16()?),
    })
}

fn standard_11(kind: u16, len: usize, mut r: Reader, cx: Context) -> Result<Action, OfError> {
    let since = match kind {
        0..=10 | 13..=24 => Version::V11,
        25 => Version::V12,
        28 | 29 => Version::V15,
        _ => return Err(OfError::BacBadType),
    };
    if cx.version < since {
        return Err(OfError::BacBadType);
    }
    match kind {
        0 | 3 | 4 => check_len(len, 16)?,
        25 => {}
        28 if len < 16 => return Err(OfError::BacBadLen),
        28 => {}
        _ => check_len(len, 8)?,
    }
    Ok(match kind {
        0 => {
            let port = OfPort::from_u32(r.u32()?).ok_or(OfError::BacBadOutPort)?;
            Action::Output { port: out_port(port)?, max_len: r.u16()? }
        }
        1 => Action::SetVlanVid { vid: vid(r.u16()?)?, push: false },
        2 => Action::SetVlanPcp { pcp: pcp(r.u8()?)?, push: false },
        3..=7 => set_address(kind, r)?,
        8 => match r.u8()? {
            ecn if ecn & !3 == 0 => Action::SetIpEcn(ecn),
            _ => return Err(OfError::BacBadArgument),
        },
        9 | 10 => set_address(kind - 1, r)?,
        13 => mpls_label(r.u32()?)?,
        14 => mpls_tc(r.u8()?)?,
        15 => Action::SetMplsTtl(r.u8()?),
        16 => Action::DecMplsTtl,
        17 => match r.u16()? {
            tpid @ (0x8100 | 0x88a8) => Action::PushVlan(tpid),
            _ => return Err(OfError::BacBadArgument),
        },
        18 => Action::StripVlan { pop: true },
        19 => push_mpls(r.u16()?)?,
        20 => Action::PopMpls(r.u16()?),
        21 => Action::SetQueue(r.u32()?),
        22 => Action::Group(r.u32()?),
        23 => Action::SetIpTtl(r.u8()?),
        24 => Action::DecTtl { ids: vec![0], nicira: false },
        25 => set_field(r, cx.version >= Version::V15)?,
        28 => {
            let (n_bits, src, dst) = (r.u16()?, r.u16()?, r.u16()?);
            r.skip(2)?;
            let (src, dst) = move_operands(&mut r, n_bits, src, dst)?;
            Action::RegMove { src, dst }
        }
        _ => Action::Meter(r.u32()?),
    })
}

fn set_field(mut r: Reader, may_mask: bool) -> Result<Action, OfError> {
    let entry = nxm::entry(&mut r, may_mask).map_err(|e| match e {
        OfError::BmcBadMask => OfError::BacBadSetMask,
        e => e,
    })?;
    let (field, value, mask) = match entry {
        nxm::Entry::Tlv(_) if !r.all_zero() => return Err(OfError::BacBadSetArgument),
        nxm::Entry::Tlv(t) => return Ok(Action::SetTlv(Box::new(t))),
        nxm::Entry::Number(field, value, mask) => (field, value, mask),
    };
    let present = u128::from(flow::VLAN_CFI);
    let vid_without_tag = field == FieldId::VlanVid && (value & present == 0 || mask & present == 0);
    let refused = field == FieldId::InPortOxm || !field.info().writable;
    if !r.all_zero() || refused || vid_without_tag || !field.is_value_valid(value) {
        return Err(OfError::BacBadSetArgument);
    }
    Ok(Action::SetField { field, value, mask })
}
