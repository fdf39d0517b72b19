//! Next hops of tunnels: requests for unknown next hops, packets that are held for them, and answers to the requests.

use crate::header::vlan_count;
use crate::messages::report;
use crate::native::TunnelHop;
use crate::outcome::{HeldOutput, PacketEffect, Solicitation, StatsTarget};
use crate::ports::OutputOptions;
use crate::snapshot::PortView;
use crate::underlay::HoldCapacity;
use crate::walk::Walk;
use flow::{Flow, Mac, VLAN_CFI};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const ETHERTYPE_ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;

impl Walk<'_> {
    /// Requests the Ethernet address of an unknown next hop.
    pub(crate) fn solicit(&mut self, hop: &TunnelHop) {
        let what = if hop.next.is_ipv4() { "ARP" } else { "ND" };
        report!(
            self,
            Detail,
            "neighbor cache miss for {} on bridge {}, sending {what} request",
            hop.next,
            hop.bridge
        );
        let device = self.device(hop);
        let source = self.snapshot.underlay.router.addresses.source_for(&device, hop.next);
        let solicitation = Arc::new(Solicitation {
            at: hop.out_port.at,
            number: hop.datapath_port,
            mac: hop.out_port.mac,
            source: source.unwrap_or(hop.source),
            target: hop.next,
        });
        if self.received.returns_side_effects {
            self.out.effects.push(PacketEffect::Solicit(Arc::clone(&solicitation)));
        }
        self.out.stats_targets.push(StatsTarget::Solicit(solicitation));
    }

    /// Holds the packet until the next hop is known. When it is sent, its changes are applied again to the received packet
    /// (`commit.rs`). This cannot repeat an added or removed header, so a packet with such a change is not held.
    pub(crate) fn hold_packet(&mut self, hop: &TunnelHop, port: &PortView, inner: &Flow) {
        let can_be_held =
            self.committed.headers_changed == 0 && inner.packet_type == self.out.initial.packet_type;
        if !can_be_held {
            return;
        }
        let capacity = self.snapshot.underlay.neighbours.hold_capacity(&hop.bridge, hop.next);
        // With a megaflow, the datapath would drop later packets, which then could not be held, so no
        // megaflow is made. Exception: the maximum number of packets is held for this next hop (`HopFull`).
        // When packets can be held again, this is reported as a change of the neighbour, so the megaflow is
        // translated again in time.
        self.out.avoid_caching |= capacity != HoldCapacity::HopFull;
        if self.received.returns_side_effects && capacity == HoldCapacity::Free {
            self.out.effects.push(PacketEffect::Hold(Box::new(HeldOutput {
                next_bridge: hop.bridge.clone(),
                next: hop.next,
                at: (self.bridge.id, port.ofport),
                initial: self.out.initial,
                flow: *inner,
                mask: self.out.mask,
            })));
        }
    }

    /// Outputs a held packet to its tunnel port. Before the packet was held, mirrors copied it and the tunnel port counted it, so
    /// neither is repeated.
    pub(crate) fn send_held(&mut self, held: &HeldOutput) {
        self.mirrored = u32::MAX;
        (self.out.flow, self.out.mask) = (held.flow, held.mask);
        self.mark_all_words_changed();
        let options = OutputOptions { check_stp: true, last: true, truncated: false };
        self.output_port(held.at.1, options);
        self.out
            .stats_targets
            .retain(|c| !matches!(c, StatsTarget::Tunnel { at, out: true } if *at == held.at));
        self.progress.tables_done = true;
    }

    /// Learns a neighbour from an ARP or ND answer or announcement. A packet with a VLAN tag is ignored: its sender, which may
    /// be a guest, is not in the network of the port's device and must not take over the address of a remote endpoint.
    pub(crate) fn learn_neighbour(&mut self, port: &PortView) {
        let is_arp = self.out.flow.dl_type == ETHERTYPE_ARP;
        if !is_arp && (self.out.flow.dl_type, self.out.flow.nw_proto) != (0x86dd, ICMPV6) {
            return;
        }
        self.out.mask.vlans[0].tci |= VLAN_CFI;
        if vlan_count(&self.out.flow) > 0 {
            return;
        }
        let neighbour = if is_arp { self.neighbour_of_arp(port) } else { self.neighbour_of_nd(port) };
        let Some((ip, mac)) = neighbour else { return };
        let bridge = self.bridge.name.clone();
        // A new address must be learned from the packet itself. With a megaflow it would be learned later, when the
        // megaflow's statistics are read.
        self.depends_on_neighbour(ip);
        self.out.avoid_caching |= self.snapshot.underlay.neighbours.mac_of(&bridge, ip) != Some(mac);
        if self.received.returns_side_effects {
            self.out.effects.push(PacketEffect::Neighbour { bridge: bridge.clone(), ip, mac });
        }
        self.out.stats_targets.push(StatsTarget::NeighbourLearned { bridge, ip, mac });
    }

    /// Returns whether one of the bridge's ports has this IP address. `port`: the port of the bridge to which the packet is
    /// output; it is checked first.
    fn is_own(&self, port: &PortView, ip: IpAddr) -> bool {
        let addresses = &self.snapshot.underlay.router.addresses;
        let has = |name: &str| addresses.of(name).iter().any(|a| a.addr() == ip);
        has(&port.name) || self.bridge.ports.values().any(|p| has(&p.name))
    }

    /// The neighbour that an ARP packet announces, if it is an answer to this bridge or gratuitous.
    fn neighbour_of_arp(&mut self, port: &PortView) -> Option<(IpAddr, Mac)> {
        const REPLY: u8 = 2;
        let ip = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(bits));
        (self.out.mask.nw_src, self.out.mask.nw_dst) = (u32::MAX, u32::MAX);
        let gratuitous = self.out.flow.nw_src == self.out.flow.nw_dst;
        if !gratuitous && !self.is_own(port, ip(self.out.flow.nw_dst)) {
            return None;
        }
        self.out.mask.nw_proto = u8::MAX;
        if !gratuitous && self.out.flow.nw_proto != REPLY {
            return None;
        }
        self.out.mask.arp_sha = Mac::BROADCAST;
        (self.out.flow.arp_sha != Mac::default()).then(|| (ip(self.out.flow.nw_src), self.out.flow.arp_sha))
    }

    /// The neighbour that an ND packet announces, if it is an advertisement to an address of this bridge, or to the
    /// multicast group of such an address.
    fn neighbour_of_nd(&mut self, port: &PortView) -> Option<(IpAddr, Mac)> {
        const ADVERTISEMENT: u16 = 136;
        let dst = Ipv6Addr::from(self.out.flow.ipv6_dst);
        self.out.mask.ipv6_dst = [0xff; 16];
        if !self.is_own(port, dst.into()) && !self.is_own_solicited(port, dst) {
            return None;
        }
        (self.out.mask.nw_proto, self.out.mask.tp_src) = (u8::MAX, u16::MAX);
        if self.out.flow.tp_src != ADVERTISEMENT {
            return None;
        }
        (self.out.mask.tp_dst, self.out.mask.arp_tha) = (u16::MAX, Mac::BROADCAST);
        (self.out.mask.ipv6_src, self.out.mask.nd_target) = ([0xff; 16], [0xff; 16]);
        let has_address = self.out.flow.tp_dst == 0 && self.out.flow.arp_tha != Mac::default();
        has_address.then(|| (Ipv6Addr::from(self.out.flow.nd_target).into(), self.out.flow.arp_tha))
    }

    /// Returns whether this is the solicited-node group (RFC 4291 §2.7.1) of an address of the bridge's ports.
    fn is_own_solicited(&self, port: &PortView, group: Ipv6Addr) -> bool {
        let group = group.octets();
        let is_link_local_group = group[0] == 0xff && group[1] & 0x0f == 2 && group[11..13] == [1, 0xff];
        let addresses = &self.snapshot.underlay.router.addresses;
        let ends_so = |a: IpAddr| matches!(a, IpAddr::V6(a) if a.octets()[13..] == group[13..]);
        let has = |name: &str| addresses.of(name).iter().any(|a| ends_so(a.addr()));
        is_link_local_group && (has(&port.name) || self.bridge.ports.values().any(|p| has(&p.name)))
    }
}
