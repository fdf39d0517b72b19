//! Checks the order of a flow's actions, and that they fit its match.
//!
//! `verify` needs only the list and is part of decoding; `consistency` needs the match and the switch's
//! limits.

use crate::action::{Action, Ct, LearnSource, LearnTarget};
use crate::error::OfError;
use crate::flow_mod::TABLE_ALL;
use crate::version::Version;
use flow::{FieldId as F, Match, Subfield, VLAN_CFI};
use units::OfPort;

/// Position of an action's instruction in the order of execution.
fn rank(a: &Action, version: Version) -> u8 {
    match a {
        Action::Meter(_) if version < Version::V15 => 0,
        Action::ClearActions => 2,
        Action::WriteActions(_) => 3,
        Action::WriteMetadata { .. } => 4,
        Action::GotoTable(_) => 5,
        _ => 1,
    }
}

/// Checks that instructions are in order and occur once, that conjunction stands with notes only, and `nat`
/// in `ct` only.
pub fn verify(actions: &[Action], version: Version) -> Result<(), OfError> {
    if actions.iter().any(|a| matches!(a, Action::Conjunction { .. })) {
        let alone = actions.iter().all(|a| matches!(a, Action::Conjunction { .. } | Action::Note(_)));
        return if alone { Ok(()) } else { Err(OfError::NxbacBadConjunction) };
    }
    let mut last = None;
    for a in actions {
        verify_nested(a, None)?;
        let now = rank(a, version);
        let wrong = last.is_some_and(|last| if last == 1 { now < last } else { now <= last });
        if wrong {
            return Err(OfError::BacUnsupportedOrder);
        }
        last = Some(now);
    }
    Ok(())
}

/// Checks a list without instructions: of packet-outs, buckets, `clone`.
pub fn verify_actions(actions: &[Action], version: Version) -> Result<(), OfError> {
    verify(actions, version)?;
    match actions
        .iter()
        .any(|a| a.is_instruction() && !matches!(a, Action::Meter(_) if version >= Version::V15))
    {
        true => Err(OfError::BicUnsupInst),
        false => Ok(()),
    }
}

fn verify_nested(a: &Action, outer: Option<&Action>) -> Result<(), OfError> {
    match (a, outer) {
        (Action::Nat(_), Some(Action::Ct(_))) => {}
        (Action::Nat(_), _) => return Err(OfError::BacBadArgument),
        (Action::SetField { field: F::CtMark | F::CtLabel, .. }, Some(Action::Ct(_))) => {}
        (Action::RegLoad { dst, .. }, Some(Action::Ct(_))) if matches!(dst.field, F::CtMark | F::CtLabel) => {
        }
        (Action::RegMove { dst, .. }, Some(Action::Ct(_))) if matches!(dst.field, F::CtMark | F::CtLabel) => {
        }
        (_, Some(Action::Ct(_))) => return Err(OfError::BacBadArgument),
        (Action::SetField { field: F::CtMark | F::CtLabel, .. }, _) => {
            return Err(OfError::BacBadSetArgument);
        }
        (Action::RegLoad { dst, .. } | Action::RegMove { dst, .. }, _)
            if matches!(dst.field, F::CtMark | F::CtLabel) =>
        {
            return Err(OfError::BacBadSetArgument);
        }
        _ => {}
    }
    a.nested().iter().try_for_each(|inner| verify_nested(inner, Some(a)))
}

/// Limits of a switch that restrict flows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Port numbers from this on are out of range.
    pub max_port: OfPort,
    /// The flow's table; [`TABLE_ALL`]: not known.
    pub table: u8,
    /// Number of tables.
    pub n_tables: u8,
}

/// Checks that the actions are possible for packets of this match. With OpenFlow 1.0, standard actions that
/// do not fit the match are accepted, and have no effect.
pub fn consistency(
    actions: &[Action],
    matching: &Match,
    limits: Limits,
    version: Version,
) -> Result<(), OfError> {
    let mut state = *matching;
    let cx = Cx { limits, strict: version != Version::V10 };
    actions.iter().try_for_each(|a| one(a, &mut state, cx))
}

