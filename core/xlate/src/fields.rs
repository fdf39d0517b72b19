//! Reads and writes fields during a translation, and adds to the mask the bits that it reads or writes.
//!
//! Written bits are matched because a commit emits no write if the packet already has the value: then the megaflow is
//! right only for packets with this value.

use crate::messages::{report, unfilled_trace};
use crate::trace::LineKind;
use crate::walk::Walk;
use flow::field::Prereq;
use flow::text::bytes_text;
use flow::tlv::TlvValue;
use flow::{FieldId, Flow, Subfield, VLAN_CFI};
use openflow::action::SetTlv;

/// Returns whether the packet has the field. Adds the fields on which this depends to the mask.
#[inline]
pub fn prereqs_ok(field: FieldId, flow: &Flow, mask: &mut Flow) -> bool {
    let prereq = field.info().prereq;
    prereq == Prereq::None || note_prereq(prereq, field, flow, mask)
}

fn note_prereq(prereq: Prereq, field: FieldId, flow: &Flow, mask: &mut Flow) -> bool {
    let ip = flow.is_ip();
    match prereq {
        Prereq::None | Prereq::Arp | Prereq::Ipv4 | Prereq::Ipv6 | Prereq::IpAny | Prereq::Mpls => {}
        Prereq::Ethernet => mask.packet_type = u32::MAX,
        Prereq::VlanVid => {
            mask.packet_type = u32::MAX;
            if flow.packet_type == 0 {
                mask.vlans[0].tci |= VLAN_CFI;
            }
        }
        Prereq::CtValid => mask.ct_state = u8::MAX,
        Prereq::Tcp | Prereq::Udp | Prereq::Sctp if ip => mask.nw_proto = u8::MAX,
        Prereq::Icmpv4 if flow.dl_type == 0x0800 => mask.nw_proto = u8::MAX,
        Prereq::Icmpv6 if flow.dl_type == 0x86dd => mask.nw_proto = u8::MAX,
        Prereq::Nd | Prereq::NdSolicit | Prereq::NdAdvert if flow.dl_type == 0x86dd => {
            mask.nw_proto = u8::MAX;
            if flow.nw_proto == 58 {
                mask.tp_dst = u16::MAX;
                if flow.tp_dst == 0 {
                    mask.tp_src = u16::MAX;
                }
            }
        }
        _ => {}
    }
    field.prereqs_ok(flow)
}

/// Adds the IP protocol to the mask if a network field is written: the datapath writes a network header only in a megaflow
/// that matches the protocol.
fn unwildcard_l3_prereqs(field: FieldId, flow: &Flow, mask: &mut Flow) {
    use FieldId::*;
    let l3 = matches!(field, Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | Ipv6Label | IpDscp | IpEcn | IpTtl);
    let arp = matches!(field, ArpOp | ArpSha | ArpTha | ArpSpa | ArpTpa);
    if flow.is_ip() && l3 || flow.dl_type == 0x0806 && arp {
        mask.nw_proto = u8::MAX;
    }
}

fn unwildcard_bits(field: FieldId, bits: u128, mask: &mut Flow) {
    let of_number = if field == FieldId::DlVlan { 0xfff } else { u128::MAX };
    field.add_to_mask(mask, bits & of_number);
    narrow(field, mask);
}

/// Clears the bits that a field has in a [`Flow`] but not in the packet's header. A match sets these bits in
/// the mask, a read or a write does not: traces print the two masks differently. In a flow, the type or code
/// of an ICMP packet has such bits only if an OpenFlow 1.0 action for ports has written it.
fn narrow(field: FieldId, flow: &mut Flow) {
    match field {
        FieldId::Ipv6Label => flow.ipv6_label &= 0xf_ffff,
        FieldId::Icmpv4Type | FieldId::Icmpv6Type => flow.tp_src &= 0xff,
        FieldId::Icmpv4Code | FieldId::Icmpv6Code => flow.tp_dst &= 0xff,
        _ => {}
    }
}

/// Adds to the mask the bits of a subfield that is read or written.
pub(crate) fn unwildcard_subfield(part: Subfield, mask: &mut Flow) {
    part.unwildcard(mask);
    narrow(part.field, mask);
}

