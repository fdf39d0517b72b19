//! Checks the order of a flow's actions, and that the actions are valid for the match.
//!
//! `verify` needs only the list of actions and is part of decoding. `consistency` needs the match and the switch's
//! limits.

use crate::action::{Action, Ct, LearnSource, LearnTarget};
use crate::error::OfError;
use crate::flow_mod::TABLE_ALL;
use crate::version::Version;
use flow::{FieldId as F, Match, Subfield, VLAN_CFI};
use units::OfPort;

/// Position of the instruction to which an action belongs, in the order of execution.
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

/// Checks that instructions are in order and occur at most once, that `conjunction` is combined with notes only, and that `nat`
/// occurs in `ct` only.
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

/// Checks a list that must not contain instructions: of a packet-out, a bucket, or `clone`.
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
    /// Port numbers from this number on are out of range.
    pub max_port: OfPort,
    /// The table of the flow; [`TABLE_ALL`]: not known.
    pub table: u8,
    /// Number of tables.
    pub n_tables: u8,
}

/// Checks that the actions can be applied to packets of this match. With OpenFlow 1.0, standard actions that
/// cannot be applied are accepted and have no effect.
pub fn consistency(
    actions: &[Action],
    matching: &Match,
    limits: Limits,
    version: Version,
) -> Result<(), OfError> {
    let mut state = *matching;
    let cx = CheckContext { limits, strict: version != Version::V10 };
    actions.iter().try_for_each(|a| check_action(a, &mut state, cx))
}

#[derive(Clone, Copy)]
struct CheckContext {
    limits: Limits,
    /// Whether to refuse actions that cannot be applied to packets of the match.
    strict: bool,
}

fn check_port(port: OfPort, cx: CheckContext) -> Result<(), OfError> {
    let reserved = (OfPort::IN_PORT..=OfPort::LOCAL).contains(&port);
    if reserved || port < cx.limits.max_port { Ok(()) } else { Err(OfError::BacBadOutPort) }
}

fn require(fits: bool, cx: CheckContext) -> Result<(), OfError> {
    if fits || !cx.strict { Ok(()) } else { Err(OfError::BacMatchInconsistent) }
}

fn check_prerequisites(sf: Subfield, m: &Match) -> Result<(), OfError> {
    if sf.field.prereqs_ok_match(m) { Ok(()) } else { Err(OfError::BacMatchInconsistent) }
}

fn check_writable(sf: Subfield, m: &Match) -> Result<(), OfError> {
    check_prerequisites(sf, m)?;
    if sf.field.info().writable { Ok(()) } else { Err(OfError::BacBadSetArgument) }
}

fn is_ip(m: &Match) -> bool {
    matches!(m.flow.network_type(), 0x0800 | 0x86dd) && m.mask.dl_type | m.mask.packet_type as u16 != 0
}

fn is_mpls(m: &Match) -> bool {
    matches!(m.flow.network_type(), 0x8847 | 0x8848)
}

fn has_tag(m: &Match) -> bool {
    m.flow.vlans[0].tci & VLAN_CFI != 0
}

/// Whether packets of the match have the header that the action changes or removes; `None` for other actions.
fn has_header(a: &Action, m: &Match) -> Option<bool> {
    Some(match a {
        Action::SetVlanVid { push, .. } | Action::SetVlanPcp { push, .. } => *push || has_tag(m),
        Action::StripVlan { .. } => has_tag(m),
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

/// If the action adds or removes headers, changes the match so that it describes the packets after the action.
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
            if has_tag(m) {
                return Err(OfError::BacBadTag);
            }
            set_tag(m);
        }
        Action::PopMpls(ethertype) => m.set(F::EthType, u128::from(*ethertype)),
        Action::PushMpls(ethertype) => {
            m.set(F::EthType, u128::from(*ethertype));
            // The protocol after a label is not known, not even after the label is popped.
            m.flow.nw_proto = 0;
        }
        Action::Encap(encap) => encapsulated(encap.packet_type, m),
        Action::Decap { .. } => decapsulated(m),
        _ => {}
    }
    Ok(())
}

