//! Packet-outs: packets of controllers.

use crate::request_context::{RequestContext, RequestResult};
use flow::{Flow, Match};
use ofproto::check_consistency;
use openflow::flow_mod::NO_BUFFER;
use openflow::packet_io::PacketOut;
use openflow::{OfError, Version};
use units::OfPort;

impl RequestContext<'_> {
    pub(crate) fn packet_out(&mut self, po: &PacketOut, version: Version) -> RequestResult {
        check_packet_out(po, version)?;
        self.bridge.ofproto.check_actions(&po.actions)?;
        self.outside.packet_out(po, None);
        Ok(None)
    }
}

/// Checks a packet-out as far as possible without the tables.
pub(crate) fn check_packet_out(po: &PacketOut, version: Version) -> Result<(), OfError> {
    if (OfPort::MAX..OfPort::UNSET).contains(&po.in_port()) {
        return Err(OfError::BrcBadPort);
    }
    if po.buffer_id != NO_BUFFER {
        return Err(OfError::BrcBufferUnknown);
    }
    let mut flow = po.metadata.flow;
    flow::extract::extract(&po.packet, flow::flow::VLANS_MAX, &mut flow);
    let exact = Match { flow, mask: Flow::ONES };
    check_consistency(&po.actions, &exact, 0, version)
}
