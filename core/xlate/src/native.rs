//! Tunnels whose headers the switch itself adds and removes.
//!
//! A packet that is output to a tunnel port gets a prepared outer header. The translation continues with it as
//! another packet in the bridge of the route's device, as if the port of that device had received it. A packet that
//! is output to a port with an address at which a tunnel receives is decapsulated instead, and then received on the
//! tunnel port.

use crate::messages::report;
use crate::outcome::{Credit, Effect};
use crate::snapshot::Port;
use crate::underlay::HostPort;
use crate::walk::Walk;
use bridge::TunnelConfig;
use bridge::tunnel::Choice;
use dpif::{DpAction, DropReason, TunnelHeader, TunnelPush};
use flow::{Flow, Mac, Tunnel};
use router::Hop;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tunnel::{Built, Kind, Request, Shape};
use units::PortNo;

/// The route and the next hop of a tunnel's packets.
pub(crate) struct TunnelHop {
    /// The output port, in this or another bridge.
    pub(crate) host: HostPort,
    /// Its number in the datapath.
    pub(crate) number: PortNo,
    /// The name of its bridge.
    pub(crate) bridge: String,
    /// The next hop.
    pub(crate) next: IpAddr,
    /// Source address of the outer packets.
    pub(crate) source: IpAddr,
}

/// Why a packet cannot be sent to a tunnel.
struct Unreachable(DropReason);

/// The remote end in a tunnel's fields.
fn remote(t: &Tunnel) -> IpAddr {
    match t.ip_dst {
        0 => Ipv6Addr::from(t.ipv6_dst).into(),
        v4 => Ipv4Addr::from_bits(v4).into(),
    }
}

/// The local end, if it is set.
fn local(t: &Tunnel) -> Option<IpAddr> {
    match (t.ip_src, t.ipv6_src) {
        (0, [0, ..]) if t.ipv6_src == [0; 16] => None,
        (0, v6) => Some(Ipv6Addr::from(v6).into()),
        (v4, _) => Some(Ipv4Addr::from_bits(v4).into()),
    }
}