/// Checks an action, and changes the match so that it describes the packets after the action.
fn check_action(a: &Action, m: &mut Match, cx: CheckContext) -> Result<(), OfError> {
    if let Some(has_header) = has_header(a, m) {
        require(has_header, cx)?;
    }
    change_headers(a, m)?;
    match a {
        Action::Output { port, .. } => check_port(*port, cx),
        Action::OutputTrunc { port, .. } => match *port {
            OfPort::FLOOD | OfPort::ALL | OfPort::NORMAL => Err(OfError::BacBadOutPort),
            OfPort::TABLE | OfPort::CONTROLLER | OfPort::NONE => Err(OfError::BacBadOutPort),
            port => check_port(port, cx),
        },
        Action::Enqueue { port, .. } => match *port {
            OfPort::IN_PORT | OfPort::LOCAL => Ok(()),
            p if p < cx.limits.max_port => Ok(()),
            _ => Err(OfError::BacBadOutPort),
        },
        Action::OutputReg { src, .. } => check_prerequisites(*src, m),
        Action::Bundle(b) => {
            b.dst.map_or(Ok(()), |dst| check_writable(dst, m))?;
            b.members.iter().try_for_each(|&p| if p == OfPort::NONE { Ok(()) } else { check_port(p, cx) })
        }
        Action::SetField { field, value, .. } => {
            check_writable(Subfield::whole(*field), m)?;
            after_write(*field, *value, m);
            Ok(())
        }
        Action::RegLoad { dst, value } => {
            check_writable(*dst, m)?;
            after_write(dst.field, value << dst.ofs, m);
            Ok(())
        }
        Action::RegMove { src, dst } => check_prerequisites(*src, m).and_then(|()| check_writable(*dst, m)),
        Action::StackPush(sf) => check_prerequisites(*sf, m),
        Action::StackPop(sf) => check_writable(*sf, m),
        Action::Multipath(mp) => check_writable(mp.dst, m),
        Action::CheckPktLarger { dst, .. } => check_writable(*dst, m),
        // Any port is allowed, because the port is only used for matching. An example is CONTROLLER for packets of a controller.
        Action::Resubmit { with_ct: true, .. } => check_prerequisites(Subfield::whole(F::CtNwProto), m),
        Action::Learn(l) => learn(l, m),
        Action::Ct(ct) => conntrack(ct, m, cx),
        Action::Clone(list) => {
            let mut inner = *m;
            list.iter().try_for_each(|a| check_action(a, &mut inner, cx))
        }
        // It is not known here on which packet the action set will run, so an action that cannot be applied to packets of this match
        // may be valid. Set-field is checked nevertheless.
        Action::WriteActions(list) => {
            let (mut inner, cx) = (*m, CheckContext { strict: false, ..cx });
            list.iter().try_for_each(|a| check_action(a, &mut inner, cx))
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

/// Changes the match so that it describes packets with the new outer header.
fn encapsulated(packet_type: u32, m: &mut Match) {
    m.set(F::PacketType, u128::from(packet_type));
    if packet_type != 0 {
        m.set(F::EthType, u128::from(packet_type as u16));
    }
    if !matches!(m.flow.network_type(), 0x0800 | 0x86dd) {
        m.flow.nw_proto = 0;
    }
}

/// Changes the match so that it describes packets without their outer header. The header after an Ethernet header is known; the header
/// after any other header is unknown.
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

/// Changes the match after a write to a field: writing the complete TCI adds or removes a tag.
fn after_write(field: F, value: u128, m: &mut Match) {
    if field == F::VlanTci {
        m.set(F::VlanTci, value);
    }
}

fn learn(l: &crate::action::Learn, m: &Match) -> Result<(), OfError> {
    let mut learned = Match::CATCHALL;
    for spec in &l.specs {
        match &spec.src {
            LearnSource::Field(sf) => check_prerequisites(*sf, m)?,
            LearnSource::Value(_) => {}
        }
        match (&spec.dst, &spec.src) {
            (LearnTarget::Match(sf), src) => {
                check_prerequisites(*sf, &learned)?;
                if let LearnSource::Value(v) = src {
                    let old = learned.get(sf.field);
                    let mask = old.1 | sf.field_mask();
                    learned.set_masked(sf.field, old.0 | (v << sf.ofs) & sf.field_mask(), mask);
                }
            }
            (LearnTarget::Load(sf), _) => check_writable(*sf, &learned)?,
            (LearnTarget::Output, _) => {}
        }
    }
    l.result_dst.map_or(Ok(()), |sf| check_writable(sf, m))
}

fn conntrack(ct: &Ct, m: &mut Match, cx: CheckContext) -> Result<(), OfError> {
    if !is_ip(m) {
        return Err(OfError::BacMatchInconsistent);
    }
    if let crate::action::NumberOrField::Field(sf) = ct.zone {
        check_prerequisites(sf, m)?;
    }
    let mut inner = *m;
    ct.actions.iter().try_for_each(|a| match a {
        Action::SetField { field: F::CtMark | F::CtLabel, .. } | Action::Nat(_) => Ok(()),
        Action::RegLoad { .. } | Action::RegMove { .. } => Ok(()),
        a => check_action(a, &mut inner, cx),
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
