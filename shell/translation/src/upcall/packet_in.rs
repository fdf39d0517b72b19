//! Packet-in messages: the thread that handles the upcall builds them, the main thread sends them.

use flow::tlv::{FIELD_BYTES_MAX, TlvValue};
use flow::{FieldId, Flow, Match};
use openflow::packet_io::{PacketIn, PacketInReason};
use openflow::{Action, Continuation, OfError};
use units::PortNo;
use xlate::{BridgeId, Frozen, FrozenMetadata, FrozenStep};

/// A packet of a `controller` action, with the state that was frozen for it.
pub struct PacketInParts {
    /// The bridge that sends the message.
    pub bridge: BridgeId,
    /// The id of the controllers that receive the message.
    pub controller_id: u16,
    /// The message, with all bytes of the packet.
    pub message: PacketIn,
    /// The state from which the controller can resume the packet, if the packet is paused.
    pub continuation: Option<Continuation>,
}

/// The reason (`OFPR_*`) for the number in the cookie of the `userspace` action.
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

/// The metadata of a packet-in: the in port, and all metadata fields that are not zero.
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
    add_connection(&mut m, flow);
    m
}

/// Adds the connection tracking fields of the packet.
fn add_connection(m: &mut Match, flow: &Flow) {
    if flow.ct_state != 0 {
        m.set(FieldId::CtState, flow.ct_state.into());
        // The Ethernet type is the prerequisite of the fields below.
        m.set(FieldId::EthType, flow.dl_type.into());
        let valid = flow.ct_nw_proto != 0 && FieldId::CtNwProto.prereqs_ok(flow);
        let addresses: &[FieldId] = match flow.dl_type {
            0x0800 if valid => &[FieldId::CtNwSrc, FieldId::CtNwDst],
            0x86dd if valid => &[FieldId::CtIpv6Src, FieldId::CtIpv6Dst],
            _ => &[],
        };
        let tuple = [FieldId::CtNwProto, FieldId::CtTpSrc, FieldId::CtTpDst];
        let all = addresses.iter().chain(tuple.iter().filter(|_| !addresses.is_empty()));
        all.for_each(|field| m.set(*field, field.get(flow)));
    }
    for field in [FieldId::CtZone, FieldId::CtMark, FieldId::CtLabel] {
        let value = field.get(flow);
        if value != 0 {
            m.set(field, value);
        }
    }
}

/// Converts a frozen state to an OpenFlow continuation.
fn continuation(state: &Frozen, port: PortNo) -> Continuation {
    let mut actions: Vec<(u8, u64, Vec<Action>)> = Vec::new();
    for step in &state.steps {
        match step {
            FrozenStep::UnrollXlate { table, cookie } => actions.push((*table, *cookie, Vec::new())),
            FrozenStep::Do(action) => match actions.last_mut() {
                Some((_, _, list)) => list.push(action.clone()),
                None => actions.push((0, 0, vec![action.clone()])),
            },
            // A state with this step only outputs to a bond and never sends a packet-in.
            FrozenStep::Bond(_) => {}
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

/// The frozen state of a continuation that a controller sent back. Fails if the bridge number in it is invalid.
pub fn thawed(pin: &PacketIn, c: Continuation) -> Result<Frozen, OfError> {
    let bridge = u32::try_from(c.bridge).map_err(|_| OfError::NxrStale)?;
    let mut steps = Vec::new();
    for (table, cookie, list) in c.actions {
        steps.push(FrozenStep::UnrollXlate { table, cookie });
        steps.extend(list.into_iter().map(FrozenStep::Do));
    }
    if steps.is_empty() {
        // A state without steps would begin with a look-up, so a step that does nothing is added.
        steps.push(FrozenStep::Do(Action::Note(Vec::new())));
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
    /// Builds the message for a `userspace` action. `flow`: the packet's datapath flow; `state`: the frozen state that the
    /// cookie names; the tuple: the other values of the cookie.
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
        let output = |n| FrozenStep::Do(Action::output(OfPort(n)));
        let state = Frozen {
            bridge: BridgeId(2),
            table_id: 0,
            metadata: FrozenMetadata::of(&flow),
            stack: vec![vec![0, 0, 0, 9]],
            conntracked: false,
            mirrored: 2,
            steps: vec![FrozenStep::UnrollXlate { table: 1, cookie: 5 }, output(1), output(2)],
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