impl Walk<'_> {
    /// Outputs to a tunnel. The flow has the fields of the outer header.
    pub(crate) fn push_tunnel(
        &mut self,
        (port, number): (&Port, PortNo),
        config: &TunnelConfig,
        options: &[u8],
        (unwrapped, last, cut): (&Flow, bool, bool),
    ) {
        self.commit();
        match self.header_for(config, options, (port, unwrapped, cut)) {
            Ok((hop, built)) if cut => {
                // The flows of the underlay must count the truncated packet, whose length is known only then.
                let list = vec![push_of(number, &hop, built), DpAction::Recirc(0)];
                match last {
                    true => self.out.actions.extend(list),
                    false => self.out.actions.push(DpAction::Clone(list)),
                }
            }
            Ok((hop, built)) => self.go_on_below(number, &hop, built, last),
            Err(Unreachable(reason)) if self.snapshot.capabilities.explicit_drop => {
                let drop = DpAction::Drop(reason);
                self.out.actions.push(if last { drop } else { DpAction::Clone(vec![drop]) });
            }
            Err(_) => {}
        }
    }

    fn header_for(
        &mut self,
        config: &TunnelConfig,
        options: &[u8],
        (port, unwrapped, cut): (&Port, &Flow, bool),
    ) -> Result<(TunnelHop, Built), Unreachable> {
        let hop = self.route().ok_or_else(|| {
            report!(self, Warn, "native tunnel routing failed");
            Unreachable(DropReason::ActionTunnelRoutingFailed)
        })?;
        let device = self.device(&hop);
        report!(self, Detail, "tunneling to {} via {device}", hop.next);
        if hop.host.mac == Mac::default() {
            report!(self, Warn, "tunnel output device lacks Ethernet address");
            return Err(Unreachable(DropReason::ActionTunnelOutputNoEthernet));
        }
        let Some(dst_mac) = self.snapshot.underlay.neighbours.mac_of(&hop.bridge, hop.next) else {
            self.solicit(&hop);
            // A packet that is kept has its whole length.
            if !cut {
                self.hold(&hop, port, unwrapped);
            }
            return Err(Unreachable(DropReason::ActionTunnelNeighCacheMiss));
        };
        self.out.credits.push(Credit::Neighbour { bridge: hop.bridge.clone(), ip: hop.next });
        let (src_mac, source) = (hop.host.mac, hop.source);
        report!(self, Detail, "tunneling from {src_mac} {source} to {dst_mac} {}", hop.next);
        let built = self.build(config, options, &hop, dst_mac).ok_or_else(|| {
            report!(self, Warn, "native tunnel header build failed");
            Unreachable(DropReason::ActionTunnelHeaderBuildFailed)
        })?;
        Ok((hop, built))
    }

    pub(crate) fn device(&self, hop: &TunnelHop) -> String {
        let (bridge, port) = hop.host.at;
        let port = self.snapshot.bridge(bridge).and_then(|b| b.port(port));
        port.map_or_else(String::new, |p| p.name.clone())
    }

    /// Looks up the route to the remote end that the flow names.
    fn route(&mut self) -> Option<TunnelHop> {
        let t = self.flow.tunnel;
        let dst = remote(&t);
        self.depends_on_routes();
        let underlay = &self.snapshot.underlay;
        let Hop { dev, gateway, source } = underlay.router.lookup(self.flow.pkt_mark, dst, local(&t))?;
        let host = underlay.ports.get(&*dev)?.clone();
        let bridge = self.snapshot.bridge(host.at.0)?;
        let number = bridge.datapath_port(host.at.1)?;
        let next = gateway.filter(|g| !g.is_unspecified()).unwrap_or(dst);
        self.depends_on_neighbour(next);
        Some(TunnelHop { host, number, bridge: bridge.name.clone(), next, source })
    }

    fn build(&self, config: &TunnelConfig, options: &[u8], hop: &TunnelHop, dst_mac: Mac) -> Option<Built> {
        let flow = &self.flow;
        let shape = Shape {
            key: config.out_key != Choice::Unset,
            seq: config.seq,
            gpe: config.gpe,
            segments: config.segments.clone(),
            flow_label: config.flow_label,
        };
        let request = Request {
            kind: Kind::of_name(&config.kind, config.gbp)?,
            dst_mac,
            src_mac: hop.host.mac,
            src: hop.source,
            dst: remote(&flow.tunnel),
            dst_port: config.dst_port,
            tunnel: &flow.tunnel,
            options,
            packet_type: flow.packet_type,
            dl_type: flow.dl_type,
            shape: &shape,
        };
        tunnel::build(&request).ok()
    }

    /// Adds the header and continues with the packet in the bridge of the route's device. Its translation does not
    /// change the state of this one.
    fn go_on_below(&mut self, number: PortNo, hop: &TunnelHop, built: Built, last: bool) {
        let saved = Box::new((self.flow, self.committed.base, self.mask));
        let received = std::mem::take(&mut self.received);
        let above = std::mem::take(&mut self.out.actions);
        let len = built.bytes.len();
        self.become_outer(&built, hop);
        self.out.credits.push(Credit::Header { longer_by: len as i64 });
        self.without_noting(|walk| {
            walk.enter(hop.host.at, last);
        });
        self.out.credits.push(Credit::Header { longer_by: -(len as i64) });
        let below = std::mem::replace(&mut self.out.actions, above);
        let seen = self.mask;
        self.received = received;
        (self.flow, self.committed.base, self.mask) = *saved;
        // Metadata besides the packet's bytes is the same for the outer packet.
        self.mask.pkt_mark |= seen.pkt_mark;
        self.mask.skb_priority |= seen.skb_priority;
        self.doubt_all_words();
        if below.is_empty() {
            return;
        }
        let list = std::iter::once(push_of(number, hop, built)).chain(below);
        if last {
            self.out.actions.extend(list);
        } else {
            self.out.actions.push(DpAction::Clone(list.collect()));
        }
    }

    /// Replaces the flow by that of the packet with its header.
    fn become_outer(&mut self, built: &Built, hop: &TunnelHop) {
        let t = self.flow.tunnel;
        let mac = |at: usize| Mac(std::array::from_fn(|i| built.bytes.get(at + i).copied().unwrap_or(0)));
        let v4 = t.ip_dst != 0;
        let proto = built.bytes.get(if v4 { 23 } else { 20 }).copied().unwrap_or(0);
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
            nw_proto: if proto == ROUTING { self.carried() } else { proto },
            nw_tos: t.ip_tos,
            nw_ttl: t.ip_ttl,
            tp_src: t.tp_src,
            tp_dst: t.tp_dst,
            ..Flow::ZERO
        };
        self.flow = Flow { packet_type: 0, ..crate::header::keep_metadata(outer, &self.flow) };
        self.committed.base =
            Flow { packet_type: 0, ..crate::header::keep_metadata(outer, &self.committed.base) };
        self.mask = Flow { layout: self.mask.layout, ..Flow::ZERO };
        self.doubt_all_words();
    }

    /// The protocol after a routing header.
    fn carried(&self) -> u8 {
        if self.flow.dl_type == 0x0800 { 4 } else { 41 }
    }

    /// Decapsulates a packet that is sent to a port with an address of the host, if it belongs to a tunnel. From ARP
    /// and ND answers and from tunnel packets it also learns the addresses of neighbours.
    pub(crate) fn pop_tunnel(&mut self, port: &Port) -> bool {
        let underlay = &self.snapshot.underlay;
        if !self.snapshot.capabilities.tunnels || underlay.termini.is_empty() {
            return false;
        }
        self.depends_on_addresses();
        if !underlay.has_addresses(&port.name) {
            return false;
        }
        let Some(number) = underlay.termini.lookup(&self.flow, &mut self.mask) else {
            self.snoop(port);
            return false;
        };
        let from = match self.flow.dl_type {
            0x0800 => IpAddr::from(Ipv4Addr::from_bits(self.flow.nw_src)),
            _ => Ipv6Addr::from(self.flow.ipv6_src).into(),
        };
        if self.received.side_effects {
            let (bridge, mac) = (self.bridge.name.clone(), self.flow.dl_src);
            self.out.effects.push(Effect::Neighbour { bridge, ip: from, mac });
        }
        self.out.actions.push(DpAction::TunnelPop(number));
        true
    }
}

/// The action that adds a header, for this tunnel port of the datapath.
fn push_of(tunnel_port: PortNo, hop: &TunnelHop, built: Built) -> DpAction {
    DpAction::TunnelPush(Box::new(TunnelPush {
        tunnel_port,
        out_port: hop.number,
        tunnel_type: built.tunnel_type,
        header: TunnelHeader(built.bytes),
    }))
}

/// The protocol number of a routing header.
const ROUTING: u8 = 43;
