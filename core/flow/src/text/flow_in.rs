//! Parses a flow without wildcards, as `ofproto/trace` and `netdev-dummy/receive` accept it.

use super::{NameMap, TextError, next_key_value, protocol};
use crate::field::FieldId;
use crate::flow::Flow;
use crate::tlv::Layout;
use units::OfPort;

/// Parses a flow; returns the flow, and a mask of the fields in the text. Without `in_port`, the in port is
/// [`OfPort::NONE`]. Fields of tunnel options that are not in the layout are ignored.
pub fn parse_exact_flow(text: &str, names: &dyn NameMap, layout: &Layout) -> Result<(Flow, Flow), TextError> {
    let mut flow = Flow { layout: *layout, ..Flow::ZERO };
    let mut mask = flow;
    let error = |what: String| Err(TextError::new(format!("{text}: {what}")));
    let mut rest = text;
    while let Some((key, value)) = next_key_value(&mut rest) {
        if let Some(p) = protocol(key) {
            if flow.dl_type != 0 {
                return error("Ethernet type set multiple times".to_owned());
            }
            flow.dl_type = p.dl_type;
            mask.dl_type = u16::MAX;
            if p.nw_proto != 0 {
                if flow.nw_proto != 0 {
                    return error("network protocol set multiple times".to_owned());
                }
                flow.nw_proto = p.nw_proto;
                mask.nw_proto = u8::MAX;
            }
            continue;
        }
        let Some(field) = FieldId::from_name(key) else { return error(format!("unknown field {key}")) };
        if !field.prereqs_ok(&flow) {
            return error(format!("prerequisites not met for setting {key}"));
        }
        let is_set = match field.tlv_index() {
            Some(index) => flow.has_tlv(index),
            None => field.get(&flow) != 0,
        };
        if is_set {
            return error(format!("field {key} set multiple times"));
        }
        if let Some(index) = field.tlv_index() {
            match field.parse_tlv(value) {
                Ok((v, None)) => flow.set_tlv(index, &v),
                Ok((_, Some(_))) => {
                    return error(format!("bad value for {key} ({value}: wildcards not allowed here)"));
                }
                Err(e) => return error(format!("bad value for {key} ({e})")),
            }
            field.unwildcard(&mut mask);
            continue;
        }
        match field.parse_exact(value, names) {
            Ok(v) => field.set(&mut flow, v),
            Err(e) => return error(format!("bad value for {key} ({e})")),
        }
        field.unwildcard(&mut mask);
    }
    if flow.in_port == 0 {
        flow.in_port = u32::from(OfPort::NONE.0);
    }
    Ok((flow, mask))
}
