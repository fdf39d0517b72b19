//! The table that maps tunnel options to fields (`NXT_TLV_TABLE_MOD`), and messages that use such fields.
//!
//! Before a message is executed, its fields are converted according to the table. A message with a field that is not mapped is refused.
//! Packet-outs are not refused: as in Open vSwitch, metadata fields that are not mapped are ignored.

use crate::bundle_messages::BundleMessages;
use crate::request_context::{RequestContext, RequestResult};
use flow::tlv::{ALL_FIELDS_BYTES_MAX, FIELDS};
use ofconn::OpenBundle;
use ofproto::tlv::uses_option_fields;
use openflow::session::{TlvMap, TlvTableMod, TlvTableReply};
use openflow::tlv::adjust_match;
use openflow::{Body, Message, OfError};

impl RequestContext<'_> {
    pub(crate) fn change_tlv_table(&mut self, change: &TlvTableMod) -> RequestResult {
        let fields_in_open_bundles = self.fields_in_open_bundles();
        self.bridge.ofproto.change_tlv(change, fields_in_open_bundles)?;
        self.outside.mark_all_changed();
        Ok(None)
    }

    /// Bit mask of the fields that flow mods in open bundles of all connections use. These flow mods depend on the current mapping.
    fn fields_in_open_bundles(&mut self) -> u64 {
        let bundles = self.bridge.conns.sessions().flat_map(|(_, session)| session.bundles.values());
        let fields = |bundle: &OpenBundle| bundle.messages.downcast_ref().map_or(0, BundleMessages::fields);
        bundles.map(fields).fold(0, |all, fields| all | fields)
    }

    pub(crate) fn tlv_table(&self) -> TlvTableReply {
        let map = |(index, m): (usize, flow::tlv::Mapping)| TlvMap {
            class: m.class,
            kind: m.kind,
            len: m.len,
            index: index as u16,
        };
        TlvTableReply {
            max_space: ALL_FIELDS_BYTES_MAX as u32,
            max_fields: FIELDS as u16,
            maps: self.bridge.ofproto.tlv().iter().map(map).collect(),
        }
    }

    /// The body with its fields converted according to the table; `None`: the message uses no field of the table.
    pub(crate) fn with_tlv_layout(&self, message: &Message) -> Result<Option<Body>, OfError> {
        let ofproto = &self.bridge.ofproto;
        let table = ofproto.tlv();
        Ok(match &message.body {
            Body::FlowMod(fm) if uses_option_fields(&fm.matching, &fm.actions) => {
                Some(Body::FlowMod(Box::new(ofproto.with_tlv_layout(fm)?)))
            }
            Body::FlowStatsRequest(r) if uses_option_fields(&r.matching, &[]) => {
                let matching = adjust_match(&r.matching, table)?;
                Some(Body::FlowStatsRequest(Box::new(openflow::stats::FlowStatsRequest {
                    matching,
                    ..*r.clone()
                })))
            }
            Body::AggregateRequest(r) if uses_option_fields(&r.matching, &[]) => {
                let matching = adjust_match(&r.matching, table)?;
                Some(Body::AggregateRequest(Box::new(openflow::stats::FlowStatsRequest {
                    matching,
                    ..*r.clone()
                })))
            }
            Body::FlowMonitorRequest(all) if all.iter().any(|r| uses_option_fields(&r.matching, &[])) => {
                let mut all = all.clone();
                for r in &mut all {
                    r.matching = adjust_match(&r.matching, table)?;
                }
                Some(Body::FlowMonitorRequest(all))
            }
            Body::PacketOut(po) if uses_option_fields(&po.metadata, &[]) => {
                let metadata = po.metadata.with_tlv_layout(table.layout());
                Some(Body::PacketOut(Box::new(openflow::packet_io::PacketOut { metadata, ..*po.clone() })))
            }
            Body::Resume(pin) if uses_option_fields(&pin.metadata, &[]) => {
                let metadata = pin.metadata.with_tlv_layout(table.layout());
                Some(Body::Resume(Box::new(openflow::packet_io::PacketIn { metadata, ..*pin.clone() })))
            }
            _ => None,
        })
    }
}
