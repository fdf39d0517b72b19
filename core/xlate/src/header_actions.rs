//! Actions that change fields, metadata and headers of the packet, except encapsulation.

use crate::actions::AfterAction;
use crate::header;
use crate::messages::report;
use crate::outcome::Failure;
use crate::walk::Walk;
use flow::text::hex;
use flow::{FieldId, Flow, Mac, VLAN_CFI};
use openflow::action::Action;

impl Walk<'_> {
    /// Translates actions on fields and metadata.
    pub(crate) fn header_action(&mut self, action: &Action) -> AfterAction {
        match action {
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::SetTlv(t) => self.set_tlv(t),
            Action::RegLoad { dst, value } if dst.field.tlv_index().is_some() => self.write(*dst, *value),
            Action::RegLoad { dst, value } => {
                self.set_field(dst.field, value << dst.ofs, dst.field_mask());
            }
            Action::RegMove { src, dst } => self.move_bits(*src, *dst),
            Action::StackPush(src) => self.stack_push(*src),
            Action::StackPop(dst) => self.stack_pop(*dst),
            Action::SetVlanVid { vid, push } => self.set_tci(0xfff, *vid, *push),
            Action::SetVlanPcp { pcp, push } => self.set_tci(0xe000, u16::from(*pcp) << 13, *push),
            Action::StripVlan { .. } => header::pop_vlan(&mut self.out.flow, &mut self.out.mask),
            Action::PushVlan(tpid) => header::push_vlan(&mut self.out.flow, &mut self.out.mask, *tpid),
            Action::SetEthSrc(mac) => {
                self.out.mask.dl_src = Mac::BROADCAST;
                self.out.flow.dl_src = *mac;
            }
            Action::SetEthDst(mac) => {
                self.out.mask.dl_dst = Mac::BROADCAST;
                self.out.flow.dl_dst = *mac;
            }
            Action::SetIpv4Src(a) => self.set_l3(FieldId::Ipv4Src, u32::from(*a).into(), u128::MAX, 0x0800),
            Action::SetIpv4Dst(a) => self.set_l3(FieldId::Ipv4Dst, u32::from(*a).into(), u128::MAX, 0x0800),
            Action::SetIpDscp(v) => self.set_tos(*v, 0xfc),
            Action::SetIpEcn(v) => self.set_tos(*v, 0x03),
            Action::SetIpTtl(v) => self.set_l3(FieldId::IpTtl, u128::from(*v), u128::MAX, 0),
            Action::SetL4Src(port) => self.set_l4(FieldId::TcpSrc, *port),
            Action::SetL4Dst(port) => self.set_l4(FieldId::TcpDst, *port),
            Action::PushMpls(ethertype) => self.push_mpls(*ethertype),
            Action::PopMpls(ethertype) => self.pop_mpls(*ethertype),
            Action::SetMplsLabel(v) => self.set_lse(0xffff_f000, v << 12),
            Action::SetMplsTc(v) => self.set_lse(0xe00, u32::from(*v) << 9),
            Action::SetMplsTtl(v) => self.set_lse(0xff, u32::from(*v)),
            Action::SetTunnel { id, .. } => self.out.flow.tunnel.tun_id = *id,
            Action::SetQueue(queue) => self.set_queue(*queue),
            Action::PopQueue => self.pop_queue(),
            Action::WriteMetadata { value, mask } => {
                self.out.flow.metadata = self.out.flow.metadata & !mask | value & mask;
            }
            _ => return self.other_action(action),
        }
        AfterAction::Next
    }

    /// Writes bits of the outer VLAN tag. `push`: adds a tag if the packet has none.
    fn set_tci(&mut self, bits: u16, value: u16, push: bool) {
        self.out.mask.vlans[0].tci |= bits | VLAN_CFI;
        let tag = &mut self.out.flow.vlans[0];
        if tag.tci & VLAN_CFI != 0 || push {
            if tag.tpid == 0 {
                tag.tpid = 0x8100;
            }
            tag.tci = tag.tci & !bits | value & bits | VLAN_CFI;
        }
    }

    /// Writes a field of the IP header if the packet has this `dl_type`; 0: IPv4 or IPv6.
    fn set_l3(&mut self, field: FieldId, value: u128, bits: u128, dl_type: u16) {
        if self.out.flow.dl_type == dl_type || dl_type == 0 && self.out.flow.is_ip() {
            let all = field.mask_of(&self.out.mask) | bits & field.ones();
            field.set_mask(&mut self.out.mask, all);
            self.out.mask.nw_proto = u8::MAX;
            field.set_masked(&mut self.out.flow, value, bits);
        }
    }

    fn set_tos(&mut self, value: u8, bits: u8) {
        if self.out.flow.is_ip() {
            self.out.mask.nw_proto = u8::MAX;
            self.out.mask.nw_tos |= bits;
            self.out.flow.nw_tos = self.out.flow.nw_tos & !bits | value & bits;
        }
    }

    fn set_l4(&mut self, field: FieldId, port: u16) {
        if self.out.flow.is_ip() && self.out.flow.nw_frag & flow::flow::frag::LATER == 0 {
            self.out.mask.nw_proto = u8::MAX;
            field.unwildcard(&mut self.out.mask);
            field.set(&mut self.out.flow, u128::from(port));
        }
    }

    /// Translates `dec_ttl`. Returns true if the action ends the list, because the TTL is exceeded.
    pub(crate) fn dec_ttl(&mut self, controllers: &[u16]) -> bool {
        if !self.out.flow.is_ip() {
            return false;
        }
        if self.out.flow.nw_ttl > 1 {
            self.out.flow.nw_ttl -= 1;
            return false;
        }
        for id in controllers {
            self.invalid_ttl(*id);
        }
        let version = if self.out.flow.dl_type == 0x0800 { 4 } else { 6 };
        report!(self, Warn, "IPv{version} decrement TTL exception");
        true
    }

    fn push_mpls(&mut self, ethertype: u16) {
        let n = header::mpls_count(&self.out.flow, Some(&mut self.out.mask));
        if n == 0 {
            self.commit();
        } else if n >= flow::flow::MPLS_MAX {
            return self.too_many_labels(self.committed.base, format_args!(
                "dropping packet on which an MPLS push action can't be performed as it would have more MPLS LSEs \
                 than the {} supported.",
                flow::flow::MPLS_MAX
            ));
        }
        header::push_mpls(&mut self.out.flow, n, ethertype, Some(&mut self.out.mask), true);
    }

    fn pop_mpls(&mut self, ethertype: u16) {
        let n = header::mpls_count(&self.out.flow, Some(&mut self.out.mask));
        if header::pop_mpls(&mut self.out.flow, n, ethertype, Some(&mut self.out.mask)) {
            if !header::is_mpls(ethertype) {
                self.packet_state.was_mpls = true;
            }
        } else if n >= flow::flow::MPLS_MAX {
            self.too_many_labels(self.committed.base, format_args!(
                "dropping packet on which an MPLS pop action can't be performed as it has more MPLS LSEs than the {} \
                 supported.",
                flow::flow::MPLS_MAX
            ));
            self.out.actions.clear();
        }
    }

    /// Fails because a flow cannot hold the labels. `about`: the flow that the error message shows.
    pub(crate) fn too_many_labels(&mut self, about: Flow, text: std::fmt::Arguments<'_>) {
        if self.received.packet.is_some() {
            self.error_about(about, text);
        }
        self.out.error = Some(Failure::TooManyMplsLabels);
    }

    /// Writes bits of the outermost label stack entry, if there is one.
    fn set_lse(&mut self, bits: u32, value: u32) {
        if header::is_mpls(self.out.flow.dl_type) {
            self.out.mask.mpls_lse[0] |= bits;
            self.out.flow.mpls_lse[0] = self.out.flow.mpls_lse[0] & !bits | value & bits;
        }
    }

    /// Translates `dec_mpls_ttl`. Returns true if the action ends the list, because the TTL is exceeded or there is no label.
    pub(crate) fn dec_mpls_ttl(&mut self) -> bool {
        if header::is_mpls(self.out.flow.dl_type) {
            self.out.mask.mpls_lse[0] |= 0xff;
            if self.out.flow.mpls_lse[0] & 0xff > 1 {
                self.out.flow.mpls_lse[0] -= 1;
                return false;
            }
            self.invalid_ttl(0);
        }
        report!(self, Warn, "MPLS decrement TTL exception");
        true
    }

    fn pop_queue(&mut self) {
        self.out.mask.skb_priority = u32::MAX;
        let original = self.out.initial.skb_priority;
        if self.out.flow.skb_priority != original {
            self.out.flow.skb_priority = original;
            report!(self, Detail, "queue = {}", hex(original.into()));
        }
    }
}
