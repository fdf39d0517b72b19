//! Matches of fixed size (OpenFlow 1.0 and 1.1), and the functions that select the form of a match by version.

use super::buf::{Put, Reader};
use super::nxm::{self, need_ethernet};
use crate::error::OfError;
use crate::version::Version;
use flow::{FieldId as F, Match, VLAN_CFI};
use units::OfPort;

// Wildcard bits of 1.0. For addresses the position of the number of wildcarded bits is given.
const W_IN_PORT: u32 = 1 << 0;
const W_DL_VLAN: u32 = 1 << 1;
const W_DL_SRC: u32 = 1 << 2;
const W_DL_DST: u32 = 1 << 3;
const W_DL_TYPE: u32 = 1 << 4;
const W_NW_PROTO: u32 = 1 << 5;
const W_TP_SRC: u32 = 1 << 6;
const W_TP_DST: u32 = 1 << 7;
const NW_SRC_SHIFT: u32 = 8;
const NW_DST_SHIFT: u32 = 14;
const W_VLAN_PCP: u32 = 1 << 20;
const W_NW_TOS: u32 = 1 << 21;

/// VLAN number that matches packets without a tag, in 1.0 and 1.1.
const VID_NONE: u16 = 0xffff;

fn netmask(bits: u32) -> u32 {
    let wild = bits & 0x3f;
    if wild < 32 { u32::MAX << wild } else { 0 }
}

fn wild_bits(mask: u32) -> u32 {
    32 - mask.leading_ones()
}

/// Decodes the match of OpenFlow 1.0 (40 bytes). Ignores fields without their prerequisites, as the standard
/// requires.
pub(crate) fn pull_10(r: &mut Reader, m: &mut Match) -> Result<(), OfError> {
    let wild = r.u32()?;
    let in_port = r.u16()?;
    let (src, dst) = (r.mac()?, r.mac()?);
    let (vid, pcp) = (r.u16()?, r.u8()?);
    r.skip(1)?;
    let dl_type = r.u16()?;
    let (tos, proto) = (r.u8()?, r.u8()?);
    r.skip(2)?;
    let (nw_src, nw_dst) = (r.u32()?, r.u32()?);
    let (tp_src, tp_dst) = (r.u16()?, r.u16()?);

    let exact = |bit: u32| wild & bit == 0;
    if exact(W_IN_PORT) {
        m.set(F::InPort, u128::from(in_port));
    }
    let any_header = W_DL_VLAN
        | W_DL_SRC
        | W_DL_DST
        | W_DL_TYPE
        | W_NW_PROTO
        | W_TP_SRC
        | W_TP_DST
        | W_VLAN_PCP
        | W_NW_TOS;
    let (src_mask, dst_mask) = (netmask(wild >> NW_SRC_SHIFT), netmask(wild >> NW_DST_SHIFT));
    if wild & any_header != any_header || src_mask != 0 || dst_mask != 0 {
        need_ethernet(m);
    }
    let (f, k) = (&mut m.flow, &mut m.mask);
    if exact(W_DL_SRC) {
        (f.dl_src, k.dl_src) = (src, flow::Mac::BROADCAST);
    }
    if exact(W_DL_DST) {
        (f.dl_dst, k.dl_dst) = (dst, flow::Mac::BROADCAST);
    }
    if exact(W_DL_TYPE) {
        (f.dl_type, k.dl_type) = (dl_type, u16::MAX);
    }
    vlan_from(m, exact(W_DL_VLAN).then_some(vid), exact(W_VLAN_PCP).then_some(pcp));
    let (f, k) = (&mut m.flow, &mut m.mask);
    (f.nw_src, k.nw_src) = (nw_src & src_mask, src_mask);
    (f.nw_dst, k.nw_dst) = (nw_dst & dst_mask, dst_mask);
    if exact(W_NW_TOS) {
        (f.nw_tos, k.nw_tos) = (tos & 0xfc, 0xfc);
    }
    if exact(W_NW_PROTO) {
        (f.nw_proto, k.nw_proto) = (proto, u8::MAX);
    }
    if exact(W_TP_SRC) {
        (f.tp_src, k.tp_src) = (tp_src, u16::MAX);
    }
    if exact(W_TP_DST) {
        (f.tp_dst, k.tp_dst) = (tp_dst, u16::MAX);
    }
    // OpenFlow 1.0 allows fields without their prerequisites; ignore them.
    m.normalize();
    Ok(())
}

