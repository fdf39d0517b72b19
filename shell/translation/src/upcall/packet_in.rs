//! A packet on its way to controllers: what the handler thread knows of it, and the message it becomes.

use flow::tlv::{FIELD_BYTES_MAX, TlvValue};
use flow::{FieldId, Flow, Match};
use openflow::packet_io::{PacketIn, PacketInReason};
use openflow::{Action, Continuation, OfError};
use units::PortNo;
use xlate::{BridgeId, Frozen, FrozenMetadata, Step};

/// A packet that a `controller` action sent, with the state that was frozen for it.
pub struct PacketInParts {
    /// From this bridge.
    pub bridge: BridgeId,
    /// To controllers of this id.
    pub controller_id: u16,
    /// The message, with the whole packet.
    pub message: PacketIn,
    /// What is left to do, if the packet is paused.
    pub continuation: Option<Continuation>,
}

/// The discriminants of `OFPR_*` as the datapath's cookie carries them.
fn reason(number: u8) -> PacketInReason {
    match number {
        0 => PacketInReason::NoMatch,
        2 => PacketInReason::InvalidTtl,
        3 => PacketInReason::ActionSet,
        4 => PacketInReason::Group,
        5 => PacketInReason::PacketOut,
        6 => PacketInReason::ExplicitMiss,
        7 => PacketInReason::ImplicitMiss,
        _ => PacketInReason::Action,
    }
}

/// What a message says of the packet's metadata: those fields that are not zero, and the in port always.
pub fn metadata(flow: &Flow) -> Match {
    let mut m = Match::CATCHALL;
    m.set(FieldId::InPort, u128::from(flow.in_port));
    let fields = [
        FieldId::PacketType,
        FieldId::Metadata,
        FieldId::TunId,
        FieldId::TunSrc,
        FieldId::TunDst,
        FieldId::TunIpv6Src,
        FieldId::TunIpv6Dst,
        FieldId::TunGbpId,
        FieldId::TunGbpFlags,
        FieldId::TunErspanVer,
        FieldId::TunErspanIdx,
        FieldId::TunErspanDir,
        FieldId::TunErspanHwid,
        FieldId::TunGtpuFlags,
        FieldId::TunGtpuMsgtype,
        FieldId::PktMark,
    ];
    let registers = (0..flow::flow::REGS).filter_map(FieldId::reg);
    for field in fields.into_iter().chain(registers) {
        let value = field.get(flow);
        if value != 0 {
            m.set(field, value);
        }
    }
    m.set_layout(flow.layout);
    for index in (0..flow::tlv::FIELDS).filter(|i| flow.has_tlv(*i)) {
        m.set_tlv(index, &flow.tlv(index), &TlvValue::ones(FIELD_BYTES_MAX));
    }
    connection(&mut m, flow);
    m
}

/// What is known of the packet's connection.
fn connection(m: &mut Match, flow: &Flow) {
    if flow.ct_state != 0 {
        m.set(FieldId::CtState, flow.ct_state.into());
        // By it the rest is understood.
        m.set(FieldId::EthType, flow.dl_type.into());
        let valid = flow.ct_nw_proto != 0 && FieldId::CtNwProto.prereqs_ok(flow);
        let addresses: &[FieldId] = match flow.dl_type {
            0x0800 if valid => &[FieldId::CtNwSrc, FieldId::CtNwDst],
            0x86dd if valid => &[FieldId::CtIpv6Src, FieldId::CtIpv6Dst],
            _ => &[],
        };
        let ends = [FieldId::CtNwProto, FieldId::CtTpSrc, FieldId::CtTpDst];
        let all = addresses.iter().chain(ends.iter().filter(|_| !addresses.is_empty()));
        all.for_each(|field| m.set(*field, field.get(flow)));
    }
    for field in [FieldId::CtZone, FieldId::CtMark, FieldId::CtLabel] {
        let value = field.get(flow);
        if value != 0 {
            m.set(field, value);
        }
    }
}

