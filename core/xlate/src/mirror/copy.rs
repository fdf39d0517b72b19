//! Mirrors: sends copies of the packets that some ports of a bridge receive or send; the copies go to another port or VLAN.
//!
//! A mirror copies a packet once: `mirrored` is the set of mirrors that have copied the packet, and is cleared when an
//! action changes a header. A received packet is copied before the tables, a sent packet when it is sent.
//!
//! **Invariant**: the fields by which a mirror selects packets (VLAN, filter) are in the mask, whether or not the packet is
//! copied.

use super::{MIRRORS_MAX, Mirror, MirrorOutput};
use crate::normal::is_reserved;
use crate::outcome::StatsTarget;
use crate::snapshot::{Bundle, PortView};
use crate::walk::Walk;
use bridge::{BundleId, VlanTags};
use flow::flow::frag;
use flow::{FieldId, Flow, VLAN_CFI};
use openflow::action::Action;
use std::sync::Arc;

/// Direction of a packet through a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

impl<'a> Walk<'a> {
    /// Returns whether the port is the output of a mirror; then it is used for nothing else.
    pub(crate) fn is_mirror_port(&self, bundle: BundleId) -> bool {
        self.bridge.mirrors.iter().any(|m| m.out == MirrorOutput::Port(bundle))
    }

    /// Copies a received packet.
    pub(crate) fn mirror_arrival(&mut self) {
        if self.bridge.mirrors.is_empty() {
            return;
        }
        // Packets of a controller may have no ingress port, so no mirror selects them.
        if let Some(bundle) = self.ingress().and_then(|ingress| ingress.bundle) {
            self.mirror(bundle, Direction::In);
        }
    }

    /// Copies a packet that a port has sent.
    pub(crate) fn mirror_departure(&mut self, port: &PortView) {
        if self.bridge.mirrors.is_empty() {
            return;
        }
        let bridge = self.bridge;
        if let Some(bundle) = port.bundle.and_then(|id| bridge.bundle(id)) {
            self.mirror(bundle, Direction::Out);
        }
    }

    fn mirror(&mut self, at: &'a Bundle, direction: Direction) {
        let wire = VlanTags::of(&self.out.flow);
        if !self.admits_at(at, wire.vid()) {
            return;
        }
        let tags = at.vlan.input(wire);
        let bridge = self.bridge;
        for (i, mirror) in bridge.mirrors.iter().enumerate().take(MIRRORS_MAX) {
            let selected = if direction == Direction::In { &mirror.src_ports } else { &mirror.dst_ports };
            if self.mirrored & 1 << i != 0 || !selected.contains(&at.id) {
                continue;
            }
            if let Some(vlans) = &mirror.vlans {
                self.out.mask.vlans[0].tci |= VLAN_CFI | 0xfff;
                if !vlans.contains(tags.vid()) {
                    continue;
                }
            }
            if !mirror.selects(&self.out.flow, &mut self.out.mask) {
                continue;
            }
            // All mirrors with this destination are marked before the copy is sent, so that the output of the copy is not
            // mirrored to the same destination.
            for (j, other) in bridge.mirrors.iter().enumerate().take(MIRRORS_MAX) {
                self.mirrored |= u32::from(other.out == mirror.out) << j;
            }
            self.mirror_to(mirror, &tags);
            self.out.stats_targets.push(StatsTarget::Mirror(Arc::clone(&mirror.tally)));
        }
    }

    fn mirror_to(&mut self, mirror: &Mirror, tags: &VlanTags) {
        let bridge = self.bridge;
        self.output_mode.snaplen = mirror.snaplen;
        match mirror.out {
            MirrorOutput::Port(id) => {
                if let Some(bundle) = bridge.bundle(id) {
                    self.normal_output(bundle, tags);
                }
            }
            MirrorOutput::Vlan(vid) if tags.vid() != vid && !is_reserved(self.out.flow.dl_dst) => {
                let mut tags = *tags;
                tags.0[0].vid = vid;
                for bundle in bridge.bundles.values() {
                    if bundle.vlan.includes(&tags) && !self.is_mirror_port(bundle.id) {
                        self.normal_output(bundle, &tags);
                    }
                }
            }
            MirrorOutput::Vlan(_) => {}
        }
        self.output_mode.snaplen = 0;
    }

    /// Clears `mirrored` if an action changes a header of the packet, so that mirrors copy the changed packet as well.
    pub(crate) fn clear_mirrored_if_changed(&mut self, action: &Action) {
        if self.mirrored != 0 && changes_packet(action, &self.out.flow) {
            self.mirrored = 0;
        }
    }
}

/// Returns whether the field is metadata of the switch and not part of a header.
fn is_metadata(field: FieldId) -> bool {
    let of_tunnel =
        (FieldId::TunId..=FieldId::TunGtpuMsgtype).contains(&field) && field != FieldId::TunErspanDir;
    field < FieldId::EthSrc && !of_tunnel
}

/// Returns whether the action changes a header of the packet.
fn changes_packet(action: &Action, flow: &Flow) -> bool {
    let is_header = |field: FieldId| field.prereqs_ok(flow) && !is_metadata(field);
    match action {
        Action::StripVlan { .. }
        | Action::PushVlan(_)
        | Action::SetEthSrc(_)
        | Action::SetEthDst(_)
        | Action::PushMpls(_)
        | Action::PopMpls(_)
        | Action::SetMplsLabel(_)
        | Action::SetMplsTc(_)
        | Action::SetMplsTtl(_)
        | Action::DecMplsTtl
        | Action::DecNshTtl
        | Action::DecTtl { .. }
        | Action::SetVlanVid { .. }
        | Action::SetVlanPcp { .. }
        | Action::Encap(_)
        | Action::Decap { .. }
        | Action::Nat(_) => true,
        Action::SetField { field, .. } => is_header(*field),
        Action::RegLoad { dst, .. } => is_header(dst.field),
        Action::SetIpv4Src(_) | Action::SetIpv4Dst(_) => flow.dl_type == 0x0800,
        Action::SetIpDscp(_) | Action::SetIpEcn(_) | Action::SetIpTtl(_) => flow.is_ip(),
        Action::SetL4Src(_) | Action::SetL4Dst(_) => flow.is_ip() && flow.nw_frag & frag::LATER == 0,
        _ => false,
    }
}