#[derive(Clone, Copy)]
struct Cx {
    limits: Limits,
    /// Refuse actions that do not fit the match.
    strict: bool,
}

fn ports(port: OfPort, cx: Cx) -> Result<(), OfError> {
    let reserved = (OfPort::IN_PORT..=OfPort::LOCAL).contains(&port);
    if reserved || port < cx.limits.max_port { Ok(()) } else { Err(OfError::BacBadOutPort) }
}

fn needs(fits: bool, cx: Cx) -> Result<(), OfError> {
    if fits || !cx.strict { Ok(()) } else { Err(OfError::BacMatchInconsistent) }
}

fn fits(sf: Subfield, m: &Match) -> Result<(), OfError> {
    if sf.field.prereqs_ok_match(m) { Ok(()) } else { Err(OfError::BacMatchInconsistent) }
}

fn written(sf: Subfield, m: &Match) -> Result<(), OfError> {
    fits(sf, m)?;
    if sf.field.info().writable { Ok(()) } else { Err(OfError::BacBadSetArgument) }
}

fn is_ip(m: &Match) -> bool {
    matches!(m.flow.network_type(), 0x0800 | 0x86dd) && m.mask.dl_type | m.mask.packet_type as u16 != 0
}

fn is_mpls(m: &Match) -> bool {
    matches!(m.flow.network_type(), 0x8847 | 0x8848)
}

fn tagged(m: &Match) -> bool {
    m.flow.vlans[0].tci & VLAN_CFI != 0
}

/// Whether packets of the match have the header that the action changes or removes; `None` for other actions.
fn has_header(a: &Action, m: &Match) -> Option<bool> {
    Some(match a {
        Action::SetVlanVid { push, .. } | Action::SetVlanPcp { push, .. } => *push || tagged(m),
        Action::StripVlan { .. } => tagged(m),
        Action::SetIpv4Src(_) | Action::SetIpv4Dst(_) => m.flow.network_type() == 0x0800,
        Action::SetIpDscp(_) | Action::SetIpEcn(_) | Action::SetIpTtl(_) | Action::DecTtl { .. } => is_ip(m),
        Action::SetL4Src(_) | Action::SetL4Dst(_) => {
            let has_ports = m.flow.nw_frag & flow::flow::frag::LATER == 0;
            is_ip(m) && has_ports && matches!(m.flow.nw_proto, 6 | 17 | 132)
        }
        Action::FinTimeout { .. } => is_ip(m) && m.flow.nw_proto == 6,
        Action::SetMplsLabel(_) | Action::SetMplsTc(_) | Action::SetMplsTtl(_) => is_mpls(m),
        Action::DecMplsTtl | Action::PopMpls(_) => is_mpls(m),
        Action::DecNshTtl => m.flow.network_type() == 0x894f || m.flow.dl_type == 0x894f,
        _ => return None,
    })
}

/// Changes the match to that of packets after the action, as far as it adds or removes headers.
fn change_headers(a: &Action, m: &mut Match) -> Result<(), OfError> {
    match a {
        Action::SetVlanVid { .. } | Action::SetVlanPcp { .. } => set_tag(m),
        Action::StripVlan { .. } => {
            m.set(F::VlanTci, 0);
            m.flow.vlans.rotate_left(1);
            m.mask.vlans.rotate_left(1);
        }
        Action::PushVlan(_) => {
            m.flow.vlans.rotate_right(1);
            m.mask.vlans.rotate_right(1);
            if tagged(m) {
                return Err(OfError::BacBadTag);
            }
            set_tag(m);
        }
        Action::PopMpls(ethertype) => m.set(F::EthType, u128::from(*ethertype)),
        Action::PushMpls(ethertype) => {
            m.set(F::EthType, u128::from(*ethertype));
            // What follows a label is not known, not even after it is popped.
            m.flow.nw_proto = 0;
        }
        Action::Encap(encap) => encapsulated(encap.packet_type, m),
        Action::Decap { .. } => decapsulated(m),
        _ => {}
    }
    Ok(())
}