/// A frozen state in OpenFlow's words.
fn continuation(state: &Frozen, port: PortNo) -> Continuation {
    let mut actions: Vec<(u8, u64, Vec<Action>)> = Vec::new();
    for step in &state.steps {
        match step {
            Step::Unroll { table, cookie } => actions.push((*table, *cookie, Vec::new())),
            Step::Do(action) => match actions.last_mut() {
                Some((_, _, list)) => list.push(action.clone()),
                None => actions.push((0, 0, vec![action.clone()])),
            },
            // No controller sees such a packet.
            Step::Bond(_) => {}
        }
    }
    Continuation {
        bridge: u128::from(state.bridge.0),
        stack: state.stack.clone(),
        mirrors: state.mirrored,
        conntracked: state.conntracked,
        actions,
        action_set: state.action_set.clone(),
        datapath_port: port.0,
    }
}

/// What a controller gives back: the state to go on from. An error: its bridge is gone.
pub fn thawed(pin: &PacketIn, c: Continuation) -> Result<Frozen, OfError> {
    let bridge = u32::try_from(c.bridge).map_err(|_| OfError::NxrStale)?;
    let mut steps = Vec::new();
    for (table, cookie, list) in c.actions {
        steps.push(Step::Unroll { table, cookie });
        steps.extend(list.into_iter().map(Step::Do));
    }
    if steps.is_empty() {
        // Without any step the packet would be looked up anew; this one does nothing.
        steps.push(Step::Do(Action::Note(Vec::new())));
    }
    Ok(Frozen {
        bridge: BridgeId(bridge),
        table_id: 0,
        metadata: FrozenMetadata::of(&pin.metadata.flow),
        stack: c.stack,
        conntracked: c.conntracked,
        mirrored: c.mirrors,
        steps,
        action_set: c.action_set,
        userdata: Vec::new(),
    })
}

impl PacketInParts {
    /// From a `userspace` action: the packet's datapath flow, the frozen state, the rest of the cookie.
    pub fn new(
        packet: &[u8],
        flow: &Flow,
        state: &Frozen,
        (reason_number, rule_cookie, controller_id): (u8, u64, u16),
        paused: bool,
    ) -> PacketInParts {
        let mut openflow = *flow;
        if !state.conntracked {
            openflow.clear_conntrack();
        }
        state.metadata.restore(&mut openflow);
        let message = PacketIn {
            packet: packet.to_vec(),
            total_len: packet.len() as u32,
            reason: reason(reason_number),
            table: state.table_id,
            cookie: rule_cookie,
            metadata: metadata(&openflow),
            userdata: state.userdata.clone(),
            ..PacketIn::default()
        };
        let continuation = paused.then(|| continuation(state, PortNo(flow.in_port)));
        PacketInParts { bridge: state.bridge, controller_id, message, continuation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::Version;
    use units::OfPort;

    #[test]
    fn a_paused_packet_goes_on_where_it_was() {
        let flow = Flow { in_port: 3, metadata: 7, ..Flow::ZERO };
        let output = |n| Step::Do(Action::output(OfPort(n)));
        let state = Frozen {
            bridge: BridgeId(2),
            table_id: 0,
            metadata: FrozenMetadata::of(&flow),
            stack: vec![vec![0, 0, 0, 9]],
            conntracked: false,
            mirrored: 2,
            steps: vec![Step::Unroll { table: 1, cookie: 5 }, output(1), output(2)],
            action_set: vec![Action::output(OfPort(4))],
            userdata: Vec::new(),
        };
        let parts = PacketInParts::new(&[0; 14], &Flow { in_port: 8, ..flow }, &state, (1, 5, 0), true);
        let bytes = parts.continuation.unwrap().encode(Version::V13);
        let back = Continuation::decode(&bytes, Version::V13, false).unwrap();
        assert_eq!(back.datapath_port, 8);
        assert_eq!(thawed(&parts.message, back), Ok(state));
    }
}
