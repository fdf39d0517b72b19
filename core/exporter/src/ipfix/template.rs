//! Templates: they state which elements a record has. There is one for each combination of protocols.

use super::element::{self, Element};
use crate::write::WriteBigEndian;

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Unknown,
    Tcp,
    Udp,
    Sctp,
    Icmp,
}

/// The network protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Unknown,
    Ipv4,
    Ipv6,
}

/// The properties of a packet that determine the template of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) tagged: bool,
    pub(super) network: Network,
    pub(super) transport: Transport,
    pub(super) tunnelled: bool,
    pub(super) egress: bool,
}

/// The first template number: smaller numbers are reserved (RFC 7011 §3.4.1).
const FIRST: u16 = 256;
const NETWORKS: [Network; 3] = [Network::Unknown, Network::Ipv4, Network::Ipv6];
const TRANSPORTS: [Transport; 5] =
    [Transport::Unknown, Transport::Tcp, Transport::Udp, Transport::Sctp, Transport::Icmp];
/// Number of the options template for the exporter's own statistics. It is larger than all template numbers, because each of
/// the five properties is one more than its largest value.
pub(super) const OPTIONS: u16 = template_number([2, 3, 5, 2, 2]);
/// Number of a set of templates (RFC 7011 §3.3.2).
pub(super) const TEMPLATE_SET: u16 = 2;
/// Number of a set of options templates (RFC 7011 §3.3.2).
pub(super) const OPTIONS_TEMPLATE_SET: u16 = 3;

const fn template_number([tagged, network, transport, tunnelled, egress]: [u16; 5]) -> u16 {
    FIRST + (((tagged * 3 + network) * 5 + transport) * 2 + tunnelled) * 2 + egress
}

impl Template {
    /// All templates, in the order in which they are sent.
    pub(super) fn all() -> impl Iterator<Item = Template> {
        let flags = [false, true];
        let pairs = NETWORKS.into_iter().flat_map(|n| TRANSPORTS.into_iter().map(move |t| (n, t)));
        let pairs = pairs.filter(|(n, t)| *n != Network::Unknown || *t == Transport::Unknown);
        flags.into_iter().flat_map(move |tagged| {
            pairs.clone().flat_map(move |(network, transport)| {
                flags.into_iter().flat_map(move |tunnelled| {
                    let of = move |egress| Template { tagged, network, transport, tunnelled, egress };
                    flags.into_iter().map(of)
                })
            })
        })
    }

    /// The template's number.
    pub(super) fn id(self) -> u16 {
        let choices = [u16::from(self.tagged), self.network as u16, self.transport as u16];
        let [tagged, network, transport] = choices;
        template_number([tagged, network, transport, u16::from(self.tunnelled), u16::from(self.egress)])
    }

    /// The elements of a record with this template.
    pub(super) fn elements(self, has_virtual_observation: bool) -> Vec<Element> {
        let mut all = element::COMMON.to_vec();
        let mut add = |some: &[Element]| all.extend_from_slice(some);
        add(&element::INGRESS);
        if self.egress {
            add(&element::EGRESS);
        }
        if self.tagged {
            add(&element::VLAN);
        }
        match self.network {
            Network::Unknown => {}
            Network::Ipv4 => [&element::IP[..], &element::IPV4].into_iter().for_each(&mut add),
            Network::Ipv6 => [&element::IP[..], &element::IPV6].into_iter().for_each(&mut add),
        }
        match (self.transport, self.network) {
            (Transport::Unknown, _) => {}
            (Transport::Icmp, Network::Ipv6) => add(&element::ICMPV6),
            (Transport::Icmp, _) => add(&element::ICMPV4),
            (Transport::Tcp | Transport::Udp | Transport::Sctp, _) => add(&element::TRANSPORT),
        }
        if self.tunnelled {
            add(&element::TUNNEL);
        }
        if has_virtual_observation {
            add(&[element::VIRTUAL_OBSERVATION]);
        }
        add(&element::COUNTS);
        if self.network != Network::Unknown {
            add(&element::IP_COUNTS);
        }
        if self.transport == Transport::Tcp {
            add(&element::TCP_COUNTS);
        }
        all
    }

    /// Appends the definition of the template.
    pub(super) fn put(self, has_virtual_observation: bool, out: &mut Vec<u8>) {
        let elements = self.elements(has_virtual_observation);
        out.u16(self.id());
        out.u16(elements.len() as u16);
        elements.iter().for_each(|element| element.put(out));
    }
}

/// Appends the definition of the options template for the exporter's own statistics.
pub(super) fn put_options(out: &mut Vec<u8>) {
    out.u16(OPTIONS);
    // Number of fields, and number of fields that are the scope.
    out.u16(2);
    out.u16(1);
    element::PROCESS.put(out);
    element::NOT_SENT.put(out);
}
