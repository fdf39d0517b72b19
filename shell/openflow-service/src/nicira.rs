//! Nicira's extensions: settings of a connection, resumed packets, tunnel options, removal of tracked connections.

use crate::request_context::{RequestContext, RequestResult};
use crate::switch_access::ResumedPacket;
use openflow::packet_io::PacketIn;
use openflow::{Body, Continuation};
use translation::upcall::packet_in::thawed;
use units::PortNo;

impl RequestContext<'_> {
    pub(crate) fn nicira(&mut self, body: &Body) -> RequestResult {
        match body {
            Body::SetFlowFormat(nxm) => self.session()?.nxm = *nxm,
            Body::FlowModTableId(on) => self.session()?.dialect.flow_mod_table_id = *on,
            Body::SetPacketInFormat(format) => self.session()?.packet_in_format = *format,
            Body::SetControllerId(id) => self.session()?.controller_id = *id,
            Body::Resume(pin) => return self.resume(pin),
            Body::TlvTableMod(change) => return self.change_tlv_table(change),
            Body::TlvTableRequest => return Ok(Some(Body::TlvTableReply(self.tlv_table()))),
            Body::FlowMonitorCancel(id) => return self.cancel_monitor(*id),
            // Further requests of the connection wait until the removal is done.
            Body::CtFlush(wanted) => {
                if let Some(number) = self.outside.flush_connections(wanted) {
                    self.bridge.unfinished.flushes.insert(self.conn, number);
                }
            }
            // `FlowAge` requests flow ages in replies, which always contain them.
            _ => {}
        }
        Ok(None)
    }

    /// Continues a packet that `controller(pause)` sent to a controller and that the controller returned.
    fn resume(&mut self, pin: &PacketIn) -> RequestResult {
        let session = self.session()?;
        let (version, debug) = (session.version(), session.dialect.debug_actions);
        let continuation = Continuation::decode(&pin.continuation, version, debug)?;
        let port = PortNo(continuation.datapath_port);
        let (packet, metadata) = (pin.packet.clone(), pin.metadata.flow);
        self.outside.resume(ResumedPacket { packet, metadata, state: thawed(pin, continuation)?, port })?;
        Ok(None)
    }
}