fn vlan_from(m: &mut Match, vid: Option<u16>, pcp: Option<u8>) {
    let (f, k) = (&mut m.flow.vlans[0].tci, &mut m.mask.vlans[0].tci);
    if vid == Some(VID_NONE) {
        (*f, *k) = (0, 0xffff);
        return;
    }
    if let Some(vid) = vid {
        *f |= vid & 0xfff | VLAN_CFI;
        *k |= 0xfff | VLAN_CFI;
    }
    if let Some(pcp) = pcp {
        *f |= u16::from(pcp & 7) << 13 | VLAN_CFI;
        *k |= 0xe000 | VLAN_CFI;
    }
}

/// Encodes the match of OpenFlow 1.0; leaves out fields that it does not have.
pub(crate) fn put_10(out: &mut Vec<u8>, m: &Match) {
    let (f, k) = (&m.flow, &m.mask);
    let bit = |absent: bool, bit: u32| if absent { bit } else { 0 };
    let mut wild = bit(k.in_port == 0, W_IN_PORT)
        | bit(k.dl_src == flow::Mac::default(), W_DL_SRC)
        | bit(k.dl_dst == flow::Mac::default(), W_DL_DST)
        | bit(k.dl_type == 0, W_DL_TYPE)
        | bit(k.nw_proto == 0, W_NW_PROTO)
        | bit(k.tp_src == 0, W_TP_SRC)
        | bit(k.tp_dst == 0, W_TP_DST)
        | bit(k.nw_tos & 0xfc == 0, W_NW_TOS)
        | wild_bits(k.nw_src) << NW_SRC_SHIFT
        | wild_bits(k.nw_dst) << NW_DST_SHIFT;
    let (tci, tci_mask) = (f.vlans[0].tci, k.vlans[0].tci);
    let (mut vid, mut pcp) = (0, 0);
    if tci_mask == 0 {
        wild |= W_DL_VLAN | W_VLAN_PCP;
    } else if tci_mask & VLAN_CFI != 0 && tci & VLAN_CFI == 0 {
        vid = VID_NONE;
    } else {
        vid = tci & 0xfff;
        pcp = (tci >> 13) as u8;
        wild |= bit(tci_mask & 0xfff == 0, W_DL_VLAN) | bit(tci_mask & 0xe000 == 0, W_VLAN_PCP);
    }
    out.u32(wild).u16(f.in_port as u16).bytes(&f.dl_src.0).bytes(&f.dl_dst.0).u16(vid).u8(pcp).zeros(1);
    out.u16(f.dl_type).u8(f.nw_tos & 0xfc).u8(f.nw_proto).zeros(2);
    out.u32(f.nw_src).u32(f.nw_dst).u16(f.tp_src).u16(f.tp_dst);
}

/// Wildcard bits of 1.1 that differ from 1.0.
mod w11 {
    pub const IN_PORT: u32 = 1 << 0;
    pub const DL_VLAN: u32 = 1 << 1;
    pub const DL_VLAN_PCP: u32 = 1 << 2;
    pub const DL_TYPE: u32 = 1 << 3;
    pub const NW_TOS: u32 = 1 << 4;
    pub const NW_PROTO: u32 = 1 << 5;
    pub const TP_SRC: u32 = 1 << 6;
    pub const TP_DST: u32 = 1 << 7;
    pub const MPLS_LABEL: u32 = 1 << 8;
    pub const MPLS_TC: u32 = 1 << 9;
}

/// The bits of the type of service byte that a match has: the DSCP, at its position in the packet.
const DSCP: u8 = 0xfc;

/// VLAN number that matches packets with any tag, in 1.1.
const VID_ANY: u16 = 0xfffe;

