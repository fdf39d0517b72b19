//! The underlay network of tunnels: routes, next hops, and the local endpoints of the tunnels.

use crate::BridgeId;
use crate::tunnel_ports::bits_apart;
use flow::flow::frag;
use flow::{Flow, Mac, Vlan};
use router::Router;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{OfPort, PortNo};

/// Ethernet addresses of next hops. Traffic changes these addresses, so a snapshot has a reference to their table.
pub trait Neighbours: Send + Sync {
    /// The Ethernet address of `ip` in the network of a bridge.
    fn mac_of(&self, bridge: &str, ip: IpAddr) -> Option<Mac>;

    /// Returns whether a packet can be held until this neighbour is known.
    fn hold_capacity(&self, bridge: &str, ip: IpAddr) -> HoldCapacity;
}

/// Whether packets can be held for a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldCapacity {
    /// One more packet can be held.
    Free,
    /// The maximum number of packets is held for this next hop, so further packets are dropped. When packets can be held
    /// again, this is reported as a change of the neighbour, so megaflows may depend on it.
    HopFull,
    /// Packets are held for the maximum number of next hops, and this next hop is not one of them. No change is reported
    /// when this ends, so no megaflow may depend on it.
    Full,
}

/// A table without neighbours.
struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn mac_of(&self, _bridge: &str, _ip: IpAddr) -> Option<Mac> {
        None
    }

    fn hold_capacity(&self, _bridge: &str, _ip: IpAddr) -> HoldCapacity {
        HoldCapacity::HopFull
    }
}

/// A bridge's port that is a device of the host. [`Router`] has its addresses, if there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The bridge and its OpenFlow port.
    pub at: (BridgeId, OfPort),
    /// The port's Ethernet address.
    pub mac: Mac,
}

/// A tunnel that receives packets at the addresses of this host.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The tunnel's datapath port.
    pub number: PortNo,
    /// The name of this port.
    pub name: String,
    /// Protocol of the outer IP header.
    pub proto: u8,
    /// UDP destination port; 0: the protocol has none.
    pub tp_dst: u16,
}

/// The underlay network of tunnels.
#[derive(Clone)]
pub struct Underlay {
    /// Routes, rules and addresses.
    pub router: Router,
    /// Next hops.
    pub neighbours: Arc<dyn Neighbours>,
    /// Ports of bridges that are devices, by the name of the device.
    pub ports: HashMap<String, HostPort>,
    /// The local endpoints of the tunnels.
    pub endpoints: TunnelEndpoints,
}

impl Default for Underlay {
    fn default() -> Underlay {
        Underlay {
            router: Router::default(),
            neighbours: Arc::new(NoNeighbours),
            ports: HashMap::new(),
            endpoints: TunnelEndpoints::default(),
        }
    }
}

impl Underlay {
    /// Returns whether the device has an address, so that tunnels may have endpoints there.
    pub(crate) fn has_addresses(&self, device: &str) -> bool {
        !self.router.addresses.of(device).is_empty()
    }
}

/// Which fields of an outer header identify the endpoints of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct EndpointKind {
    /// The outer header is IPv4, otherwise IPv6.
    v4: bool,
    /// The protocol has a destination port, which is part of the look-up.
    ports: bool,
}

/// A local tunnel endpoint, without its UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TunnelEndpoint {
    mac: Mac,
    ip: IpAddr,
    proto: u8,
}

/// The endpoints that the same fields identify.
#[derive(Clone, Debug, Default)]
struct EndpointGroup {
    macs: HashSet<Mac>,
    endpoints: HashSet<TunnelEndpoint>,
    /// The tunnel's datapath port by endpoint and UDP destination port.
    ports: HashMap<(TunnelEndpoint, u16), PortNo>,
    /// The UDP destination ports of all endpoints.
    tp_dsts: BTreeSet<u16>,
}

/// All local tunnel endpoints. A look-up compares the Ethernet address, then IP address and protocol, then the UDP port, so
/// that as few fields as possible get into the mask of packets that are not for a tunnel.
#[derive(Clone, Debug, Default)]
pub struct TunnelEndpoints {
    groups: Vec<(EndpointKind, EndpointGroup)>,
    listeners: Arc<[Listener]>,
}