/// Checks an action, and changes the match to that of packets after it.
fn one(a: &Action, m: &mut Match, cx: Cx) -> Result<(), OfError> {
    if let Some(there) = has_header(a, m) {
        needs(there, cx)?;
    }
    change_headers(a, m)?;
    match a {
        Action::Output { port, .. } => ports(*port, cx),
        Action::OutputTrunc { port, .. } => match *port {
            OfPort::FLOOD | OfPort::ALL | OfPort::NORMAL => Err(OfError::BacBadOutPort),
            OfPort::TABLE | OfPort::CONTROLLER | OfPort::NONE => Err(OfError::BacBadOutPort),
            port => ports(port, cx),
        },
        Action::Enqueue { port, .. } => match *port {
            OfPort::IN_PORT | OfPort::LOCAL => Ok(()),
            p if p < cx.limits.max_port => Ok(()),
            _ => Err(OfError::BacBadOutPort),
        },
        Action::OutputReg { src, .. } => fits(*src, m),
        Action::Bundle(b) => {
            b.dst.map_or(Ok(()), |dst| written(dst, m))?;
            b.members.iter().try_for_each(|&p| if p == OfPort::NONE { Ok(()) } else { ports(p, cx) })
        }
        Action::SetField { field, value, .. } => {
            written(Subfield::whole(*field), m)?;
            after_write(*field, *value, m);
            Ok(())
        }
        Action::RegLoad { dst, value } => {
            written(*dst, m)?;
            after_write(dst.field, value << dst.ofs, m);
            Ok(())
        }
        Action::RegMove { src, dst } => fits(*src, m).and_then(|()| written(*dst, m)),
        Action::StackPush(sf) => fits(*sf, m),
        Action::StackPop(sf) => written(*sf, m),
        Action::Multipath(mp) => written(mp.dst, m),
        Action::CheckPktLarger { dst, .. } => written(*dst, m),
        // Any port: it is only a value to match, such as CONTROLLER for packets that a controller made.
        Action::Resubmit { with_ct: true, .. } => fits(Subfield::whole(F::CtNwProto), m),
        Action::Learn(l) => learn(l, m),
        Action::Ct(ct) => conntrack(ct, m, cx),
        Action::Clone(list) => {
            let mut inner = *m;
            list.iter().try_for_each(|a| one(a, &mut inner, cx))
        }
        // When the set runs and on which packet is not known here, so an action that does not fit this match
        // may fit then. Set-field is checked all the same.
        Action::WriteActions(list) => {
            let (mut inner, cx) = (*m, Cx { strict: false, ..cx });
            list.iter().try_for_each(|a| one(a, &mut inner, cx))
        }
        Action::GotoTable(table) => {
            let backwards = cx.limits.table != TABLE_ALL && cx.limits.table >= *table;
            let beyond = cx.limits.n_tables != TABLE_ALL && *table >= cx.limits.n_tables;
            if backwards || beyond { Err(OfError::BicBadTableId) } else { Ok(()) }
        }
        Action::Meter(id) if *id == 0 || *id > crate::meter::METER_MAX => Err(OfError::MmfcInvalidMeter),
        Action::Group(id) if *id > crate::group::GROUP_MAX => Err(OfError::BacBadOutGroup),
        _ => Ok(()),
    }
}

/// Following actions see the new outer header.
fn encapsulated(packet_type: u32, m: &mut Match) {
    m.set(F::PacketType, u128::from(packet_type));
    if packet_type != 0 {
        m.set(F::EthType, u128::from(packet_type as u16));
    }
    if !matches!(m.flow.network_type(), 0x0800 | 0x86dd) {
        m.flow.nw_proto = 0;
    }
}

