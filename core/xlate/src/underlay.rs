//! The network below tunnels: routes, next hops, and the addresses where tunnels end.

use crate::BridgeId;
use flow::flow::frag;
use flow::{Flow, Mac, Vlan};
use router::Router;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{OfPort, PortNo};

/// Ethernet addresses of next hops. They change with traffic, so a snapshot contains a reference through which they
/// are read.
pub trait Neighbours: Send + Sync {
    /// The Ethernet address of `ip` in the network of a bridge.
    fn mac_of(&self, bridge: &str, ip: IpAddr) -> Option<Mac>;

    /// Returns whether a packet can be kept until this neighbour is known.
    fn hold_capacity(&self, bridge: &str, ip: IpAddr) -> HoldCapacity;
}

/// Whether packets can be kept for a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldCapacity {
    /// One more packet can be kept.
    Free,
    /// The limit for this next hop is reached, and further packets are dropped. This is a state of the neighbour:
    /// when there is space again, it is reported as a change.
    HopFull,
    /// The limit of next hops is reached, and packets for others are dropped for now.
    Full,
}

/// No neighbours are known.
struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn mac_of(&self, _bridge: &str, _ip: IpAddr) -> Option<Mac> {
        None
    }

    fn hold_capacity(&self, _bridge: &str, _ip: IpAddr) -> HoldCapacity {
        HoldCapacity::HopFull
    }
}

/// A bridge's port with addresses of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The bridge and its OpenFlow port.
    pub at: (BridgeId, OfPort),
    /// Its Ethernet address.
    pub mac: Mac,
}

/// A tunnel that receives at addresses of this host.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The tunnel's datapath port.
    pub number: PortNo,
    /// Its name.
    pub name: String,
    /// Protocol of the outer IP header.
    pub proto: u8,
    /// UDP destination port; 0: the protocol has none.
    pub tp_dst: u16,
}

/// The network below tunnels.
#[derive(Clone)]
pub struct Underlay {
    /// Routes, rules and addresses.
    pub router: Router,
    /// Next hops.
    pub neighbours: Arc<dyn Neighbours>,
    /// Ports of bridges by the name of their device; only those to which a route leads or that have addresses.
    pub ports: HashMap<String, HostPort>,
    /// The addresses where tunnels end.
    pub termini: Termini,
}

impl Default for Underlay {
    fn default() -> Underlay {
        Underlay {
            router: Router::default(),
            neighbours: Arc::new(NoNeighbours),
            ports: HashMap::new(),
            termini: Termini::default(),
        }
    }
}

impl Underlay {
    /// Returns whether the device has an address and is a port of a bridge, so that tunnels may end there.
    pub(crate) fn has_addresses(&self, device: &str) -> bool {
        !self.router.addresses.of(device).is_empty()
    }
}

/// The fields of an outer header by which a group of tunnel ends is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Shape {
    v4: bool,
    ports: bool,
}

/// Address and protocol of a tunnel end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    mac: Mac,
    ip: IpAddr,
    proto: u8,
}

/// The tunnel ends that are found by the same fields.
#[derive(Clone, Debug, Default)]
struct Group {
    macs: HashSet<Mac>,
    places: HashSet<Place>,
    ends: HashMap<(Place, u16), PortNo>,
}

/// The tunnel ends. Look-ups compare the Ethernet address, then IP address and protocol, then the UDP port, so that
/// other packets are excluded by as few fields as possible.
#[derive(Clone, Debug, Default)]
pub struct Termini {
    groups: Vec<(Shape, Group)>,
    listeners: Arc<[Listener]>,
}

impl Termini {
    /// The listeners at all addresses of these ports.
    pub fn new(listeners: Vec<Listener>, ports: &HashMap<String, HostPort>, router: &Router) -> Termini {
        let mut out = Termini { groups: Vec::new(), listeners: listeners.into() };
        let mut devices: Vec<_> = ports.iter().collect();
        devices.sort_by(|a, b| a.0.cmp(b.0));
        for (device, port) in devices {
            for address in router.addresses.of(device) {
                for listener in out.listeners.clone().iter() {
                    out.add(listener, Place { mac: port.mac, ip: address.addr(), proto: listener.proto });
                }
            }
        }
        out
    }

