//! A sampled packet: its template, and the part of its record that identifies the flow.

use super::template::{Network, Template, Transport};
use crate::write::WriteBigEndian;
use crate::{PortFacts, TunnelKind};
use flow::{Flow, Tunnel};

/// Maximum length of a port's name in a record, in bytes.
const NAME_MAX: usize = 64;
/// Maximum length of a port's description in a record, in bytes.
const DESCRIPTION_MAX: usize = 128;

/// Protocols above IP.
mod proto {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
}

/// UDP ports of BFD (RFC 5881 §4). Samples of BFD messages are not exported for bridges.
const BFD_PORTS: [u16; 2] = [3784, 3785];

/// Whether a packet is reported as received or as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// As sent if the output port is known, otherwise as received.
    #[default]
    ByOutput,
    /// Received.
    Ingress,
    /// Sent.
    Egress,
}

/// The tunnel of a sampled packet.
#[derive(Clone, Copy, Debug)]
pub struct SampledTunnel<'a> {
    /// The kind of tunnel; not `Other`.
    pub kind: TunnelKind,
    /// The outer header.
    pub outer: &'a Tunnel,
}

/// A sampled packet.
#[derive(Clone, Copy, Debug)]
pub struct IpfixSample<'a> {
    /// The fields of the packet.
    pub flow: &'a Flow,
    /// Length in bytes.
    pub length: u32,
    /// How many packets the sample represents: the inverse of the sampling probability.
    pub packets: u64,
    /// Observation domain.
    pub domain: u32,
    /// Observation point.
    pub point: u32,
    /// Direction.
    pub direction: Direction,
    /// The port that received the packet.
    pub input: Option<&'a PortFacts>,
    /// The sample names an output port. `output` may still be `None`: nothing is known about the port, for
    /// example because it was removed.
    pub has_output: bool,
    /// The port that sends the packet.
    pub output: Option<&'a PortFacts>,
    /// The tunnel of the packet.
    pub tunnel: Option<SampledTunnel<'a>>,
    /// Packets of this flow are forwarded, not dropped.
    pub forwarded: bool,
}

/// The kind of a packet, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    Ipv4,
    Ipv6,
    /// IPv4 with a protocol that has no template.
    UnknownIpv4,
    /// IPv6 with a protocol that has no template.
    UnknownIpv6,
    /// Not IP.
    Other,
}

/// Identifies a flow: the domain, the template, and the first part of the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) domain: u32,
    pub(super) template: u16,
    pub(super) record: Box<[u8]>,
}