/// Following actions see what followed the Ethernet header; what follows other headers is unknown.
fn decapsulated(m: &mut Match) {
    const UNKNOWN: u128 = 0xffff_ffff;
    if m.flow.packet_type == 0 {
        m.set(F::PacketType, 1 << 16 | u128::from(m.flow.dl_type));
    } else {
        m.set(F::PacketType, UNKNOWN);
        m.set(F::EthType, 0xffff);
    }
}

fn set_tag(m: &mut Match) {
    m.mask.vlans[0].tci |= VLAN_CFI;
    m.flow.vlans[0].tci |= VLAN_CFI;
}

/// Writing the whole TCI adds or removes a tag.
fn after_write(field: F, value: u128, m: &mut Match) {
    if field == F::VlanTci {
        m.set(F::VlanTci, value);
    }
}

fn learn(l: &crate::action::Learn, m: &Match) -> Result<(), OfError> {
    let mut learned = Match::CATCHALL;
    for spec in &l.specs {
        match &spec.src {
            LearnSource::Field(sf) => fits(*sf, m)?,
            LearnSource::Value(_) => {}
        }
        match (&spec.dst, &spec.src) {
            (LearnTarget::Match(sf), src) => {
                fits(*sf, &learned)?;
                if let LearnSource::Value(v) = src {
                    let old = learned.get(sf.field);
                    let mask = old.1 | sf.field_mask();
                    learned.set_masked(sf.field, old.0 | (v << sf.ofs) & sf.field_mask(), mask);
                }
            }
            (LearnTarget::Load(sf), _) => written(*sf, &learned)?,
            (LearnTarget::Output, _) => {}
        }
    }
    l.result_dst.map_or(Ok(()), |sf| written(sf, m))
}

fn conntrack(ct: &Ct, m: &mut Match, cx: Cx) -> Result<(), OfError> {
    if !is_ip(m) {
        return Err(OfError::BacMatchInconsistent);
    }
    if let crate::action::NumberOrField::Field(sf) = ct.zone {
        fits(sf, m)?;
    }
    let mut inner = *m;
    ct.actions.iter().try_for_each(|a| match a {
        Action::SetField { field: F::CtMark | F::CtLabel, .. } | Action::Nat(_) => Ok(()),
        Action::RegLoad { .. } | Action::RegMove { .. } => Ok(()),
        a => one(a, &mut inner, cx),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(actions: &[Action]) -> Result<(), OfError> {
        let mut ip = Match::default();
        ip.set(F::EthType, 0x0800);
        let limits = Limits { max_port: OfPort::MAX, table: 0, n_tables: 254 };
        consistency(actions, &ip, limits, Version::V15)
    }

    #[test]
    fn a_resubmit_may_name_any_port_but_connections_must_be_tracked() {
        let resubmit = |port, with_ct| Action::Resubmit { port: Some(port), table: Some(40), with_ct };
        for port in [OfPort::CONTROLLER, OfPort::NONE, OfPort(1)] {
            assert_eq!(checked(&[resubmit(port, false)]), Ok(()));
        }
        assert_eq!(checked(&[resubmit(OfPort(1), true)]), Err(OfError::BacMatchInconsistent));
    }

    #[test]
    fn set_field_in_an_action_set_must_fit_the_match() {
        let field = |field| Action::SetField { field, value: 0, mask: u128::MAX };
        let set = |a: Action| checked(&[Action::WriteActions(vec![a])]);
        assert_eq!(set(Action::SetL4Dst(1)), Ok(()), "the packet at that time is not known yet");
        assert_eq!(checked(&[Action::SetL4Dst(1)]), Err(OfError::BacMatchInconsistent));
        assert_eq!(set(field(F::IpDscp)), Ok(()));
        assert_eq!(set(field(F::ArpOp)), Err(OfError::BacMatchInconsistent));
        let tag = [Action::PushVlan(0x8100), field(F::VlanVid)];
        assert_eq!(checked(&[Action::WriteActions(tag.to_vec())]), Ok(()));
    }
}