impl TunnelEndpoints {
    /// Endpoints for all listeners at all addresses of these ports.
    pub fn new(
        listeners: Vec<Listener>,
        ports: &HashMap<String, HostPort>,
        router: &Router,
    ) -> TunnelEndpoints {
        let mut out = TunnelEndpoints { groups: Vec::new(), listeners: listeners.into() };
        let mut devices: Vec<_> = ports.iter().collect();
        devices.sort_by(|a, b| a.0.cmp(b.0));
        for (device, port) in devices {
            for address in router.addresses.of(device) {
                for listener in out.listeners.clone().iter() {
                    out.add(
                        listener,
                        TunnelEndpoint { mac: port.mac, ip: address.addr(), proto: listener.proto },
                    );
                }
            }
        }
        out
    }

    fn add(&mut self, listener: &Listener, endpoint: TunnelEndpoint) {
        let kind = EndpointKind { v4: endpoint.ip.is_ipv4(), ports: listener.tp_dst != 0 };
        let at = self.groups.iter().position(|(s, _)| *s == kind).unwrap_or_else(|| {
            self.groups.push((kind, EndpointGroup::default()));
            self.groups.len() - 1
        });
        let group = &mut self.groups[at].1;
        group.macs.insert(endpoint.mac);
        group.endpoints.insert(endpoint);
        group.tp_dsts.insert(listener.tp_dst);
        // If two tunnels receive at the same address and port, the first listener gets the packets.
        group.ports.entry((endpoint, listener.tp_dst)).or_insert(listener.number);
    }

    /// Returns whether there are no listeners.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// The tunnels that receive packets.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// All endpoints with their UDP ports: the listener, the endpoint as a flow, and the mask of the fields that a look-up
    /// consults.
    pub fn flows(&self) -> Vec<(&Listener, Flow, Flow)> {
        let mut out = Vec::new();
        for (kind, group) in &self.groups {
            for ((endpoint, tp_dst), number) in &group.ports {
                let Some(listener) = self.listeners.iter().find(|l| l.number == *number) else { continue };
                let mut mask = Flow::ZERO;
                kind.unwildcard_ethernet(&mut mask);
                kind.unwildcard_ip(&mut mask);
                mask.tp_dst = if kind.ports { u16::MAX } else { 0 };
                mask.nw_frag = frag::ANY | frag::LATER;
                out.push((listener, endpoint.flow(*tp_dst), mask));
            }
        }
        out.sort_by_key(|(l, f, _)| (l.number, f.nw_dst, f.ipv6_dst));
        out
    }

    /// The datapath port of the tunnel that receives the packet. Adds the consulted fields to the mask, except `nw_frag`, which every megaflow
    /// of IP packets matches.
    pub(crate) fn lookup(&self, flow: &Flow, mask: &mut Flow) -> Option<PortNo> {
        self.groups.iter().find_map(|(kind, group)| {
            kind.unwildcard_ethernet(mask);
            let untagged = flow.vlans[0] == Vlan::default();
            if !untagged || flow.dl_type != kind.ethertype() || !group.macs.contains(&flow.dl_dst) {
                return None;
            }
            kind.unwildcard_ip(mask);
            let ip: IpAddr = match kind.v4 {
                true => Ipv4Addr::from_bits(flow.nw_dst).into(),
                false => Ipv6Addr::from(flow.ipv6_dst).into(),
            };
            let endpoint = TunnelEndpoint { mac: flow.dl_dst, ip, proto: flow.nw_proto };
            if flow.nw_frag != 0 || !group.endpoints.contains(&endpoint) {
                return None;
            }
            let port = if kind.ports { flow.tp_dst } else { 0 };
            let found = group.ports.get(&(endpoint, port)).copied();
            if kind.ports {
                mask.tp_dst |= if found.is_some() { u16::MAX } else { group.mask_of_other_port(port) };
            }
            found
        })
    }
}

impl EndpointKind {
    fn ethertype(self) -> u16 {
        if self.v4 { 0x0800 } else { 0x86dd }
    }