impl IpfixSample<'_> {
    /// Whether the packet is a BFD message.
    pub fn is_bfd(&self) -> bool {
        let flow = self.flow;
        flow.is_ip() && flow.nw_proto == proto::UDP && BFD_PORTS.contains(&flow.tp_dst)
    }

    pub(super) fn is_egress(&self) -> bool {
        match self.direction {
            Direction::Ingress => false,
            Direction::Egress => true,
            Direction::ByOutput => self.has_output,
        }
    }

    /// The template for the packet's record, and the kind of packet.
    pub(super) fn template(&self) -> (Template, PacketKind) {
        let flow = self.flow;
        let transport = match (flow.dl_type, flow.nw_proto) {
            (0x0800 | 0x86dd, proto::TCP) => Transport::Tcp,
            (0x0800 | 0x86dd, proto::UDP) => Transport::Udp,
            (0x0800 | 0x86dd, proto::SCTP) => Transport::Sctp,
            (0x0800, proto::ICMP) | (0x86dd, proto::ICMPV6) => Transport::Icmp,
            _ => Transport::Unknown,
        };
        let known = transport != Transport::Unknown;
        let (network, packet_kind) = match flow.dl_type {
            0x0800 if known => (Network::Ipv4, PacketKind::Ipv4),
            0x0800 => (Network::Ipv4, PacketKind::UnknownIpv4),
            0x86dd if known => (Network::Ipv6, PacketKind::Ipv6),
            0x86dd => (Network::Ipv6, PacketKind::UnknownIpv6),
            _ => (Network::Unknown, PacketKind::Other),
        };
        let template = Template {
            tagged: flow.vlans[0].tci != 0,
            network,
            transport,
            tunnelled: self.tunnel.is_some(),
            egress: self.is_egress(),
        };
        (template, packet_kind)
    }

    /// Length of the Ethernet header in bytes.
    pub(super) fn ethernet_header(&self) -> u32 {
        if self.flow.vlans[0].tci != 0 { 18 } else { 14 }
    }

    pub(super) fn key(&self, template: Template) -> Key {
        let flow = self.flow;
        let mut record = Vec::with_capacity(128);
        record.u32(self.point);
        record.u8(u8::from(template.egress));
        record.bytes(&flow.dl_src.0);
        record.bytes(&flow.dl_dst.0);
        record.u16(flow.dl_type);
        record.u8(self.ethernet_header() as u8);
        put_port(&mut record, self.input);
        if template.egress {
            put_port(&mut record, self.output);
        }
        if template.tagged {
            let tci = flow.vlans[0].tci;
            record.u16(tci & 0xfff);
            record.u16(tci & 0xfff);
            record.u8((tci >> 13) as u8);
        }
        self.put_network(template, &mut record);
        match template.transport {
            Transport::Unknown => {}
            Transport::Icmp => record.bytes(&[flow.tp_src as u8, flow.tp_dst as u8]),
            Transport::Tcp | Transport::Udp | Transport::Sctp => {
                record.u16(flow.tp_src);
                record.u16(flow.tp_dst);
            }
        }
        if let Some(tunnel) = &self.tunnel {
            tunnel.put(&mut record);
        }
        Key { domain: self.domain, template: template.id(), record: record.into() }
    }

    fn put_network(&self, template: Template, record: &mut Vec<u8>) {
        let flow = self.flow;
        let version = match template.network {
            Network::Unknown => return,
            Network::Ipv4 => 4,
            Network::Ipv6 => 6,
        };
        let tos = flow.nw_tos;
        record.bytes(&[version, flow.nw_ttl, flow.nw_proto, tos >> 2, tos >> 5, tos]);
        if version == 4 {
            record.u32(flow.nw_src);
            record.u32(flow.nw_dst);
        } else {
            record.bytes(&flow.ipv6_src);
            record.bytes(&flow.ipv6_dst);
            record.u32(flow.ipv6_label);
        }
    }
}

impl SampledTunnel<'_> {
    fn put(&self, record: &mut Vec<u8>) {
        let (kind, key_bytes) = match self.kind {
            TunnelKind::Other => (0, 0),
            TunnelKind::Vxlan => (1, 3),
            TunnelKind::Gre => (2, 4),
            TunnelKind::Geneve => (7, 3),
        };
        let outer = self.outer;
        record.u32(outer.ip_src);
        record.u32(outer.ip_dst);
        record.u8(self.kind.protocol());
        record.u16(outer.tp_src);
        record.u16(outer.tp_dst);
        record.u8(kind);
        put_variable(record, &outer.tun_id.to_be_bytes()[8 - key_bytes..]);
    }
}

fn put_port(record: &mut Vec<u8>, port: Option<&PortFacts>) {
    let unknown = PortFacts::default();
    let port = port.unwrap_or(&unknown);
    record.u32(port.ifindex);
    record.u32(port.if_type);
    for (text, max) in [(&port.name, NAME_MAX), (&port.description, DESCRIPTION_MAX)] {
        put_variable(record, &text.as_bytes()[..text.len().min(max)]);
    }
}

/// Appends an element of variable length, of less than 255 bytes (RFC 7011 §7).
pub(super) fn put_variable(record: &mut Vec<u8>, value: &[u8]) {
    record.u8(value.len() as u8);
    record.bytes(value);
}
