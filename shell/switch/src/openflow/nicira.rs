//! Nicira's extensions that set how a connection talks, and those that this switch has nothing behind yet.

use super::{Answer, Service};
use crate::packet_in::thawed;
use openflow::packet_io::PacketIn;
use openflow::session::{TlvTableMod, TlvTableReply};
use openflow::{Body, Continuation, OfError};
use units::PortNo;

/// Bytes of tunnel options in a packet's metadata, and fields for them.
const TLV_SPACE: u32 = 256;
const TLV_FIELDS: u16 = 64;

impl Service<'_> {
    pub(super) fn nicira(&mut self, body: &Body) -> Answer {
        match body {
            Body::SetFlowFormat(nxm) => self.session()?.nxm = *nxm,
            Body::FlowModTableId(on) => self.session()?.dialect.flow_mod_table_id = *on,
            Body::SetPacketInFormat(format) => self.session()?.packet_in_format = *format,
            Body::SetControllerId(id) => self.session()?.controller_id = *id,
            Body::Resume(pin) => return self.resume(pin),
            // Tunnels are not built: there is no room for their options.
            Body::TlvTableMod(TlvTableMod::Add(_)) => return Err(OfError::NxttmfcTableFull),
            Body::TlvTableMod(TlvTableMod::Delete(_)) => return Err(OfError::NxttmfcInvalidTlvDel),
            Body::TlvTableRequest => {
                let reply = TlvTableReply { max_space: TLV_SPACE, max_fields: TLV_FIELDS, maps: Vec::new() };
                return Ok(Some(Body::TlvTableReply(reply)));
            }
            Body::FlowMonitorCancel(id) => return self.cancel_monitor(*id),
            // Flow ages are always in the reply; no connection is tracked, so none is there to be forgotten.
            _ => {}
        }
        Ok(None)
    }

    /// A controller gives back a packet that `controller(pause)` sent to it.
    fn resume(&mut self, pin: &PacketIn) -> Answer {
        let session = self.session()?;
        let (version, debug) = (session.version(), session.dialect.debug_actions);
        let continuation = Continuation::decode(&pin.continuation, version, debug)?;
        let port = PortNo(continuation.datapath_port);
        self.host.resume(pin.packet.clone(), thawed(pin, continuation)?, port)?;
        Ok(None)
    }
}