impl Walk<'_> {
    /// Translates `set_field` and `load`.
    pub(crate) fn set_field(&mut self, field: FieldId, value: u128, bits: u128) {
        if !prereqs_ok(field, &self.out.flow, &mut self.out.mask) {
            report!(self, Warn, "unmet prerequisites for {}, set_field ignored", field.info().name);
            return;
        }
        unwildcard_l3_prereqs(field, &self.out.flow, &mut self.out.mask);
        if !field.is_tunnel() {
            unwildcard_bits(field, bits, &mut self.out.mask);
        }
        field.set_masked(&mut self.out.flow, value, bits);
        narrow(field, &mut self.out.flow);
    }

    /// Translates `set_field` of a field of tunnel options.
    pub(crate) fn set_tlv(&mut self, t: &SetTlv) {
        let Some(index) = t.field.field.tlv_index() else { return };
        let old = self.out.flow.tlv(index);
        let sized = |bytes: &[u8]| TlvValue::of_len(bytes, old.len());
        let (value, mask) = (sized(&t.value), t.mask.as_deref().map_or(TlvValue::ones(old.len()), sized));
        let bits = old.iter().zip(&*value).zip(&*mask);
        let new: Vec<u8> = bits.map(|((old, value), mask)| old & !mask | value & mask).collect();
        self.out.flow.set_tlv(index, &new);
    }

    /// Translates `delete_field`, which exists only for fields of tunnel options.
    pub(crate) fn delete_field(&mut self, field: FieldId) {
        if let Some(index) = field.tlv_index() {
            self.out.flow.delete_tlv(index);
            report!(self, Detail, "delete {}", field.info().name);
        }
    }

    /// Translates `move`. Both subfields have the same width.
    pub(crate) fn move_bits(&mut self, src: Subfield, dst: Subfield) {
        let (flow, mask) = (&self.out.flow, &mut self.out.mask);
        if prereqs_ok(dst.field, flow, mask) && prereqs_ok(src.field, flow, mask) {
            unwildcard_subfield(src, mask);
            if src.n_bits <= 128 {
                let value = src.get(flow);
                self.write(dst, value);
            } else {
                let value = src.bytes(flow);
                self.write_bytes(dst, &value);
            }
        }
        self.report_subfield(dst);
    }

    /// Writes a value without checking the prerequisites of the field.
    pub(crate) fn write(&mut self, dst: Subfield, value: u128) {
        if dst.n_bits > 128 {
            return self.write_bytes(dst, &value.to_be_bytes());
        }
        if !dst.field.is_tunnel() {
            unwildcard_subfield(dst, &mut self.out.mask);
        }
        dst.set(&mut self.out.flow, value);
        narrow(dst.field, &mut self.out.flow);
    }

    fn write_bytes(&mut self, dst: Subfield, value: &[u8]) {
        if !dst.field.is_tunnel() {
            unwildcard_subfield(dst, &mut self.out.mask);
        }
        dst.set_bytes(&mut self.out.flow, value);
        narrow(dst.field, &mut self.out.flow);
    }

    /// `push`
    pub(crate) fn stack_push(&mut self, src: Subfield) {
        unwildcard_subfield(src, &mut self.out.mask);
        self.pipeline.stack.push(src.bytes(&self.out.flow));
    }

    /// `pop`
    pub(crate) fn stack_pop(&mut self, dst: Subfield) {
        match self.pipeline.stack.pop() {
            Some(value) => {
                self.write_bytes(dst, &value);
                self.report_subfield(dst);
            }
            None => self.error(format_args!("stack underflow")),
        }
    }

    /// Reports the value of a subfield in the trace.
    pub(crate) fn report_subfield(&mut self, sf: Subfield) {
        let (Some(trace), Some(text)) = (unfilled_trace(&mut self.out.trace), self.input.trace_format) else {
            return;
        };
        let whole = sf.ofs == 0 && sf.n_bits >= sf.field.info().n_bits;
        let value = if sf.field.tlv_index().is_some() {
            bytes_text(&sf.bytes(&self.out.flow))
        } else if whole {
            text.field_value(sf.field, sf.field.get(&self.out.flow))
        } else {
            match sf.get(&self.out.flow) {
                0 => "0".to_owned(),
                v => format!("{v:#x}"),
            }
        };
        trace.report(LineKind::Detail, format!("{sf} is now {value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_has_the_bits_that_its_header_has() {
        let mut mask = Flow { tp_src: 0xffff, tp_dst: 0xffff, ..Flow::ZERO };
        unwildcard_subfield(Subfield::whole(FieldId::Icmpv4Type), &mut mask);
        unwildcard_subfield(Subfield::whole(FieldId::TcpDst), &mut mask);
        assert_eq!((mask.tp_src, mask.tp_dst), (0xff, 0xffff));
    }
}