    fn add(&mut self, listener: &Listener, place: Place) {
        let shape = Shape { v4: place.ip.is_ipv4(), ports: listener.tp_dst != 0 };
        let at = self.groups.iter().position(|(s, _)| *s == shape).unwrap_or_else(|| {
            self.groups.push((shape, Group::default()));
            self.groups.len() - 1
        });
        let group = &mut self.groups[at].1;
        group.macs.insert(place.mac);
        group.places.insert(place);
        // If two tunnels receive at the same address and port, the first one gets the packets.
        group.ends.entry((place, listener.tp_dst)).or_insert(listener.number);
    }

    /// Returns whether no tunnel receives.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// The tunnels that receive.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// All tunnel ends as flows, each with the name and number of its port, and the mask of the consulted fields.
    pub fn flows(&self) -> Vec<(&Listener, Flow, Flow)> {
        let mut out = Vec::new();
        for (shape, group) in &self.groups {
            for ((place, tp_dst), number) in &group.ends {
                let Some(listener) = self.listeners.iter().find(|l| l.number == *number) else { continue };
                let mut mask = Flow::ZERO;
                shape.look_at_ethernet(&mut mask);
                shape.look_at_ip(&mut mask);
                shape.look_at_ports(&mut mask);
                mask.nw_frag = frag::ANY | frag::LATER;
                out.push((listener, place.flow(*tp_dst), mask));
            }
        }
        out.sort_by_key(|(l, f, _)| (l.number, f.nw_dst, f.ipv6_dst));
        out
    }

    /// The tunnel port for a packet. Adds the consulted fields to the mask.
    pub(crate) fn lookup(&self, flow: &Flow, mask: &mut Flow) -> Option<PortNo> {
        self.groups.iter().find_map(|(shape, group)| {
            shape.look_at_ethernet(mask);
            let untagged = flow.vlans[0] == Vlan::default();
            if !untagged || flow.dl_type != shape.ethertype() || !group.macs.contains(&flow.dl_dst) {
                return None;
            }
            shape.look_at_ip(mask);
            let ip: IpAddr = match shape.v4 {
                true => Ipv4Addr::from_bits(flow.nw_dst).into(),
                false => Ipv6Addr::from(flow.ipv6_dst).into(),
            };
            let place = Place { mac: flow.dl_dst, ip, proto: flow.nw_proto };
            if flow.nw_frag != 0 || !group.places.contains(&place) {
                return None;
            }
            shape.look_at_ports(mask);
            let port = if shape.ports { flow.tp_dst } else { 0 };
            group.ends.get(&(place, port)).copied()
        })
    }
}

impl Shape {
    fn ethertype(self) -> u16 {
        if self.v4 { 0x0800 } else { 0x86dd }
    }

    fn look_at_ethernet(self, mask: &mut Flow) {
        (mask.dl_dst, mask.dl_type) = (Mac::BROADCAST, u16::MAX);
        mask.vlans[0].tci = u16::MAX;
    }

    fn look_at_ip(self, mask: &mut Flow) {
        mask.nw_proto = u8::MAX;
        match self.v4 {
            true => mask.nw_dst = u32::MAX,
            false => mask.ipv6_dst = [0xff; 16],
        }
    }

    fn look_at_ports(self, mask: &mut Flow) {
        if self.ports {
            mask.tp_dst = u16::MAX;
        }
    }
}

impl Place {
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
        let termini = Termini::new(listeners, &ports, &router);
        let vxlan = Flow { dl_dst: mac, dl_type: 0x0800, nw_dst: 0x0101_0258, nw_proto: 17, ..Flow::ZERO };
        let vxlan = Flow { tp_dst: 4789, ..vxlan };
        let ask = |flow: Flow| {
            let mut mask = Flow::ZERO;
            let found = termini.lookup(&flow, &mut mask).map(|n| n.0);
            (found, mask.dl_dst == Mac::BROADCAST, mask.nw_proto != 0, mask.tp_dst != 0)
        };
        assert_eq!(ask(vxlan), (Some(4789), true, true, true));
        assert_eq!(ask(Flow { nw_proto: 47, tp_dst: 9, ..vxlan }), (Some(3), true, true, false));
        assert_eq!(ask(Flow { dl_dst: Mac([2; 6]), ..vxlan }), (None, true, false, false));
        assert_eq!(ask(Flow { nw_dst: 1, ..vxlan }), (None, true, true, false));
        assert_eq!(ask(Flow { tp_dst: 9, ..vxlan }), (None, true, true, true));
        assert_eq!(ask(Flow { nw_frag: 1, ..vxlan }).0, None);
        assert_eq!(termini.flows().len(), 2);
    }
}
