//! `encap`, `decap` and related actions: headers around the packet, and the packet type.
//!
//! The packet type tells which header the packet begins with: 0 is Ethernet, `1 << 16 | ethertype` is the header with that
//! ethertype (OpenFlow 1.5.1 §7.2.3.11). `encap` writes the new outer header to the flow, later actions of the list may
//! change it, and the next commit emits the datapath's action. The payload of a header other than Ethernet is unknown
//! until the datapath has removed the header, so after `decap` of such a header the packet is recirculated.

use crate::commit_outer::Pending;
use crate::header::{is_mpls, keep_metadata, mpls_count, pop_mpls, push_mpls};
use crate::messages::report;
use crate::outcome::Failure;
use crate::packet_type::{ETHERNET, ETHERTYPE_NSH, NSH, layer_3};
use crate::trace::LineKind;
use crate::walk::Walk;
use bridge::tunnel::PacketTypes;
use dpif::SlowReason;
use flow::flow::MPLS_MAX;
use flow::nsh::{CONTEXT_MAX, MD_TYPE_1, MD_TYPE_2, next};
use flow::{Flow, Mac, Nsh, VLAN_CFI};
use openflow::action::{Encap, EncapProperty, PACKET_TYPE_NEXT};
use std::fmt::Arguments;
use units::OfPort;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The ethertype of an Ethernet frame as payload ("transparent Ethernet bridging").
const TEB: u16 = 0x6558;

impl Walk<'_> {
    /// Turns a packet from a layer 3 port into an Ethernet packet before it enters the tables.
    pub(crate) fn accept_layer_3_packet(&mut self) {
        let port = self.bridge.port(OfPort(self.committed.base.in_port as u16));
        let layer_3_port = port.is_some_and(|p| p.packet_types() == PacketTypes::Layer3);
        if layer_3_port && self.out.flow.packet_type != ETHERNET && self.current.table_id == 0 {
            self.out.flow.packet_type = ETHERNET;
            (self.out.flow.dl_src, self.out.flow.dl_dst) = Default::default();
            self.mark_all_words_changed();
            self.committed.pending = Pending::Encap(Vec::new());
        }
    }

    pub(crate) fn encap(&mut self, encap: &Encap) {
        self.commit();
        let kind = encap.packet_type as u16;
        self.committed.pending = match encap.packet_type {
            ETHERNET => self.encap_ethernet(),
            NSH => self.encap_nsh(&encap.properties),
            _ => self.encap_mpls(kind),
        }
        .map_or(Pending::Nothing, Pending::Encap);
    }

    fn encap_ethernet(&mut self) -> Option<Vec<u8>> {
        if self.out.flow.packet_type >> 16 != 1 {
            self.unsupported(format_args!(
                "Dropping packet as encap(ethernet) is not supported for packet type ethernet."
            ));
            return None;
        }
        let f = &mut self.out.flow;
        f.dl_type = f.packet_type as u16;
        f.packet_type = ETHERNET;
        (f.dl_src, f.dl_dst) = Default::default();
        Some(Vec::new())
    }

    fn encap_nsh(&mut self, properties: &[EncapProperty]) -> Option<Vec<u8>> {
        let packet_type = self.out.flow.packet_type;
        let np = match (packet_type >> 16, packet_type as u16) {
            (0, 0) => next::ETHERNET,
            (1, IPV4) => next::IPV4,
            (1, IPV6) => next::IPV6,
            (1, ETHERTYPE_NSH) => next::NSH,
            (ns, kind) => {
                self.unsupported(format_args!(
                    "Dropping packet as encap(nsh) is not supported for packet type ({ns},{kind:#x})"
                ));
                return None;
            }
        };
        let (md_type, md2) = service_header(properties);
        let nsh = Nsh { md_type, np, ..Nsh::NEW };
        let new = Flow { packet_type: NSH, dl_type: ETHERTYPE_NSH, nsh, ..Flow::ZERO };
        self.out.flow = Flow { packet_type: NSH, ..keep_metadata(new, &self.out.flow) };
        Some(md2)
    }

    fn encap_mpls(&mut self, ethertype: u16) -> Option<Vec<u8>> {
        let n = mpls_count(&self.out.flow, Some(&mut self.out.mask));
        if n >= MPLS_MAX {
            // The trace line shows the addresses of the inner frame.
            let about = Flow { packet_type: self.out.initial.packet_type, ..self.committed.base };
            self.too_many_labels(about, format_args!(
                "dropping packet on which an encap MPLS action can't be performed as it would have more MPLS LSEs \
                 than the {MPLS_MAX} supported."
            ));
            return None;
        }
        // The labels behind the Ethernet header become payload, so they are cleared. As in Open vSwitch, they still count
        // towards the maximum, and multicast labels (0x8848) are not cleared, so the new label copies the TTL of the first.
        if self.out.flow.packet_type == ETHERNET && self.out.flow.dl_type == 0x8847 {
            for f in [&mut self.out.flow, &mut self.committed.base, &mut self.out.mask] {
                f.mpls_lse = Default::default();
            }
        }
        // `push_mpls` copies TOS and TTL of the flow to the first label; `encap` must not copy them.
        (self.out.flow.nw_tos, self.out.flow.nw_ttl) = (0, 0);
        push_mpls(&mut self.out.flow, n, ethertype, Some(&mut self.out.mask).filter(|_| n > 0), true);
        self.out.flow.packet_type = layer_3(ethertype);
        (self.out.flow.dl_src, self.out.flow.dl_dst) = Default::default();
        self.slow_unless(self.snapshot.capabilities.add_mpls);
        Some(Vec::new())
    }

    /// Selects the slow path unless the datapath is `capable` of an action.
    pub(crate) fn slow_unless(&mut self, capable: bool) {
        if !capable {
            self.out.slow |= SlowReason::ACTION;
        }
    }

    /// Translates `decap`. Returns true if the packet must be recirculated before its fields are known.
    pub(crate) fn decap(&mut self, new_type: u32) -> bool {
        self.commit();
        match (self.out.flow.packet_type >> 16, self.out.flow.packet_type as u16) {
            (0, 0) => self.decap_ethernet(),
            (1, ETHERTYPE_NSH) => return self.decap_nsh(),
            (1, kind) if is_mpls(kind) => return self.decap_mpls(new_type),
            (ns, kind) => self.unsupported(format_args!(
                "Dropping packet as the decap() does not support packet type ({ns},{kind:#x})"
            )),
        }
        false
    }

    fn decap_ethernet(&mut self) {
        if self.out.flow.vlans[0].tci & VLAN_CFI != 0 {
            return self
                .unsupported(format_args!("Dropping packet, cannot decap Ethernet if VLAN is present."));
        }
        self.out.flow.packet_type = layer_3(self.out.flow.dl_type);
        (self.out.flow.dl_src, self.out.flow.dl_dst) = (Mac::default(), Mac::default());
        self.out.mask.dl_type = u16::MAX;
    }

    fn decap_nsh(&mut self) -> bool {
        self.out.flow.packet_type = match self.out.flow.nsh.np {
            next::ETHERNET => ETHERNET,
            next::IPV4 => layer_3(IPV4),
            next::IPV6 => layer_3(IPV6),
            next::NSH => NSH,
            np => {
                self.unsupported(format_args!("Dropping packet as NSH next protocol {np} is not supported"));
                return false;
            }
        };
        self.out.mask.nsh.np = u8::MAX;
        self.committed.pending = Pending::Decap;
        true
    }

    fn decap_mpls(&mut self, new_type: u32) -> bool {
        let n = mpls_count(&self.out.flow, Some(&mut self.out.mask));
        let below = self.out.flow.packet_type;
        let new_type = match new_type {
            // A label that is not the last is followed by another label. The last label may be followed by anything.
            PACKET_TYPE_NEXT if n > 1 => below,
            PACKET_TYPE_NEXT => {
                self.unsupported(format_args!(
                    "Dropping packet as the decap() of the last MPLS label does not say what follows it"
                ));
                return false;
            }
            given => given,
        };
        let ethertype = if new_type == ETHERNET { TEB } else { new_type as u16 };
        self.out.flow.packet_type = new_type;
        if pop_mpls(&mut self.out.flow, n, ethertype, Some(&mut self.out.mask)) {
            self.slow_unless(self.snapshot.capabilities.add_mpls);
            self.committed.pending = Pending::Decap;
            return n == 1;
        }
        self.out.flow.packet_type = below;
        if n >= MPLS_MAX {
            self.too_many_labels(self.committed.base, format_args!(
                "dropping packet on which an MPLS decap can't be performed as it has more MPLS LSEs than the \
                 {MPLS_MAX} supported."
            ));
            self.out.actions.clear();
        }
        false
    }

    /// Translates `dec_nsh_ttl`. Returns true if the action ends the list, because the TTL is exceeded or there is no NSH.
    pub(crate) fn dec_nsh_ttl(&mut self) -> bool {
        if self.out.flow.packet_type == NSH || self.out.flow.dl_type == ETHERTYPE_NSH {
            self.out.mask.nsh.ttl = u8::MAX;
            if self.out.flow.nsh.ttl > 1 {
                self.out.flow.nsh.ttl -= 1;
                return false;
            }
            self.invalid_ttl(0);
        }
        report!(self, Warn, "NSH decrement TTL exception");
        true
    }

    fn unsupported(&mut self, text: Arguments<'_>) {
        self.debug_as(LineKind::Action, text);
        self.out.error = Some(Failure::UnsupportedPacketType);
    }
}