/// Decodes the match of OpenFlow 1.1 (88 bytes).
fn pull_11(r: &mut Reader, m: &mut Match) -> Result<(), OfError> {
    let short = |_| OfError::BmcBadLen;
    let mut r = r.sub(88).map_err(short)?;
    if r.u16()? != 0 {
        return Err(OfError::BmcBadType);
    }
    if r.u16()? != 88 {
        return Err(OfError::BmcBadLen);
    }
    let in_port = r.u32()?;
    let wild = r.u32()?;
    let (src, src_mask, dst, dst_mask) = (r.mac()?, r.mac()?, r.mac()?, r.mac()?);
    let (vid, pcp) = (r.u16()?, r.u8()?);
    r.skip(1)?;
    let dl_type = r.u16()?;
    let (tos, proto) = (r.u8()?, r.u8()?);
    let (nw_src, nw_src_wild, nw_dst, nw_dst_wild) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
    let (tp_src, tp_dst) = (r.u16()?, r.u16()?);
    let (label, tc) = (r.u32()?, r.u8()?);
    r.skip(3)?;
    let (metadata, metadata_wild) = (r.u64()?, r.u64()?);

    let exact = |bit: u32| wild & bit == 0;
    if exact(w11::IN_PORT) {
        let port = OfPort::from_u32(in_port).ok_or(OfError::BmcBadValue)?;
        m.set(F::InPort, u128::from(port.0));
    }
    let mac_bits = |mask: flow::Mac| u128::from(!mask.to_u64() & 0xffff_ffff_ffff);
    m.set_masked(F::EthSrc, u128::from(src.to_u64()), mac_bits(src_mask));
    m.set_masked(F::EthDst, u128::from(dst.to_u64()), mac_bits(dst_mask));
    if exact(w11::DL_VLAN) {
        vlan_11(m, vid, exact(w11::DL_VLAN_PCP).then_some(pcp))?;
    }
    if exact(w11::DL_TYPE) {
        m.set(F::EthType, u128::from(dl_type));
    }
    let (f, k) = (&mut m.flow, &mut m.mask);
    // This version does not support IPv6, so fields of IPv6 packets are ignored (OpenFlow 1.1.0 §A.2.3).
    let (ip, arp) = (dl_type == 0x0800, dl_type == 0x0806 || dl_type == 0x8035);
    let typed = k.dl_type != 0;
    if typed && ip && exact(w11::NW_TOS) {
        if tos & !DSCP != 0 {
            return Err(OfError::BmcBadValue);
        }
        (f.nw_tos, k.nw_tos) = (tos, DSCP);
    }
    if typed && (ip || arp) {
        if exact(w11::NW_PROTO) {
            (f.nw_proto, k.nw_proto) = (proto, u8::MAX);
        }
        (f.nw_src, k.nw_src) = (nw_src & !nw_src_wild, !nw_src_wild);
        (f.nw_dst, k.nw_dst) = (nw_dst & !nw_dst_wild, !nw_dst_wild);
    }
    if typed && ip && k.nw_proto != 0 {
        ports_11(m, wild, (tp_src, tp_dst))?;
    }
    if typed && (dl_type == 0x8847 || dl_type == 0x8848) {
        if exact(w11::MPLS_LABEL) {
            m.set(F::MplsLabel, u128::from(label));
        }
        if exact(w11::MPLS_TC) {
            m.set(F::MplsTc, u128::from(tc));
        }
    }
    m.set_masked(F::Metadata, u128::from(metadata & !metadata_wild), u128::from(!metadata_wild));
    let mut headers = *m;
    headers.wildcard(F::InPort);
    headers.wildcard(F::Metadata);
    if !headers.is_catchall() {
        need_ethernet(m);
    }
    Ok(())
}

/// Decodes the match of VLAN id and priority. Packets with a tag of any VLAN can be matched by priority; packets without a tag have no
/// priority (OpenFlow 1.1.0 §A.2.3).
fn vlan_11(m: &mut Match, vid: u16, pcp: Option<u8>) -> Result<(), OfError> {
    match (vid, pcp) {
        (VID_NONE, _) => m.set(F::VlanTci, 0),
        (_, Some(8..)) => return Err(OfError::BmcBadValue),
        (VID_ANY, _) => {
            m.set_masked(F::VlanTci, u128::from(VLAN_CFI), u128::from(VLAN_CFI));
            vlan_from(m, None, pcp);
        }
        (0..=0xfff, _) => vlan_from(m, Some(vid), pcp),
        _ => return Err(OfError::BmcBadValue),
    }
    Ok(())
}

