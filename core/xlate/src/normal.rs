//! NORMAL: forwards like a learning switch (IEEE 802.1D §7.7 and 7.8, 802.1Q §8).
//!
//! **Invariant**: the fields on which forwarding depends are in the mask: both Ethernet addresses, the VLAN, and the
//! fields that tell whether an ARP packet is gratuitous.

use crate::messages::report;
use crate::outcome::{PacketEffect, StatsTarget};
use crate::ports::OutputOptions;
use crate::snapshot::Bundle;
use crate::walk::Walk;
use bridge::tunnel::PacketTypes;
use bridge::{BundleId, MacObservation, PriorityTags, Refusal, VlanConfig, VlanTags};
use flow::{Flow, Mac, VLAN_CFI};
use units::OfPort;

/// Where a packet entered the bridge, for NORMAL.
pub(crate) struct Ingress<'a> {
    /// The ingress bundle; `None` for packets that a controller sends without an in port.
    pub(crate) bundle: Option<&'a Bundle>,
    /// Whether the in port is a port of the bridge.
    has_port: bool,
}

impl Ingress<'_> {
    pub(crate) fn id(&self) -> Option<BundleId> {
        self.bundle.map(|b| b.id)
    }

    pub(crate) fn name(&self) -> &str {
        self.bundle.map_or("OFPP_NONE", |b| &b.name)
    }
}

/// Returns whether the address is reserved for link protocols, so that switches do not forward packets to it:
/// 01:80:c2:00:00:00 to 01:80:c2:00:00:0f, and the addresses of other link protocols.
pub fn is_reserved(mac: Mac) -> bool {
    const EXACT: [u64; 7] = [
        0x00e0_2b00_0000,
        0x00e0_2b00_0004,
        0x00e0_2b00_0006,
        0x0100_0c00_0000,
        0x0100_0ccc_cccc,
        0x0100_0ccc_cccd,
        0x0100_0ccd_cdcd,
    ];
    const RANGES: [(u64, u64); 2] =
        [(0x0180_c200_0000, 0x0180_c200_000f), (0x0100_0ccc_ccc0, 0x0100_0ccc_ccc7)];
    let m = mac.to_u64();
    EXACT.contains(&m) || RANGES.iter().any(|(a, b)| (*a..=*b).contains(&m))
}

/// Returns whether the packet is a gratuitous ARP packet, by which a station announces itself. Consults as few fields as
/// possible.
pub(crate) fn is_gratuitous_arp(flow: &Flow, mask: &mut Flow) -> bool {
    if flow.dl_type != 0x0806 {
        return false;
    }
    mask.dl_dst = Mac::BROADCAST;
    if flow.dl_dst != Mac::BROADCAST {
        return false;
    }
    mask.nw_proto = 0xff;
    match flow.nw_proto {
        2 => true,
        1 => {
            (mask.nw_src, mask.nw_dst) = (u32::MAX, u32::MAX);
            flow.nw_src == flow.nw_dst
        }
        _ => false,
    }
}

