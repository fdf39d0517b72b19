//! Native tunnels: the switch itself adds and removes the outer headers.
//!
//! A packet that is output to a tunnel port gets a precomputed outer header. Then the translation continues with the
//! encapsulated packet, in the bridge that contains the route's device, as if the port of that device had received the
//! packet. A packet that is output to a port whose IP address is a tunnel's local address is decapsulated instead, and
//! then received on the tunnel port.

use crate::messages::report;
use crate::outcome::{PacketEffect, StatsTarget};
use crate::snapshot::PortView;
use crate::underlay::HostPort;
use crate::walk::Walk;
use bridge::TunnelConfig;
use bridge::tunnel::Choice;
use dpif::{DpAction, DropReason, TunnelHeader, TunnelPush};
use flow::{Flow, Mac, Tunnel};
use router::ResolvedRoute;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tunnel::{BuiltHeader, HeaderConfig, Kind, Request};
use units::PortNo;

/// The route and the next hop of a tunnel's packets.
pub(crate) struct TunnelHop {
    /// The output port of the encapsulated packets, in this or another bridge.
    pub(crate) out_port: HostPort,
    /// The output port's number in the datapath.
    pub(crate) datapath_port: PortNo,
    /// The name of the output port's bridge.
    pub(crate) bridge: String,
    /// IP address of the next hop.
    pub(crate) next: IpAddr,
    /// Source address of the outer packets.
    pub(crate) source: IpAddr,
}

/// Why a packet cannot be sent to a tunnel.
struct Unreachable(DropReason);

/// The remote address in a tunnel's fields.
fn remote(t: &Tunnel) -> IpAddr {
    match t.ip_dst {
        0 => Ipv6Addr::from(t.ipv6_dst).into(),
        v4 => Ipv4Addr::from_bits(v4).into(),
    }
}

/// The local address in a tunnel's fields, if it is set.
fn local(t: &Tunnel) -> Option<IpAddr> {
    match (t.ip_src, t.ipv6_src) {
        (0, [0, ..]) if t.ipv6_src == [0; 16] => None,
        (0, v6) => Some(Ipv6Addr::from(v6).into()),
        (v4, _) => Some(Ipv4Addr::from_bits(v4).into()),
    }
}

