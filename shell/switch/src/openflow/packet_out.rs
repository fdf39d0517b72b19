//! Packet-outs.

use super::flow_mod::check_actions;
use super::{Answer, Service};
use flow::{Flow, Match};
use openflow::flow_mod::NO_BUFFER;
use openflow::packet_io::PacketOut;
use openflow::{Action, OfError, Version};
use units::OfPort;

impl Service<'_> {
    pub(super) fn packet_out(&mut self, po: &PacketOut, version: Version) -> Answer {
        check_packet_out(po, version)?;
        let ofproto = &self.bridge.ofproto;
        check_targets(&po.actions, &|id| ofproto.group(id).is_some())?;
        self.host.packet_out(po, None);
        Ok(None)
    }
}

/// What the actions name exists.
pub(super) fn check_targets(actions: &[Action], has_group: &dyn Fn(u32) -> bool) -> Result<(), OfError> {
    actions.iter().try_for_each(|a| match a {
        Action::Group(id) if !has_group(*id) => Err(OfError::BacBadOutGroup),
        Action::Meter(_) => Err(OfError::MmfcInvalidMeter),
        nested => check_targets(nested.nested(), has_group),
    })
}

/// What can be said of a packet-out without looking at the tables.
pub(super) fn check_packet_out(po: &PacketOut, version: Version) -> Result<(), OfError> {
    if (OfPort::MAX..OfPort::UNSET).contains(&po.in_port()) {
        return Err(OfError::BrcBadPort);
    }
    if po.buffer_id != NO_BUFFER {
        return Err(OfError::BrcBufferUnknown);
    }
    let mut flow = po.metadata.flow;
    flow::extract::extract(&po.packet, flow::flow::VLANS_MAX, &mut flow);
    let exact = Match { flow, mask: Flow::ONES };
    check_actions(&po.actions, &exact, 0, version)
}