impl<'a> Walk<'a> {
    /// The packet's ingress; `None`, after an error message, if the bridge does not have the in port.
    pub(crate) fn ingress(&mut self) -> Option<Ingress<'a>> {
        let number = OfPort(self.out.flow.in_port as u16);
        let port = self.bridge.port(number);
        if let Some(bundle) = port.and_then(|p| p.bundle).and_then(|id| self.bridge.bundle(id)) {
            return Some(Ingress { bundle: Some(bundle), has_port: true });
        }
        if matches!(number, OfPort::CONTROLLER | OfPort::NONE) {
            return Some(Ingress { bundle: None, has_port: port.is_some() });
        }
        self.error(format_args!("received packet on unknown port {}", number.0));
        None
    }

    /// Translates NORMAL.
    pub(crate) fn normal(&mut self) {
        (self.out.mask.dl_src, self.out.mask.dl_dst) = (Mac::BROADCAST, Mac::BROADCAST);
        self.out.mask.vlans[0].tci |= 0xfff | VLAN_CFI;
        let Some(ingress) = self.ingress() else {
            report!(self, Warn, "no input bundle, dropping");
            return;
        };
        if matches!(self.out.flow.dl_type, 0x8100 | 0x88a8) && self.out.flow.vlans[0].tci & VLAN_CFI == 0 {
            if self.received.packet.is_some() {
                let name = ingress.name();
                self.error(format_args!("dropping packet with partial VLAN tag received on port {name}"));
            }
            report!(self, Warn, "partial VLAN tag, dropping");
            return;
        }
        if let Some(bundle) = ingress.bundle.filter(|b| self.is_mirror_port(b.id)) {
            if self.received.packet.is_some() {
                self.error(format_args!(
                    "dropping packet received on port {}, which is reserved exclusively for mirroring",
                    bundle.name
                ));
            }
            report!(self, Warn, "input port is mirror output port, dropping");
            return;
        }
        let wire = VlanTags::of(&self.out.flow);
        if !self.admits(&ingress, wire.vid()) {
            report!(self, Warn, "disallowed VLAN VID for this input port, dropping");
            return;
        }
        let tags = ingress.bundle.map_or(wire, |b| b.vlan.input(wire));
        if ingress.has_port && !self.bridge.forward_bpdu && is_reserved(self.out.flow.dl_dst) {
            report!(self, Detail, "packet has reserved destination MAC, dropping");
            return;
        }
        self.depends_on_stations();
        if !self.bond_admits(&ingress, tags.vid()) {
            return;
        }
        self.learn_source(&ingress, tags.vid());
        self.forward(&ingress, &tags);
    }

    fn admits(&mut self, ingress: &Ingress<'_>, vid: u16) -> bool {
        ingress.bundle.is_none_or(|bundle| self.admits_at(bundle, vid))
    }

    /// Returns whether the port may receive a packet of this VLAN; if not, reports why.
    pub(crate) fn admits_at(&mut self, bundle: &Bundle, vid: u16) -> bool {
        let name = &bundle.name;
        match bundle.vlan.admit(vid) {
            Ok(()) => return true,
            Err(Refusal::TaggedOnAccess(own)) => self.error(format_args!(
                "dropping VLAN {vid} tagged packet received on port {name} configured as VLAN {own} access port"
            )),
            Err(Refusal::NotTrunked) => self.error(format_args!(
                "dropping VLAN {vid} packet received on port {name} not configured for trunking VLAN {vid}"
            )),
            Err(Refusal::CvlanExcluded) => self.error(format_args!(
                "dropping VLAN {vid} packet received on dot1q-tunnel port {name} that excludes this VLAN"
            )),
        }
        false
    }

    fn learn_source(&mut self, ingress: &Ingress<'_>, vlan: u16) {
        let grat_arp = is_gratuitous_arp(&self.out.flow, &mut self.out.mask);
        let Some(bundle) = ingress.bundle else { return };
        let mac = self.out.flow.dl_src;
        let observation =
            MacObservation { mac, vlan, port: bundle.id, grat_arp, bond: bundle.ports.len() > 1 };
        let id = self.bridge.id;
        let number = OfPort(self.out.flow.in_port as u16);
        let knows_addresses =
            self.bridge.port(number).is_none_or(|p| p.packet_types() != PacketTypes::Layer3);
        if self.out.flow.packet_type != 0 || !knows_addresses {
            return;
        }
        if self.received.returns_side_effects {
            let macs = &self.bridge.macs;
            let moves = macs.may_learn(vlan, mac) && !macs.is_static(vlan, mac);
            if moves && self.station(vlan, mac) != Some(bundle.id) {
                self.debug(format_args!("learned that {mac} is on port {} in VLAN {vlan}", bundle.name));
            }
            self.out.effects.push(PacketEffect::MacLearn { bridge: id, observation });
        }
        self.out.stats_targets.push(StatsTarget::Mac { bridge: id, observation });
    }

    /// The port of a station, including an address that this packet's translation learns.
    pub(crate) fn station(&self, vlan: u16, mac: Mac) -> Option<BundleId> {
        let macs = &self.bridge.macs;
        let taught = self.out.effects.iter().rev().find_map(|e| match e {
            PacketEffect::MacLearn { bridge, observation }
                if *bridge == self.bridge.id && (observation.vlan, observation.mac) == (vlan, mac) =>
            {
                Some(observation.port)
            }
            _ => None,
        });
        match taught {
            Some(port) if macs.may_learn(vlan, mac) && !macs.is_static(vlan, mac) => Some(port),
            _ => macs.port_of(vlan, mac),
        }
    }

    fn forward(&mut self, ingress: &Ingress<'_>, tags: &VlanTags) {
        if self.forward_multicast(ingress, tags) {
            return;
        }
        let Some(to) = self.station(tags.vid(), self.out.flow.dl_dst) else {
            report!(self, Detail, "no learned MAC for destination, flooding");
            return self.normal_flood(ingress, tags);
        };
        match self.bridge.bundle(to) {
            None => report!(self, Warn, "learned port is unknown, dropping"),
            Some(_) if self.is_mirror_port(to) => {
                report!(self, Warn, "learned port is a mirror port, dropping")
            }
            Some(_) if ingress.id() == Some(to) => {
                report!(self, Detail, "learned port is input port, dropping")
            }
            Some(bundle) => {
                report!(self, Detail, "forwarding to learned port");
                self.normal_output(bundle, tags);
            }
        }
    }

    pub(crate) fn normal_flood(&mut self, ingress: &Ingress<'_>, tags: &VlanTags) {
        self.depends_on_states();
        for bundle in self.bridge.bundles.values() {
            let wanted = ingress.id() != Some(bundle.id) && bundle.floodable && bundle.vlan.includes(tags);
            if wanted && !self.is_mirror_port(bundle.id) {
                self.normal_output(bundle, tags);
            }
        }
        self.record_flood();
    }

    /// Outputs to a bundle, with the VLAN tags that its configuration demands.
    pub(crate) fn normal_output(&mut self, bundle: &'a Bundle, tags: &VlanTags) {
        let vlan: &VlanConfig = &bundle.vlan;
        if vlan.reads_cvlan() {
            self.out.mask.vlans[1].tci = u16::MAX;
        }
        let mut tags = vlan.output(*tags);
        if vlan.priority_tags != PriorityTags::Never {
            tags.0[0].pcp = self.out.flow.vlans[0].tci & 0xe000;
        }
        let by = match &bundle.bond {
            Some(view) => self.link_of(bundle, view, tags.vid()),
            None => bundle.ports.first().map(|port| (*port, None)),
        };
        let Some((port, hash_params)) = by else { return };
        let kept = self.out.flow.vlans;
        tags.put(&mut self.out.flow, vlan.priority_tags);
        self.output_mode.bond_hash = hash_params;
        let options = OutputOptions { check_stp: true, last: false, truncated: false };
        self.output_port(port, options);
        self.output_mode.bond_hash = None;
        self.out.flow.vlans = kept;
    }
}