/// The metadata type of an `encap(nsh)`, and the encoded context headers (only metadata type 2 has them).
fn service_header(properties: &[EncapProperty]) -> (u8, Vec<u8>) {
    let (mut md_type, mut md2) = (MD_TYPE_1, Vec::new());
    for property in properties {
        match property {
            EncapProperty::NshMdType(kind) => md_type = *kind,
            EncapProperty::NshTlv { class, kind, data } => {
                md2.extend_from_slice(&class.to_be_bytes());
                md2.extend_from_slice(&[*kind, data.len() as u8]);
                md2.extend_from_slice(data);
                md2.resize(md2.len().next_multiple_of(4), 0);
            }
        }
    }
    if md_type != MD_TYPE_2 || md2.len() > CONTEXT_MAX {
        md2.clear();
    }
    (md_type & 0xf, md2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_headers_are_filled_up_to_words() {
        let tlv = |n: usize| EncapProperty::NshTlv { class: 0x1000, kind: 10, data: vec![0xab; n] };
        let two = EncapProperty::NshMdType(2);
        assert_eq!(service_header(&[]), (1, vec![]));
        assert_eq!(service_header(&[tlv(4)]), (1, vec![]), "type 1 has none");
        let (md_type, md2) = service_header(&[two.clone(), tlv(5), tlv(0)]);
        assert_eq!(md_type, 2);
        assert_eq!(md2, *b"\x10\0\x0a\x05\xab\xab\xab\xab\xab\0\0\0\x10\0\x0a\0");
        assert_eq!(service_header(&[two, tlv(200), tlv(200)]), (2, vec![]), "more than a header holds");
    }
}
