//! A packet on its way to controllers: what the handler thread knows of it, and the message it becomes.

use flow::{FieldId, Flow, Match};
use openflow::packet_io::{PacketIn, PacketInReason};
use xlate::{BridgeId, Frozen};

/// A packet that a `controller` action sent, with the state that was frozen for it.
pub struct PacketInParts {
    /// From this bridge.
    pub bridge: BridgeId,
    /// To controllers of this id.
    pub controller_id: u16,
    /// The message, with the whole packet.
    pub message: PacketIn,
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
        FieldId::Metadata,
        FieldId::TunId,
        FieldId::TunSrc,
        FieldId::TunDst,
        FieldId::PktMark,
        FieldId::CtMark,
    ];
    let registers = (0..flow::flow::REGS).filter_map(FieldId::reg);
    for field in fields.into_iter().chain(registers) {
        let value = field.get(flow);
        if value != 0 {
            m.set(field, value);
        }
    }
    for (field, value) in
        [(FieldId::CtState, u128::from(flow.ct_state)), (FieldId::CtZone, u128::from(flow.ct_zone))]
    {
        if value != 0 {
            m.set(field, value);
        }
    }
    m
}

impl PacketInParts {
    /// From a `userspace` action: the packet's datapath flow, the frozen state, the rest of the cookie.
    pub fn new(
        packet: &[u8],
        flow: &Flow,
        state: &Frozen,
        (reason_number, rule_cookie, controller_id): (u8, u64, u16),
    ) -> PacketInParts {
        let mut openflow = *flow;
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
        PacketInParts { bridge: state.bridge, controller_id, message }
    }
}