fn ports_11(m: &mut Match, wild: u32, ports: (u16, u16)) -> Result<(), OfError> {
    let (src, dst) = (wild & w11::TP_SRC == 0, wild & w11::TP_DST == 0);
    match m.flow.nw_proto {
        1 => {
            if src && ports.0 > 255 || dst && ports.1 > 255 {
                return Err(OfError::BmcBadField);
            }
        }
        6 | 17 | 132 => {}
        // Other protocols have no ports; the standard requires that the fields are ignored (OpenFlow 1.1.0 §A.2.3).
        _ => return Ok(()),
    }
    let (f, k) = (&mut m.flow, &mut m.mask);
    if src {
        (f.tp_src, k.tp_src) = (ports.0, u16::MAX);
    }
    if dst {
        (f.tp_dst, k.tp_dst) = (ports.1, u16::MAX);
    }
    Ok(())
}

fn put_11(out: &mut Vec<u8>, m: &Match) {
    let (f, k) = (&m.flow, &m.mask);
    let bit = |absent: bool, bit: u32| if absent { bit } else { 0 };
    let (tci, tci_mask) = (f.vlans[0].tci, k.vlans[0].tci);
    let mut wild = bit(k.in_port == 0, w11::IN_PORT)
        | bit(k.dl_type == 0, w11::DL_TYPE)
        | bit(k.nw_tos & DSCP == 0, w11::NW_TOS)
        | bit(k.nw_proto == 0, w11::NW_PROTO)
        | bit(k.tp_src == 0, w11::TP_SRC)
        | bit(k.tp_dst == 0, w11::TP_DST);
    let (label, label_mask) = m.get(F::MplsLabel);
    let (tc, tc_mask) = m.get(F::MplsTc);
    wild |= bit(label_mask == 0, w11::MPLS_LABEL) | bit(tc_mask == 0, w11::MPLS_TC);
    let (mut vid, mut pcp) = (0, 0);
    if tci_mask == 0 {
        wild |= w11::DL_VLAN | w11::DL_VLAN_PCP;
    } else if tci_mask & VLAN_CFI != 0 && tci & VLAN_CFI == 0 {
        vid = VID_NONE;
        wild |= w11::DL_VLAN_PCP;
    } else {
        vid = if tci_mask & 0xfff == 0 { VID_ANY } else { tci & 0xfff };
        pcp = (tci >> 13) as u8;
        wild |= bit(tci_mask & 0xe000 == 0, w11::DL_VLAN_PCP);
    }
    let wild_mac = |mask: flow::Mac| flow::Mac::from_u64(!mask.to_u64() & 0xffff_ffff_ffff).0;
    out.u16(0).u16(88).u32(OfPort(f.in_port as u16).to_u32()).u32(wild);
    out.bytes(&f.dl_src.0).bytes(&wild_mac(k.dl_src)).bytes(&f.dl_dst.0).bytes(&wild_mac(k.dl_dst));
    out.u16(vid).u8(pcp).zeros(1).u16(f.dl_type).u8(f.nw_tos & DSCP).u8(f.nw_proto);
    out.u32(f.nw_src).u32(!k.nw_src).u32(f.nw_dst).u32(!k.nw_dst).u16(f.tp_src).u16(f.tp_dst);
    out.u32(label as u32).u8(tc as u8).zeros(3).u64(f.metadata).u64(!k.metadata);
}

/// Decodes a match of this version into `m`, which matches all packets on entry.
pub(crate) fn pull(r: &mut Reader, version: Version, m: &mut Match) -> Result<(), OfError> {
    match version {
        Version::V10 => pull_10(r, m),
        // The form is determined by the type in the match, not by the version of the message.
        _ => match r.rest().first_chunk::<2>() {
            Some([0, 0]) => pull_11(r, m),
            Some([0, 1]) => nxm::pull_oxm(r, true, m),
            Some(_) => Err(OfError::BmcBadType),
            None => Err(OfError::BmcBadLen),
        },
    }
}

/// Encodes a match in the form of the version.
pub(crate) fn put(out: &mut Vec<u8>, m: &Match, version: Version) {
    match version {
        Version::V10 => put_10(out, m),
        Version::V11 => put_11(out, m),
        _ => nxm::put_oxm(out, m, version),
    }
}