    fn unwildcard_ethernet(self, mask: &mut Flow) {
        (mask.dl_dst, mask.dl_type) = (Mac::BROADCAST, u16::MAX);
        mask.vlans[0].tci = u16::MAX;
    }

    fn unwildcard_ip(self, mask: &mut Flow) {
        mask.nw_proto = u8::MAX;
        match self.v4 {
            true => mask.nw_dst = u32::MAX,
            false => mask.ipv6_dst = [0xff; 16],
        }
    }
}

impl EndpointGroup {
    /// The leading bits of a UDP port that distinguish it from the ports of all endpoints; all bits if another endpoint has this
    /// port. If all endpoints have the same port, sixteen megaflows are enough for all packets to the host's other ports.
    fn mask_of_other_port(&self, port: u16) -> u16 {
        let near = [self.tp_dsts.range(..=port).next_back(), self.tp_dsts.range(port..).next()];
        let bits = bits_apart(near.into_iter().flatten().map(|other| u128::from(*other)), port.into());
        let bits = bits.saturating_sub(u128::BITS - u16::BITS);
        u16::MAX.checked_shl(u16::BITS - bits).unwrap_or(0)
    }
}

impl TunnelEndpoint {
    fn flow(&self, tp_dst: u16) -> Flow {
        let flow = Flow { dl_dst: self.mac, nw_proto: self.proto, tp_dst, ..Flow::ZERO };
        match self.ip {
            IpAddr::V4(a) => Flow { dl_type: 0x0800, nw_dst: a.to_bits(), ..flow },
            IpAddr::V6(a) => Flow { dl_type: 0x86dd, ipv6_dst: a.octets(), ..flow },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::Prefix;

    #[test]
    fn packets_for_others_are_told_apart_by_few_fields() {
        let mac = Mac([0xaa, 0x55, 0xaa, 0x55, 0, 0]);
        let mut router = Router::default();
        let address = Prefix::of_interface("1.1.2.88".parse().unwrap(), 24);
        router.addresses.set("br0", vec![address]);
        let ports = HashMap::from([("br0".to_owned(), HostPort { at: (BridgeId(0), OfPort::LOCAL), mac })]);
        let listener =
            |number, proto, tp_dst| Listener { number: PortNo(number), name: String::new(), proto, tp_dst };
        let listeners = vec![listener(4789, 17, 4789), listener(3, 47, 0)];
        let endpoints = TunnelEndpoints::new(listeners, &ports, &router);
        let vxlan = Flow { dl_dst: mac, dl_type: 0x0800, nw_dst: 0x0101_0258, nw_proto: 17, ..Flow::ZERO };
        let vxlan = Flow { tp_dst: 4789, ..vxlan };
        let ask = |flow: Flow| {
            let mut mask = Flow::ZERO;
            let found = endpoints.lookup(&flow, &mut mask).map(|n| n.0);
            (found, mask.dl_dst == Mac::BROADCAST, mask.nw_proto != 0, mask.tp_dst)
        };
        assert_eq!(ask(vxlan), (Some(4789), true, true, 0xffff));
        assert_eq!(ask(Flow { nw_proto: 47, tp_dst: 9, ..vxlan }), (Some(3), true, true, 0));
        assert_eq!(ask(Flow { dl_dst: Mac([2; 6]), ..vxlan }), (None, true, false, 0));
        assert_eq!(ask(Flow { nw_dst: 1, ..vxlan }), (None, true, true, 0));
        // 4789 is 0x12b5.
        assert_eq!(ask(Flow { tp_dst: 9, ..vxlan }), (None, true, true, 0xf000));
        assert_eq!(ask(Flow { tp_dst: 0x8000, ..vxlan }), (None, true, true, 0x8000));
        assert_eq!(ask(Flow { tp_dst: 4788, ..vxlan }), (None, true, true, 0xffff));
        let other_host = Flow { nw_dst: 0x0101_0259, ..vxlan };
        assert_eq!(ask(other_host), (None, true, true, 0));
        assert_eq!(ask(Flow { nw_frag: 1, ..vxlan }).0, None);
        assert_eq!(endpoints.flows().len(), 2);
    }
}