impl Walk<'_> {
    /// Outputs to a tunnel port, whose number in the datapath is `tunnel_port`. `self.out.flow` has the fields of the outer header,
    /// `inner` is the flow before they were set. `last`: no action follows; `truncated`: the packet is truncated before
    /// it is encapsulated.
    pub(crate) fn push_tunnel(
        &mut self,
        (port, tunnel_port): (&PortView, PortNo),
        config: &TunnelConfig,
        options: &[u8],
        (inner, last, truncated): (&Flow, bool, bool),
    ) {
        self.commit();
        match self.route_and_build_header(config, options, (port, inner, truncated)) {
            Ok((hop, built)) if truncated => {
                // Megaflows of the underlay must count the length of the truncated packet, which is known only after the
                // datapath has truncated the packet: so recirculate.
                let list = vec![push_action(tunnel_port, &hop, built), DpAction::Recirc(0)];
                match last {
                    true => self.out.actions.extend(list),
                    false => self.out.actions.push(DpAction::Clone(list)),
                }
            }
            Ok((hop, built)) => self.translate_in_underlay(tunnel_port, &hop, built, last),
            Err(Unreachable(reason)) if self.snapshot.capabilities.explicit_drop => {
                let drop = DpAction::Drop(reason);
                self.out.actions.push(if last { drop } else { DpAction::Clone(vec![drop]) });
            }
            Err(_) => {}
        }
    }

    /// Finds the route and the next hop, and builds the outer header. Requests the Ethernet address of an unknown next hop.
    fn route_and_build_header(
        &mut self,
        config: &TunnelConfig,
        options: &[u8],
        (port, inner, truncated): (&PortView, &Flow, bool),
    ) -> Result<(TunnelHop, BuiltHeader), Unreachable> {
        let hop = self.route().ok_or_else(|| {
            report!(self, Warn, "native tunnel routing failed");
            Unreachable(DropReason::ActionTunnelRoutingFailed)
        })?;
        let device = self.device(&hop);
        report!(self, Detail, "tunneling to {} via {device}", hop.next);
        if hop.out_port.mac == Mac::default() {
            report!(self, Warn, "tunnel output device lacks Ethernet address");
            return Err(Unreachable(DropReason::ActionTunnelOutputNoEthernet));
        }
        let Some(dst_mac) = self.snapshot.underlay.neighbours.mac_of(&hop.bridge, hop.next) else {
            self.solicit(&hop);
            // A held packet would later be sent untruncated, so a truncated packet is dropped.
            if !truncated {
                self.hold_packet(&hop, port, inner);
            }
            return Err(Unreachable(DropReason::ActionTunnelNeighCacheMiss));
        };
        self.out.stats_targets.push(StatsTarget::Neighbour { bridge: hop.bridge.clone(), ip: hop.next });
        let (src_mac, source) = (hop.out_port.mac, hop.source);
        report!(self, Detail, "tunneling from {src_mac} {source} to {dst_mac} {}", hop.next);
        let built = self.build(config, options, &hop, dst_mac).ok_or_else(|| {
            report!(self, Warn, "native tunnel header build failed");
            Unreachable(DropReason::ActionTunnelHeaderBuildFailed)
        })?;
        Ok((hop, built))
    }

    /// The name of the route's device.
    pub(crate) fn device(&self, hop: &TunnelHop) -> String {
        let (bridge, port) = hop.out_port.at;
        let port = self.snapshot.bridge(bridge).and_then(|b| b.port(port));
        port.map_or_else(String::new, |p| p.name.clone())
    }

    /// Looks up the route to the remote address of the flow's tunnel fields.
    fn route(&mut self) -> Option<TunnelHop> {
        let t = self.out.flow.tunnel;
        let dst = remote(&t);
        self.depends_on_routes();
        let underlay = &self.snapshot.underlay;
        let ResolvedRoute { dev, gateway, source } =
            underlay.router.lookup(self.out.flow.pkt_mark, dst, local(&t))?;
        let out_port = underlay.ports.get(&*dev)?.clone();
        let bridge = self.snapshot.bridge(out_port.at.0)?;
        let datapath_port = bridge.datapath_port(out_port.at.1)?;
        let next = gateway.filter(|g| !g.is_unspecified()).unwrap_or(dst);
        self.depends_on_neighbour(next);
        Some(TunnelHop { out_port, datapath_port, bridge: bridge.name.clone(), next, source })
    }

    fn build(
        &self,
        config: &TunnelConfig,
        options: &[u8],
        hop: &TunnelHop,
        dst_mac: Mac,
    ) -> Option<BuiltHeader> {
        let flow = &self.out.flow;
        let header_config = HeaderConfig {
            key: config.out_key != Choice::Unset,
            seq: config.seq,
            gpe: config.gpe,
            segments: config.segments.clone(),
            flow_label: config.flow_label,
        };
        let request = Request {
            kind: Kind::of_name(&config.kind, config.gbp)?,
            dst_mac,
            src_mac: hop.out_port.mac,
            src: hop.source,
            dst: remote(&flow.tunnel),
            dst_port: config.dst_port,
            tunnel: &flow.tunnel,
            options,
            packet_type: flow.packet_type,
            dl_type: flow.dl_type,
            config: &header_config,
        };
        tunnel::build(&request).ok()
    }

    /// Adds the header and translates the encapsulated packet in the bridge of the route's device. This leaves the
    /// translation state of the inner packet unchanged.
    fn translate_in_underlay(
        &mut self,
        tunnel_port: PortNo,
        hop: &TunnelHop,
        built: BuiltHeader,
        last: bool,
    ) {
        let saved = Box::new((self.out.flow, self.committed.clone(), self.out.mask));
        let received = std::mem::take(&mut self.received);
        let overlay_actions = std::mem::take(&mut self.out.actions);
        let len = built.bytes.len();
        self.replace_flow_by_outer(&built, hop);
        self.out.stats_targets.push(StatsTarget::LengthChange { by: len as i64 });
        self.without_sample_reports(|walk| {
            walk.translate_in_bridge(hop.out_port.at, last);
        });
        self.out.stats_targets.push(StatsTarget::LengthChange { by: -(len as i64) });
        let underlay_actions = std::mem::replace(&mut self.out.actions, overlay_actions);
        let underlay_mask = self.out.mask;
        self.received = received;
        (self.out.flow, self.committed, self.out.mask) = *saved;
        // The encapsulated packet has the same metadata as the inner packet, so the mask must include the metadata that the
        // translation in the underlay consulted.
        self.out.mask.pkt_mark |= underlay_mask.pkt_mark;
        self.out.mask.skb_priority |= underlay_mask.skb_priority;
        self.mark_all_words_changed();
        if underlay_actions.is_empty() {
            return;
        }
        let list = std::iter::once(push_action(tunnel_port, hop, built)).chain(underlay_actions);
        if last {
            self.out.actions.extend(list);
        } else {
            self.out.actions.push(DpAction::Clone(list.collect()));
        }
    }

    /// Replaces the flow by the outer flow of the encapsulated packet.
    fn replace_flow_by_outer(&mut self, built: &BuiltHeader, hop: &TunnelHop) {
        let t = self.out.flow.tunnel;
        let mac = |at: usize| Mac(std::array::from_fn(|i| built.bytes.get(at + i).copied().unwrap_or(0)));
        let v4 = t.ip_dst != 0;
        let proto =
            built.bytes.get(if v4 { IPV4_PROTO_AT } else { IPV6_NEXT_HEADER_AT }).copied().unwrap_or(0);
        let (nw_src, ipv6_src) = match hop.source {
            IpAddr::V4(a) => (a.to_bits(), [0; 16]),
            IpAddr::V6(a) => (0, a.octets()),
        };
        let outer = Flow {
            packet_type: 0,
            dl_dst: mac(0),
            dl_src: mac(6),
            dl_type: if v4 { 0x0800 } else { 0x86dd },
            nw_src,
            nw_dst: t.ip_dst,
            ipv6_src,
            ipv6_dst: t.ipv6_dst,
            nw_proto: if proto == ROUTING_HEADER { self.protocol_after_routing_header() } else { proto },
            nw_tos: t.ip_tos,
            nw_ttl: t.ip_ttl,
            tp_src: t.tp_src,
            tp_dst: t.tp_dst,
            ..Flow::ZERO
        };
        self.out.flow = Flow { packet_type: 0, ..crate::header::keep_metadata(outer, &self.out.flow) };
        self.committed.base =
            Flow { packet_type: 0, ..crate::header::keep_metadata(outer, &self.committed.base) };
        self.out.mask = Flow { layout: self.out.mask.layout, ..Flow::ZERO };
        self.mark_all_words_changed();
    }

    /// The protocol number that follows a routing header: IPv4 (4) or IPv6 (41) of the inner packet.
    fn protocol_after_routing_header(&self) -> u8 {
        if self.out.flow.dl_type == 0x0800 { 4 } else { 41 }
    }

    /// Decapsulates a packet that is output to a port with an address of the host, if the packet belongs to a tunnel; returns
    /// whether it does. Also learns neighbours, from ARP and ND answers and from the tunnel packets.
    pub(crate) fn pop_tunnel(&mut self, port: &PortView) -> bool {
        let underlay = &self.snapshot.underlay;
        if !self.snapshot.capabilities.tunnels || underlay.endpoints.is_empty() {
            return false;
        }
        self.depends_on_addresses();
        if !underlay.has_addresses(&port.name) {
            return false;
        }
        let Some(tunnel_port) = underlay.endpoints.lookup(&self.out.flow, &mut self.out.mask) else {
            self.learn_neighbour(port);
            return false;
        };
        let from = match self.out.flow.dl_type {
            0x0800 => IpAddr::from(Ipv4Addr::from_bits(self.out.flow.nw_src)),
            _ => Ipv6Addr::from(self.out.flow.ipv6_src).into(),
        };
        if self.received.returns_side_effects {
            let (bridge, mac) = (self.bridge.name.clone(), self.out.flow.dl_src);
            self.out.effects.push(PacketEffect::Neighbour { bridge, ip: from, mac });
        }
        self.out.actions.push(DpAction::TunnelPop(tunnel_port));
        true
    }
}

/// The action that adds the outer header of this tunnel port.
fn push_action(tunnel_port: PortNo, hop: &TunnelHop, built: BuiltHeader) -> DpAction {
    DpAction::TunnelPush(Box::new(TunnelPush {
        tunnel_port,
        out_port: hop.datapath_port,
        tunnel_type: built.tunnel_type,
        header: TunnelHeader(built.bytes),
    }))
}

/// The protocol number of an IPv6 routing header.
const ROUTING_HEADER: u8 = 43;
/// Offset of the protocol number in a frame with an IPv4 header.
const IPV4_PROTO_AT: usize = 14 + 9;
/// Offset of the next header field in a frame with an IPv6 header.
const IPV6_NEXT_HEADER_AT: usize = 14 + 6;
